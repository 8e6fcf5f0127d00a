//! Hints in the log about graphs that are valid but probably mistaken, each logged once.

use std::collections::HashSet;

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{self, Layout};

use crate::graph::FrozenGraph;
use crate::lock::Mutex;
use crate::log;

/// Further hints are neither remembered nor logged.
const MOST: usize = 1024;

/// The hints already logged.
pub static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Checks a finalized graph. Call only if warnings are logged, since it unpacks the graph.
#[cold]
pub fn look_at(graph: &FrozenGraph) {
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
        let (place, dim) = tensor.dims.iter().enumerate().find(|(_, dim)| **dim < 0)?;
        Some(format!(
            "{}: dims[{place}] is {dim}, and no engine takes that: shapes are not inferred, no dimension is below 0",
            named(tensor)
        ))
    });
    let biases = graph.nodes.iter().filter_map(|node| match &node.operation {
        Operation::Pointwise(add) if add.operation == PointwiseMode::Add => wrong_axis(graph, add),
        _ => None,
    });
    let statistics = graph.nodes.iter().flat_map(|node| other_types(graph, &node.operation));
    negative.chain(biases).chain(statistics).collect()
}

/// Reports a batch normalization's per-channel tensors whose type differs from scale.
fn other_types(graph: &Graph, operation: &Operation) -> Vec<String> {
    let (scale, others) = match operation {
        Operation::Batchnorm(b) => (
            b.scale,
            [
                ("mean", b.mean),
                ("inv_variance", b.inv_variance),
                ("next_running_mean", b.next_running_mean),
                ("next_running_variance", b.next_running_variance),
            ],
        ),
        Operation::BatchnormBackward(b) => (
            b.scale,
            [
                ("dscale", Some(b.dscale)),
                ("dbias", Some(b.dbias)),
                ("mean", b.mean),
                ("inv_variance", b.inv_variance),
            ],
        ),
        _ => return Vec::new(),
    };
    let type_of = |tensor: &Tensor| match tensor.data_type {
        DataType::Unset => graph.io_type,
        given => given,
    };
    let Some(scale) = graph.tensor(scale) else { return Vec::new() };
    let differs = |(name, uid): (&str, Option<i64>)| {
        let tensor = graph.tensor(uid?).filter(|tensor| type_of(tensor) != type_of(scale))?;
        Some(format!(
            "{} is {name} of a batch normalization in {}, and its scale is {}: where the memory that is bound has the type of scale, give \
             the tensor that type",
            named(tensor),
            type_of(tensor).name(),
            type_of(scale).name()
        ))
    };
    others.into_iter().filter_map(differs).collect()
}

/// Reports a bias with one element per channel that lies along another dimension of the same length.
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
    // A tensor of lower rank has the trailing dimensions.
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
    use hipdnn_plugin_sdk::graph::Node;
    use hipdnn_plugin_sdk::graph::operation::Batchnorm;
    use hipdnn_plugin_sdk::graph::operation::Matmul;

    use super::*;

    fn product_with_bias(size: i64, bias: &[i64]) -> Graph {
        let tensor = |uid, dims: &[i64]| Tensor::new(uid, DataType::Float, dims, &vec![1; dims.len()]);
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
                Node::single(Matmul { a: 1, b: 2, c: 3 }),
                Node::single(Pointwise { in_1: Some(4), ..Pointwise::new(PointwiseMode::Add, 3, None, 5) }),
            ],
            ..Graph::default()
        }
    }

    #[test]
    fn statistics_of_another_type_than_scale_are_reported() {
        let channel = |uid, data_type| Tensor::new(uid, data_type, &[1, 4, 1, 1], &[4, 1, 1, 1]);
        let training = Batchnorm { mean: Some(6), inv_variance: Some(7), ..Batchnorm::new(1, 2, 3, 4, 5) };
        let mut graph = Graph {
            io_type: DataType::Half,
            tensors: vec![
                channel(2, DataType::Float),
                channel(6, DataType::Unset),
                channel(7, DataType::Float),
            ],
            nodes: vec![Node::single(training)],
            ..Graph::default()
        };
        let expected = "tensor 6 is mean of a batch normalization in half, and its scale is float: where the memory that is bound has the \
                        type of scale, give the tensor that type";
        assert_eq!(of_graph(&graph), [expected]);
        for tensor in &mut graph.tensors {
            tensor.data_type = DataType::Half;
        }
        assert!(of_graph(&graph).is_empty());
    }

    #[test]
    fn a_bias_along_another_axis_of_the_same_length_is_reported() {
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
    fn dimensions_below_zero_are_reported() {
        let hints = of_graph(&product_with_bias(-1, &[1]));
        assert_eq!(hints.len(), 4);
        assert!(hints.iter().all(|hint| hint.contains("dims[1] is -1")), "{hints:?}");
    }
}
