//! Convolutions, alone and with usual epilogues.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{
    BatchnormInference, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode};

use super::{REFERENCE, both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, Random};

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
            let channels = match random.int(0, 4) {
                0 => (random.int(1, 20), 1, random.int(1, 2)),
                1 => (random.int(1, 4), random.int(1, 9), random.int(1, 9)),
                _ => (1, random.int(1, 33), random.int(1, 33)),
            };
            if let Some(shape) = Self::of(random, spatial, channels, [40, 15, 7][spatial - 1]) {
                return shape;
            }
        }
    }

    /// A depthwise shape.
    fn depthwise(random: &mut Random) -> Self {
        loop {
            let channels = (random.int(2, 20), 1, random.one_of(&[1, 1, 1, 2]));
            if let Some(shape) = Self::of(random, 2, channels, 40) {
                return shape;
            }
        }
    }

    /// A shape with these groups and channels per group, and images up to this size; `None` if it is too much
    /// work.
    fn of(
        random: &mut Random,
        spatial: usize,
        (groups, c, k): (i64, i64, i64),
        largest: i64,
    ) -> Option<Self> {
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
        // Most networks use windows of 1 or 3 with matching padding; the rest is random.
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
        (possible && products <= 1_000_000).then_some(shape)
    }

    /// Adds the node; returns the two operands, the result, and the number of terms of each sum.
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

    /// If Winograd may be chosen, its bound in units of eps, given the operands' magnitudes:
    /// 16 (c + 11) · Σ m · Σ|w| over c channels, with m the largest element that the window meets; with stride 1
    /// 176 (c + 18) · Σ m · Σ|w|, with m the largest element that the windows of 4 × 4 outputs meet.
    fn near(
        &self,
        sizes: &Case,
        (operand, filter): (i64, i64),
        result: i64,
        direction: Direction,
    ) -> Option<Vec<f64>> {
        let is = |values: &[i64], number: i64| values.iter().all(|value| *value == number);
        let is_square = self.w.len() == 4
            && is(&self.w[2..], 3)
            && is(&self.stride, self.stride[0])
            && is(&self.dilation, 1);
        let groups = self.x[1] / self.w[1];
        let has_channels = self.w[1] >= 16 && self.w[0] / groups >= 16;
        let most = if direction == Direction::Forward { 2 } else { 1 };
        if !is_square || !has_channels || direction == Direction::Filter || self.stride[0] > most {
            return None;
        }
        let is_forward = direction == Direction::Forward;
        let dims = |uid: i64| sizes.graph.tensor(uid).unwrap().dims.clone();
        let (from, to) = (dims(operand), dims(result));
        let at = |dims: &[i64], index: [i64; 4]| {
            index.iter().zip(dims).fold(0, |at, (index, dim)| at * dim + index) as usize
        };
        let (numbers, weights) = (sizes.values(operand), sizes.values(filter));
        let (channels, rows) = (from[1] / groups, to[1] / groups);
        let (tile, factor, roundings) = if self.stride[0] == 1 { (4, 176.0, 18.0) } else { (1, 16.0, 11.0) };
        let mut near = vec![0.0; to.iter().product::<i64>() as usize];
        for (n, row) in (0..to[0]).flat_map(|n| (0..to[1]).map(move |row| (n, row))) {
            for channel in 0..channels {
                let group = row / rows;
                let input = group * channels + channel;
                let window = if is_forward { [row, channel, 0, 0] } else { [input, row % rows, 0, 0] };
                let first = at(&self.w, window);
                let total: f64 = weights[first..first + 9].iter().sum();
                for (h, w) in (0..to[2]).flat_map(|h| (0..to[3]).map(move |w| (h, w))) {
                    let first = [(h, 0), (w, 1)].map(|(o, i)| {
                        let o = o / tile * tile;
                        if is_forward { o * self.stride[i] - self.pre[i] } else { o + self.pre[i] - 2 }
                    });
                    let sides = |i: usize| first[i].max(0)..(first[i] + tile + 2).min(from[2 + i]);
                    let largest = sides(0)
                        .flat_map(|h| sides(1).map(move |w| [n, input, h, w]))
                        .fold(0.0, |largest: f64, index| largest.max(numbers[at(&from, index)]));
                    near[at(&to, [n, row, h, w])] += factor * (channels as f64 + roundings) * largest * total;
                }
            }
        }
        Some(near)
    }
}

fn convolution(seed: u64, direction: Direction, shape: fn(&mut Random) -> ConvolutionShape) {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let types = types(random, &mut case);
    let shape = shape(random);
    let (operands, result, terms) = shape.node(random, &mut case, types, direction);
    for uid in operands {
        fill(random, &mut case, uid, -1.0, 1.0);
    }
    let (fast, reference) = both(&case);

    // Σ|t|, which the reference computes in double precision from the operands' magnitudes.
    let mut sizes = Case::new();
    sizes.graph.compute_type = DataType::Double;
    let ([a, b], total, _) = shape.node(&mut Random(seed), &mut sizes, [DataType::Double; 3], direction);
    for (to, from) in [(a, operands[0]), (b, operands[1])] {
        let magnitudes: Vec<f64> = case.values(from).iter().map(|value| value.abs()).collect();
        sizes.fill(to, &magnitudes);
    }
    sizes.run(planner(REFERENCE));
    let sums = sizes.values(total);
    let (eps, _) = roundoff(compute(&case));
    let is_single = compute(&case) == DataType::Float;
    let near = is_single.then(|| shape.near(&sizes, (a, b), total, direction)).flatten();
    compare(seed, "convolution", &fast, &reference, result, |at| {
        let in_order = 2.0 * terms * eps * sums[at];
        near.as_ref().map_or(in_order, |near| in_order.max(eps * near[at]))
    });
}

#[test]
fn forward() {
    (0..150).for_each(|seed| convolution(1000 + seed, Direction::Forward, ConvolutionShape::random));
}

#[test]
fn backward_data() {
    (0..150).for_each(|seed| convolution(2000 + seed, Direction::Data, ConvolutionShape::random));
}

#[test]
fn backward_filter() {
    (0..150).for_each(|seed| convolution(3000 + seed, Direction::Filter, ConvolutionShape::random));
}

#[test]
fn gradients_of_depthwise_convolutions() {
    for seed in 0..120 {
        convolution(8000 + seed, Direction::Data, ConvolutionShape::depthwise);
        convolution(9000 + seed, Direction::Filter, ConvolutionShape::depthwise);
    }
}

/// Convolution, bias and activation with virtual intermediate tensors of one storage type.
#[test]
fn bias_and_activation_epilogue() {
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
        case.node(Pointwise::new(PointwiseMode::Add, y, Some(bias), summed));
        let mode =
            random.one_of(&[PointwiseMode::ReluFwd, PointwiseMode::SigmoidFwd, PointwiseMode::TanhFwd]);
        case.node(Pointwise::new(mode, summed, None, out));
        let (fast, reference) = both(&case);
        // The convolution's bound with Σ|t| at most k, which no activation increases, plus the later
        // roundings.
        let eps = roundoff(DataType::Float).0;
        // With Winograd, where Σ m · Σ|w| is at most k for k / 9 channels.
        let near = 176.0 * (terms / 9.0 + 18.0) * terms;
        let bound = eps * ((2.0 * terms * terms).max(near) + 16.0 * terms + 64.0);
        compare(seed, "convolution, bias, activation", &fast, &reference, out, |_| bound);
    }
}

/// A depthwise convolution with a usual epilogue: a bias or batch normalization, and an activation with or
/// without an upper bound; sometimes with NaN and infinities.
#[test]
fn depthwise_with_epilogues() {
    for seed in 13_000..13_120 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        case.graph.compute_type = DataType::Float;
        let storage = random.one_of(&[DataType::Float, DataType::Float, DataType::Half]);
        let shape = ConvolutionShape::depthwise(random);
        let (operands, y, terms) = shape.node(random, &mut case, [storage; 3], Direction::Forward);
        for uid in operands {
            fill(random, &mut case, uid, -1.0, 1.0);
        }
        case.memory.retain(|memory| memory.tensor.uid != y);
        let made = case.graph.tensors.iter_mut().find(|tensor| tensor.uid == y).unwrap();
        made.is_virtual = true;
        let steps = made.strides.clone();
        let mut dims = vec![1; shape.y.len()];
        dims[1] = shape.y[1];
        let parameters: [i64; 4] = std::array::from_fn(|_| tensor(random, &mut case, DataType::Float, &dims));
        for uid in parameters {
            fill(random, &mut case, uid, 0.2, 1.0);
        }
        if random.chance(15) {
            let mut values = case.values(parameters[3]);
            values[0] = random.one_of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
            case.fill(parameters[3], &values);
        }
        let [mean, inv_variance, scale, bias] = parameters;
        let moved = case.virtual_tensor(storage, &shape.y, &steps);
        match random.int(0, 2) {
            0 => case.node(BatchnormInference { x: y, mean, inv_variance, scale, bias, y: moved }),
            1 => case.node(Pointwise::new(PointwiseMode::Add, bias, Some(y), moved)),
            _ => case.node(Pointwise::new(PointwiseMode::Sub, bias, Some(y), moved)),
        }
        let out = tensor(random, &mut case, storage, &shape.y);
        let mode = random.one_of(&[PointwiseMode::ReluFwd, PointwiseMode::ReluFwd, PointwiseMode::TanhFwd]);
        let relu_upper_clip = (mode == PointwiseMode::ReluFwd && random.chance(50)).then_some(0.75);
        case.node(Pointwise { relu_upper_clip, ..Pointwise::new(mode, moved, None, out) });
        let (fast, reference) = both(&case);
        // As above, with factors of at most 1, and a half precision unit per intermediate result.
        let eps = roundoff(DataType::Float).0;
        let half = if storage == DataType::Half { 4.0 * roundoff(storage).0 * (terms + 3.0) } else { 0.0 };
        let bound = half + 4.0 * eps * (terms * terms + 8.0 * terms + 32.0);
        compare(seed, "depthwise convolution and what follows", &fast, &reference, out, |_| bound);
    }
}
