//! CPU_ENGINE against CPU_REFERENCE_ENGINE on random problems.
//!
//! Every run computes the same problems. A failure prints the seed of its problem; `Random(seed)` makes it again.
//!
//! # Tolerances
//! Both engines round each product and sum to the compute type, in different orders, and the result once to the storage type.
//! A sum of k terms t, in whatever order, is off by at most k · eps · Σ|t|, with eps the unit roundoff of the compute type (2⁻²⁴
//! or 2⁻⁵³). So two engines differ by at most 2 · k · eps · Σ|t|, where Σ|t| is what the reference computes from the operands'
//! magnitudes. Rounding to storage then moves each by half a unit in the last place, together 2 · u · |result| with u = 2⁻²⁴ for float,
//! 2⁻⁵³ for double, 2⁻¹¹ for half, 2⁻⁸ for bfloat16, and by the smallest subnormal where the result is that small.

use hipdnn_cpu_plugin::plugin::chooser;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance, ConvolutionBackwardData,
    ConvolutionBackwardFilter, ConvolutionForward, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode, TensorValue};

use super::common::{Case, Memory, Random, strides};

/// The places of the engines among the plugin's.
const FAST: usize = 0;
const REFERENCE: usize = 1;

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];

/// Unit roundoff of a storage or compute type, and its smallest subnormal.
fn roundoff(data_type: DataType) -> (f64, f64) {
    match data_type {
        DataType::Double => (2.0_f64.powi(-53), f64::MIN_POSITIVE),
        DataType::Half => (2.0_f64.powi(-11), 2.0_f64.powi(-24)),
        DataType::Bfloat16 => (2.0_f64.powi(-8), 2.0_f64.powi(-133)),
        _ => (2.0_f64.powi(-24), 2.0_f64.powi(-149)),
    }
}

/// Compares one element; `bound` is how far the engines may be apart before the result is rounded to `storage`.
fn close(fast: f64, reference: f64, storage: DataType, bound: f64) -> bool {
    if fast.is_nan() || reference.is_nan() {
        return fast.is_nan() && reference.is_nan();
    }
    if fast == reference {
        return true;
    }
    let (unit, smallest) = roundoff(storage);
    (fast - reference).abs() <= bound + 2.0 * unit * reference.abs().max(fast.abs()) + smallest
}

fn compare(seed: u64, what: &str, fast: &Case, reference: &Case, uid: i64, bound: impl Fn(usize) -> f64) {
    let tensor = fast.graph.tensor(uid).unwrap();
    let (got, expected) = (fast.values(uid), reference.values(uid));
    for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert!(
            close(*got, *expected, tensor.data_type, bound(at)),
            "seed {seed}: {what}: tensor {uid} element {at} is {got}, expected {expected} ± {}\n{:#?}",
            bound(at),
            fast.graph
        );
    }
}

/// A tensor in one of the usual layouts or any other, now and then with gaps or at an odd address.
fn tensor(random: &mut Random, case: &mut Case, data_type: DataType, dims: &[i64]) -> i64 {
    let rank = dims.len();
    let mut order: Vec<usize> = (0..rank).collect();
    match random.int(0, 2) {
        0 => {}
        1 if rank > 2 => {
            order.remove(1);
            order.push(1);
        }
        _ => (1..rank).rev().for_each(|i| order.swap(i, random.int(0, i as i64) as usize)),
    }
    let gaps: Vec<i64> = if random.chance(20) {
        dims.iter().map(|dim| dim + random.int(0, 2)).collect()
    } else {
        dims.to_vec()
    };
    let mut steps = strides(&gaps, &order);
    if random.chance(10) {
        steps.iter_mut().for_each(|step| *step *= 2);
    }
    let uid = case.tensor_with(data_type, dims, &steps);
    if random.chance(10) {
        let tensor = case.memory(uid).tensor.clone();
        *case.memory(uid) = Memory::new(&tensor, random.int(1, 9) as usize);
    }
    uid
}

fn fill(random: &mut Random, case: &mut Case, uid: i64, low: f64, high: f64) {
    case.memory(uid).fill(|| random.real(low, high));
}

/// Runs the same problem on both engines.
fn both(case: &Case) -> (Case, Case) {
    let (mut fast, mut reference) = (case.clone(), case.clone());
    fast.run(chooser(FAST));
    reference.run(chooser(REFERENCE));
    (fast, reference)
}

/// The types of a problem: mostly one storage type, now and then a mixture.
fn types<const N: usize>(random: &mut Random, case: &mut Case) -> [DataType; N] {
    let one = random.one_of(&FLOATS);
    case.graph.compute_type = if one == DataType::Double || random.chance(10) {
        DataType::Double
    } else {
        random.one_of(&[DataType::Float, one])
    };
    let mixed = random.chance(15);
    std::array::from_fn(|_| if mixed { random.one_of(&FLOATS) } else { one })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Forward,
    Data,
    Filter,
}

struct ConvolutionShape {
    x: Vec<i64>,
    w: Vec<i64>,
    y: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    mode: ConvMode,
}

impl ConvolutionShape {
    /// A shape with up to about a million products.
    fn random(random: &mut Random) -> Self {
        loop {
            let spatial = random.one_of(&[1, 2, 2, 2, 2, 3]);
            let (groups, c, k) = match random.int(0, 4) {
                0 => (random.int(1, 20), 1, random.int(1, 2)),
                1 => (random.int(1, 4), random.int(1, 9), random.int(1, 9)),
                _ => (1, random.int(1, 33), random.int(1, 33)),
            };
            let n = random.int(1, 3);
            let mut shape = Self {
                x: vec![n, groups * c],
                w: vec![groups * k, c],
                y: vec![n, groups * k],
                pre: vec![],
                post: vec![],
                stride: vec![],
                dilation: vec![],
                mode: random.one_of(&[ConvMode::Convolution, ConvMode::CrossCorrelation]),
            };
            let mut products = n * groups * c * k;
            let largest = [40, 15, 7][spatial - 1];
            // Most networks use windows of 1 or 3 with their own padding; the rest is anything.
            let usual = random.chance(50).then(|| random.one_of(&[1, 3]));
            let mut possible = true;
            for _ in 0..spatial {
                let input = random.int(1, largest);
                let window = usual.unwrap_or_else(|| random.int(1, 5));
                let (pre, post, stride, dilation) = match usual {
                    Some(window) => (window / 2, window / 2, random.one_of(&[1, 1, 2]), 1),
                    None => (random.int(0, 4), random.int(0, 4), random.int(1, 4), random.int(1, 3)),
                };
                let room = input + pre + post - dilation * (window - 1) - 1;
                possible &= room >= 0;
                let output = room.max(0) / stride + 1;
                products *= output * window;
                shape.x.push(input);
                shape.w.push(window);
                shape.y.push(output);
                shape.pre.push(pre);
                shape.post.push(post);
                shape.stride.push(stride);
                shape.dilation.push(dilation);
            }
            if possible && products <= 1_000_000 {
                return shape;
            }
        }
    }

    /// Adds the node; gives the two operands, the result, and the number of terms of each of its sums.
    fn node(
        &self,
        random: &mut Random,
        case: &mut Case,
        types: [DataType; 3],
        direction: Direction,
    ) -> ([i64; 2], i64, f64) {
        let [x, w, y] = [(0, &self.x), (1, &self.w), (2, &self.y)]
            .map(|(at, dims)| tensor(random, case, types[at], dims));
        let (pre_padding, post_padding) = (self.pre.clone(), self.post.clone());
        let (stride, dilation, conv_mode) = (self.stride.clone(), self.dilation.clone(), self.mode);
        let volume = |dims: &[i64]| dims.iter().product::<i64>() as f64;
        let groups = self.x[1] / self.w[1];
        match direction {
            Direction::Forward => {
                case.node(ConvolutionForward {
                    x,
                    w,
                    y,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                });
                ([x, w], y, volume(&self.w[1..]))
            }
            Direction::Data => {
                case.node(ConvolutionBackwardData {
                    dy: y,
                    w,
                    dx: x,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                });
                ([y, w], x, volume(&self.w[2..]) * (self.w[0] / groups) as f64)
            }
            Direction::Filter => {
                case.node(ConvolutionBackwardFilter {
                    x,
                    dy: y,
                    dw: w,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                });
                ([x, y], w, volume(&self.y[2..]) * self.y[0] as f64)
            }
        }
    }
}

fn convolution(seed: u64, direction: Direction) {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let types = types(random, &mut case);
    let shape = ConvolutionShape::random(random);
    let (operands, result, terms) = shape.node(random, &mut case, types, direction);
    for uid in operands {
        fill(random, &mut case, uid, -1.0, 1.0);
    }
    let (fast, reference) = both(&case);

    // Σ|t|, as the reference computes it in double precision from the operands' magnitudes.
    let mut sizes = Case::new();
    sizes.graph.compute_type = DataType::Double;
    let ([a, b], total, _) = shape.node(&mut Random(seed), &mut sizes, [DataType::Double; 3], direction);
    for (to, from) in [(a, operands[0]), (b, operands[1])] {
        let magnitudes: Vec<f64> = case.values(from).iter().map(|value| value.abs()).collect();
        sizes.fill(to, &magnitudes);
    }
    sizes.run(chooser(REFERENCE));
    let sums = sizes.values(total);
    let (eps, _) = roundoff(compute(&case));
    compare(seed, "convolution", &fast, &reference, result, |at| 2.0 * terms * eps * sums[at]);
}

/// The type that the graph's compute type stands for.
fn compute(case: &Case) -> DataType {
    if case.graph.compute_type == DataType::Double { DataType::Double } else { DataType::Float }
}

#[test]
fn convolution_forward() {
    (0..150).for_each(|seed| convolution(1000 + seed, Direction::Forward));
}

#[test]
fn convolution_backward_data() {
    (0..150).for_each(|seed| convolution(2000 + seed, Direction::Data));
}

#[test]
fn convolution_backward_filter() {
    (0..150).for_each(|seed| convolution(3000 + seed, Direction::Filter));
}

/// What a batch normalization is made of: a shape, and parameters of the shapes that are allowed.
struct Channels {
    dims: Vec<i64>,
    parameter: Vec<i64>,
    /// Elements of one channel.
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

    /// Adds a tensor with a number for each channel.
    fn parameter(&self, random: &mut Random, case: &mut Case, data_type: DataType) -> i64 {
        tensor(random, case, data_type, &self.parameter)
    }

    /// Adds one and fills it.
    fn given(&self, random: &mut Random, case: &mut Case, data_type: DataType, low: f64, high: f64) -> i64 {
        let uid = self.parameter(random, case, data_type);
        fill(random, case, uid, low, high);
        uid
    }
}

/// A scalar, in the graph or in the caller's memory.
fn scalar(random: &mut Random, case: &mut Case, value: f64) -> i64 {
    if random.chance(50) {
        case.value(DataType::Float, TensorValue::Float32(value as f32))
    } else {
        let uid = case.tensor(DataType::Double, &[1, 1, 1, 1]);
        case.fill(uid, &[value]);
        uid
    }
}

/// Parameters are float, or double with double tensors, or of the tensors' own type.
fn parameter_type(random: &mut Random, storage: DataType) -> DataType {
    match storage {
        DataType::Double => DataType::Double,
        other => random.one_of(&[DataType::Float, DataType::Float, other]),
    }
}

#[test]
fn batchnorm_inference() {
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
        // A handful of roundings, of terms that are at most 2 · 3 · 4 + 1.
        let bound = 16.0 * roundoff(compute(&case)).0 * 25.0;
        compare(seed, "batchnorm inference", &fast, &reference, y, |_| bound);
    }
}

#[test]
fn batchnorm_training() {
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
        // The mean of n elements of magnitude at most 3 is off by n · eps · 3, the variance by as much of 9, and 1/√(variance + ε)
        // by half of that over its own square: at most 1/ε = 100, times itself, at most 10. y has |scale| · |x - mean| ≤ 12 of it.
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

/// The channel of an element by its place in the order of the indices.
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
fn batchnorm_backward() {
    for seed in 6000..6150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [dy_type, x_type, dx_type] = types(random, &mut case);
        let parameter = parameter_type(random, x_type);
        let mut channels = Channels::random(random);
        // Channels of one or two elements can have no spread, and then 1/√(variance + 1e-5) makes noise of any rounding.
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
                // xhat is at most 4 · inv and, without saved statistics, off by the error of mean and variance; a sum of n
                // products with dy by n · eps of itself and n times that.
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

/// How far two engines may be apart in a mode.
fn pointwise_bound(mode: PointwiseMode, eps: f64, operands: [f64; 3], result: f64, parameters: f64) -> f64 {
    use PointwiseMode as M;
    let [x, y, _] = operands.map(f64::abs);
    match mode {
        // One rounding of an exact result, or none.
        M::Abs
        | M::Neg
        | M::Identity
        | M::Ceil
        | M::Floor
        | M::Max
        | M::Min
        | M::BinarySelect
        | M::GenIndex => 0.0,
        M::Add | M::Sub | M::Mul | M::Div | M::Sqrt | M::Reciprocal => 0.0,
        mode if mode.name().starts_with("cmp") || mode.name().starts_with("logical") => 0.0,
        // With or without the rounding of the square in between.
        M::AddSquare => 2.0 * eps * (x + y * y),
        M::ReluFwd | M::ReluBwd => 4.0 * eps * parameters * (1.0 + x),
        M::Rsqrt => 4.0 * eps * result.abs(),
        // The functions are good to some units in the last place; where they end in a difference from 1, of 1.
        mode if mode.is_backward() => 32.0 * eps * x * (1.0 + y * y) * parameters,
        _ => 32.0 * eps * (result.abs() + 1.0) * (1.0 + x.min(30.0)) * parameters,
    }
}

fn pointwise(seed: u64, mode: PointwiseMode) {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let [a, b, c, out] = types(random, &mut case);
    let integer = random.chance(15);
    let numbers = [DataType::Int8, DataType::Uint8, DataType::Int32, DataType::Int64, DataType::Boolean];
    let out = if integer { random.one_of(&numbers) } else { out };
    let rank = random.int(1, 5) as usize;
    let most = [900, 50, 12, 7, 5][rank - 1];
    let dims: Vec<i64> = (0..rank).map(|_| random.int(1, most)).collect();
    let mut inputs = Vec::new();
    for data_type in [a, b, c].into_iter().take(mode.operands()) {
        let data_type = if integer { random.one_of(&numbers) } else { data_type };
        let mut shape = dims.clone();
        if random.chance(40) {
            shape.iter_mut().for_each(|dim| *dim = if random.chance(50) { 1 } else { *dim });
            shape.drain(..random.int(0, rank as i64 - 1) as usize);
        }
        let uid = tensor(random, &mut case, data_type, &shape);
        let wide = random.chance(20);
        case.memory(uid).fill(|| match random.int(0, 39) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => 0.0,
            5 => random.int(-3, 3) as f64,
            _ if integer => random.int(-9, 9) as f64,
            _ if wide => random.real(-60.0, 60.0),
            _ => random.real(-4.0, 4.0),
        });
        inputs.push(uid);
    }
    let out_0 = tensor(random, &mut case, out, &dims);
    let mut parameter = |low, high| random.chance(50).then(|| random.real(low, high) as f32);
    let operation = Pointwise {
        in_0: inputs[0],
        out_0,
        in_1: inputs.get(1).copied(),
        in_2: inputs.get(2).copied(),
        axis: None,
        operation: mode,
        relu_lower_clip: parameter(-1.0, 1.0),
        relu_upper_clip: parameter(1.0, 3.0),
        relu_lower_clip_slope: parameter(0.0, 0.5),
        swish_beta: parameter(0.5, 2.0),
        elu_alpha: parameter(0.5, 2.0),
        softplus_beta: parameter(0.5, 2.0),
    };
    let axis = (mode == PointwiseMode::GenIndex).then(|| random.int(0, rank as i64 - 1));
    case.node(Pointwise { axis, ..operation });
    let (fast, reference) = both(&case);

    let eps = roundoff(compute(&case)).0;
    let operands: Vec<Vec<f64>> = inputs
        .iter()
        .map(|uid| spread(&case.values(*uid), &case.graph.tensor(*uid).unwrap().dims, &dims))
        .collect();
    let results = reference.values(out_0);
    compare(seed, mode.name(), &fast, &reference, out_0, |at| {
        let operand = |i: usize| operands.get(i).map_or(0.0, |values| values[at]);
        let bound = pointwise_bound(mode, eps, [operand(0), operand(1), operand(2)], results[at], 4.0);
        // A result on the edge between two integers may be cut to either.
        let edge =
            if out.size() == Some(1) || matches!(out, DataType::Int32 | DataType::Int64) { 1.0 } else { 0.0 };
        if bound > 0.0 { bound + edge } else { bound }
    });
}

/// The values of a tensor repeated over a larger shape, aligned at the last dimension.
fn spread(values: &[f64], from: &[i64], to: &[i64]) -> Vec<f64> {
    let steps = super::common::packed(from);
    let missing = to.len() - from.len();
    let total: i64 = to.iter().product();
    let place = |mut at: i64| {
        let mut offset = 0;
        for axis in (0..to.len()).rev() {
            let index = at % to[axis];
            at /= to[axis];
            if axis >= missing && from[axis - missing] != 1 {
                offset += index * steps[axis - missing];
            }
        }
        offset as usize
    };
    (0..total).map(|at| values[place(at)]).collect()
}

#[test]
fn pointwise_modes() {
    for mode in PointwiseMode::ALL.iter().copied().filter(|mode| *mode != PointwiseMode::Unset) {
        for seed in 0..40 {
            pointwise(7000 + 100 * u64::from(mode.wire()) + seed, mode);
        }
    }
}

/// Convolution, bias and activation with virtual tensors in between, in one storage type.
#[test]
fn convolution_bias_activation() {
    for seed in 12_000..12_080 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let types: [DataType; 3] = types(random, &mut case);
        let shape = ConvolutionShape::random(random);
        let (operands, y, terms) = shape.node(random, &mut case, types, Direction::Forward);
        for uid in operands {
            fill(random, &mut case, uid, -1.0, 1.0);
        }
        case.memory.retain(|memory| memory.tensor.uid != y);
        let made = case.graph.tensors.iter_mut().find(|tensor| tensor.uid == y).unwrap();
        made.is_virtual = true;
        made.data_type = DataType::Float;
        let steps = made.strides.clone();
        let summed = case.virtual_tensor(DataType::Float, &shape.y, &steps);
        let mut dims = vec![1; shape.y.len()];
        dims[1] = shape.y[1];
        let bias = tensor(random, &mut case, types[0], &dims);
        fill(random, &mut case, bias, -1.0, 1.0);
        let out = tensor(random, &mut case, types[2], &shape.y);
        let plain = |operation, in_0, in_1, out_0| Pointwise {
            in_0,
            out_0,
            in_1,
            in_2: None,
            axis: None,
            operation,
            relu_lower_clip: None,
            relu_upper_clip: None,
            relu_lower_clip_slope: None,
            swish_beta: None,
            elu_alpha: None,
            softplus_beta: None,
        };
        case.node(plain(PointwiseMode::Add, y, Some(bias), summed));
        let mode =
            random.one_of(&[PointwiseMode::ReluFwd, PointwiseMode::SigmoidFwd, PointwiseMode::TanhFwd]);
        case.node(plain(mode, summed, None, out));
        let (fast, reference) = both(&case);
        // The convolution's bound with Σ|t| at most k, which no activation here makes larger, and the roundings after it.
        let eps = roundoff(DataType::Float).0;
        let bound = 2.0 * eps * (terms * terms + 8.0 * terms + 32.0);
        compare(seed, "convolution, bias, activation", &fast, &reference, out, |_| bound);
    }
}
