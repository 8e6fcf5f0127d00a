use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance, ConvolutionBackwardData,
    ConvolutionBackwardFilter, ConvolutionForward, Pointwise, ResampleBackward, ResampleForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PaddingMode, PointwiseMode, ResampleMode};

use crate::case::{Case, Order};
use crate::cases::{ORDERS, TYPES};

const RANGE: [f32; 2] = [-1.0, 1.0];
const FIRST: Order = Order::ChannelsFirst;

/// A convolution: x, w, pre- and post-padding, stride, dilation.
struct Shape(&'static str, &'static [i64], &'static [i64], [i64; 2], i64, i64);

const SHAPES: [Shape; 10] = [
    Shape("3x3", &[2, 16, 10, 12], &[24, 16, 3, 3], [1, 1], 1, 1),
    Shape("1x1", &[2, 32, 8, 8], &[16, 32, 1, 1], [0, 0], 1, 1),
    Shape("7x7 stride 2", &[1, 8, 18, 18], &[16, 8, 7, 7], [3, 3], 2, 1),
    Shape("dilation 2", &[2, 16, 9, 9], &[16, 16, 3, 3], [2, 2], 1, 2),
    Shape("padding behind", &[2, 16, 8, 8], &[16, 16, 3, 3], [0, 1], 2, 1),
    Shape("2 groups", &[2, 32, 8, 8], &[32, 16, 3, 3], [1, 1], 1, 1),
    Shape("1-D", &[2, 16, 20], &[16, 16, 3], [1, 1], 1, 1),
    Shape("3-D", &[1, 16, 6, 6, 8], &[16, 16, 3, 3, 3], [1, 1], 1, 1),
    // Images of one pixel, whose strides are those of either layout.
    Shape("one pixel", &[8, 32, 1, 1], &[24, 32, 1, 1], [0, 0], 1, 1),
    Shape("to one pixel", &[2, 16, 5, 5], &[24, 16, 5, 5], [0, 0], 1, 1),
];

impl Shape {
    fn y(&self) -> Vec<i64> {
        let Self(_, x, w, [before, behind], stride, dilation) = self;
        let pooled = x
            .iter()
            .zip(*w)
            .skip(2)
            .map(|(x, w)| (x + before + behind - dilation * (w - 1) - 1) / stride + 1);
        x.iter().take(1).chain(w.iter().take(1)).copied().chain(pooled).collect()
    }
}

macro_rules! convolution {
    ($shape:expr, $operation:ident { $($tensor:ident),+ }) => {{
        let Shape(_, x, _, [before, behind], stride, dilation) = $shape;
        let all = |value: i64| vec![value; x.len() - 2];
        $operation {
            $($tensor,)+
            pre_padding: all(*before),
            post_padding: all(*behind),
            stride: all(*stride),
            dilation: all(*dilation),
            conv_mode: ConvMode::CrossCorrelation,
        }
    }};
}

fn convolution(shape: &Shape, direction: &str, data_type: DataType, order: Order) -> Case {
    let Shape(name, x_dims, w_dims, ..) = shape;
    let mut case = Case::new(format!("conv {direction} {name} {} {order:?}", data_type.name()));
    let y_dims = shape.y();
    match direction {
        "forward" => {
            let x = case.input(data_type, x_dims, order, RANGE);
            let w = case.input(data_type, w_dims, order, RANGE);
            let y = case.output(data_type, &y_dims, order);
            case.node(convolution!(shape, ConvolutionForward { x, w, y }));
        }
        "data" => {
            let dy = case.input(data_type, &y_dims, order, RANGE);
            let w = case.input(data_type, w_dims, order, RANGE);
            let dx = case.output(data_type, x_dims, order);
            case.node(convolution!(shape, ConvolutionBackwardData { dy, w, dx }));
        }
        _ => {
            let x = case.input(data_type, x_dims, order, RANGE);
            let dy = case.input(data_type, &y_dims, order, RANGE);
            let dw = case.output(data_type, w_dims, order);
            case.node(convolution!(shape, ConvolutionBackwardFilter { x, dy, dw }));
        }
    }
    case
}

/// A convolution with an epilogue: bias, optionally a residual, RELU.
fn block(shape: &Shape, has_residual: bool, data_type: DataType, order: Order) -> Case {
    let Shape(name, x_dims, w_dims, ..) = shape;
    let residual = if has_residual { " + residual" } else { "" };
    let mut case = Case::new(format!("conv {name} + bias{residual} + relu {} {order:?}", data_type.name()));
    let dims = shape.y();
    let x = case.input(data_type, x_dims, order, RANGE);
    let w = case.input(data_type, w_dims, order, RANGE);
    let y = case.between(DataType::Float, &dims, order);
    case.node(convolution!(shape, ConvolutionForward { x, w, y }));
    let bias = case.input(data_type, &[1, 24, 1, 1], order, RANGE);
    let mut last = case.between(DataType::Float, &dims, order);
    case.node(Pointwise::new(PointwiseMode::Add, y, Some(bias), last));
    if has_residual {
        let residual = case.input(data_type, &dims, order, RANGE);
        let sum = case.between(DataType::Float, &dims, order);
        case.node(Pointwise::new(PointwiseMode::Add, last, Some(residual), sum));
        last = sum;
    }
    let out = case.output(data_type, &dims, order);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, last, None, out));
    case
}

/// A convolution, and a copy of another tensor that has nothing to do with it.
fn copy_beside(data_type: DataType, order: Order) -> Case {
    let mut case = Case::new(format!("conv and a copy beside it {} {order:?}", data_type.name()));
    let shape = &SHAPES[0];
    let Shape(_, x_dims, w_dims, ..) = shape;
    let x = case.input(data_type, x_dims, order, RANGE);
    let w = case.input(data_type, w_dims, order, RANGE);
    let y = case.output(data_type, &shape.y(), order);
    case.node(convolution!(shape, ConvolutionForward { x, w, y }));
    let other = case.input(data_type, &[2, 3, 10, 12], order, RANGE);
    let copied = case.output(data_type, &[2, 3, 10, 12], order);
    case.node(Pointwise::new(PointwiseMode::Identity, other, None, copied));
    case
}

const IMAGE: [i64; 4] = [4, 16, 8, 10];
const ONE_IMAGE: [i64; 4] = [1, 16, 8, 10];
const CHANNELS: [i64; 4] = [1, 16, 1, 1];

fn pooling(mode: ResampleMode, backward: bool, data_type: DataType, order: Order) -> Case {
    let direction = if backward { "backward" } else { "forward" };
    let mut case = Case::new(format!("{} {direction} {} {order:?}", mode.name(), data_type.name()));
    let (x_dims, y_dims) = ([2, 8, 8, 10], [2, 8, 4, 5]);
    let (pre_padding, post_padding, stride, window) = (vec![1, 1], vec![1, 1], vec![2, 2], vec![3, 3]);
    let padding_mode =
        if mode == ResampleMode::Maxpool { PaddingMode::NegInfPad } else { PaddingMode::ZeroPad };
    if backward {
        let dy = case.input(data_type, &y_dims, order, RANGE);
        let dx = case.output(data_type, &x_dims, order);
        case.node(ResampleBackward {
            dy,
            dx,
            index: None,
            pre_padding,
            post_padding,
            stride,
            window,
            resample_mode: mode,
            padding_mode,
        });
    } else {
        let x = case.input(data_type, &x_dims, order, RANGE);
        let y = case.output(data_type, &y_dims, order);
        case.node(ResampleForward {
            x,
            y,
            index: None,
            pre_padding,
            post_padding,
            stride,
            window,
            resample_mode: mode,
            padding_mode,
            generate_index: None,
        });
    }
    case
}

/// The gradient of global average pooling, whose single pixel is stored with channels first or last.
fn global_pooling(data_type: DataType, pixel: Order, order: Order) -> Case {
    let mut case = Case::new(format!("global mean backward {} dy {pixel:?}, dx {order:?}", data_type.name()));
    let dy = case.input(data_type, &[4, 16, 1, 1], pixel, RANGE);
    let dx = case.output(data_type, &[4, 16, 7, 5], order);
    case.node(ResampleBackward {
        dy,
        dx,
        index: None,
        pre_padding: vec![0; 2],
        post_padding: vec![0; 2],
        stride: vec![7, 5],
        window: vec![7, 5],
        resample_mode: ResampleMode::AvgpoolExcludePadding,
        padding_mode: PaddingMode::ZeroPad,
    });
    case
}

/// The same in every layout.
pub fn global_poolings(data_type: DataType) -> impl Iterator<Item = Case> {
    ORDERS.into_iter().flat_map(move |order| ORDERS.map(|pixel| global_pooling(data_type, pixel, order)))
}

fn given(case: &mut Case, range: [f32; 2]) -> i64 {
    case.input(DataType::Float, &CHANNELS, FIRST, range)
}

fn made(case: &mut Case) -> i64 {
    case.output(DataType::Float, &CHANNELS, FIRST)
}

fn inference(image: &[i64; 4], with_variance: bool, data_type: DataType, order: Order) -> Case {
    let how = if with_variance { " with variance" } else { "" };
    let mut case =
        Case::new(format!("batchnorm inference{how} of {} {} {order:?}", image[0], data_type.name()));
    let x = case.input(data_type, image, order, [-2.0, 3.0]);
    let (mean, spread) = (given(&mut case, RANGE), given(&mut case, [0.5, 2.0]));
    let (scale, bias) = (given(&mut case, [-1.0, 2.0]), given(&mut case, RANGE));
    if with_variance {
        let epsilon = case.value(1e-3);
        let y = case.output(data_type, image, order);
        case.node(BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, epsilon, y });
    } else {
        let y = case.output(data_type, image, order);
        case.node(BatchnormInference { x, mean, inv_variance: spread, scale, bias, y });
    }
    case
}

/// Training. `kept`: 0 nothing, 1 statistics, 2 running statistics, 3 both.
fn training(kept: usize, activation: bool, data_type: DataType, order: Order) -> Case {
    let relu = if activation { " + relu" } else { "" };
    let mut case = Case::new(format!("batchnorm training{relu}, kept {kept} {} {order:?}", data_type.name()));
    let x = case.input(data_type, &IMAGE, order, [-2.0, 3.0]);
    let y = if activation {
        case.between(data_type, &IMAGE, order)
    } else {
        case.output(data_type, &IMAGE, order)
    };
    let (scale, bias) = (given(&mut case, [-1.0, 2.0]), given(&mut case, RANGE));
    let mut node = Batchnorm::new(x, scale, bias, case.value(1e-3), y);
    if kept & 1 != 0 {
        node.mean = Some(made(&mut case));
        node.inv_variance = Some(made(&mut case));
    }
    if kept & 2 != 0 {
        node.prev_running_mean = Some(given(&mut case, RANGE));
        node.prev_running_variance = Some(given(&mut case, [0.5, 2.0]));
        node.momentum = Some(case.value(0.3));
        node.next_running_mean = Some(made(&mut case));
        node.next_running_variance = Some(made(&mut case));
    }
    case.node(node);
    if activation {
        let out = case.output(data_type, &IMAGE, order);
        case.node(Pointwise::new(PointwiseMode::ReluFwd, y, None, out));
    }
    case
}

fn backward(data_type: DataType, order: Order) -> Case {
    let mut case = Case::new(format!("batchnorm backward {} {order:?}", data_type.name()));
    let dy = case.input(data_type, &IMAGE, order, RANGE);
    let x = case.input(data_type, &IMAGE, order, [-2.0, 2.0]);
    let scale = given(&mut case, [0.5, 2.0]);
    let (mean, inv_variance) = (given(&mut case, [-0.5, 0.5]), given(&mut case, [0.5, 1.0]));
    let dx = case.output(data_type, &IMAGE, order);
    let (dscale, dbias) = (made(&mut case), made(&mut case));
    case.node(BatchnormBackward {
        dy,
        x,
        scale,
        dx,
        dscale,
        dbias,
        mean: Some(mean),
        inv_variance: Some(inv_variance),
        peer_stats: Vec::new(),
    });
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        cases.extend(global_poolings(data_type));
        for order in ORDERS {
            for shape in &SHAPES {
                cases.extend(
                    ["forward", "data", "filter"]
                        .map(|direction| convolution(shape, direction, data_type, order)),
                );
            }
            for shape in [&SHAPES[0], &SHAPES[8], &SHAPES[9]] {
                cases.extend([false, true].map(|has_residual| block(shape, has_residual, data_type, order)));
            }
            cases.push(copy_beside(data_type, order));
            let modes = [
                ResampleMode::Maxpool,
                ResampleMode::AvgpoolExcludePadding,
                ResampleMode::AvgpoolIncludePadding,
            ];
            cases.extend(modes.map(|mode| pooling(mode, false, data_type, order)));
            cases.extend([modes[1], modes[2]].map(|mode| pooling(mode, true, data_type, order)));
            for image in [&IMAGE, &ONE_IMAGE] {
                let of = |with_variance| inference(image, with_variance, data_type, order);
                cases.extend([false, true].map(of));
            }
            for kept in 0..4 {
                cases.push(training(kept, false, data_type, order));
            }
            cases.push(training(1, true, data_type, order));
            cases.push(backward(data_type, order));
        }
    }
    cases
}
