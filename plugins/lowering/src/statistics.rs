//! Expands nodes whose statistics or sums must be computed first: layernorm gradients without saved statistics, batch normalization
//! in training, and its gradients.

use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::batchnorm::Batchnorm;
use hipdnn_plugin_planner::problem::normalization::{Backward, Normalization, Statistics};
use hipdnn_plugin_sdk::graph::operation::LayernormBackward;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation};

use crate::spelling::Spelling;
use crate::{batchnorm, training};

/// The nodes that replace a node, with its statistics computed first; none if it needs no replacement.
/// Intermediate tensors are added to the graph.
pub fn spelled_out(graph: &mut Graph, node: &Node, problem: &Problem) -> Option<Vec<Node>> {
    let data_type = if node.compute_type == DataType::Double { DataType::Double } else { DataType::Float };
    let mut spelling = Spelling { graph, data_type, operations: Vec::new() };
    match (&node.operation, problem) {
        (
            Operation::LayernormBackward(gradient),
            Problem::Normalization(Normalization::Backward(problem)),
        ) => layernorm_gradient(&mut spelling, gradient, problem)?,
        (Operation::Batchnorm(normalization), Problem::Batchnorm(problem)) => {
            let Batchnorm::Training(problem) = &**problem else { return None };
            training::spell(&mut spelling, normalization, problem);
        }
        (Operation::BatchnormBackward(gradient), Problem::Batchnorm(problem)) => {
            let Batchnorm::Backward(problem) = &**problem else { return None };
            batchnorm::spell(&mut spelling, gradient, problem);
        }
        _ => return None,
    }
    let of = |operation| Node { name: node.name.clone(), compute_type: node.compute_type, operation };
    Some(spelling.operations.into_iter().map(of).collect())
}

fn layernorm_gradient(
    spelling: &mut Spelling<'_>,
    gradient: &LayernormBackward,
    problem: &Backward,
) -> Option<()> {
    let epsilon = gradient.epsilon?;
    if matches!(problem.statistics, Statistics::Saved { .. }) {
        return None;
    }
    let dims = spelling.graph.tensor(gradient.x).map(|x| x.dims.clone()).unwrap_or_default();
    let rows: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if axis < problem.leading { *dim } else { 1 }).collect();
    let [mean, variance, _] = spelling.moments(gradient.x, &dims, &rows);
    let inverse = spelling.inverse(variance, epsilon, &rows);
    let mut gradient = gradient.clone();
    (gradient.mean, gradient.inv_variance, gradient.epsilon) = (Some(mean), Some(inverse), None);
    spelling.operations.push(gradient.into());
    Some(())
}
