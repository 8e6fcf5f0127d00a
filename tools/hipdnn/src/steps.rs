//! The steps of a plan, as its engine's plugin describes them. Their content is not checked.

use std::collections::BTreeMap;

use hipdnn::{ExecutionPlan, Status};
use hipdnn_plugin_sdk::numerics::name_of;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result, one_line};
use crate::graph::Graph;

/// A step of an execution.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Step {
    /// The nodes that it computes, by their index in the graph.
    pub nodes: Vec<usize>,
    /// The operations.
    pub operation: String,
    /// How it computes them.
    pub algorithm: String,
    /// The micro-kernel, the library's function or the generated kernel.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// The instruction set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub isa: String,
    /// The threads that it uses at a time, if known.
    #[serde(skip_serializing_if = "is_zero")]
    pub threads: u64,
    /// The bytes that it reads and writes, if known.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// The floating point operations, if known.
    #[serde(skip_serializing_if = "is_zero")]
    pub flops: u64,
    /// Algorithms that were not chosen, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
    /// Why the reference loops compute it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What it does to numbers.
    #[serde(skip_serializing_if = "Numerics::is_empty")]
    pub numerics: Numerics,
}

/// How matrix instructions add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct MatrixSums {
    /// The products that an instruction adds to a sum at once, at least.
    pub terms: u32,
    /// The significant bits that it keeps of products and sums, at least.
    pub bits: u32,
}

/// What a step does to numbers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Numerics {
    /// Names of numerical notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The types that sums are added up in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accumulators: Vec<String>,
    /// What the order of sums depends on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// The most parts that a sum is divided into, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// How matrix instructions add up, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_sums: Option<MatrixSums>,
    /// Approximated functions with their largest error in units in the last place, if known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, Option<u32>>,
    /// Virtual tensors that are not rounded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unrounded: Vec<i64>,
}

impl Numerics {
    /// Whether subnormal numbers may count as zeros.
    pub fn flushes(&self) -> bool {
        self.notes.iter().any(|note| note == "FLUSH_SUBNORMALS")
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A line; empty if there is nothing to say.
    pub fn line(&self) -> String {
        let error = |(name, ulp): (&String, &Option<u32>)| match ulp {
            Some(ulp) => format!("{name} within {ulp} ulp"),
            None => format!("{name} approximated"),
        };
        let functions: Vec<String> = self.functions.iter().map(error).collect();
        let uids: Vec<String> = self.unrounded.iter().map(i64::to_string).collect();
        let parts: Vec<String> = self.parts.iter().map(u32::to_string).collect();
        let matrices = |MatrixSums { terms, bits }: &MatrixSums| format!("{terms} products, {bits} bits");
        let matrices: Vec<String> = self.matrix_sums.iter().map(matrices).collect();
        let parts = [
            ("sums in ", &self.accumulators),
            ("of parts, at most ", &parts),
            ("by matrix instructions of ", &matrices),
            ("their order depends on ", &self.order),
            ("", &functions),
            ("not rounded: tensors ", &uids),
            ("notes ", &self.notes),
        ];
        let parts = parts.iter().filter(|(_, words)| !words.is_empty());
        let parts: Vec<String> = parts.map(|(what, words)| format!("{what}{}", words.join(", "))).collect();
        one_line(&parts.join("; "))
    }
}

/// A step of a plan that was not made through the library.
impl From<hipdnn_plugin_sdk::Step> for Step {
    fn from(step: hipdnn_plugin_sdk::Step) -> Self {
        let own = step.numerics;
        let numerics = Numerics {
            notes: own.notes.into_iter().map(|note| name_of(note).to_owned()).collect(),
            accumulators: own.accumulators.into_iter().map(str::to_owned).collect(),
            parts: own.parts,
            matrix_sums: own.matrix_sums.map(|sums| MatrixSums { terms: sums.terms, bits: sums.bits }),
            functions: own.functions.into_iter().map(|(name, ulp)| (name.to_owned(), ulp)).collect(),
            unrounded: own.unrounded.into_iter().collect(),
            ..Numerics::default()
        };
        Self { nodes: step.nodes, numerics, ..Self::default() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A plan as the library describes it.
#[derive(Deserialize)]
struct Description {
    #[serde(default)]
    steps: Option<Vec<Step>>,
}

/// The steps of a plan; none if the library or the plugin does not describe them.
pub fn of(plan: &ExecutionPlan) -> Result<Option<Vec<Step>>> {
    let text = match plan.description() {
        Err(hipdnn::Error::Status { status: Status::NotSupported, .. }) => return Ok(None),
        text => text?,
    };
    read(&text)
}

/// The steps in the library's description of a plan.
pub fn read(text: &str) -> Result<Option<Vec<Step>>> {
    let description: Description = serde_json::from_str(text)
        .map_err(|error| Failure::work(format!("the description of the plan cannot be read: {error}")))?;
    Ok(description.steps)
}

/// An event of a trace, one per line.
#[derive(Deserialize)]
struct Event<'a> {
    cat: &'a str,
    name: String,
    /// Microseconds.
    dur: f64,
}

/// The median milliseconds of each step in a trace of executions of the plan; none for a step that the trace lacks.
pub fn times(steps: &[Step], trace: &str) -> Vec<Option<f64>> {
    let events: Vec<Event> = trace
        .lines()
        .filter_map(|line| serde_json::from_str(line.trim_end_matches([',', ']'])).ok())
        .filter(|event: &Event| event.cat == "step")
        .collect();
    let of_step = |step: &Step| {
        let nodes: Vec<String> = step.nodes.iter().map(usize::to_string).collect();
        let name = format!("{} (nodes {})", step.algorithm.replace(" + ", ", "), nodes.join(" "));
        let mut times: Vec<f64> =
            events.iter().filter(|event| event.name == name).map(|event| event.dur / 1e3).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    steps.iter().map(of_step).collect()
}

/// A number with about three digits, and the unit with a prefix.
fn amount(number: u64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut scaled, mut prefix) = (number as f64, PREFIXES.iter());
    let mut name = prefix.next().copied().unwrap_or_default();
    while scaled >= 1000.0 {
        let Some(next) = prefix.next() else { break };
        (scaled, name) = (scaled / 1000.0, next);
    }
    let digits = if scaled >= 100.0 || name.is_empty() { 0 } else { 1 };
    format!("{scaled:.digits$} {name}{unit}")
}

impl Step {
    /// The algorithm with its details.
    pub fn algorithm(&self) -> String {
        let threads = match self.threads {
            0 => String::new(),
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        let sizes = [(self.bytes, "B"), (self.flops, "FLOP")];
        let sizes = sizes.map(|(number, unit)| if number > 0 { amount(number, unit) } else { String::new() });
        let details: Vec<&str> = [&self.kernel, &self.isa, &threads, &sizes[0], &sizes[1]]
            .into_iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
        one_line(&format!("{}{details}", self.name()))
    }

    /// The algorithm's name.
    pub fn name(&self) -> &str {
        match (self.reference.is_some(), self.algorithm.as_str()) {
            (true, "" | "reference") => "reference loops",
            (false, "") => "unknown",
            (_, algorithm) => algorithm,
        }
    }

    /// A line: the nodes, their operations, the algorithm, and the reason if it is the reference.
    pub fn line(&self, graph: &Graph) -> String {
        let node = |place: &usize| match graph.nodes.get(*place) {
            Some(node) if !node.name.is_empty() => format!("{place} {:?}", node.name),
            _ => place.to_string(),
        };
        let nodes: Vec<String> = self.nodes.iter().map(node).collect();
        let what = if nodes.len() == 1 { "node" } else { "nodes" };
        let reason = self.reference.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        one_line(&format!("{what} {}, {}: {}{reason}", nodes.join(", "), self.operation, self.algorithm()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{graph, pointwise, tensor};

    #[test]
    fn numerics_are_a_line() {
        let text = r#"{"accumulators":["float"],"functions":{"exp":2,"gelu":null},"matrix_sums":{"bits":14,"terms":32},"notes":["WINOGRAD","SPLIT_SUMS"],"order":["shapes"],"parts":8,"unrounded":[4]}"#;
        let numerics: Numerics = serde_json::from_str(text).unwrap();
        let expected = "sums in float; of parts, at most 8; by matrix instructions of 32 products, 14 bits; \
                        their order depends on shapes; exp within 2 ulp, gelu approximated; \
                        not rounded: tensors 4; notes WINOGRAD, SPLIT_SUMS";
        assert_eq!(numerics.line(), expected);
        assert_eq!(Numerics::default().line(), "");
    }

    #[test]
    fn amounts_have_about_three_digits() {
        for (number, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (12_345_678, "12.3 MB"),
            (123_456_789, "123 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(amount(number, "B"), expected);
        }
    }

    #[test]
    fn times_are_those_of_the_steps_in_a_trace() {
        let step = |algorithm: &str, nodes: &[usize]| Step {
            algorithm: algorithm.to_owned(),
            nodes: nodes.to_vec(),
            ..Step::default()
        };
        let steps = [step("converted + im2col", &[0, 1]), step("row by row", &[2]), step("row by row", &[3])];
        let event = |category: &str, name: &str, time: f64| {
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":0.000,"dur":{time}}}"#
            )
        };
        let trace = [
            "[".to_owned(),
            r#"{"ph":"M","name":"process_name"},"#.to_owned(),
            event("step", "converted, im2col (nodes 0 1)", 500.0) + ",",
            event("step", "converted, im2col (nodes 0 1)", 90.0) + ",",
            event("step", "converted, im2col (nodes 0 1)", 100.0) + ",",
            event("api", "row by row (nodes 2)", 1.0) + ",",
            event("step", "row by row (nodes 3)", 7.0) + "]",
        ];
        assert_eq!(times(&steps, &trace.join("\n")), [Some(0.1), None, Some(0.007)]);
    }

    #[test]
    fn a_step_is_one_line() {
        let tensors = vec![tensor(1, "", &[4], false), tensor(2, "", &[4], true), tensor(3, "", &[4], false)];
        let nodes = vec![pointwise("first", "exp", 1, None, 2), pointwise("", "neg", 2, None, 3)];
        let graph = graph("", tensors, nodes);
        let mut step: Step = serde_json::from_str(
            r#"{"nodes":[0,1,7],"operation":"EXP + NEG","algorithm":"by\nelement","isa":"AVX2","threads":2,"bytes":2048,"new":1}"#,
        )
        .unwrap();
        assert_eq!(
            step.line(&graph),
            "nodes 0 \"first\", 1, 7, EXP + NEG: by; element (AVX2, 2 threads, 2.0 kB)"
        );
        (step.algorithm, step.reference) = ("reference".to_owned(), Some("too odd".to_owned()));
        step.nodes.truncate(1);
        assert_eq!(
            step.line(&graph),
            "node 0 \"first\", EXP + NEG: reference loops (AVX2, 2 threads, 2.0 kB): too odd"
        );
        assert_eq!(
            serde_json::to_string(&Step::default()).unwrap(),
            r#"{"nodes":[],"operation":"","algorithm":""}"#
        );
    }
}
