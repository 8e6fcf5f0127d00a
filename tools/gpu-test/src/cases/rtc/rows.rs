use hipdnn_plugin_sdk::graph::operation::{
    Layernorm, LayernormBackward, Pointwise, Reduction, RmsNorm, RmsNormBackward,
};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, PointwiseMode, ReductionMode};

use crate::case::{Case, Order};
use crate::cases::TYPES;

const FIRST: Order = Order::ChannelsFirst;

fn reduction(in_: i64, out: i64, mode: ReductionMode) -> Reduction {
    Reduction { in_, out, mode, is_deterministic: true }
}

/// Every mode over some of the dimensions of one input.
fn every_mode(data_type: DataType, order: Order, dims: &[i64], left: &[i64]) -> Case {
    let mut case = Case::new(format!("every reduction {dims:?} to {left:?} {} {order:?}", data_type.name()));
    let x = case.input(data_type, dims, order, [-1.5, 1.5]);
    for mode in (1..=9).filter_map(ReductionMode::from_wire) {
        let y = case.output(DataType::Float, left, order);
        case.node(reduction(x, y, mode));
    }
    case
}

/// Softmax along the last dimension as five nodes, after a scale and a mask.
fn softmax(data_type: DataType, dims: &[i64]) -> Case {
    let mut case = Case::new(format!("softmax of scaled scores {dims:?} {}", data_type.name()));
    let mut rows = dims.to_vec();
    if let Some(last) = rows.last_mut() {
        *last = 1;
    }
    let x = case.input(data_type, dims, FIRST, [-4.0, 4.0]);
    let factor = case.value(0.5);
    let scores = case.between(DataType::Float, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::Mul, x, Some(factor), scores));
    let most = case.between(DataType::Float, &rows, FIRST);
    case.node(reduction(scores, most, ReductionMode::Max));
    let below = case.between(DataType::Float, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::Sub, scores, Some(most), below));
    let powers = case.between(DataType::Float, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::Exp, below, None, powers));
    let sum = case.between(DataType::Float, &rows, FIRST);
    case.node(reduction(powers, sum, ReductionMode::Add));
    let y = case.output(data_type, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::Div, powers, Some(sum), y));
    let log = case.between(DataType::Float, &rows, FIRST);
    case.node(Pointwise::new(PointwiseMode::Log, sum, None, log));
    let stats = case.output(DataType::Float, &rows, FIRST);
    case.node(Pointwise::new(PointwiseMode::Add, log, Some(most), stats));
    case
}

/// Two reductions, the second along another dimension: the first goes through the workspace.
fn two_ways() -> Case {
    let mut case = Case::new("largest of the columns of row sums");
    let x = case.input(DataType::Float, &[6, 5, 12], FIRST, [-1.0, 1.0]);
    let sums = case.between(DataType::Float, &[6, 5, 1], FIRST);
    case.node(reduction(x, sums, ReductionMode::Add));
    let y = case.output(DataType::Float, &[1, 5, 1], FIRST);
    case.node(reduction(sums, y, ReductionMode::Max));
    case
}

/// The dimensions of per-row tensors of `dims`, and of tensors per position in a row.
fn parts(dims: &[i64], leading: usize) -> [Vec<i64>; 2] {
    let part = |rows: bool| {
        dims.iter().enumerate().map(|(axis, dim)| if (axis < leading) == rows { *dim } else { 1 }).collect()
    };
    [part(true), part(false)]
}

/// layernorm(x + residual), then gelu; the sum and the statistics are results too
fn layernorm(data_type: DataType, dims: &[i64], count: usize) -> Case {
    let mut case = Case::new(format!("residual, layernorm of {count}, gelu {dims:?} {}", data_type.name()));
    let [rows, places] = parts(dims, dims.len() - count);
    let x = case.input(data_type, dims, FIRST, [-2.0, 4.0]);
    let residual = case.input(data_type, dims, FIRST, [-1.0, 1.0]);
    let sum = case.output(data_type, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::Add, x, Some(residual), sum));
    let y = case.between(DataType::Float, dims, FIRST);
    let node = Layernorm {
        x: sum,
        scale: case.input(DataType::Float, &places, FIRST, [0.5, 1.5]),
        bias: case.input(DataType::Float, &places, FIRST, [-0.5, 0.5]),
        epsilon: case.value(1e-5),
        y,
        mean: Some(case.output(DataType::Float, &rows, FIRST)),
        inv_variance: Some(case.output(DataType::Float, &rows, FIRST)),
        forward_phase: NormFwdPhase::Training,
        normalized_dim_count: count as i64,
    };
    case.node(node);
    let z = case.output(data_type, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::GeluFwd, y, None, z));
    case
}

fn rms(data_type: DataType, dims: &[i64], order: Order, with_bias: bool) -> Case {
    let bias = if with_bias { " and bias" } else { "" };
    let mut case = Case::new(format!("RMSnorm{bias} {dims:?} {} {order:?}", data_type.name()));
    let [rows, places] = parts(dims, 1);
    let node = RmsNorm {
        x: case.input(data_type, dims, order, [-2.0, 2.0]),
        scale: case.input(data_type, &places, order, [0.5, 1.5]),
        epsilon: case.value(1e-3),
        y: case.output(data_type, dims, order),
        bias: with_bias.then(|| case.input(data_type, &places, order, [-0.5, 0.5])),
        inv_rms: Some(case.output(DataType::Float, &rows, order)),
        forward_phase: NormFwdPhase::Training,
    };
    case.node(node);
    case
}

/// The gradients through gelu and a layernorm.
fn layernorm_backward(data_type: DataType, dims: &[i64], count: usize, kept: bool) -> Case {
    let statistics = if kept { "" } else { ", statistics not kept," };
    let mut case =
        Case::new(format!("layernorm backward{statistics} of {count} {dims:?} {}", data_type.name()));
    let [rows, places] = parts(dims, dims.len() - count);
    let gradient = case.input(data_type, dims, FIRST, [-1.0, 1.0]);
    let before = case.input(data_type, dims, FIRST, [-2.0, 2.0]);
    let dy = case.between(DataType::Float, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::GeluBwd, gradient, Some(before), dy));
    let node = LayernormBackward {
        dy,
        x: case.input(data_type, dims, FIRST, [-2.0, 2.0]),
        scale: case.input(DataType::Float, &places, FIRST, [0.5, 1.5]),
        mean: kept.then(|| case.input(DataType::Float, &rows, FIRST, [-0.5, 0.5])),
        inv_variance: kept.then(|| case.input(DataType::Float, &rows, FIRST, [0.5, 1.5])),
        // Large, to detect if it is ignored.
        epsilon: (!kept).then(|| case.value(0.25)),
        dx: case.output(data_type, dims, FIRST),
        dscale: case.output(DataType::Float, &places, FIRST),
        dbias: case.output(DataType::Float, &places, FIRST),
        normalized_dim_count: count as i64,
    };
    case.node(node);
    case
}

fn rms_backward(data_type: DataType, dims: &[i64]) -> Case {
    let mut case = Case::new(format!("RMSnorm backward {dims:?} {}", data_type.name()));
    let [rows, places] = parts(dims, 1);
    let node = RmsNormBackward {
        dy: case.input(data_type, dims, FIRST, [-1.0, 1.0]),
        x: case.input(data_type, dims, FIRST, [-2.0, 2.0]),
        scale: case.input(data_type, &places, FIRST, [0.5, 1.5]),
        inv_rms: Some(case.input(DataType::Float, &rows, FIRST, [0.5, 1.5])),
        dx: case.output(data_type, dims, FIRST),
        dscale: case.output(DataType::Float, &places, FIRST),
        dbias: None,
    };
    case.node(node);
    case
}

/// Rows so few and long that several workgroups share each: along one axis, along several, contiguous, and of a length that
/// vectors do not divide.
fn few_long_rows() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        cases.push(softmax(data_type, &[2, 1 << 17]));
        cases.push(layernorm(data_type, &[3, 96_000], 1));
        cases.push(rms(data_type, &[1, 1 << 18], FIRST, true));
    }
    cases.push(softmax(DataType::Float, &[2, 1 << 17]).with_knob("rows apart", "rtc.share_rows", 0));
    cases.push(softmax(DataType::Float, &[1, 3, 70_005]));
    cases.push(layernorm(DataType::Float, &[2, 16, 3, 5000], 3));
    cases.push(layernorm_backward(DataType::Float, &[2, 1 << 17], 1, true));
    cases.push(rms_backward(DataType::Float, &[1 << 14, 24]));
    cases.push(rms_backward(DataType::Half, &[1, 1 << 17]));
    cases.push(every_mode(DataType::Float, FIRST, &[2, 1 << 17], &[2, 1]));
    cases.push(every_mode(DataType::Float, FIRST, &[1 << 16, 8], &[1, 8]));
    cases.push(every_mode(DataType::Float, Order::ChannelsLast, &[16, 3, 90, 64], &[1, 3, 1, 1]));
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        cases.push(every_mode(data_type, FIRST, &[5, 24], &[5, 1]));
        cases.push(softmax(data_type, &[2, 3, 40]));
        cases.push(layernorm(data_type, &[6, 32], 1));
        cases.push(rms(data_type, &[4, 48], FIRST, true));
        cases.push(layernorm_backward(data_type, &[6, 32], 1, true));
        cases.push(layernorm_backward(data_type, &[6, 32], 1, false));
        cases.push(rms_backward(data_type, &[70, 12]));
    }
    // Along columns; channels of images in both orders; everything; a row of one thread; an odd length.
    cases.push(every_mode(DataType::Float, FIRST, &[24, 70], &[1, 70]));
    for order in [FIRST, Order::ChannelsLast] {
        cases.push(every_mode(DataType::Float, order, &[2, 3, 4, 5], &[1, 3, 1, 1]));
    }
    cases.push(every_mode(DataType::Float, FIRST, &[3, 4, 5], &[1, 1, 1]));
    cases.push(every_mode(DataType::Int32, FIRST, &[7, 3], &[7, 1]));
    // Rows whose elements are kept between passes, and rows that are too long for that.
    cases.push(softmax(DataType::Float, &[2, 4096]));
    cases.push(softmax(DataType::Half, &[2, 70_001]));
    // Rows of every number of threads and vectors: parts of a wave, waves, whole workgroups, several rows in a partial workgroup.
    for (columns, data_type) in
        [1, 31, 1000, 1024, 1025, 8192, 8193, 100_000].into_iter().zip(TYPES.into_iter().cycle())
    {
        // Skip rows of one element, which are not reduced.
        cases.extend((columns > 1).then(|| softmax(data_type, &[3, columns])));
        cases.push(rms(data_type, &[3, columns], FIRST, true));
    }
    for data_type in TYPES {
        cases.push(softmax(data_type, &[1025, 1000]));
        cases.push(rms(data_type, &[2, 8192], FIRST, false));
    }
    cases.push(layernorm(DataType::Float, &[2, 3, 4, 5], 3));
    cases.push(layernorm(DataType::Float, &[3, 7], 1));
    cases.push(rms(DataType::Float, &[2, 3, 4, 5], Order::ChannelsLast, false));
    cases.push(layernorm_backward(DataType::Float, &[3, 5, 7], 2, true));
    cases.push(layernorm_backward(DataType::Float, &[3, 5, 7], 2, false));
    cases.push(two_ways());
    cases.extend(few_long_rows());
    cases
}
