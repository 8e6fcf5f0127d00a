//! Gradients of batch, layer and RMS normalization: with statistics saved by the forward pass, and with
//! recomputed ones.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, Layernorm, LayernormBackward, RmsNorm, RmsNormBackward,
};
use hipdnn_plugin_sdk::graph::{NormFwdPhase, TensorValue};

use super::{Check, DOUBLE};

/// Added to variances; the batch normalization's backward operation adds this if nothing was saved.
const EPSILON: f64 = 1e-5;
const OF_ROWS: f64 = 1e-3;

fn batchnorm(seed: u64, dims: &[i64], saved: bool) {
    let mut check = Check::new(seed);
    let mut parameter = vec![1; dims.len()];
    parameter[1] = dims[1];
    let x = check.given(dims, -1.0, 1.0);
    let [scale, bias] = [(0.5, 1.5), (-1.0, 1.0)].map(|(low, high)| check.given(&parameter, low, high));
    let epsilon = check.case.value(DOUBLE, TensorValue::Float64(EPSILON));
    let y = check.tensor(dims);
    let [mean, inv_variance] = [(); 2].map(|()| saved.then(|| check.tensor(&parameter)));
    let dy = check.weights(y);
    let [dx, dscale, dbias] = [x, scale, bias].map(|of| check.gradient(of));
    check.forward(Batchnorm { mean, inv_variance, ..Batchnorm::new(x, scale, bias, epsilon, y) });
    check.backward(BatchnormBackward {
        dy,
        x,
        scale,
        dx,
        dscale,
        dbias,
        mean,
        inv_variance,
        peer_stats: vec![],
    });
    check.holds(1e-6);
}

#[test]
fn of_batchnorm() {
    let dims: [&[i64]; 6] =
        [&[5, 3], &[4, 3, 4], &[2, 3, 3, 3], &[2, 17, 2, 2], &[2, 2, 2, 3, 2], &[3, 2, 5, 7]];
    for (number, dims) in (0..).zip(dims) {
        for seed in 0..6 {
            batchnorm(100 + 10 * number + seed, dims, seed % 2 == 0);
        }
    }
}

/// The dims of the parameters and of the statistics if the last `count` dimensions are normalized.
fn spread(dims: &[i64], count: usize) -> [Vec<i64>; 2] {
    let (mut places, mut rows) = (dims.to_vec(), dims.to_vec());
    places[..dims.len() - count].fill(1);
    rows[dims.len() - count..].fill(1);
    [places, rows]
}

fn layernorm(seed: u64, dims: &[i64], count: usize, saved: bool) {
    let mut check = Check::new(seed);
    let [places, rows] = spread(dims, count);
    let x = check.given(dims, -1.0, 1.0);
    let [scale, bias] = [(0.5, 1.5), (-1.0, 1.0)].map(|(low, high)| check.given(&places, low, high));
    let epsilon = check.case.value(DOUBLE, TensorValue::Float64(OF_ROWS));
    let y = check.tensor(dims);
    let [mean, inv_variance] = [(); 2].map(|()| saved.then(|| check.tensor(&rows)));
    let dy = check.weights(y);
    let [dx, dscale, dbias] = [x, scale, bias].map(|of| check.gradient(of));
    let (forward_phase, normalized_dim_count) = (NormFwdPhase::Training, count as i64);
    check.forward(Layernorm {
        x,
        scale,
        bias,
        epsilon,
        y,
        mean,
        inv_variance,
        forward_phase,
        normalized_dim_count,
    });
    check.backward(LayernormBackward {
        dy,
        x,
        scale,
        mean,
        inv_variance,
        epsilon: (!saved).then_some(epsilon),
        dx,
        dscale,
        dbias,
        normalized_dim_count,
    });
    check.holds(1e-6);
}

#[test]
fn of_layernorm() {
    let shapes: [(&[i64], usize); 6] =
        [(&[3, 4], 1), (&[2, 3], 2), (&[2, 3, 4], 1), (&[2, 3, 4], 2), (&[2, 2, 3, 3], 2), (&[3, 37], 1)];
    for (number, (dims, count)) in (0..).zip(shapes) {
        for seed in 0..6 {
            layernorm(200 + 10 * number + seed, dims, count, seed % 2 == 0);
        }
    }
}

fn rms_norm(seed: u64, dims: &[i64], count: usize, with_bias: bool) {
    let mut check = Check::new(seed);
    let [places, rows] = spread(dims, count);
    let x = check.given(dims, -1.0, 1.0);
    let scale = check.given(&places, 0.5, 1.5);
    let bias = with_bias.then(|| check.given(&places, -1.0, 1.0));
    let epsilon = check.case.value(DOUBLE, TensorValue::Float64(OF_ROWS));
    let [y, inv_rms] = [dims, &rows].map(|dims| check.tensor(dims));
    let dy = check.weights(y);
    let [dx, dscale] = [x, scale].map(|of| check.gradient(of));
    let dbias = bias.map(|bias| check.gradient(bias));
    let (inv_rms, forward_phase) = (Some(inv_rms), NormFwdPhase::Training);
    check.forward(RmsNorm { x, scale, epsilon, y, bias, inv_rms, forward_phase });
    check.backward(RmsNormBackward { dy, x, scale, inv_rms, dx, dscale, dbias });
    check.holds(1e-6);
}

#[test]
fn of_rms_norm() {
    let shapes: [(&[i64], usize); 5] =
        [(&[3, 4], 1), (&[2, 3, 4], 1), (&[2, 3, 2, 2], 3), (&[3, 2, 5], 2), (&[3, 37], 1)];
    for (number, (dims, count)) in (0..).zip(shapes) {
        for seed in 0..6 {
            rms_norm(300 + 10 * number + seed, dims, count, seed % 2 == 0);
        }
    }
}
