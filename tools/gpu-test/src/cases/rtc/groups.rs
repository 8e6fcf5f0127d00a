//! Group normalization as a graph: an image has the dimensions [images, groups, channels of a group, pixels].

use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode as Mode, ReductionMode};

use crate::case::{Case, Order};
use crate::cases::{ORDERS, TYPES};

const FIRST: Order = Order::ChannelsFirst;

/// A graph of group normalization.
struct Groups {
    case: Case,
    dims: [i64; 4],
    order: Order,
    data_type: DataType,
}

impl Groups {
    fn new(what: &str, data_type: DataType, order: Order, dims: [i64; 4]) -> Self {
        let case = Case::new(format!("group norm {what} {dims:?} {} {order:?}", data_type.name()));
        Self { case, dims, order, data_type }
    }

    /// The strides of an image, channels first or last.
    fn strides(&self) -> [i64; 4] {
        let [_, groups, depth, places] = self.dims;
        match self.order {
            Order::ChannelsFirst => [groups * depth * places, depth * places, places, 1],
            Order::ChannelsLast => [groups * depth * places, depth, 1, groups * depth],
        }
    }

    fn image(&mut self, range: [f32; 2]) -> i64 {
        self.case.input_with_strides(self.data_type, &self.dims, &self.strides(), range)
    }

    fn result(&mut self) -> i64 {
        self.case.output_with_strides(self.data_type, &self.dims, &self.strides())
    }

    /// The dimensions with these axes reduced.
    fn without(&self, axes: &[usize]) -> [i64; 4] {
        let mut dims = self.dims;
        dims.iter_mut().enumerate().filter(|(axis, _)| axes.contains(axis)).for_each(|(_, dim)| *dim = 1);
        dims
    }

    fn pointwise(&mut self, dims: [i64; 4], mode: Mode, a: i64, b: Option<i64>) -> i64 {
        let out = self.case.between(DataType::Float, &dims, FIRST);
        let strides = self.strides();
        if let Some(tensor) = self.case.graph.tensors.last_mut().filter(|_| dims == self.dims) {
            tensor.strides = strides.to_vec();
        }
        self.case.node(Pointwise::new(mode, a, b, out));
        out
    }

    fn reduce(&mut self, [from, to]: [[i64; 4]; 2], mode: ReductionMode, in_: i64) -> i64 {
        let out = self.case.between(DataType::Float, &to, FIRST);
        self.reduce_into([from, to], mode, in_, out);
        out
    }

    /// Skips a reduction that reduces nothing, which engines refuse.
    fn reduce_into(&mut self, [from, to]: [[i64; 4]; 2], mode: ReductionMode, in_: i64, out: i64) {
        if from == to {
            self.case.node(Pointwise::new(Mode::Identity, in_, None, out));
        } else {
            self.case.node(Reduction { in_, out, mode, is_deterministic: true });
        }
    }

    fn moments(&mut self, from: [i64; 4], to: [i64; 4], x: i64) -> [i64; 2] {
        let mean = self.reduce([from, to], ReductionMode::Avg, x);
        let less = self.pointwise(from, Mode::Sub, x, Some(mean));
        let square = self.pointwise(from, Mode::Mul, less, Some(less));
        [mean, self.reduce([from, to], ReductionMode::Avg, square)]
    }

    fn factor(&mut self, range: [f32; 2]) -> i64 {
        self.case.input(self.data_type, &self.without(&[0, 3]), FIRST, range)
    }

    /// (x - mean) · inverse deviation.
    fn normalized(&mut self, x: i64, mean: i64, inverse: i64) -> i64 {
        let less = self.pointwise(self.dims, Mode::Sub, x, Some(mean));
        self.pointwise(self.dims, Mode::Mul, less, Some(inverse))
    }
}

/// Computes the statistics of groups directly, or from those of channels.
fn forward(data_type: DataType, order: Order, dims: [i64; 4], by_channels: bool) -> Case {
    let by = if by_channels { "by channels" } else { "at once" };
    let mut groups = Groups::new(by, data_type, order, dims);
    let (rows, parts) = (groups.without(&[2, 3]), groups.without(&[3]));
    let x = groups.image([-2.0, 4.0]);
    let (scale, bias) = (groups.factor([0.5, 1.5]), groups.factor([-1.0, 1.0]));
    let epsilon = groups.case.value(1e-5);
    let [mean, variance] = if by_channels {
        let [means, variances] = groups.moments(dims, parts, x);
        let within = groups.reduce([parts, rows], ReductionMode::Avg, variances);
        let [mean, among] = groups.moments(parts, rows, means);
        [mean, groups.pointwise(rows, Mode::Add, within, Some(among))]
    } else {
        groups.moments(dims, rows, x)
    };
    let wide = groups.pointwise(rows, Mode::Add, variance, Some(epsilon));
    let inverse = groups.pointwise(rows, Mode::Rsqrt, wide, None);
    for statistic in [mean, inverse] {
        let out = groups.case.output(data_type, &rows, FIRST);
        groups.case.node(Pointwise::new(Mode::Identity, statistic, None, out));
    }
    let normalized = groups.normalized(x, mean, inverse);
    let scaled = groups.pointwise(dims, Mode::Mul, normalized, Some(scale));
    let y = groups.result();
    groups.case.node(Pointwise::new(Mode::Add, scaled, Some(bias), y));
    groups.case
}

fn backward(data_type: DataType, order: Order, dims: [i64; 4], by_channels: bool) -> Case {
    let by = if by_channels { "by channels" } else { "at once" };
    let mut groups = Groups::new(&format!("backward {by}"), data_type, order, dims);
    let (rows, parts) = (groups.without(&[2, 3]), groups.without(&[3]));
    let (dy, x) = (groups.image([-1.0, 1.0]), groups.image([-2.0, 4.0]));
    let mean = groups.case.input(data_type, &rows, FIRST, [-0.5, 1.5]);
    let inverse = groups.case.input(data_type, &rows, FIRST, [0.5, 1.5]);
    let scale = groups.factor([0.5, 1.5]);
    let channels = groups.without(&[0, 3]);
    let factors = [0, 1].map(|_| groups.case.output(data_type, &channels, FIRST));
    let add = ReductionMode::Add;
    let elements = dims.iter().skip(2).product::<i64>();
    let averages = if by_channels {
        let normalized = groups.normalized(x, mean, inverse);
        let weighted = groups.pointwise(dims, Mode::Mul, dy, Some(normalized));
        let sums = [weighted, dy].map(|of| groups.reduce([dims, parts], add, of));
        let share = groups.case.value(1.0 / elements as f32);
        let averages = sums.map(|of| {
            let scaled = groups.pointwise(parts, Mode::Mul, of, Some(scale));
            let sum = groups.reduce([parts, rows], add, scaled);
            groups.pointwise(rows, Mode::Mul, sum, Some(share))
        });
        for (of, to) in sums.into_iter().zip(factors) {
            groups.reduce_into([parts, channels], add, of, to);
        }
        Some(averages)
    } else {
        None
    };
    let normalized = groups.normalized(x, mean, inverse);
    let scaled = groups.pointwise(dims, Mode::Mul, dy, Some(scale));
    let [along, average] = averages.unwrap_or_else(|| {
        let along = groups.pointwise(dims, Mode::Mul, scaled, Some(normalized));
        [along, scaled].map(|of| groups.reduce([dims, rows], ReductionMode::Avg, of))
    });
    let part = groups.pointwise(dims, Mode::Mul, normalized, Some(along));
    let less = groups.pointwise(dims, Mode::Sub, scaled, Some(part));
    let less = groups.pointwise(dims, Mode::Sub, less, Some(average));
    let dx = groups.result();
    groups.case.node(Pointwise::new(Mode::Mul, less, Some(inverse), dx));
    if !by_channels {
        let normalized = groups.normalized(x, mean, inverse);
        let weighted = groups.pointwise(dims, Mode::Mul, dy, Some(normalized));
        for (of, to) in [weighted, dy].into_iter().zip(factors) {
            groups.reduce_into([dims, channels], add, of, to);
        }
    }
    groups.case
}

pub fn cases() -> Vec<Case> {
    // Vectorizable for all types; for none; groups of one channel; one pixel; more channels than threads of a row; workgroups for two images.
    let shapes = [[2, 4, 8, 64], [3, 2, 5, 7], [2, 6, 1, 30], [5, 3, 4, 1], [1, 2, 80, 16], [2, 2, 6, 2048]];
    let mut cases = Vec::new();
    for by_channels in [false, true] {
        for order in ORDERS {
            for dims in shapes {
                cases.push(forward(DataType::Float, order, dims, by_channels));
                cases.push(backward(DataType::Float, order, dims, by_channels));
            }
            for data_type in TYPES.into_iter().skip(1) {
                cases.push(forward(data_type, order, shapes[0], by_channels));
                cases.push(backward(data_type, order, shapes[0], by_channels));
            }
        }
    }
    cases
}
