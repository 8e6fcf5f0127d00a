//! Plans graphs with empty tensors by removing these.
//!
//! A node that writes no elements is dropped. A node that reads an empty tensor but writes elements, such as
//! a sum over an empty dimension, becomes the constant that an empty sum gives. Kernels and layouts never see
//! a dimension of 0.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, Node, Operation, PointwiseMode, ReductionMode, Tensor, TensorValue,
};

use crate::kernel::Refusal;
use crate::prepare::{self, Prepared, in_node};
use crate::problem::named_tensors;

/// Resolves and checks a graph like [`prepare::prepare`], but dimensions may be 0.
///
/// # Errors
/// As there, and a result that is undefined for empty operands.
pub fn prepare(graph: &Graph) -> Result<Prepared, Refusal> {
    if !graph.tensors.iter().any(is_empty) {
        return prepare::prepare(graph);
    }
    prepare::prepare(&with_elements(graph))?;
    let (graph, _) = without_empty(graph)?;
    if graph.nodes.is_empty() {
        return Ok(Prepared { graph, problems: Vec::new(), unmarked: HashSet::new() });
    }
    prepare::prepare(&graph)
}

/// The original index of each node of the prepared graph; `None` if all are unchanged.
pub fn places(graph: &Graph) -> Option<Vec<usize>> {
    graph.tensors.iter().any(is_empty).then(|| without_empty(graph).ok().map(|(_, places)| places))?
}

/// Whether a tensor has no elements. Its strides do not matter.
fn is_empty(tensor: &Tensor) -> bool {
    tensor.dims.contains(&0) && tensor.value.is_none()
}

/// The graph with a number that no dimension has in place of 0, so that sizes match exactly if they matched
/// before. Shapes, types and order are checked with it.
fn with_elements(graph: &Graph) -> Graph {
    let used: HashSet<i64> = graph.tensors.iter().flat_map(|tensor| tensor.dims.iter().copied()).collect();
    let other = (2..i64::MAX).find(|number| !used.contains(number)).unwrap_or(2);
    let mut graph = graph.clone();
    for tensor in graph.tensors.iter_mut().filter(|tensor| is_empty(tensor)) {
        tensor.dims.iter_mut().filter(|dim| **dim == 0).for_each(|dim| *dim = other);
        let mut packed = 1_i64;
        tensor.strides.truncate(tensor.dims.len());
        for (stride, dim) in tensor.strides.iter_mut().zip(&tensor.dims).rev() {
            *stride = packed;
            // Empty tensors are empty even if this overflows.
            packed = packed.saturating_mul(*dim);
        }
    }
    graph
}

/// The nodes that remain, on non-empty tensors, and their indices in the graph.
fn without_empty(graph: &Graph) -> Result<(Graph, Vec<usize>), Refusal> {
    let empty: HashSet<i64> =
        graph.tensors.iter().filter(|tensor| is_empty(tensor)).map(|tensor| tensor.uid).collect();
    let mut rest = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    let mut places = Vec::with_capacity(graph.nodes.len());
    let mut known: HashSet<i64> = graph.tensors.iter().map(|tensor| tensor.uid).collect();
    for (place, node) in graph.nodes.iter().enumerate() {
        let outputs = node.operation.outputs();
        let reads = node.operation.inputs().into_iter().find(|uid| empty.contains(uid));
        let mut written = outputs.iter().copied().filter(|uid| !empty.contains(uid)).peekable();
        if written.peek().is_none() {
            continue;
        }
        let Some(empty_input) = reads else {
            if outputs.iter().any(|uid| empty.contains(uid)) {
                return Err(in_node(
                    place,
                    node,
                    "writes tensors with elements and tensors without".to_owned(),
                ));
            }
            rest.nodes.push(node.clone());
            places.push(place);
            continue;
        };
        for output in written {
            let value = value(graph, &node.operation, output)
                .ok_or_else(|| in_node(place, node, undefined(&node.operation, empty_input, output)))?;
            let uid = (1..i64::MAX).find(|uid| known.insert(*uid)).unwrap_or_default();
            rest.tensors.push(Tensor {
                value: Some(TensorValue::Float32(value)),
                ..Tensor::new(uid, DataType::Float, &[1], &[1])
            });
            let operation = Pointwise::new(PointwiseMode::Identity, uid, None, output).into();
            rest.nodes.push(Node { name: node.name.clone(), compute_type: DataType::Float, operation });
            places.push(place);
        }
    }
    rest.tensors.retain(|tensor| !empty.contains(&tensor.uid));
    Ok((rest, places))
}

/// The value of a result whose node reads an empty tensor; `None` if undefined.
fn value(graph: &Graph, operation: &Operation, output: i64) -> Option<f32> {
    let has_no_rows = |uid: i64| graph.tensor(uid).is_some_and(|tensor| tensor.dims.get(2) == Some(&0));
    match operation {
        Operation::Reduction(reduction) => match reduction.mode {
            ReductionMode::Add | ReductionMode::Norm1 | ReductionMode::Norm2 | ReductionMode::Amax => {
                Some(0.0)
            }
            ReductionMode::Mul | ReductionMode::MulNoZeros => Some(1.0),
            _ => None,
        },
        // Without keys. The statistics are the logarithm of an empty sum, to which a sink would add a term.
        Operation::Sdpa(sdpa) if has_no_rows(sdpa.k) && sdpa.page_table_k.is_none() => match output {
            _ if output == sdpa.o => Some(0.0),
            _ if Some(output) == sdpa.stats && sdpa.sink_token.is_none() => Some(f32::NEG_INFINITY),
            _ => None,
        },
        // Heads of size 0 still have scores and probabilities.
        Operation::SdpaBackward(sdpa) if has_no_rows(sdpa.q) || has_no_rows(sdpa.k) => Some(0.0),
        Operation::Matmul(_)
        | Operation::ConvolutionForward(_)
        | Operation::ConvolutionBackwardData(_)
        | Operation::ConvolutionBackwardFilter(_)
        | Operation::BatchnormBackward(_)
        | Operation::LayernormBackward(_)
        | Operation::RmsNormBackward(_)
        | Operation::MoeGroupedMatmulBackward(_) => Some(0.0),
        _ => None,
    }
}

fn undefined(operation: &Operation, input: i64, output: i64) -> Refusal {
    let name = |uid: i64| {
        let named = named_tensors(operation).into_iter().find(|(_, named)| *named == uid);
        named.map_or("", |(name, _)| name.trim_end_matches('_'))
    };
    let mode = match operation {
        Operation::Reduction(reduction) => format!(", as the {} of none is not", reduction.mode.name()),
        _ => String::new(),
    };
    format!(
        "{}: tensor {input} has no elements, and those of {}, tensor {output}, are not defined then{mode}",
        name(input),
        name(output)
    )
}
