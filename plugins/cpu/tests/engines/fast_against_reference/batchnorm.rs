//! Batch normalization in its four variants.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance,
};
use hipdnn_plugin_sdk::graph::{DataType, TensorValue};

use super::{both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, Random};

/// The shape of a batch normalization, and of its parameters.
struct Channels {
    dims: Vec<i64>,
    parameter: Vec<i64>,
    /// Elements per channel.
    n: f64,
}

impl Channels {
    fn random(random: &mut Random) -> Self {
        let rank = random.int(2, 5) as usize;
        let most = [40, 40, 12, 9, 5][rank - 1];
        let mut dims: Vec<i64> = (0..rank).map(|_| random.int(1, most)).collect();
        dims[1] = random.int(1, 35);
        let mut parameter = vec![1; rank];
        parameter[1] = dims[1];
        if random.chance(20) {
            parameter = vec![dims[1]];
        }
        let n = dims.iter().product::<i64>() / dims[1];
        Self { dims, parameter, n: n as f64 }
    }

    /// Adds a tensor with one value per channel.
    fn parameter(&self, random: &mut Random, case: &mut Case, data_type: DataType) -> i64 {
        tensor(random, case, data_type, &self.parameter)
    }

    /// Adds and fills one.
    fn given(&self, random: &mut Random, case: &mut Case, data_type: DataType, low: f64, high: f64) -> i64 {
        let uid = self.parameter(random, case, data_type);
        fill(random, case, uid, low, high);
        uid
    }
}

/// A scalar, as a constant or in the caller's memory.
fn scalar(random: &mut Random, case: &mut Case, value: f64) -> i64 {
    if random.chance(50) {
        case.value(DataType::Float, TensorValue::Float32(value as f32))
    } else {
        let uid = case.tensor(DataType::Double, &[1, 1, 1, 1]);
        case.fill(uid, &[value]);
        uid
    }
}

/// Parameters are float, double with double tensors, or of the tensors' type.
fn parameter_type(random: &mut Random, storage: DataType) -> DataType {
    match storage {
        DataType::Double => DataType::Double,
        other => random.one_of(&[DataType::Float, DataType::Float, other]),
    }
}

#[test]
fn inference() {
    for seed in 4000..4150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [x_type, y_type] = types(random, &mut case);
        let parameter = parameter_type(random, x_type);
        let channels = Channels::random(random);
        let x = tensor(random, &mut case, x_type, &channels.dims);
        let y = tensor(random, &mut case, y_type, &channels.dims);
        fill(random, &mut case, x, -2.0, 2.0);
        let mean = channels.given(random, &mut case, parameter, -1.0, 1.0);
        let scale = channels.given(random, &mut case, parameter, -2.0, 2.0);
        let bias = channels.given(random, &mut case, parameter, -1.0, 1.0);
        let spread = channels.given(random, &mut case, parameter, 0.25, 4.0);
        if random.chance(50) {
            case.node(BatchnormInference { x, mean, inv_variance: spread, scale, bias, y });
        } else {
            let epsilon = scalar(random, &mut case, 1e-3);
            case.node(BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, y, epsilon });
        }
        let (fast, reference) = both(&case);
        // A few roundings, of terms that are at most 2 · 3 · 4 + 1.
        let bound = 16.0 * roundoff(compute(&case)).0 * 25.0;
        compare(seed, "batchnorm inference", &fast, &reference, y, |_| bound);
    }
}

#[test]
fn training() {
    for seed in 5000..5150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [x_type, y_type] = types(random, &mut case);
        let parameter = parameter_type(random, x_type);
        let channels = Channels::random(random);
        let x = tensor(random, &mut case, x_type, &channels.dims);
        let y = tensor(random, &mut case, y_type, &channels.dims);
        let offset = random.real(-1.0, 1.0);
        fill(random, &mut case, x, offset - 2.0, offset + 2.0);
        let scale = channels.given(random, &mut case, parameter, -2.0, 2.0);
        let bias = channels.given(random, &mut case, parameter, -1.0, 1.0);
        let epsilon = scalar(random, &mut case, 1e-2);
        let mut results = vec![y];
        let mut output = |random: &mut Random, case: &mut Case, percent| {
            random.chance(percent).then(|| {
                let uid = channels.parameter(random, case, parameter);
                results.push(uid);
                uid
            })
        };
        let mean = output(random, &mut case, 70);
        let inv_variance = output(random, &mut case, 70);
        let running = if random.chance(70) { 100 } else { 0 };
        let next_running_mean = output(random, &mut case, running);
        let next_running_variance = output(random, &mut case, running);
        let before = |random: &mut Random, case: &mut Case, low| {
            (running > 0).then(|| channels.given(random, case, parameter, low, 1.0))
        };
        let prev_running_mean = before(random, &mut case, -1.0);
        let prev_running_variance = before(random, &mut case, 0.1);
        let momentum = (running > 0 && random.chance(70)).then(|| scalar(random, &mut case, 0.3));
        case.node(Batchnorm {
            x,
            scale,
            bias,
            epsilon,
            y,
            prev_running_mean,
            prev_running_variance,
            momentum,
            mean,
            inv_variance,
            next_running_mean,
            next_running_variance,
            peer_stats: vec![],
        });
        let (fast, reference) = both(&case);
        // The mean of n elements of magnitude at most 3 has an error of n · eps · 3, the variance one of n ·
        // eps · 9, and 1/√(variance + ε) half of that relative to its square: at most 1/ε = 100, times
        // itself, at most 10. y has |scale| · |x - mean| ≤ 12 of it.
        let eps = roundoff(compute(&case)).0;
        let spread = reference_spread(&case, x, channels.dims[1] as usize);
        for uid in results {
            let bound = |inv: f64| {
                let variance = (channels.n + 8.0) * eps * 9.0;
                let inv_error = 0.5 * variance * inv.powi(3) + 4.0 * eps * inv;
                if uid == y {
                    12.0 * inv_error + 6.0 * variance * inv + 8.0 * eps
                } else {
                    variance + inv_error
                }
            };
            compare(seed, "batchnorm training", &fast, &reference, uid, |at| {
                let of = if uid == y { channel_of(&channels.dims, at) } else { at };
                bound(1.0 / (spread[of] + 1e-2).sqrt())
            });
        }
    }
}

/// The channel of an element with this index.
fn channel_of(dims: &[i64], at: usize) -> usize {
    let inner: i64 = dims[2..].iter().product();
    (at / inner as usize) % dims[1] as usize
}

/// The biased variance of each channel.
fn reference_spread(case: &Case, x: i64, channels: usize) -> Vec<f64> {
    let dims = &case.graph.tensor(x).unwrap().dims;
    let mut sums = vec![(0.0, 0.0, 0.0); channels];
    for (at, value) in case.values(x).into_iter().enumerate() {
        let (n, sum, squares) = &mut sums[channel_of(dims, at)];
        (*n, *sum, *squares) = (*n + 1.0, *sum + value, *squares + value * value);
    }
    sums.into_iter().map(|(n, sum, squares)| (squares / n - (sum / n) * (sum / n)).max(0.0)).collect()
}

#[test]
fn backward() {
    for seed in 6000..6150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [dy_type, x_type, dx_type] = types(random, &mut case);
        let parameter = parameter_type(random, x_type);
        let mut channels = Channels::random(random);
        // Channels of one or two elements may have no variance; 1/√(variance + 1e-5) then amplifies rounding.
        channels.dims[0] = channels.dims[0].max(8);
        let n = (channels.dims.iter().product::<i64>() / channels.dims[1]) as f64;
        let dy = tensor(random, &mut case, dy_type, &channels.dims);
        let x = tensor(random, &mut case, x_type, &channels.dims);
        let dx = tensor(random, &mut case, dx_type, &channels.dims);
        fill(random, &mut case, dy, -1.0, 1.0);
        fill(random, &mut case, x, -2.0, 2.0);
        let scale = channels.given(random, &mut case, parameter, -2.0, 2.0);
        let saved = random.chance(60);
        let statistic = |random: &mut Random, case: &mut Case, low, high| {
            saved.then(|| channels.given(random, case, parameter, low, high))
        };
        let mean = statistic(random, &mut case, -0.5, 0.5);
        let inv_variance = statistic(random, &mut case, 0.5, 2.0);
        let dscale = channels.parameter(random, &mut case, parameter);
        let dbias = channels.parameter(random, &mut case, parameter);
        case.node(BatchnormBackward {
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
        let (fast, reference) = both(&case);
        let eps = roundoff(compute(&case)).0;
        let spread = reference_spread(&case, x, channels.dims[1] as usize);
        for uid in [dx, dscale, dbias] {
            compare(seed, "batchnorm backward", &fast, &reference, uid, |at| {
                let of = if uid == dx { channel_of(&channels.dims, at) } else { at };
                let inv = if saved { 2.0 } else { 1.0 / (spread[of] + 1e-5).sqrt() };
                // xhat is at most 4 · inv and, without saved statistics, has the error of mean and variance;
                // a sum of n products with dy has a relative error of n · eps and n times that of xhat.
                let xhat = 4.0 * inv;
                let xhat_error = (n + 8.0) * eps * (9.0 * inv.powi(3) * 4.0 + 3.0 * inv + xhat);
                let sum_error = n * xhat_error + (n + 8.0) * eps * n * xhat;
                let mean_error = sum_error / n;
                if uid == dx {
                    2.0 * inv
                        * (mean_error * (1.0 + xhat) + xhat_error * xhat + 16.0 * eps * (1.0 + xhat * xhat))
                } else {
                    sum_error
                }
            });
        }
    }
}
