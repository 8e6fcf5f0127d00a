//! Graphs in double precision, which `CPU_REFERENCE_ENGINE` computes, and parts of graphs whose virtual tensors are results.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use crate::computation::{Arrays, reference};
use crate::data_type::DataType;
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Node, Tensor};
use hipdnn::{Handle, OperationGraph};

/// The sum of this number and a single-precision value has no fraction.
pub const NO_FRACTION: f64 = 12_582_912.0;

/// The mode of a pointwise node.
pub fn mode(node: &Node) -> &str {
    node.parameter("operation").and_then(Value::as_str).unwrap_or_default()
}

/// The number that every element of a tensor is.
pub fn constant(graph: &Graph, uid: i64) -> Option<f64> {
    graph.tensor(uid)?.value.as_ref()?.as_f64()
}

/// The value that a node, the second of two, rounds to nearest.
pub fn rounded_to_nearest(graph: &Graph, node: &Node) -> Option<i64> {
    let is_single = |node: &Node| node.compute_type != DataType::Double;
    let (sum, number) = match mode(node) {
        "sub" => (node.input("in_0")?, constant(graph, node.input("in_1")?)?),
        "add" => [("in_0", "in_1"), ("in_1", "in_0")]
            .into_iter()
            .find_map(|(sum, other)| Some((node.input(sum)?, -constant(graph, node.input(other)?)?)))?,
        _ => return None,
    };
    let first = graph.producer(sum).filter(|first| mode(first) == "add" && is_single(first))?;
    let mut operands = [("in_0", "in_1"), ("in_1", "in_0")].into_iter();
    let value = operands.find_map(|(value, other)| {
        let other = constant(graph, first.input(other)?)?;
        (other == NO_FRACTION).then_some(first.input(value)?)
    });
    value.filter(|_| number == NO_FRACTION && is_single(node))
}

/// The tensors of nodes that compute in their own type in any case: pairs that round to nearest, which only do so in single
/// precision, and operations that read or write formats of 8 bits or less by their definition.
pub fn kept(graph: &Graph) -> HashSet<i64> {
    let is_small = |uid: i64| {
        let bits = graph.tensor(uid).map(|tensor| (tensor.data_type.is_integer(), tensor.data_type.bits()));
        bits.is_some_and(|(is_integer, bits)| !is_integer && bits <= 8)
    };
    let is_kept = |node: &&Node| {
        let is_of_formats = node.operation.starts_with("Sdpa") || node.operation.starts_with("BlockScale");
        let mut ports = node.inputs.iter().chain(&node.outputs);
        rounded_to_nearest(graph, node).is_some() || is_of_formats && ports.any(|port| is_small(port.uid))
    };
    let of_node =
        |node: &Node| node.inputs.iter().chain(&node.outputs).map(|port| port.uid).collect::<Vec<_>>();
    graph.nodes.iter().filter(is_kept).flat_map(of_node).collect()
}

/// The library's JSON form of a graph.
pub fn text(operations: &OperationGraph) -> Result<Value> {
    let text = operations.json()?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::work(format!("the library's JSON of the graph cannot be read: {error}")))
}

/// The list under a key.
pub fn list<'a>(graph: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    graph.get_mut(key)?.as_array_mut()
}

/// Sets a key of an object.
pub fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value.into());
    }
}

/// Some nodes of a graph and their tensors, all of which memory is bound to.
pub fn part(graph: &Graph, text: &Value, nodes: Range<usize>) -> Option<Value> {
    let mut uids: HashSet<i64> = HashSet::new();
    for node in graph.nodes.get(nodes.clone())? {
        uids.extend(node.inputs.iter().chain(&node.outputs).map(|port| port.uid));
    }
    let offsets = graph.tensors.iter().filter(|tensor| uids.contains(&tensor.uid));
    let offsets: Vec<i64> = offsets.filter_map(|tensor| tensor.ragged_offset).collect();
    uids.extend(offsets);
    // Graphs may have thousands of nodes: only what the part has is copied.
    let of = |key: &str| text.get(key)?.as_array();
    let is_read = |tensor: &&Value| tensor["uid"].as_i64().is_some_and(|uid| uids.contains(&uid));
    let mut tensors: Vec<Value> = of("tensors")?.iter().filter(is_read).cloned().collect();
    tensors.iter_mut().for_each(|tensor| set(tensor, "virtual", false));
    let nodes = of("nodes")?.get(nodes)?.to_vec();
    let others = text.as_object()?.iter().filter(|(key, _)| !matches!(key.as_str(), "tensors" | "nodes"));
    let mut part: Value = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    set(&mut part, "tensors", tensors);
    set(&mut part, "nodes", nodes);
    Some(part)
}

/// The same with tensors that these nodes write and no other reads virtual as in the graph.
pub fn part_alone(graph: &Graph, text: &Value, nodes: Range<usize>) -> Option<Value> {
    let mut made = part(graph, text, nodes.clone())?;
    let writes = |node: &Node, uid: i64| node.outputs.iter().any(|port| port.uid == uid);
    let reads = |node: &Node, uid: i64| node.inputs.iter().any(|port| port.uid == uid);
    let own = graph.nodes.get(nodes.clone())?;
    let is_inside = |uid: i64| {
        let mut others = graph.nodes.iter().enumerate().filter(|(place, _)| !nodes.contains(place));
        own.iter().any(|node| writes(node, uid)) && !others.any(|(_, node)| reads(node, uid))
    };
    for tensor in list(&mut made, "tensors")? {
        let known = tensor["uid"].as_i64().and_then(|uid| graph.tensor(uid));
        if known.is_some_and(|tensor| tensor.is_virtual && is_inside(tensor.uid)) {
            set(tensor, "virtual", true);
        }
    }
    Some(made)
}

/// Gives tensors for which `is_wide` holds the type `double`, unless they are `kept`, have a value or are passed by value, and
/// computes in double precision what writes no tensor that is kept.
pub fn widen(text: &mut Value, kept: &HashSet<i64>, is_wide: impl Fn(&Tensor) -> bool) -> Result<()> {
    let graph = Graph::from_json(&text.to_string())?;
    for (tensor, json) in graph.tensors.iter().zip(list(text, "tensors").into_iter().flatten()) {
        let is_free =
            tensor.value.is_none() && !tensor.is_runtime_pass_by_value && !kept.contains(&tensor.uid);
        if is_free && !tensor.data_type.is_integer() && is_wide(tensor) {
            set(json, "data_type", "double");
        }
    }
    for (node, json) in graph.nodes.iter().zip(list(text, "nodes").into_iter().flatten()) {
        let is_kept = node.outputs.iter().any(|port| kept.contains(&port.uid));
        if !is_kept && matches!(node.compute_type, DataType::Float | DataType::Half | DataType::Bfloat16) {
            set(json, "compute_data_type", "double");
        }
    }
    Ok(())
}

/// A graph in the library's JSON form, ready to be planned.
pub fn load(handle: &Handle, text: &Value) -> Result<(OperationGraph, Graph)> {
    let operations = OperationGraph::from_json(handle.backend(), text.to_string().as_bytes())?;
    operations.finalize(handle)?;
    let graph = Graph::from_json(&operations.json()?)?;
    Ok((operations, graph))
}

/// The reference's results of a graph in the library's JSON form.
pub fn exactly(handle: &Handle, text: &Value, inputs: &Arrays) -> Result<Arrays> {
    let (operations, graph) = load(handle, text)?;
    reference(handle, &operations, &graph, inputs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::testing::{graph, pointwise, tensor};

    /// Magnitudes, rounded to nearest, and their exponentials.
    fn rounded() -> (Graph, Value) {
        let mut tensors = vec![tensor(1, "x", &[4], false), tensor(2, "c", &[1], false)];
        tensors.extend((3..=5).map(|uid| tensor(uid, "", &[4], true)));
        tensors.push(tensor(6, "y", &[4], false));
        for tensor in &mut tensors {
            match tensor["uid"].as_i64() {
                Some(1) => set(tensor, "data_type", "half"),
                Some(2) => set(tensor, "value", NO_FRACTION),
                _ => {}
            }
        }
        let nodes = vec![
            pointwise("", "abs", 1, None, 3),
            pointwise("", "add", 3, Some(2), 4),
            pointwise("", "sub", 4, Some(2), 5),
            pointwise("", "exp", 5, None, 6),
        ];
        let text = json!({"tensors": tensors, "nodes": nodes, "name": "", "compute_data_type": "float",
                          "intermediate_data_type": "float", "io_data_type": "float"});
        (graph("", tensors, nodes), text)
    }

    #[test]
    fn a_part_has_its_tensors_and_no_virtual_ones() {
        let (graph, text) = rounded();
        let part = part(&graph, &text, 2..4).unwrap();
        let part = Graph::from_json(&part.to_string()).unwrap();
        assert_eq!(part.tensors.iter().map(|tensor| tensor.uid).collect::<Vec<_>>(), [2, 4, 5, 6]);
        assert_eq!((part.nodes.len(), part.bound().count()), (2, 3));
    }

    #[test]
    fn tensors_that_only_a_part_uses_stay_virtual() {
        let (graph, text) = rounded();
        let virtuals = |nodes| {
            let part = Graph::from_json(&part_alone(&graph, &text, nodes).unwrap().to_string()).unwrap();
            let virtuals = part.tensors.iter().filter(|tensor| tensor.is_virtual);
            virtuals.map(|tensor| tensor.uid).collect::<Vec<_>>()
        };
        // The second part reads what the first writes last.
        assert_eq!([virtuals(0..2), virtuals(2..4)], [vec![3], vec![5]]);
        assert_eq!(virtuals(0..4), [3, 4, 5]);
    }

    #[test]
    fn pairs_that_round_stay_in_single_precision() {
        let (graph, mut text) = rounded();
        widen(&mut text, &kept(&graph), |_| true).unwrap();
        let wide = Graph::from_json(&text.to_string()).unwrap();
        let types: Vec<_> = wide.tensors.iter().map(|tensor| tensor.data_type.name()).collect();
        assert_eq!(types, ["double", "float", "double", "float", "float", "double"]);
        let types: Vec<_> = wide.nodes.iter().map(|node| node.compute_type.name()).collect();
        assert_eq!(types, ["double", "float", "float", "double"]);
    }
}
