//! Expands batch normalization in training into nodes for kernels.
//!
//! Channels of a large image are divided into parts: one kernel computes the mean and variance of each part,
//! which it holds in registers, a second one combines them (Chan, Golub and LeVeque 1979), and a third one
//! normalizes.

#![expect(
    clippy::indexing_slicing,
    reason = "x has at least two dimensions, and axes run below their number"
)]

use hipdnn_plugin_planner::problem::batchnorm::{Parameter, Training};
use hipdnn_plugin_sdk::graph::PointwiseMode as M;
use hipdnn_plugin_sdk::graph::operation::Batchnorm;

use crate::spelling::Spelling;

/// Smaller inputs are not divided: additional kernels would take longer.
const SMALL: i64 = 1 << 14;
/// Total number of parts that keep a device busy, with a workgroup or a few threads each.
const PARTS: i64 = 512;
const NEIGHBOURING_PARTS: i64 = 1 << 14;
/// The default weight of the new value in the running statistics.
const MOMENTUM: f64 = 0.1;

/// Writes the nodes of a training step.
pub fn spell(spelling: &mut Spelling<'_>, node: &Batchnorm, problem: &Training) {
    let (dims, strides) = (problem.x.layout.dims(), problem.x.layout.strides());
    let dims: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
    let strides: Vec<i64> = strides.iter().map(|stride| *stride as i64).collect();
    let channels: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if axis == 1 { *dim } else { 1 }).collect();
    let running = problem.running.as_ref();
    for (uid, parameter) in [
        (Some(node.scale), Some(problem.scale)),
        (Some(node.bias), Some(problem.bias)),
        (node.mean, problem.mean),
        (node.inv_variance, problem.inv_variance),
        (node.prev_running_mean, running.map(|running| running.prev_mean)),
        (node.prev_running_variance, running.map(|running| running.prev_variance)),
        (node.next_running_mean, running.map(|running| running.next_mean)),
        (node.next_running_variance, running.map(|running| running.next_variance)),
    ] {
        if let (Some(uid), Some(parameter)) = (uid, parameter) {
            spread(spelling, uid, &parameter, &channels);
        }
    }
    let (mean, variance, centered) = match parts(&dims, &strides) {
        None => {
            let [mean, variance, centered] = spelling.moments(node.x, &dims, &channels);
            (mean, variance, Some(centered))
        }
        Some(parts) => {
            let [means, variances, _] = spelling.moments(node.x, &dims, &parts);
            let within = spelling.average(variances, &channels);
            let [mean, between, _] = spelling.moments(means, &parts, &channels);
            (mean, spelling.pointwise(M::Add, within, Some(between), &channels), None)
        }
    };
    let inverse = spelling.inverse(variance, node.epsilon, &channels);
    for (from, to) in [(mean, node.mean), (inverse, node.inv_variance)] {
        if let Some(to) = to {
            spelling.pointwise_into(M::Identity, from, None, to);
        }
    }
    if running.is_some() {
        let count = dims.iter().product::<i64>() / dims[1].max(1);
        let unbiased = spelling.number(if count > 1 { count as f64 / (count - 1) as f64 } else { 1.0 });
        let unbiased = spelling.pointwise(M::Mul, variance, Some(unbiased), &channels);
        let weight = node.momentum.unwrap_or_else(|| spelling.number(MOMENTUM));
        let one = spelling.number(1.0);
        let kept = spelling.pointwise(M::Sub, one, Some(weight), &channels);
        for (new, old, next) in [
            (mean, node.prev_running_mean, node.next_running_mean),
            (unbiased, node.prev_running_variance, node.next_running_variance),
        ] {
            let (Some(old), Some(next)) = (old, next) else { continue };
            let new = spelling.pointwise(M::Mul, new, Some(weight), &channels);
            let old = spelling.pointwise(M::Mul, old, Some(kept), &channels);
            spelling.pointwise_into(M::Add, old, Some(new), next);
        }
    }
    let centered = centered.unwrap_or_else(|| spelling.pointwise(M::Sub, node.x, Some(mean), &dims));
    let normalized = spelling.pointwise(M::Mul, centered, Some(inverse), &dims);
    let scaled = spelling.pointwise(M::Mul, normalized, Some(node.scale), &dims);
    spelling.pointwise_into(M::Add, scaled, Some(node.bias), node.y);
}

/// The dims of per-part values: 1 along the dimensions that extend within a part.
fn parts(dims: &[i64], strides: &[i64]) -> Option<Vec<i64>> {
    if dims.iter().product::<i64>() <= SMALL {
        return None;
    }
    let nearest = strides.iter().zip(dims).filter(|(_, dim)| **dim > 1).map(|(stride, _)| *stride).min();
    let wanted = if nearest == Some(strides[1]) { NEIGHBOURING_PARTS } else { PARTS };
    let mut parts: Vec<i64> = vec![1; dims.len()];
    parts[1] = dims[1];
    for axis in (0..dims.len()).filter(|axis| *axis != 1) {
        if parts.iter().product::<i64>() < wanted {
            parts[axis] = dims[axis];
        }
    }
    // Neither single elements nor whole channels are useful parts.
    let count = parts.iter().product::<i64>();
    (count > dims[1] && count < dims.iter().product()).then_some(parts)
}

/// Reshapes a per-channel tensor so that it broadcasts to x: its elements may extend along any dimension.
pub(crate) fn spread(spelling: &mut Spelling<'_>, uid: i64, parameter: &Parameter, channels: &[i64]) {
    let Some(tensor) = spelling.graph.tensors.iter_mut().find(|tensor| tensor.uid == uid) else { return };
    if tensor.dims != channels {
        tensor.dims = channels.to_vec();
        tensor.strides = vec![1; channels.len()];
        tensor.strides[1] = parameter.stride as i64;
    }
}
