//! The batch of a graph: which tensors have an item of it at each place of their first dimension, and the graph with another size.

use std::collections::HashSet;

use serde_json::Value;

use crate::double::{list, mode, set};
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Node, Port, Tensor};

/// The batch of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of items.
    pub size: i64,
    /// The tensors with the items.
    pub tensors: HashSet<i64>,
}

/// What a role says of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// It has the items.
    Items,
    /// All items share it.
    Shared,
    /// Its shape says it, and what it is computed from.
    Nothing,
}

impl Batch {
    /// The batch of a graph, or why it cannot be told.
    pub fn of(graph: &Graph) -> Result<Self> {
        let refuse = |why: String| Err(Failure::work(format!("the batch cannot be told: {why}")));
        for (place, node) in graph.nodes.iter().enumerate() {
            if let Some(why) = depends_on_others(node) {
                return refuse(format!("{} {why}", label(place, node)));
            }
        }
        let mut sizes = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_some());
        let Some((first, size)) = sizes.next().and_then(|first| Some((first, *first.dims.first()?))) else {
            return refuse("the graph has no result with dimensions".to_owned());
        };
        if let Some(other) = sizes.find(|tensor| tensor.dims.first() != Some(&size)) {
            return refuse(format!(
                "dims[0] of {} is {size}, of {} {}",
                first.label(),
                other.label(),
                other.dims.first().map_or("missing".to_owned(), i64::to_string)
            ));
        }
        if let Some(ragged) = graph.tensors.iter().find(|tensor| tensor.ragged_offset.is_some()) {
            return refuse(format!("{} is ragged", ragged.label()));
        }
        let shared = shared(graph);
        let mut tensors: HashSet<i64> = HashSet::new();
        for (place, node) in graph.nodes.iter().enumerate() {
            let name = label(place, node);
            for port in &node.inputs {
                let Some(tensor) = graph.tensor(port.uid) else { continue };
                let is_free = tensor.value.is_none() && !shared.contains(&port.uid);
                let has_size = tensor.dims.first() == Some(&size);
                let says = says(graph, node, &port.role);
                let is_given = graph.producer(port.uid).is_none();
                match says {
                    Says::Items if !is_free || !has_size => {
                        return refuse(format!("{} of {name} has no batch of {size}", port.role));
                    }
                    Says::Items => tensors.extend(is_given.then_some(port.uid)),
                    _ if is_free
                        && has_size
                        && is_given
                        && (size != 1 || is_batch_of_one(graph, node, port)) =>
                    {
                        tensors.insert(port.uid);
                    }
                    _ => {}
                }
            }
            if !node.inputs.iter().any(|port| tensors.contains(&port.uid)) {
                continue;
            }
            for port in &node.outputs {
                if graph.tensor(port.uid).and_then(|tensor| tensor.dims.first()) != Some(&size) {
                    return refuse(format!("{} of {name} has no batch of {size}: it joins items", port.role));
                }
                if shared.contains(&port.uid) {
                    return refuse(format!("what {name} writes is a weight of another node"));
                }
                tensors.insert(port.uid);
            }
        }
        let without = graph.bound().find(|it| graph.producer(it.uid).is_some() && !tensors.contains(&it.uid));
        match without {
            Some(result) => refuse(format!("{} depends on no tensor with a batch", result.label())),
            None => Ok(Self { size, tensors }),
        }
    }

    /// The graph, in the library's JSON form, with another number of items.
    pub fn resized(&self, graph: &Graph, text: &Value, size: i64) -> Result<Value> {
        let mut resized = text.clone();
        for (tensor, json) in graph.tensors.iter().zip(list(&mut resized, "tensors").into_iter().flatten()) {
            if self.tensors.contains(&tensor.uid) {
                let mut dims = tensor.dims.clone();
                dims.iter_mut().take(1).for_each(|dim| *dim = size);
                set(json, "dims", dims);
                set(json, "strides", strides(tensor, size)?);
            }
        }
        Ok(resized)
    }
}

/// A node in words.
fn label(place: usize, node: &Node) -> String {
    let name = if node.name.is_empty() { String::new() } else { format!(" {:?}", node.name) };
    format!("node {place}{name} ({})", node.operation)
}

/// The strides of a tensor with another first dimension: as they are where its items follow each other, else with the outer
/// dimensions moved.
fn strides(tensor: &Tensor, size: i64) -> Result<Vec<i64>> {
    let mut strides = tensor.strides.clone();
    let (Some(own), Some(step)) = (tensor.dims.first(), tensor.strides.first()) else { return Ok(strides) };
    let rest = tensor.dims.iter().zip(&tensor.strides).skip(1);
    let extent = rest.map(|(dim, stride)| (dim - 1).max(0) * stride).sum::<i64>() + 1;
    if *step >= extent || tensor.dims.contains(&0) {
        return Ok(strides);
    }
    if *own <= 1 {
        strides.iter_mut().take(1).for_each(|stride| *stride = extent);
        return Ok(strides);
    }
    let refuse = |why: &str| {
        Err(Failure::work(format!("the batch of {} cannot be resized: its items {why}", tensor.label())))
    };
    let inner = tensor.dims.iter().zip(&tensor.strides).skip(1).filter(|(_, stride)| *stride <= step);
    if inner.map(|(dim, stride)| (dim - 1).max(0) * stride).sum::<i64>() + 1 > *step {
        return refuse("share elements");
    }
    // The stride of a single element says nothing of the items.
    let outer =
        strides.iter_mut().zip(&tensor.dims).skip(1).filter(|(stride, dim)| **stride > *step && **dim > 1);
    for (stride, _) in outer {
        if *stride % own != 0 || *stride < own * step {
            return refuse("are interleaved");
        }
        *stride = *stride / own * size;
    }
    Ok(strides)
}

/// Whether a given tensor whose first dimension is 1 is a batch of 1: the first operand of a matmul, and one of the shape of the
/// pointwise result. Other ones are shared.
fn is_batch_of_one(graph: &Graph, node: &Node, port: &Port) -> bool {
    let dims = |uid: i64| graph.tensor(uid).map(|tensor| tensor.dims.as_slice());
    match node.operation.as_str() {
        "Matmul" => port.role == "a",
        "Pointwise" => node.outputs.iter().any(|written| dims(written.uid) == dims(port.uid)),
        _ => false,
    }
}

/// What a role of an operation says of its tensor.
fn says(graph: &Graph, node: &Node, role: &str) -> Says {
    let rank = |role: &str| node.input(role).and_then(|uid| graph.tensor(uid)).map_or(0, |it| it.dims.len());
    match (node.operation.as_str(), role) {
        ("ConvolutionFwd" | "ConvolutionBwd", "w") => Says::Shared,
        ("ConvolutionFwd" | "ConvolutionBwd", _) => Says::Items,
        ("Matmul", "b") if rank("b") == 2 => Says::Shared,
        ("Matmul", "a") if rank("a") == 2 => Says::Items,
        ("Layernorm" | "RMSNorm", "x") => Says::Items,
        ("BatchnormInference" | "BatchnormInferenceVariance", "x") => Says::Items,
        (operation, _) if operation.starts_with("Batchnorm") => Says::Shared,
        ("Layernorm" | "RMSNorm", _) | (_, "epsilon") => Says::Shared,
        ("Sdpa" | "SdpaBackward", "q" | "k" | "v" | "do" | "o" | "stats" | "seq_len_q" | "seq_len_kv") => {
            Says::Items
        }
        ("ResampleFwd" | "ResampleBwd", _) => Says::Items,
        _ => Says::Nothing,
    }
}

/// Why an item's results of an operation depend on other items or on its place, if they do.
fn depends_on_others(node: &Node) -> Option<&'static str> {
    let has = |role: &str| node.input(role).is_some();
    match node.operation.as_str() {
        "Batchnorm" | "BatchnormBackward" => Some("has statistics of the whole batch"),
        "ConvolutionWrw" | "LayernormBackward" | "RMSNormBackward" => Some("sums over the batch"),
        "MoeGroupedMatmul" | "MoeGroupedMatmulBwd" => Some("has rows of tokens, not items"),
        "CustomOp" => Some("is not known"),
        "Sdpa" | "SdpaBackward" if has("page_table_k") || has("page_table_v") => Some("reads pages"),
        "Sdpa" | "SdpaBackward" if has("seed") => Some("has dropout that depends on the place"),
        "Sdpa" if node.output("amax_s").is_some() || node.output("amax_o").is_some() => {
            Some("writes the largest number of the whole batch")
        }
        "Pointwise" if mode(node) == "gen_index" && node.parameter("axis").is_none_or(|axis| axis == 0) => {
            Some("writes the place")
        }
        _ => None,
    }
}

/// The tensors that all items share by their role, and what these are computed from.
fn shared(graph: &Graph) -> HashSet<i64> {
    let of_node = |node: &Node| -> Vec<i64> {
        let ports = node.inputs.iter().filter(|port| says(graph, node, &port.role) == Says::Shared);
        ports.map(|port| port.uid).collect()
    };
    let (mut open, mut shared): (Vec<i64>, HashSet<i64>) =
        (graph.nodes.iter().flat_map(of_node).collect(), HashSet::new());
    while let Some(uid) = open.pop() {
        if shared.insert(uid) {
            let read = graph.producer(uid).map(|node| node.inputs.iter().map(|port| port.uid));
            open.extend(read.into_iter().flatten());
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::testing::{convolution, graph, pointwise, tensor};

    fn chain(batch: i64) -> Graph {
        let tensors = vec![
            tensor(1, "x", &[batch, 4, 8, 8], false),
            tensor(2, "w", &[4, 4, 3, 3], false),
            tensor(3, "", &[batch, 4, 8, 8], true),
            tensor(4, "bias", &[1, 4, 1, 1], false),
            tensor(5, "", &[batch, 4, 8, 8], true),
            tensor(6, "residual", &[batch, 4, 8, 8], false),
            tensor(7, "y", &[batch, 4, 8, 8], false),
        ];
        let nodes = vec![
            convolution("conv", 1, 2, 3),
            pointwise("", "add", 3, Some(4), 5),
            pointwise("", "add", 5, Some(6), 7),
        ];
        graph("g", tensors, nodes)
    }

    #[test]
    fn weights_are_shared_also_where_they_have_as_many_channels() {
        for size in [1, 4, 5] {
            let batch = Batch::of(&chain(size)).unwrap();
            assert_eq!(batch, Batch { size, tensors: HashSet::from([1, 3, 5, 6, 7]) });
        }
    }

    #[test]
    fn items_that_are_joined_are_named() {
        let tensors = vec![tensor(1, "x", &[4, 8], false), tensor(2, "y", &[1, 8], false)];
        let sum = json!({"type": "ReductionAttributes", "name": "sum", "compute_data_type": "float",
                         "in_tensor_uid": 1, "out_tensor_uid": 2, "mode": "add"});
        let why = Batch::of(&graph("g", tensors, vec![sum])).unwrap_err().to_string();
        assert!(why.contains("y depends on no tensor with a batch"), "{why}");
        let gradient = json!({"type": "ConvolutionWrwAttributes", "name": "dw", "compute_data_type": "float",
                              "inputs": {"x_tensor_uid": 1, "dy_tensor_uid": 1}, "outputs": {"dw_tensor_uid": 2}});
        let tensors = vec![tensor(1, "x", &[4, 8], false), tensor(2, "y", &[4, 8], false)];
        let why = Batch::of(&graph("g", tensors, vec![gradient])).unwrap_err().to_string();
        assert!(why.ends_with("node 0 \"dw\" (ConvolutionWrw) sums over the batch"), "{why}");
    }

    #[test]
    fn strides_keep_their_order() {
        let of = |dims: &[i64], with: &[i64], size| {
            let mut text = tensor(1, "t", dims, false);
            text["strides"] = json!(with);
            strides(&Tensor::read(&text).unwrap(), size).ok()
        };
        assert_eq!(of(&[2, 3, 4], &[12, 4, 1], 7), Some(vec![12, 4, 1]));
        // The batch is the innermost dimension.
        assert_eq!(of(&[2, 3, 4], &[1, 8, 2], 7), Some(vec![1, 28, 7]));
        assert_eq!(of(&[1, 3, 4], &[1, 4, 1], 7), Some(vec![12, 4, 1]));
        assert_eq!(of(&[2, 3], &[1, 5], 7), None);
        // A dimension of 1 may have any stride.
        assert_eq!(of(&[2, 3, 1], &[1, 2, 5], 7), Some(vec![1, 7, 5]));
        // Items that share elements are no batch.
        assert_eq!(of(&[4, 4], &[1, 1], 7), None);
        assert_eq!(of(&[4, 4], &[0, 1], 7), None);
        assert_eq!(of(&[2, 2, 2], &[4, 2, 6], 7), None);
        assert_eq!(of(&[2, 0, 3], &[0, 3, 1], 7), Some(vec![0, 3, 1]));
    }
}
