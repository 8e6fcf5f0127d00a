use hipdnn_plugin_sdk::graph::operation::{BatchnormInference, BatchnormInferenceVariance, Pointwise};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Operation, PaddingMode, PointwiseMode, ResampleMode};

use crate::case::{Case, Order};
use crate::cases::convolution::{self, Shape};
use crate::cases::{ORDERS, TYPES, pooling};

/// Convolution, bias and RELU, with `float` between the nodes: one kernel, and no workspace.
fn biased(shape: &Shape, data_type: DataType, order: Order) -> Case {
    let mut case = shape.case("forward", data_type, order);
    case.name.push_str(" + bias + relu, float between");
    case.workspace_limit = Some(0);
    case.hide(DataType::Float);
    let Some(convolved) = case.graph.tensors.last().cloned() else { return case };
    let (last, dims) = (convolved.uid, convolved.dims);
    let channels = channels(&dims);
    let bias = case.input(data_type, &channels, order, [-1.0, 1.0]);
    let sum = case.between(DataType::Float, &dims, order);
    case.node(Pointwise::new(PointwiseMode::Add, last, Some(bias), sum));
    let y = case.output(data_type, &dims, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
    case
}

/// Convolution, batch normalization with given statistics and RELU, with `float` between the nodes: one kernel.
fn normalized(shape: &Shape, data_type: DataType, order: Order, with_variance: bool) -> Case {
    let mut case = shape.case("forward", data_type, order);
    let name = if with_variance { "batchnorm with variance" } else { "batchnorm" };
    case.name.push_str(&format!(" + {name} + relu, float between"));
    case.workspace_limit = Some(0);
    case.hide(DataType::Float);
    let Some(convolved) = case.graph.tensors.last().cloned() else { return case };
    let (x, dims) = (convolved.uid, convolved.dims);
    let channels = channels(&dims);
    let given = |case: &mut Case, range| case.input(DataType::Float, &channels, order, range);
    let (mean, spread) = (given(&mut case, [-1.0, 1.0]), given(&mut case, [0.2, 2.0]));
    let (scale, bias) = (given(&mut case, [-1.0, 2.0]), given(&mut case, [-1.0, 1.0]));
    let y = case.between(DataType::Float, &dims, order);
    if with_variance {
        // Large, to detect if it is ignored.
        let epsilon = case.value(0.25);
        case.node(BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, epsilon, y });
    } else {
        case.node(BatchnormInference { x, mean, inv_variance: spread, scale, bias, y });
    }
    let result = case.output(data_type, &dims, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, y, None, result));
    case
}

/// A convolution with matrix tiles, a residual and RELU, whose result before and after RELU is stored: one kernel, and no workspace unless
/// workgroups share dot products.
fn followed(shape: &Shape, direction: &str, data_type: DataType, order: Order) -> Case {
    let mut case = shape.case(direction, data_type, order);
    case.name.push_str(" + residual + relu");
    // Gradients of filters are sums over all pixels.
    let shares = shape.name != convolution::TILED.name || direction == "backward filter";
    case.workspace_limit = (!shares).then_some(0);
    case.hide(data_type);
    let Some(convolved) = case.graph.tensors.last().cloned() else { return case };
    let (last, dims) = (convolved.uid, convolved.dims);
    let residual = case.input(data_type, &dims, order, [-1.0, 1.0]);
    let sum = case.output(data_type, &dims, order);
    case.node(Pointwise::new(PointwiseMode::Add, residual, Some(last), sum));
    let y = case.output(DataType::Float, &dims, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
    case
}

/// The dimensions of a per-channel tensor.
fn channels(dims: &[i64]) -> Vec<i64> {
    dims.iter().enumerate().map(|(axis, dim)| if axis == 1 { *dim } else { 1 }).collect()
}

/// A flipped filter.
fn mirrored(shape: &Shape, order: Order) -> Case {
    let mut case = shape.case("forward", DataType::Float, order);
    case.name.push_str(", mirrored");
    for node in &mut case.graph.nodes {
        if let Operation::ConvolutionForward(convolution) = &mut node.operation {
            convolution.conv_mode = ConvMode::Convolution;
        }
    }
    case
}

/// Every pooling of one input, and the gradient of each.
fn every_pooling(shape: &pooling::Shape, data_type: DataType, order: Order) -> Case {
    let mut case = Case::new(format!("every pooling {} {} {order:?}", shape.name, data_type.name()));
    let y = shape.y();
    let x = case.input(data_type, shape.x, order, [-2.0, 1.0]);
    let dy = case.input(data_type, &y, order, [-1.0, 1.0]);
    for (mode, padding) in [
        (ResampleMode::Maxpool, PaddingMode::NegInfPad),
        (ResampleMode::Maxpool, PaddingMode::ZeroPad),
        (ResampleMode::AvgpoolExcludePadding, PaddingMode::ZeroPad),
        (ResampleMode::AvgpoolIncludePadding, PaddingMode::ZeroPad),
    ] {
        let result = case.output(data_type, &y, order);
        let index = (mode == ResampleMode::Maxpool).then(|| case.output(DataType::Int32, &y, order));
        let mut node = shape.node(mode, x, result, index);
        node.padding_mode = padding;
        case.node(node);
        let dx = case.output(data_type, shape.x, order);
        case.node(shape.gradient(mode, dy, dx, index));
    }
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // Another type with each shape and layout.
    let mut types = TYPES.into_iter().cycle();
    let mut next = || types.next().unwrap_or(DataType::Float);
    for shape in &convolution::SHAPES {
        for order in ORDERS {
            cases.push(shape.case("forward", next(), order));
        }
    }
    for shape in convolution::SHAPES.iter().chain(&convolution::LONG) {
        for direction in ["backward data", "backward filter"] {
            cases.extend(ORDERS.map(|order| shape.case(direction, next(), order)));
        }
    }
    cases.extend(convolution::LONG.iter().map(|shape| shape.case("forward", next(), Order::ChannelsLast)));
    for shape in convolution::LONG.iter().chain([&convolution::TILED]) {
        for direction in ["forward", "backward data", "backward filter"] {
            cases.extend(ORDERS.map(|order| followed(shape, direction, next(), order)));
        }
    }
    cases.push(biased(&convolution::TILED, DataType::Half, Order::ChannelsLast));
    cases.push(normalized(&convolution::TILED, DataType::Bfloat16, Order::ChannelsFirst, true));
    let [first, .., three_dimensional] = &convolution::SHAPES;
    for order in ORDERS {
        cases.push(biased(first, DataType::Half, order));
    }
    cases.push(biased(three_dimensional, DataType::Bfloat16, Order::ChannelsLast));
    for (with_variance, order) in [false, true].into_iter().zip(ORDERS) {
        cases.push(normalized(first, DataType::Half, order, with_variance));
        cases.push(normalized(three_dimensional, DataType::Bfloat16, order, with_variance));
    }
    cases.push(mirrored(first, Order::ChannelsFirst));
    for shape in &convolution::DEPTHWISE {
        cases.push(shape.case("forward", next(), Order::ChannelsLast));
    }
    let [depthwise, strided, ..] = &convolution::DEPTHWISE;
    cases.push(mirrored(depthwise, Order::ChannelsLast));
    cases.push(biased(strided, DataType::Half, Order::ChannelsLast));
    cases.push(normalized(strided, DataType::Bfloat16, Order::ChannelsLast, false));
    for shape in pooling::SHAPES.iter().chain(&pooling::REACHING) {
        for order in ORDERS {
            cases.push(every_pooling(shape, next(), order));
        }
    }
    cases
}
