//! The labels of plans in the profile and the trace.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use hipdnn_plugin_sdk::graph::{Graph, Tensor};
use serde_json::Value;

use super::line;
use crate::lock::{Mutex, OnceLock};

/// The most distinct labels; further plans share one.
const MOST: usize = 1 << 14;

/// The approximate maximum of a text in bytes.
const LONGEST: usize = 512;

/// The label of a plan. Never freed, since queued records refer to it; equal plans share one.
pub struct Plan {
    /// The plan's number in the trace.
    pub number: u32,
    /// The graph's name and the engine.
    pub title: String,
    /// Graph, engine, algorithm and shapes, each followed by a comma.
    pub fields: String,
    /// The same as members of a JSON object.
    pub members: String,
    /// Bytes that an execution moves; 0 if unknown.
    pub bytes: u64,
    /// Operations of an execution; 0 if unknown.
    pub operations: u64,
}

/// The data of a plan's label.
#[derive(Default)]
pub struct About<'a> {
    /// The engine's name.
    pub engine: &'a str,
    /// The graph, if the plan has it.
    pub graph: Option<&'a Graph>,
    /// The plugin's JSON description of the plan.
    pub description: Option<&'a str>,
}

/// The labels by bytes, operations and fields.
pub type Plans<'a> = BTreeMap<(u64, u64, &'a str), &'static Plan>;

/// All labels.
pub static PLANS: Mutex<Plans<'static>> = Mutex::new(BTreeMap::new());

impl Plan {
    /// The label of a plan.
    pub fn of(about: &About<'_>) -> &'static Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let graph = about.graph.map_or("", |graph| cut(&graph.name));
        let engine = cut(about.engine);
        let shapes = about.graph.map(shapes).unwrap_or_default();
        let Steps { algorithm, bytes, operations } = about.description.map(Steps::read).unwrap_or_default();
        let (algorithm, shapes) = (cut(&algorithm), cut(&shapes));
        let fields: String =
            [graph, engine, algorithm, shapes].iter().map(|text| line::field(text) + ",").collect();
        let mut plans = PLANS.lock();
        let known: &Plans<'_> = &plans;
        if let Some(known) = known.get(&(bytes, operations, &*fields)) {
            return known;
        }
        if plans.len() >= MOST {
            return Self::other();
        }
        let title = match graph {
            "" => engine.to_owned(),
            graph => format!("{graph} ({engine})"),
        };
        let texts = [("graph", graph), ("engine", engine), ("algorithm", algorithm), ("shapes", shapes)];
        let members: Vec<_> =
            texts.iter().map(|(name, text)| format!("\"{name}\":{}", Value::from(*text))).collect();
        let plan: &'static Self = Box::leak(Box::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            title,
            fields,
            members: members.join(","),
            bytes,
            operations,
        }));
        plans.insert((bytes, operations, &plan.fields), plan);
        plan
    }

    /// The shared label of plans beyond the limit.
    fn other() -> &'static Self {
        static OTHER: OnceLock<Plan> = OnceLock::new();
        OTHER.get_or_init(|| Self {
            number: 0,
            title: "another graph".to_owned(),
            fields: "another graph,,,,".to_owned(),
            members: "\"engine\":\"\"".to_owned(),
            bytes: 0,
            operations: 0,
        })
    }
}

/// Cuts a text to the limit.
fn cut(text: &str) -> &str {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// A summary of the steps in a plugin's description.
#[derive(Debug, Default, PartialEq, Eq)]
struct Steps {
    algorithm: String,
    bytes: u64,
    operations: u64,
}

impl Steps {
    fn read(description: &str) -> Self {
        let description: Value = serde_json::from_str(description).unwrap_or_default();
        let steps = description.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let number = |step: &Value, name: &str| step.get(name).and_then(Value::as_u64).unwrap_or(0);
        let sum = |name: &str| steps.iter().fold(0_u64, |sum, step| sum.saturating_add(number(step, name)));
        let mut runs: Vec<(usize, &str)> = Vec::new();
        for name in steps.iter().filter_map(|step| step.get("algorithm").and_then(Value::as_str)) {
            match runs.last_mut() {
                Some((count, last)) if *last == name => *count += 1,
                _ => runs.push((1, name)),
            }
        }
        let said = |(count, name): &(usize, &str)| match count {
            1 => (*name).to_owned(),
            count => format!("{count} x {name}"),
        };
        let algorithm = runs.iter().map(said).collect::<Vec<_>>().join(" + ");
        Self { algorithm, bytes: sum("bytes"), operations: sum("flops") }
    }
}

/// The tensors that the caller binds: the inputs, an arrow, the outputs.
fn shapes(graph: &Graph) -> String {
    let written: Vec<i64> = graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect();
    let mut text = String::new();
    let mut add = |is_written: bool| {
        let is_bound = |tensor: &&Tensor| {
            !tensor.is_virtual && tensor.value.is_none() && written.contains(&tensor.uid) == is_written
        };
        for tensor in graph.tensors.iter().filter(is_bound) {
            let dims: Vec<_> = tensor.dims.iter().map(ToString::to_string).collect();
            let gap = if text.is_empty() || text.ends_with(' ') { "" } else { " " };
            // Writing to a text does not fail.
            let _ = write!(text, "{gap}{}:{}", dims.join("x"), tensor.data_type.name());
        }
        if !is_written {
            text.push_str(" -> ");
        }
    };
    add(false);
    add(true);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_summed_and_invalid_descriptions_are_ignored() {
        let text = r#"{"steps": [{"algorithm": "gemm", "bytes": 10, "flops": 5}, {"algorithm": "gemm"}, {"algorithm": "relu", "bytes": 2}]}"#;
        let steps = Steps { algorithm: "2 x gemm + relu".to_owned(), bytes: 12, operations: 5 };
        assert_eq!(Steps::read(text), steps);
        assert_eq!(Steps::read("nothing"), Steps::default());
        assert_eq!(Steps::read("{\"steps\": 7}"), Steps::default());
    }

    #[test]
    fn equal_plans_are_one_and_texts_are_safe() {
        let graph = Graph { name: "a,\"b\"\n".to_owned(), ..Graph::default() };
        let about = About { engine: "E", graph: Some(&graph), description: None };
        let plan = Plan::of(&about);
        assert!(std::ptr::eq(plan, Plan::of(&about)));
        assert_eq!(plan.fields, "a;\"b\" ,E,, -> ,");
        let object = format!("{{{}}}", plan.members);
        assert_eq!(serde_json::from_str::<Value>(&object).unwrap()["graph"], "a,\"b\"\n");
    }

    #[test]
    fn plans_that_move_different_amounts_differ_and_long_texts_are_cut() {
        let of = |bytes: u64, algorithm: &str| {
            let text = format!(r#"{{"steps": [{{"algorithm": "{algorithm}", "bytes": {bytes}}}]}}"#);
            Plan::of(&About { engine: "AMOUNTS", graph: None, description: Some(&text) })
        };
        assert!(std::ptr::eq(of(10, "gemm"), of(10, "gemm")));
        assert!(!std::ptr::eq(of(10, "gemm"), of(20, "gemm")));
        assert_eq!((of(10, "gemm").bytes, of(20, "gemm").bytes), (10, 20));
        let long = of(1, &"\u{e9}".repeat(1 << 16));
        assert_eq!(long.fields, format!(",AMOUNTS,{},,", "\u{e9}".repeat(LONGEST / 2)));
        assert!(std::ptr::eq(long, of(1, &"\u{e9}".repeat(1 << 10))));
        assert_eq!(cut(&format!("a{}", "\u{e9}".repeat(LONGEST))).len(), LONGEST + 1);
    }
}
