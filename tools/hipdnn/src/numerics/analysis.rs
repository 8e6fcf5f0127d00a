//! The errors of each node, and their share of the results' error.

use std::collections::HashSet;

use serde::Serialize;

use super::bound::{bound, bounded};
use super::chain::{Chain, Values};
use super::measure::{change, is_finite, norm, of_norm, relative, ulps};
use super::reasons::{Evidence, reasons};
use crate::computation::{Arrays, mixed};
use crate::data_type::DataType;
use crate::double;
use crate::failure::Result;
use crate::graph::{Graph, Node};
use crate::rounding::normal;
use crate::steps::Numerics;
use crate::tensor::{Array, steps};

/// How far inputs without an error are moved to learn how a node's errors grow.
const MOVED: f64 = 1e-9;

/// A loss of more digits is told.
pub const LOSES: f64 = 1.0;

/// A node's errors: over all tensors that it writes, the largest.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its index in the graph.
    pub node: usize,
    /// Its name, often empty.
    pub name: String,
    /// Its operation, with the mode.
    pub operation: String,
    /// The type of the tensor that it writes.
    pub data_type: &'static str,
    /// The error that it adds, in units in the last place.
    pub ulps: Number,
    /// The same, relative to the norm.
    pub added: Number,
    /// The relative error with what its operands had.
    pub so_far: Number,
    /// A bound of the relative error that it adds, known before it is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Number>,
    /// The relative error that its operands cause, over theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Number>,
    /// The share of the results' error that it causes, from 0 to 1.
    pub share: f64,
    /// The decimal digits of the most precise result's type that it loses.
    pub lost: f64,
    /// The number of infinities that it writes.
    pub infinities: usize,
    /// The number of NaNs that it writes.
    pub nans: usize,
    /// Whether all numbers that it reads are finite.
    #[serde(skip)]
    pub reads_finite: bool,
    /// Why.
    pub reasons: Vec<String>,
}

/// A number that JSON writes as text if it is not finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        if self.0.is_finite() { to.serialize_f64(self.0) } else { to.collect_str(&self.0) }
    }
}

/// A result of the graph.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its tensor's uid.
    pub uid: i64,
    /// Its tensor's name, often empty.
    pub name: String,
    /// The plan's largest error, in units in the last place.
    pub ulps: Number,
    /// The plan's error, relative to the norm.
    pub relative: Number,
    /// The error if each node is computed by itself and stores its type.
    pub node_by_node: Number,
    /// Whether all its numbers are finite.
    #[serde(skip)]
    pub is_finite: bool,
}

/// What is known of a graph's errors.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// The graph's results.
    pub results: Vec<Outcome>,
    /// The graph's nodes.
    pub rows: Vec<Row>,
    /// The digits of the most precise result's type.
    pub digits: f64,
    /// The node that loses most, if one does.
    pub culprit: Option<usize>,
}

/// The state of the computation before a node.
struct State {
    /// What the plan computed so far.
    own: Values,
    /// What is the whole graph's plan's or given.
    is_plans: HashSet<i64>,
    /// What the node and those after it make of that in exact arithmetic.
    rest: Values,
}

/// Measures each node of a graph, for inputs and the results of an engine's plan.
pub fn analyse(chain: &Chain<'_>, inputs: &Arrays, results: &Arrays) -> Result<Analysis> {
    let graph = chain.graph;
    let rounded = |(uid, array): &(i64, Array)| {
        let data_type = graph.tensor(*uid).map(|tensor| tensor.data_type);
        (*uid, data_type.map_or_else(|| array.clone(), |data_type| array.rounded(data_type)))
    };
    let mut own: Values = inputs.iter().map(rounded).collect();
    own.extend(chain.views.made(graph, |uid| own.get(&uid)));
    let exact = chain.exactly_from(0, &own)?;
    let is_plans = own.keys().copied().collect();
    let mut state = State { own, is_plans, rest: exact.clone() };
    let results: Values = results.iter().cloned().collect();
    let is_result = |uid: &&i64| chain.views.is_result(graph, **uid);
    let wanted = results.keys().filter(is_result).filter_map(|uid| graph.tensor(*uid));
    let wanted = wanted.map(|tensor| tensor.data_type);
    let wanted = wanted.filter(|it| !it.is_integer()).map(|it| steps(it).0).fold(f64::INFINITY, f64::min);
    let wanted = if wanted.is_finite() { wanted } else { steps(DataType::Float).0 };
    let mut rows = Vec::new();
    let mut shares = Vec::new();
    for (place, node) in graph.nodes.iter().enumerate() {
        let Computed { written, notes, without } = compute(chain, (place, node), &mut state, &results)?;
        let mut row = measure(chain, (place, node), (&state, &written, &exact), (wanted, notes.as_ref()));
        row.reasons.extend(without);
        // Exact arithmetic goes on with what it has where the node adds no error.
        let is_exact = written.iter().all(|(uid, array)| state.rest.get(uid) == Some(array));
        state.own.extend(written);
        for (uid, array) in chain.views.made(graph, |uid| state.own.get(&uid)) {
            if chain.views.sources(uid).iter().all(|source| state.is_plans.contains(source)) {
                state.is_plans.insert(uid);
            }
            state.own.insert(uid, array);
        }
        let after = match is_exact {
            true => state.rest.clone(),
            false => chain.exactly_from(place + 1, &state.own)?,
        };
        let of_result = |uid: &i64| {
            let at = |rest: &Values| rest.get(uid).or_else(|| state.own.get(uid)).cloned();
            change(&at(&state.rest)?, &at(&after)?, exact.get(uid)?).into()
        };
        shares.push(norm_of(results.keys().filter(is_result).filter_map(of_result)));
        state.rest = after;
        rows.push(row);
    }
    let is_infinite = shares.iter().position(|share| !share.is_finite());
    for (row, share) in rows.iter_mut().zip(parts(&shares)) {
        row.share = share;
    }
    // What makes a result infinite or NaN has lost all digits, even if its own values are finite.
    if let Some(row) = is_infinite.and_then(|place| rows.get_mut(place)) {
        row.lost = -wanted.log10();
    }
    let outcome = |(uid, array): (&i64, &Array)| {
        let (tensor, exact) = (graph.tensor(*uid)?, exact.get(uid)?);
        Some(Outcome {
            uid: *uid,
            name: tensor.name.clone(),
            ulps: Number(ulps(array, exact, tensor.data_type)),
            relative: Number(relative(array, exact)),
            node_by_node: Number(relative(state.own.get(uid)?, exact)),
            is_finite: is_finite(array),
        })
    };
    let outcomes = results.iter().filter(|(uid, _)| is_result(uid));
    let mut results: Vec<Outcome> = outcomes.filter_map(outcome).collect();
    results.sort_by_key(|result| result.uid);
    let culprit = culprit(chain, &rows);
    Ok(Analysis { results, rows, digits: -wanted.log10(), culprit })
}

/// The norm of a few numbers; infinite if one is.
fn norm_of(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.map(|number| number * number).sum::<f64>().sqrt()
}

/// Each number's part of the sum. The first infinite one is all of it.
fn parts(numbers: &[f64]) -> Vec<f64> {
    if let Some(first) = numbers.iter().position(|number| !number.is_finite()) {
        return (0..numbers.len()).map(|at| f64::from(u8::from(at == first))).collect();
    }
    let sum: f64 = numbers.iter().sum();
    numbers.iter().map(|number| if sum > 0.0 { number / sum } else { 0.0 }).collect()
}

/// What a node wrote.
struct Computed {
    written: Values,
    /// What its plan does to numbers.
    notes: Option<Numerics>,
    /// Why the engine made no plan for the node.
    without: Option<String>,
}

/// What the plan computes for a node: the whole graph's plan if the node's tensors are all known from it, else a plan of this
/// node. Where the engine has none, exact values are stored; a note says so.
fn compute(
    chain: &Chain<'_>,
    (place, node): (usize, &Node),
    state: &mut State,
    results: &Values,
) -> Result<Computed> {
    let graph = chain.graph;
    let is_known = |uid: i64| state.is_plans.contains(&uid) || double::constant(graph, uid).is_some();
    let of_plan = |uid: i64| results.get(&uid).map(|array| (uid, array.clone()));
    if node.inputs.iter().all(|port| is_known(port.uid))
        && let Some(written) = node.outputs.iter().map(|port| of_plan(port.uid)).collect::<Option<Values>>()
    {
        state.is_plans.extend(written.keys());
        return Ok(Computed { written, notes: chain.notes(place), without: None });
    }
    match chain.by_engine(place, &state.own) {
        Ok((written, notes)) => Ok(Computed { written, notes, without: None }),
        Err(failure) if failure.is_input() => Err(failure),
        Err(failure) => {
            let stored = |uid: i64| Some((uid, state.rest.get(&uid)?.rounded(graph.tensor(uid)?.data_type)));
            let written = node.outputs.iter().filter_map(|port| stored(port.uid)).collect();
            let without = Some(format!("the store alone was measured: {failure}"));
            Ok(Computed { written, notes: None, without })
        }
    }
}

/// The errors of a node.
fn measure(
    chain: &Chain<'_>,
    (place, node): (usize, &Node),
    (state, written, exact): (&State, &Values, &Values),
    (wanted, notes): (f64, Option<&Numerics>),
) -> Row {
    let graph = chain.graph;
    let incoming =
        node.inputs.iter().filter_map(|port| Some((state.own.get(&port.uid)?, exact.get(&port.uid)?)));
    let incoming = incoming.map(|(own, exact)| relative(own, exact)).fold(0.0, f64::max);
    let read = chain.read_by(node, &state.own);
    let mut row = Row {
        node: place,
        name: node.name.clone(),
        operation: operation(node),
        data_type: "",
        ulps: Number(0.0),
        added: Number(-1.0),
        so_far: Number(0.0),
        bound: None,
        condition: None,
        share: 0.0,
        lost: 0.0,
        infinities: 0,
        nans: 0,
        reads_finite: read.values().all(is_finite),
        reasons: Vec::new(),
    };
    let sizes = bounded(node).filter(|_| chain.is_exact(node));
    let sizes = sizes.and_then(|_| chain.sizes_of_terms(place, &read, notes).ok());
    let flushes = notes.is_some_and(Numerics::flushes);
    let flushed = flushed(graph, node, &read).filter(|_| flushes);
    let lost = flushed.as_ref().filter(|_| sizes.is_some()).and_then(|flushed| {
        let [all, left] = [&read, flushed].map(|values| chain.sizes_of_terms(place, values, None).ok());
        Some(differences(&all?, &left?))
    });
    let of_flushed = flushed.and_then(|flushed| chain.exactly_one(place, &flushed).ok());
    let unstored = writes_integers(graph, node).then(|| chain.without_integers(place, &read).ok()).flatten();
    let moved = if incoming == 0.0 && chain.is_exact(node) { moved(chain, place, &read) } else { None };
    for port in &node.outputs {
        let (Some(tensor), Some(own), Some(rest), Some(exact)) =
            (graph.tensor(port.uid), written.get(&port.uid), state.rest.get(&port.uid), exact.get(&port.uid))
        else {
            continue;
        };
        let added = relative(own, rest);
        row.ulps = Number(row.ulps.0.max(ulps(own, rest, tensor.data_type)));
        let so_far = relative(own, exact);
        row.so_far = Number(row.so_far.0.max(so_far));
        // A result that no node reads has the type that was asked for.
        let is_read = graph.nodes.iter().any(|node| node.inputs.iter().any(|read| read.uid == port.uid))
            || chain.views.read(port.uid);
        let least = if is_read { wanted } else { wanted.max(steps(tensor.data_type).0) };
        let left = |error: f64| error.clamp(least, 1.0);
        // Operands that already make it infinite are where the digits were lost.
        if so_far.is_finite() || !added.is_finite() {
            row.lost = row.lost.max((left(so_far) / left(incoming)).log10());
        }
        row.infinities += own.values.iter().filter(|value| value.is_infinite()).count();
        row.nans += own.values.iter().filter(|value| value.is_nan()).count();
        let condition = match (&moved, tensor.data_type.is_integer()) {
            (_, true) => None,
            (Some(moved), _) => moved.get(&port.uid).map(|moved| relative(moved, rest) / MOVED),
            (None, _) if incoming > 0.0 && incoming.is_finite() => Some(relative(rest, exact) / incoming),
            (None, _) => None,
        };
        let sizes = sizes.as_ref().and_then(|sizes| sizes.get(&port.uid));
        let terms_over_sum = sizes.map(|sizes| of_norm(norm(sizes.values.iter().copied()), rest));
        let sizes = sizes.filter(|_| !tensor.data_type.is_integer());
        let lost = lost.as_ref().and_then(|lost| lost.get(&port.uid));
        let bound = sizes.map(|sizes| bound(graph, node, tensor, (sizes, rest), (notes, lost)));
        let evidence = Evidence {
            graph,
            node,
            tensor,
            read: &read,
            own,
            exact: rest,
            added,
            cancellation: terms_over_sum.filter(|_| bounded(node) == Some(true)),
            condition,
            wanted,
            constant: constant_operand(graph, node, &state.own),
            may_flush: flushes,
            of_flushed: of_flushed.as_ref().and_then(|of_flushed| of_flushed.get(&port.uid)),
            unstored: unstored.as_ref().and_then(|unstored| unstored.get(&port.uid)),
        };
        for reason in reasons(&evidence) {
            if !row.reasons.contains(&reason) {
                row.reasons.push(reason);
            }
        }
        // What is shown of a node with several tensors is the worst one's.
        if added > row.added.0 {
            row.added = Number(added);
            row.data_type = tensor.data_type.name();
            row.bound = bound.map(Number);
        }
        let condition = condition.into_iter().chain(row.condition.map(|number| number.0)).reduce(f64::max);
        row.condition = condition.map(Number);
    }
    row.added = Number(row.added.0.max(0.0));
    if !chain.is_exact(node) {
        row.reasons.push("not measured in double precision: it rounds by definition".to_owned());
    }
    row
}

/// What a node reads with zeros for subnormal numbers of types that may be flushed; none if it reads no such number.
fn flushed(graph: &Graph, node: &Node, read: &Values) -> Option<Values> {
    let (mut flushed, mut is_any) = (read.clone(), false);
    for port in &node.inputs {
        let normal = graph.tensor(port.uid).map_or(0.0, |tensor| normal(tensor.data_type));
        let values = flushed.get_mut(&port.uid).into_iter().flat_map(|array| &mut array.values);
        for value in values.filter(|value| **value != 0.0 && value.abs() < normal) {
            *value = 0.0_f64.copysign(*value);
            is_any = true;
        }
    }
    is_any.then_some(flushed)
}

/// How much less the elements of some arrays are than those of others.
fn differences(all: &Values, less: &Values) -> Values {
    let of = |(uid, all): (&i64, &Array)| {
        let values = all.values.iter().zip(&less.get(uid)?.values).map(|(all, less)| all - less);
        Some((*uid, Array { dims: all.dims.clone(), values: values.collect() }))
    };
    all.iter().filter_map(of).collect()
}

/// Whether a node rounds numbers to integers, which may be larger than their type.
fn writes_integers(graph: &Graph, node: &Node) -> bool {
    let is_integer = |uid: i64| {
        let data_type = graph.tensor(uid).map(|tensor| tensor.data_type);
        data_type.is_some_and(|data_type| data_type.is_integer() && data_type != DataType::Boolean)
    };
    matches!(node.operation.as_str(), "Pointwise" | "Matmul" | "ConvolutionFwd" | "Reduction")
        && node.outputs.iter().any(|port| is_integer(port.uid))
}

/// What a node writes in exact arithmetic if its operands move a little.
fn moved(chain: &Chain<'_>, place: usize, read: &Values) -> Option<Values> {
    let graph = chain.graph;
    let mut moved = read.clone();
    for (uid, array) in &mut moved {
        if graph.tensor(*uid).is_none_or(|tensor| tensor.data_type.is_integer()) {
            continue;
        }
        for (at, value) in array.values.iter_mut().enumerate() {
            *value *= if mixed(at as u64) & 1 == 0 { 1.0 + MOVED } else { 1.0 - MOVED };
        }
    }
    chain.exactly_one(place, &moved).ok()
}

/// The number that an operand is everywhere, and the other operand.
fn constant_operand<'v>(graph: &Graph, node: &Node, own: &'v Values) -> Option<(f64, &'v Array)> {
    let number = |uid: i64| {
        let values = own.get(&uid).map(|array| array.values.as_slice());
        double::constant(graph, uid).or_else(|| match values {
            Some([first, rest @ ..]) if rest.iter().all(|value| value == first) => Some(*first),
            _ => None,
        })
    };
    let mut operands = [("in_1", "in_0"), ("in_0", "in_1")].into_iter();
    operands.find_map(|(one, other)| Some((number(node.input(one)?)?, own.get(&node.input(other)?)?)))
}

/// The operation with its mode.
fn operation(node: &Node) -> String {
    let mode = match node.operation.as_str() {
        "Pointwise" => double::mode(node).to_owned(),
        _ => node.parameter("mode").and_then(|mode| mode.as_str()).unwrap_or_default().to_lowercase(),
    };
    if mode.is_empty() { node.operation.clone() } else { format!("{} {mode}", node.operation) }
}

/// The node that loses most digits among those whose errors, or whose operands' errors, reach the results.
fn culprit(chain: &Chain<'_>, rows: &[Row]) -> Option<usize> {
    const REACHES: f64 = 0.05;
    let graph = chain.graph;
    let share = |place: usize| {
        let (mut open, mut seen) = (vec![place], HashSet::new());
        let mut share = 0.0;
        while let Some(place) = open.pop() {
            let (true, Some(row), Some(node)) = (seen.insert(place), rows.get(place), graph.nodes.get(place))
            else {
                continue;
            };
            share += row.share;
            let writes = |node: &Node, uid: i64| node.outputs.iter().any(|port| port.uid == uid);
            let producer = |uid: i64| graph.nodes.iter().position(|node| writes(node, uid));
            for port in &node.inputs {
                let sources = chain.views.sources(port.uid).iter().copied();
                open.extend(sources.chain([port.uid]).filter_map(producer));
            }
        }
        share
    };
    let loses = rows.iter().filter(|row| row.lost > LOSES && share(row.node) > REACHES);
    // Of equal ones, the first.
    loses.rev().max_by(|a, b| a.lost.total_cmp(&b.lost)).map(|row| row.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_infinite_part_is_all() {
        assert_eq!(parts(&[1.0, 3.0]), [0.25, 0.75]);
        assert_eq!(parts(&[1.0, f64::INFINITY, f64::NAN]), [0.0, 1.0, 0.0]);
        assert_eq!(parts(&[0.0]), [0.0]);
    }

    #[test]
    fn numbers_that_are_not_finite_are_text_in_json() {
        let text = serde_json::to_string(&[Number(1.5), Number(f64::INFINITY), Number(f64::NAN)]).unwrap();
        assert_eq!(text, r#"[1.5,"inf","NaN"]"#);
    }
}
