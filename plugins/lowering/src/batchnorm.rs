//! Expands the gradients of batch normalization into nodes: with the sums of dy and dy · x̂ of each channel,
//! dx = scale · inverse · (dy − (dbias + x̂ · dscale) / count).

use hipdnn_plugin_planner::problem::batchnorm::Backward;
use hipdnn_plugin_sdk::graph::operation::{BatchnormBackward, Reduction};
use hipdnn_plugin_sdk::graph::{PointwiseMode as M, ReductionMode};

use crate::spelling::Spelling;
use crate::training::spread;

/// What the gradient adds to a variance that it recomputes; the operation does not give it.
const EPSILON: f64 = 1e-5;

/// Writes the nodes of the gradients.
pub fn spell(spelling: &mut Spelling<'_>, node: &BatchnormBackward, problem: &Backward) {
    let dims: Vec<i64> = problem.x.layout.dims().iter().map(|dim| *dim as i64).collect();
    let channels: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if axis == 1 { *dim } else { 1 }).collect();
    let count = dims.iter().product::<i64>() / dims.get(1).copied().unwrap_or(1).max(1);
    for (uid, parameter) in [
        (Some(node.scale), Some(problem.scale)),
        (Some(node.dscale), Some(problem.dscale)),
        (Some(node.dbias), Some(problem.dbias)),
        (node.mean, problem.saved.map(|(mean, _)| mean)),
        (node.inv_variance, problem.saved.map(|(_, inverse)| inverse)),
    ] {
        if let (Some(uid), Some(parameter)) = (uid, parameter) {
            spread(spelling, uid, &parameter, &channels);
        }
    }
    let (mean, inverse) = match (node.mean, node.inv_variance) {
        (Some(mean), Some(inverse)) => (mean, inverse),
        _ => {
            let [mean, variance, _] = spelling.moments(node.x, &dims, &channels);
            let epsilon = spelling.number(EPSILON);
            (mean, spelling.inverse(variance, epsilon, &channels))
        }
    };
    let centered = spelling.pointwise(M::Sub, node.x, Some(mean), &dims);
    let normalized = spelling.pointwise(M::Mul, centered, Some(inverse), &dims);
    let product = spelling.pointwise(M::Mul, node.dy, Some(normalized), &dims);
    let sums = [product, node.dy].map(|in_| {
        let out = spelling.between(&channels);
        let sum = Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: true };
        spelling.operations.push(sum.into());
        out
    });
    let [dscale, dbias] = sums;
    spelling.pointwise_into(M::Identity, dscale, None, node.dscale);
    spelling.pointwise_into(M::Identity, dbias, None, node.dbias);
    let share = spelling.number(1.0 / count as f64);
    let [dscale, dbias] = [dscale, dbias].map(|sum| spelling.pointwise(M::Mul, sum, Some(share), &channels));
    let factor = spelling.pointwise(M::Mul, inverse, Some(node.scale), &channels);
    let along = spelling.pointwise(M::Mul, normalized, Some(dscale), &dims);
    let rest = spelling.pointwise(M::Sub, node.dy, Some(dbias), &dims);
    let rest = spelling.pointwise(M::Sub, rest, Some(along), &dims);
    spelling.pointwise_into(M::Mul, rest, Some(factor), node.dx);
}
