//! What is allowed in a graph and is seldom meant: a line of the log, once for each.

use std::collections::HashSet;

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{Graph, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{self, Layout};

use crate::graph::FrozenGraph;
use crate::lock::Mutex;
use crate::log;

/// More are not remembered, nor told.
const MOST: usize = 1024;

/// Looks at a graph that was finalized. For when the log has warnings: the graph is unpacked.
#[cold]
pub fn look_at(graph: &FrozenGraph) {
    static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let bytes = graph.require_unpacking().and_then(|()| graph.bytes(Layout::G2));
    let Some(Ok(graph)) = bytes.ok().map(wire::read) else { return };
    for hint in of_graph(&graph) {
        let is_new = {
            let mut told = TOLD.lock();
            let told = told.get_or_insert_default();
            told.len() < MOST && told.insert(hint.clone())
        };
        if is_new {
            log::warn(|| hint);
        }
    }
}

fn of_graph(graph: &Graph) -> Vec<String> {
    let negative = graph.tensors.iter().filter_map(|tensor| {
        let (place, dim) = tensor.dims.iter().enumerate().find(|(_, dim)| **dim < 1)?;
        Some(format!(
            "{}: dims[{place}] is {dim}, and no engine takes that: shapes are not inferred, each dimension is at least 1",
            named(tensor)
        ))
    });
    let biases = graph.nodes.iter().filter_map(|node| match &node.operation {
        Operation::Pointwise(add) if add.operation == PointwiseMode::Add => wrong_axis(graph, add),
        _ => None,
    });
    negative.chain(biases).collect()
}

/// A bias that has one element for each channel, and lies along another dimension which has as many.
fn wrong_axis(graph: &Graph, add: &Pointwise) -> Option<String> {
    let operands = [add.in_0, add.in_1?];
    let made_by = |uid: i64| {
        graph.nodes.iter().find_map(|node| match &node.operation {
            Operation::ConvolutionForward(convolution) if convolution.y == uid => Some(("convolution", 1)),
            Operation::Matmul(matmul) if matmul.c == uid => {
                Some(("matrix multiplication", graph.tensor(uid)?.dims.len().checked_sub(1)?))
            }
            _ => None,
        })
    };
    let place = operands.iter().position(|uid| made_by(*uid).is_some())?;
    let (result, bias) = (*operands.get(place)?, *operands.get(1 - place)?);
    let (what, channels) = made_by(result)?;
    let (result, bias) = (graph.tensor(result)?, graph.tensor(bias)?);
    // Fewer dimensions are the last ones.
    let before = result.dims.len().checked_sub(bias.dims.len())?;
    let mut long =
        bias.dims.iter().enumerate().filter(|(_, dim)| **dim != 1).map(|(at, dim)| (at + before, *dim));
    let (axis, size) = long.next().filter(|_| long.next().is_none())?;
    if axis == channels || result.dims.get(channels) != Some(&size) || result.dims.get(axis) != Some(&size) {
        return None;
    }
    let mut expected = vec![1; result.dims.len()];
    *expected.get_mut(channels)? = size;
    Some(format!(
        "{} is added to the result of a {what} along dimension {axis}; where it is meant for the {size} channels of dimension \
         {channels}, its dims are {expected:?}, not {:?}",
        named(bias),
        bias.dims
    ))
}

fn named(tensor: &Tensor) -> String {
    match tensor.name.as_str() {
        "" => format!("tensor {}", tensor.uid),
        name => format!("tensor {} {name:?}", tensor.uid),
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{DataType, Node};

    use super::*;

    fn product_with_bias(size: i64, bias: &[i64]) -> Graph {
        let tensor = |uid, dims: &[i64]| Tensor::new(uid, DataType::Float, dims, &vec![1; dims.len()]);
        let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
        let square = [1, size, 8];
        Graph {
            tensors: vec![
                tensor(1, &square),
                tensor(2, &square),
                tensor(3, &square),
                tensor(4, bias),
                tensor(5, &square),
            ],
            nodes: vec![
                node(Matmul { a: 1, b: 2, c: 3 }.into()),
                node(Pointwise { in_1: Some(4), ..Pointwise::new(PointwiseMode::Add, 3, None, 5) }.into()),
            ],
            ..Graph::default()
        }
    }

    #[test]
    fn a_bias_along_another_axis_of_the_same_length_is_told() {
        let hints = of_graph(&product_with_bias(8, &[1, 8, 1]));
        let expected = "tensor 4 is added to the result of a matrix multiplication along dimension 1; where it is meant for the 8 channels of \
                        dimension 2, its dims are [1, 1, 8], not [1, 8, 1]";
        assert_eq!(hints, [expected]);
        for (size, bias) in
            [(8, &[1, 1, 8][..]), (8, &[8]), (8, &[1]), (8, &[1, 8, 8]), (7, &[1, 7, 1]), (8, &[1, 1, 1, 8])]
        {
            assert_eq!(of_graph(&product_with_bias(size, bias)), [""; 0], "{size} {bias:?}");
        }
    }

    #[test]
    fn dimensions_below_one_are_told() {
        let hints = of_graph(&product_with_bias(-1, &[1]));
        assert_eq!(hints.len(), 4);
        assert!(hints.iter().all(|hint| hint.contains("dims[1] is -1")), "{hints:?}");
    }
}
