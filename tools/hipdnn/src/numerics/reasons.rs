//! What the loss of a node comes from, in plain words.

use std::collections::HashMap;

use super::chain::Values;
use super::measure::{distance, is_finite, largest, norm, of_norm};
use crate::double::{self, mode};
use crate::graph::{Graph, Node, Tensor};
use crate::rounding::{accumulator, normal, terms};
use crate::tensor::{self, Array, steps};

/// From here on, terms over their sum are worth telling.
const CANCELS: f64 = 64.0;

/// From here on, a growth of errors is worth telling.
const GROWS: f64 = 16.0;

/// An error that is this multiple of the store's does not come from the store.
const BEYOND_STORE: f64 = 16.0;

/// A reason without which the error is less by this factor explains it.
const MOST_OF_IT: f64 = 2.0;

/// How reasons begin that tell of numbers beyond a type without infinities.
pub const SATURATION: &str = "saturation";

/// What is known of a tensor that a node writes.
pub struct Evidence<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The node.
    pub node: &'a Node,
    /// The tensor.
    pub tensor: &'a Tensor,
    /// What the node reads.
    pub read: &'a Values,
    /// As the plan computes it.
    pub own: &'a Array,
    /// In exact arithmetic, from the plan's own operands.
    pub exact: &'a Array,
    /// The relative error that the node adds.
    pub added: f64,
    /// The sum of the terms' magnitudes over the magnitude of the sum.
    pub cancellation: Option<f64>,
    /// The growth of incoming errors.
    pub condition: Option<f64>,
    /// The half step of the graph's most precise result.
    pub wanted: f64,
    /// The operand that is the same number everywhere, and the other one.
    pub constant: Option<(f64, &'a Array)>,
    /// Whether the plan may flush subnormal numbers.
    pub may_flush: bool,
    /// In exact arithmetic from flushed operands, if the node reads subnormal numbers.
    pub of_flushed: Option<&'a Array>,
    /// Before a store to a type of integers.
    pub unstored: Option<&'a Array>,
}

/// The reasons, the most serious first.
pub fn reasons(of: &Evidence<'_>) -> Vec<String> {
    let flush = flush(of);
    let sums = flush.is_none().then(|| accumulation(of)).flatten();
    let all = [overflow(of), epsilon(of).or_else(|| underflow(of)), flush, sums, cast(of), growth(of)];
    all.into_iter().flatten().collect()
}

/// A number with two or three digits.
pub fn short(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if !number.is_finite() || number == 0.0 => format!("{number}"),
        _ if (1e-2..10.0).contains(&size) => format!("{number:.2}"),
        _ if (10.0..1e5).contains(&size) => format!("{number:.0}"),
        _ => format!("{number:.1e}"),
    }
}

fn overflow(of: &Evidence<'_>) -> Option<String> {
    let data_type = of.tensor.data_type;
    if data_type.is_integer() {
        return saturation(of);
    }
    let end = tensor::largest(data_type);
    let mut pairs = of.own.values.iter().zip(&of.exact.values);
    let greatest = largest(of.exact);
    let is_beyond = greatest > end;
    let ends = format!("values up to {}, {data_type} ends at {}", short(greatest), short(end));
    if pairs.clone().any(|(own, exact)| !own.is_finite() && exact.is_finite()) {
        return Some(match is_beyond {
            true => format!("overflow: {ends}"),
            false => format!("overflow inside the node: {ends}"),
        });
    }
    if pairs.any(|(own, _)| !own.is_finite()) {
        let already = || "its operands already make it infinite or NaN".to_owned();
        return Some(no_epsilon(of).unwrap_or_else(already));
    }
    match (is_beyond, greatest > end / 8.0) {
        (true, _) => Some(format!("{SATURATION}: {ends}")),
        (_, true) => Some(format!("near overflow: {ends}")),
        _ => None,
    }
}

/// Numbers that a type of integers does not hold. What it cuts is below 1.
fn saturation(of: &Evidence<'_>) -> Option<String> {
    let data_type = of.tensor.data_type;
    let (low, high) = data_type.whole_range();
    let values = || of.unstored.into_iter().flat_map(|array| &array.values).copied();
    let (least, most) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    if most >= high + 1.0 {
        return Some(format!("{SATURATION}: values up to {}, {data_type} ends at {high}", short(most)));
    }
    let begins = || format!("{SATURATION}: values down to {}, {data_type} begins at {low}", short(least));
    (least <= low - 1.0).then(begins)
}

/// An epsilon of a norm that is 0 in its own type.
fn no_epsilon(of: &Evidence<'_>) -> Option<String> {
    let tensor = of.graph.tensor(of.node.input("epsilon")?)?;
    let epsilon = double::constant(of.graph, tensor.uid)?;
    let held = Array { dims: vec![1], values: vec![epsilon] }.rounded(tensor.data_type);
    (held.values[..] == [0.0] && of.read.values().all(is_finite) && has_no_variance(of))
        .then(|| format!("epsilon {} is 0 in {}, and so is a variance", short(epsilon), tensor.data_type))
}

/// Whether a row of a norm, or a channel, without a variance has a result that is not finite.
fn has_no_variance(of: &Evidence<'_>) -> bool {
    let operand = |role| of.node.input(role).and_then(|uid| of.read.get(&uid));
    let (Some(x), Some(scale)) = (operand("x"), operand("scale")) else { return false };
    let is_of_channels = of.node.operation.starts_with("Batchnorm");
    let rows = if is_of_channels { 0 } else { x.values.len() / scale.values.len().max(1) };
    let row = |array: &Array, at: usize| match array.dims.get(1) {
        Some(channels) if is_of_channels => {
            at / array.dims.iter().skip(2).product::<usize>().max(1) % channels.max(&1)
        }
        _ => at * rows / array.values.len().max(1),
    };
    // The least and the largest number of each row, or of its given variance.
    let mut ends: HashMap<usize, (f64, f64)> = HashMap::new();
    let given = operand("variance").unwrap_or(x);
    for (at, value) in given.values.iter().enumerate() {
        let (least, most) = ends.entry(row(given, at)).or_insert((*value, *value));
        (*least, *most) = (least.min(*value), most.max(*value));
    }
    let is_of_squares = of.node.operation == "RMSNorm" || operand("variance").is_some();
    let is_none = |(least, most): &(f64, f64)| least == most && (*least == 0.0 || !is_of_squares);
    let mut results = of.own.values.iter().enumerate();
    results.any(|(at, value)| !value.is_finite() && ends.get(&row(of.own, at)).is_some_and(is_none))
}

/// A small constant that a sum does not hold.
fn epsilon(of: &Evidence<'_>) -> Option<String> {
    let (constant, other) = of.constant.filter(|(constant, _)| *constant != 0.0)?;
    let is_sum = of.node.operation == "Pointwise" && matches!(mode(of.node), "add" | "sub");
    let data_type = of.tensor.data_type;
    // An operand of the same shape; others are not sums of a variance and an epsilon.
    if !is_sum || other.values.len() != of.own.values.len() || constant.abs() > largest(other) {
        return None;
    }
    let as_without =
        |value: f64| Array { dims: vec![1], values: vec![value] }.rounded(data_type).values[..] == [value];
    let mut pairs =
        of.own.values.iter().zip(&other.values).filter(|(_, other)| as_without(**other)).peekable();
    pairs.peek()?;
    let sizes = other.values.iter().map(|value| value.abs());
    let (least, most) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max));
    pairs.all(|(own, other)| own == other).then(|| {
        format!(
            "epsilon {} is below what {data_type} holds beside {} to {}",
            short(constant),
            short(least),
            short(most)
        )
    })
}

/// Subnormal numbers that count as zeros.
fn flush(of: &Evidence<'_>) -> Option<String> {
    let normal = normal(of.tensor.data_type).max(normal(accumulator(of.node)));
    let mut pairs = of.own.values.iter().zip(&of.exact.values);
    let is_lost = |(own, exact): (&f64, &f64)| *own == 0.0 && *exact != 0.0 && exact.abs() < normal;
    // Flushed operands are the reason where without them most of the error is gone.
    let is_nearer = |flushed: &Array| distance(of.own, flushed) < distance(of.own, of.exact) / MOST_OF_IT;
    (of.may_flush
        && (of.of_flushed.is_some_and(is_nearer) || pairs.any(is_lost))
        && of.added > BEYOND_STORE * store(of))
    .then(|| format!("flush: subnormal numbers, below {}, count as zeros", short(normal)))
}

fn underflow(of: &Evidence<'_>) -> Option<String> {
    let data_type = of.tensor.data_type;
    let smallest = steps(data_type).1;
    let is_lost = |(own, exact): &(&f64, &f64)| **own == 0.0 && **exact != 0.0 && exact.abs() < smallest;
    let lost = of.own.values.iter().zip(&of.exact.values).filter(is_lost).map(|(_, exact)| exact.abs());
    let greatest = lost.fold(0.0, f64::max);
    (greatest > 0.0 && !data_type.is_integer()).then(|| {
        let begin = short(smallest);
        format!("underflow: values of {} become 0, {data_type} begins at {begin}", short(greatest))
    })
}

/// The relative error of the store to the tensor's type alone.
fn store(of: &Evidence<'_>) -> f64 {
    let rounded = of.exact.rounded(of.tensor.data_type);
    let differences = rounded.values.iter().zip(&of.exact.values).map(|(rounded, exact)| rounded - exact);
    of_norm(norm(differences), of.exact)
}

fn accumulation(of: &Evidence<'_>) -> Option<String> {
    let (own, type_) = (accumulator(of.node), of.tensor.data_type);
    // What the operands' own precision already explains.
    let operands = of.node.inputs.iter().filter_map(|port| of.graph.tensor(port.uid));
    let operands = operands.map(|tensor| steps(tensor.data_type).0).fold(0.0, f64::max);
    let explained = store(of).max(steps(type_).0).max(of.condition.unwrap_or(0.0) * operands);
    let is_more = of.added.is_finite() && of.added > BEYOND_STORE * explained;
    let terms = terms(of.graph, of.node);
    let is_narrower = steps(own).0 > of.wanted;
    (is_more && !type_.is_integer() && (terms > 1.0 || is_narrower)).then(|| {
        let sum = if terms > 1.0 { format!(" for {terms} terms") } else { String::new() };
        format!("the accumulator, {own}, is narrower than needed{sum}: results in {type_}")
    })
}

fn cast(of: &Evidence<'_>) -> Option<String> {
    let type_ = of.tensor.data_type;
    let (step, store) = (steps(type_).0, store(of));
    let is_read = of.graph.nodes.iter().any(|node| node.inputs.iter().any(|port| port.uid == of.tensor.uid));
    let is_narrow = !type_.is_integer() && step > steps(accumulator(of.node)).0 && step > of.wanted;
    (is_read && is_narrow && store > 0.0 && of.added.is_finite() && of.added < 4.0 * store)
        .then(|| format!("cast too early: its error is that of the store to {type_}"))
}

fn growth(of: &Evidence<'_>) -> Option<String> {
    match (of.cancellation, of.condition) {
        (Some(ratio), _) if ratio > CANCELS => {
            Some(format!("cancellation: the terms are {} times their sum", short(ratio)))
        }
        (_, Some(condition)) if condition > GROWS && condition.is_finite() => {
            Some(format!("it multiplies errors of its operands by {}", short(condition)))
        }
        _ => None,
    }
}
