use hipdnn_plugin_sdk::graph::operation::{Batchnorm, ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::{DETERMINISTIC, MIOPEN, ORDERS};
use crate::case::{Case, Order};

const X: [i64; 4] = [2, 4, 8, 8];
const Y: [i64; 4] = [2, 6, 8, 8];
const CHANNELS: [i64; 4] = [1, 6, 1, 1];
const RANGE: [f32; 2] = [-1.0, 1.0];

/// A 3x3 convolution of a new input into a tensor between nodes.
fn convolution(case: &mut Case, data_type: DataType, order: Order) -> i64 {
    let x = case.input(data_type, &X, order, RANGE);
    let w = case.input(data_type, &[6, 4, 3, 3], order, RANGE);
    let y = case.between(data_type, &Y, order);
    case.node(ConvolutionForward {
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        ..ConvolutionForward::new(x, w, y, 2)
    });
    y
}

/// relu(convolution + bias + residual)
fn residual_block(data_type: DataType, order: Order) -> Case {
    let mut case = Case::new(format!("convolution + bias + residual + relu {} {order:?}", data_type.name()));
    let convolved = convolution(&mut case, data_type, order);
    let bias = case.input(data_type, &CHANNELS, order, RANGE);
    let biased = case.between(data_type, &Y, order);
    case.node(Pointwise::new(PointwiseMode::Add, convolved, Some(bias), biased));
    let residual = case.input(data_type, &Y, order, RANGE);
    let sum = case.between(data_type, &Y, order);
    case.node(Pointwise::new(PointwiseMode::Add, biased, Some(residual), sum));
    let y = case.output(data_type, &Y, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
    case
}

/// relu(batchnorm(convolution)), in training
fn normalized_block(order: Order) -> Case {
    let mut case = Case::new(format!("convolution + batchnorm training + relu float {order:?}"));
    let convolved = convolution(&mut case, DataType::Float, order);
    let given = |case: &mut Case| case.input(DataType::Float, &CHANNELS, Order::ChannelsFirst, [0.5, 1.5]);
    let normalized = case.between(DataType::Float, &Y, order);
    let node = Batchnorm {
        mean: Some(case.output(DataType::Float, &CHANNELS, Order::ChannelsFirst)),
        inv_variance: Some(case.output(DataType::Float, &CHANNELS, Order::ChannelsFirst)),
        ..Batchnorm::new(convolved, given(&mut case), given(&mut case), case.value(1e-5), normalized)
    };
    case.node(node);
    let y = case.output(DataType::Float, &Y, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, normalized, None, y));
    case
}

pub fn cases() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    for order in ORDERS {
        for data_type in [DataType::Float, DataType::Half] {
            cases.push((MIOPEN, residual_block(data_type, order)));
        }
        cases.push((MIOPEN, normalized_block(order)));
        cases.push((DETERMINISTIC, normalized_block(order)));
    }
    cases
}
