//! Graphs that cuDNN cannot compute in one call in every type and layout: blocks of a network in training, and several convolutions.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInferenceVariance, ConvolutionBackwardData,
    ConvolutionBackwardFilter, ConvolutionForward, Matmul, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode};

use crate::case::{Case, Order};
use crate::cases::{ORDERS, TYPES};

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-1.0, 1.0];

const X: [i64; 4] = [4, 8, 10, 12];
const W: [i64; 4] = [16, 8, 3, 3];
const Y: [i64; 4] = [4, 16, 10, 12];
const CHANNELS: [i64; 4] = [1, 16, 1, 1];

macro_rules! convolution {
    ($operation:ident { $($tensor:ident),+ }, $padding:expr) => {
        $operation {
            $($tensor,)+
            pre_padding: vec![$padding; 2],
            post_padding: vec![$padding; 2],
            stride: vec![1; 2],
            dilation: vec![1; 2],
            conv_mode: ConvMode::CrossCorrelation,
        }
    };
}

fn given(case: &mut Case, range: [f32; 2]) -> i64 {
    case.input(DataType::Float, &CHANNELS, FIRST, range)
}

fn made(case: &mut Case) -> i64 {
    case.output(DataType::Float, &CHANNELS, FIRST)
}

fn named(name: &str, data_type: DataType, order: Order) -> Case {
    Case::new(format!("block {name} {} {order:?}", data_type.name()))
}

/// Convolution, batchnorm in training with its statistics, RELU; optionally with the convolution's result, for the gradients.
fn forward(is_kept: bool, data_type: DataType, order: Order) -> Case {
    let kept = if is_kept { ", kept" } else { "" };
    let mut case = named(&format!("forward{kept}"), data_type, order);
    let x = case.input(data_type, &X, order, RANGE);
    let w = case.input(data_type, &W, order, [-0.3, 0.3]);
    let y = if is_kept { case.output(data_type, &Y, order) } else { case.between(data_type, &Y, order) };
    case.node(convolution!(ConvolutionForward { x, w, y }, 1));
    let normalized = case.between(data_type, &Y, order);
    let (scale, bias) = (given(&mut case, [-1.0, 2.0]), given(&mut case, RANGE));
    let mut node = Batchnorm::new(y, scale, bias, case.value(1e-3), normalized);
    node.mean = Some(made(&mut case));
    node.inv_variance = Some(made(&mut case));
    node.prev_running_mean = Some(given(&mut case, RANGE));
    node.prev_running_variance = Some(given(&mut case, [0.5, 2.0]));
    node.momentum = Some(case.value(0.3));
    node.next_running_mean = Some(made(&mut case));
    node.next_running_variance = Some(made(&mut case));
    case.node(node);
    let out = case.output(data_type, &Y, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, normalized, None, out));
    case
}

/// The gradients of the same: through RELU and batchnorm to the filter and the image.
fn backward(data_type: DataType, order: Order) -> Case {
    let mut case = named("backward", data_type, order);
    let dout = case.input(data_type, &Y, order, RANGE);
    let out = case.input(data_type, &Y, order, RANGE);
    let through = case.between(data_type, &Y, order);
    case.node(Pointwise::new(PointwiseMode::ReluBwd, dout, Some(out), through));
    let result = case.input(data_type, &Y, order, [-2.0, 2.0]);
    let scale = given(&mut case, [0.5, 2.0]);
    let (mean, inv_variance) = (given(&mut case, [-0.5, 0.5]), given(&mut case, [0.5, 1.0]));
    let dy = case.between(data_type, &Y, order);
    let (dscale, dbias) = (made(&mut case), made(&mut case));
    case.node(BatchnormBackward {
        dy: through,
        x: result,
        scale,
        dx: dy,
        dscale,
        dbias,
        mean: Some(mean),
        inv_variance: Some(inv_variance),
        peer_stats: Vec::new(),
    });
    let x = case.input(data_type, &X, order, RANGE);
    let dw = case.output(data_type, &W, order);
    case.node(convolution!(ConvolutionBackwardFilter { x, dy, dw }, 1));
    let w = case.input(data_type, &W, order, [-0.3, 0.3]);
    let dx = case.output(data_type, &X, order);
    case.node(convolution!(ConvolutionBackwardData { dy, w, dx }, 1));
    case
}

/// Two convolutions, each with batchnorm inference and RELU, as in a trained network.
fn trained(data_type: DataType, order: Order) -> Case {
    let mut case = named("trained, twice", data_type, order);
    let mut x = case.input(data_type, &Y, order, RANGE);
    for place in 0..2 {
        let w = case.input(data_type, &[16, 16, 3, 3], order, [-0.3, 0.3]);
        let y = case.between(data_type, &Y, order);
        case.node(convolution!(ConvolutionForward { x, w, y }, 1));
        let (mean, variance) = (given(&mut case, RANGE), given(&mut case, [0.5, 2.0]));
        let (scale, bias) = (given(&mut case, [0.5, 1.5]), given(&mut case, RANGE));
        let epsilon = case.value(1e-3);
        let normalized = case.between(data_type, &Y, order);
        let node = BatchnormInferenceVariance { x: y, mean, variance, scale, bias, epsilon, y: normalized };
        case.node(node);
        x = if place == 1 { case.output(data_type, &Y, order) } else { case.between(data_type, &Y, order) };
        case.node(Pointwise::new(PointwiseMode::ReluFwd, normalized, None, x));
    }
    case
}

/// Gradients of a classifier that share only an input.
fn apart(data_type: DataType, order: Order) -> Case {
    let mut case = named("gradients apart", data_type, order);
    let dy = case.input(data_type, &[4, 16, 1, 1], order, RANGE);
    let x = case.input(data_type, &[4, 8, 4, 4], order, RANGE);
    let w = case.input(data_type, &[16, 8, 4, 4], order, RANGE);
    let dw = case.output(data_type, &[16, 8, 4, 4], order);
    case.node(convolution!(ConvolutionBackwardFilter { x, dy, dw }, 0));
    let dx = case.output(data_type, &[4, 8, 4, 4], order);
    case.node(convolution!(ConvolutionBackwardData { dy, w, dx }, 0));
    case
}

/// A matmul whose activation is not a cuBLASLt epilogue, after a node that no matmul can fuse, with an unmarked result.
fn unmarked(data_type: DataType) -> Case {
    let mut case = named("of products, unmarked", data_type, FIRST);
    let dims = [32, 32];
    let x = case.input(data_type, &dims, FIRST, RANGE);
    let a = case.between(data_type, &dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::TanhFwd, x, None, a));
    let b = case.input(data_type, &dims, FIRST, RANGE);
    let c = case.between(data_type, &dims, FIRST);
    case.node(Matmul { a, b, c });
    let root = case.between(data_type, &dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::SigmoidFwd, c, None, root));
    let d = case.input(data_type, &dims, FIRST, RANGE);
    let out = case.output(data_type, &dims, FIRST);
    case.node(Matmul { a: root, b: d, c: out });
    case.unmark();
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for order in ORDERS {
            cases.extend([true, false].map(|is_kept| forward(is_kept, data_type, order)));
            cases.push(backward(data_type, order));
            cases.push(trained(data_type, order));
            cases.push(apart(data_type, order));
        }
        cases.push(unmarked(data_type));
    }
    cases
}
