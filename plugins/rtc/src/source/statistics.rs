//! Gradients of a layernorm whose statistics were not kept: the statistics as nodes of their own, before it.

use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::normalization::{Normalization, Statistics};
use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, ReductionMode, Tensor};

/// A node as nodes that have their statistics; none where it has them itself. The tensors between them become part of the graph.
pub fn spelled_out(graph: &mut Graph, node: &Node, problem: &Problem) -> Option<Vec<Node>> {
    let Operation::LayernormBackward(gradient) = &node.operation else { return None };
    let Problem::Normalization(Normalization::Backward(problem)) = problem else { return None };
    let epsilon = gradient.epsilon?;
    if matches!(problem.statistics, Statistics::Saved { .. }) {
        return None;
    }
    let dims = graph.tensor(gradient.x).map(|x| x.dims.clone()).unwrap_or_default();
    let rows: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if axis < problem.leading { *dim } else { 1 }).collect();
    let data_type = if node.compute_type == DataType::Double { DataType::Double } else { DataType::Float };
    let mut between = |dims: &[i64]| {
        let uid = unused(graph);
        let mut tensor = Tensor::new(uid, data_type, dims, &strides(dims));
        tensor.is_virtual = true;
        graph.tensors.push(tensor);
        uid
    };
    let [mean, variance, spread, inverse] = [(); 4].map(|()| between(&rows));
    let [centered, square] = [(); 2].map(|()| between(&dims));
    let average = |in_, out| Reduction { in_, out, mode: ReductionMode::Avg, is_deterministic: true };
    let operations: [Operation; 7] = [
        average(gradient.x, mean).into(),
        Pointwise::new(PointwiseMode::Sub, gradient.x, Some(mean), centered).into(),
        Pointwise::new(PointwiseMode::Mul, centered, Some(centered), square).into(),
        average(square, variance).into(),
        Pointwise::new(PointwiseMode::Add, variance, Some(epsilon), spread).into(),
        Pointwise::new(PointwiseMode::Rsqrt, spread, None, inverse).into(),
        Operation::LayernormBackward({
            let mut gradient = gradient.clone();
            (gradient.mean, gradient.inv_variance, gradient.epsilon) = (Some(mean), Some(inverse), None);
            gradient
        }),
    ];
    let of = |operation| Node { name: node.name.clone(), compute_type: node.compute_type, operation };
    Some(operations.map(of).into())
}

/// The smallest number that is no tensor's.
fn unused(graph: &Graph) -> i64 {
    let mut uids: Vec<i64> = graph.tensors.iter().map(|tensor| tensor.uid).filter(|uid| *uid >= 0).collect();
    uids.sort_unstable();
    // There are fewer tensors than numbers, so that one is free.
    uids.iter()
        .zip(0..)
        .find(|(uid, number)| **uid != *number)
        .map_or(uids.len() as i64, |(_, number)| number)
}

/// The strides of dims without gaps.
fn strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    let mut next = 1;
    for (stride, dim) in strides.iter_mut().zip(dims).rev() {
        *stride = next;
        next *= dim;
    }
    strides
}
