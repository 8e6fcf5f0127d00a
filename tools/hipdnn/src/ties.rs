//! Where an integer may differ from the reference: where what is rounded lies so near the boundary of two integers that rounding
//! errors decide.
//!
//! The reference computes the graph again, in double precision, and writes what each node rounds. An element is undecided if such a
//! value is within the tolerance of a boundary: a middle of two integers where a node rounds to nearest (a sum with 3 · 2²², and its
//! difference), an integer where it cuts (floor, ceil, the store to an integer type). Undecided values that an element does not
//! depend on alone, such as operands of a convolution, leave all elements undecided.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::computation::Arrays;
use crate::data_type::DataType;
use crate::double::{self, constant, mode, rounded_to_nearest};
use crate::failure::Result;
use crate::graph::{Graph, Node, Tensor};
use crate::rounding::Limits;
use hipdnn::{Handle, OperationGraph};

/// The boundaries of rounded values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Boundary {
    Integers,
    Middles,
}

/// A place where a float becomes an integer.
#[derive(Clone, Debug, PartialEq)]
struct Rounding {
    boundary: Boundary,
    /// The tensor that is rounded, or the one that the node writes.
    uid: i64,
    /// Whether it is the one that the node writes.
    is_stored: bool,
    /// Whether an element depends on no other value of the tensor.
    is_own: bool,
}

/// The roundings that a tensor depends on.
#[derive(Debug, Default, PartialEq)]
struct Roundings {
    found: Vec<Rounding>,
    /// Whether there are others, whose boundaries are not known.
    has_others: bool,
}

impl Roundings {
    fn of(graph: &Graph, tensor: &Tensor) -> Self {
        let (mut roundings, mut seen) = (Self::default(), HashSet::new());
        let mut open = vec![(tensor.uid, true)];
        while let Some((uid, is_own)) = open.pop() {
            if !seen.insert((uid, is_own)) {
                continue;
            }
            let (Some(written), Some(node)) = (graph.tensor(uid), graph.producer(uid)) else { continue };
            roundings.add(graph, node, written, is_own);
            for port in &node.inputs {
                let has_dims = graph.tensor(port.uid).is_some_and(|input| input.dims == tensor.dims);
                open.push((port.uid, is_own && node.operation == "Pointwise" && has_dims));
            }
        }
        roundings
    }

    /// Adds the rounding of a node that writes a tensor.
    fn add(&mut self, graph: &Graph, node: &Node, written: &Tensor, is_own: bool) {
        // Places of maxima are equal.
        if node.output("index") == Some(written.uid) {
            return;
        }
        let rounding = |boundary, uid, is_stored| Rounding { boundary, uid, is_stored, is_own };
        let mode = mode(node);
        if let Some(value) = rounded_to_nearest(graph, node) {
            self.found.push(rounding(Boundary::Middles, value, false));
        } else if matches!(mode, "floor" | "ceil")
            && let Some(value) = node.input("in_0").filter(|value| !is_whole(graph, *value))
        {
            self.found.push(rounding(Boundary::Integers, value, false));
        }
        let is_known = node.operation == "Pointwise" && !mode.starts_with("cmp") && mode != "binary_select"
            || ["ConvolutionFwd", "Matmul", "Reduction"].contains(&node.operation.as_str());
        if written.data_type.is_integer() && !is_whole_result(graph, node) {
            match is_known {
                true => self.found.push(rounding(Boundary::Integers, written.uid, true)),
                false => self.has_others = true,
            }
        }
    }
}

/// Whether all elements of a tensor are integers.
fn is_whole(graph: &Graph, uid: i64) -> bool {
    let Some(tensor) = graph.tensor(uid) else { return false };
    match (constant(graph, uid), graph.producer(uid)) {
        _ if tensor.data_type.is_integer() => true,
        (Some(value), _) => value.fract() == 0.0,
        (None, Some(node)) => is_whole_result(graph, node),
        (None, None) => false,
    }
}

/// Whether a node writes integers before any store.
fn is_whole_result(graph: &Graph, node: &Node) -> bool {
    let all = || node.inputs.iter().all(|port| is_whole(graph, port.uid));
    let is_integer = matches!(node.compute_type, DataType::Int32 | DataType::Boolean);
    match (node.operation.as_str(), mode(node)) {
        _ if is_integer => true,
        ("Pointwise", "floor" | "ceil" | "gen_index" | "logical_and" | "logical_or" | "logical_not") => true,
        ("Pointwise", "add" | "sub" | "mul" | "max_op" | "min_op" | "identity" | "abs" | "neg") => {
            all() || rounded_to_nearest(graph, node).is_some()
        }
        ("Pointwise", mode) if mode.starts_with("cmp") || mode == "binary_select" => all(),
        ("Pointwise", "relu_fwd") => {
            let whole = |key| node.parameter(key).and_then(Value::as_f64).is_none_or(|n| n.fract() == 0.0);
            all() && ["relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope"].into_iter().all(whole)
        }
        ("ConvolutionFwd" | "Matmul", _) => all(),
        ("Reduction", _) => {
            let mode = node.parameter("mode").and_then(Value::as_str).unwrap_or_default();
            all() && !mode.eq_ignore_ascii_case("avg") && !mode.eq_ignore_ascii_case("norm2")
        }
        _ => false,
    }
}

/// The graph in double precision, with what is rounded as results. Returns the uid of each rounding's values.
fn widened(graph: &Graph, text: &Value, roundings: &Roundings) -> Option<(Value, Vec<i64>)> {
    let mut wide = text.clone();
    let is_wide = |tensor: &Tensor| {
        tensor.is_virtual && matches!(tensor.data_type, DataType::Float | DataType::Half | DataType::Bfloat16)
    };
    double::widen(&mut wide, &double::kept(graph), is_wide).ok()?;
    let mut next = graph.tensors.iter().map(|tensor| tensor.uid).max()?;
    let tensors = double::list(&mut wide, "tensors")?;
    let mut uids = Vec::new();
    let mut stored = Vec::new();
    for rounding in &roundings.found {
        if rounding.is_stored {
            next = next.checked_add(1)?;
            stored.push((rounding.uid, next));
            let mut copy = tensors.iter().find(|tensor| tensor["uid"] == rounding.uid)?.clone();
            double::set(&mut copy, "uid", next);
            double::set(&mut copy, "virtual", false);
            double::set(&mut copy, "data_type", "double");
            tensors.push(copy);
            uids.push(next);
        } else {
            uids.push(rounding.uid);
        }
    }
    for tensor in
        tensors.iter_mut().filter(|tensor| tensor["uid"].as_i64().is_some_and(|uid| uids.contains(&uid)))
    {
        double::set(tensor, "virtual", false);
    }
    let nodes = double::list(&mut wide, "nodes")?;
    let mut all = Vec::new();
    for (node, json) in graph.nodes.iter().zip(nodes.iter()) {
        for (uid, copy) in stored.iter().filter(|(uid, _)| node.outputs.iter().any(|port| port.uid == *uid)) {
            let mut second = json.clone();
            rename(&mut second, *uid, *copy);
            all.push(second);
        }
        all.push(json.clone());
    }
    *nodes = all;
    Some((wide, uids))
}

/// Renames a tensor that a node writes.
fn rename(node: &mut Value, from: i64, to: i64) {
    let Some(object) = node.as_object_mut() else { return };
    for (key, value) in object {
        match value {
            Value::Object(_) => rename(value, from, to),
            _ if key.ends_with("_tensor_uid") && *value == from => *value = json!(to),
            _ => {}
        }
    }
}

/// Which elements of an integer result rounding errors may change by 1.
pub fn undecided(
    handle: &Handle,
    operations: &OperationGraph,
    graph: &Graph,
    inputs: &Arrays,
    (tensor, limits): (&Tensor, Limits<'_>),
) -> Result<Vec<bool>> {
    let count = tensor.dims.iter().product::<i64>().max(0) as usize;
    let roundings = Roundings::of(graph, tensor);
    if roundings.has_others {
        return Ok(vec![true; count]);
    }
    let mut is_undecided = vec![false; count];
    let text = double::text(operations)?;
    let Some((wide, uids)) = widened(graph, &text, &roundings) else { return Ok(vec![true; count]) };
    let values = double::exactly(handle, &wide, inputs);
    // A node that the reference has in no wider type decides nothing.
    let Ok(values) = values else { return Ok(vec![true; count]) };
    for (rounding, uid) in roundings.found.iter().zip(uids) {
        let Some((_, array)) = values.iter().find(|(other, _)| *other == uid) else { continue };
        let Some(of) = graph.tensor(rounding.uid) else { continue };
        let data_type = if rounding.is_stored { DataType::Float } else { of.data_type };
        let tolerance = limits.of(graph, &Tensor { data_type, ..of.clone() });
        let sizes = array.values.iter().map(|value| value.abs()).filter(|size| size.is_finite());
        let largest = sizes.fold(0.0, f64::max);
        let near = |value: f64| {
            let error =
                tolerance.relative * value.abs() + tolerance.of_largest * largest + tolerance.absolute;
            let distance = match rounding.boundary {
                Boundary::Integers => (value - value.round()).abs(),
                Boundary::Middles => (value - value.floor() - 0.5).abs(),
            };
            distance <= error
        };
        match rounding.is_own && array.values.len() == count {
            true => {
                let pairs = is_undecided.iter_mut().zip(&array.values);
                pairs.for_each(|(undecided, value)| *undecided |= near(*value));
            }
            false if array.values.iter().any(|value| near(*value)) => return Ok(vec![true; count]),
            false => {}
        }
    }
    Ok(is_undecided)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::NO_FRACTION;
    use crate::graph::testing::{convolution, graph, pointwise, tensor};

    /// A convolution, a division, rounding, and a zero point, to bytes.
    fn quantized() -> Graph {
        let dims = [1, 6, 8, 8];
        let mut tensors = vec![tensor(1, "x", &[1, 4, 8, 8], false), tensor(2, "w", &[6, 4, 3, 3], false)];
        tensors.extend((3..=6).map(|uid| tensor(uid, "", &dims, true)));
        tensors.push(tensor(7, "y", &dims, false));
        let mut constants = [(8, 0.3), (9, NO_FRACTION), (10, 5.0)].map(|(uid, value)| {
            let mut one = tensor(uid, "", &[1, 1, 1, 1], false);
            (one["value"], one["value_type"]) = (json!(value), json!("Float32Value"));
            one
        });
        tensors.extend(constants.iter_mut().map(Value::take));
        for one in tensors.iter_mut().filter(|one| one["uid"] == 7) {
            one["data_type"] = json!("int8");
        }
        let nodes = vec![
            convolution("conv", 1, 2, 3),
            pointwise("", "div", 3, Some(8), 4),
            pointwise("", "add", 4, Some(9), 5),
            pointwise("", "sub", 5, Some(9), 6),
            pointwise("", "add", 6, Some(10), 7),
        ];
        graph("g", tensors, nodes)
    }

    #[test]
    fn rounding_to_nearest_is_found_and_what_follows_is_whole() {
        let graph = quantized();
        let roundings = Roundings::of(&graph, graph.tensor(7).unwrap());
        let nearest = Rounding { boundary: Boundary::Middles, uid: 4, is_stored: false, is_own: true };
        assert_eq!(roundings, Roundings { found: vec![nearest], has_others: false });
    }

    #[test]
    fn a_store_cuts_where_nothing_was_rounded() {
        let mut graph = quantized();
        graph.nodes.iter_mut().filter(|node| mode(node) == "sub").for_each(|node| {
            node.parameters.insert("operation".to_owned(), json!("div"));
        });
        let roundings = Roundings::of(&graph, graph.tensor(7).unwrap());
        let cut = Rounding { boundary: Boundary::Integers, uid: 7, is_stored: true, is_own: true };
        assert_eq!(roundings, Roundings { found: vec![cut], has_others: false });
    }
}
