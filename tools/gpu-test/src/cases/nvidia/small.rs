//! Matmuls and convolutions of 8-bit floats with scales in memory.

use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Matmul, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode};

use crate::case::{Case, Order, strides};

const FIRST: Order = Order::ChannelsFirst;

/// The scales and the result of a matmul.
#[derive(Clone, Copy)]
struct Form {
    factors: [DataType; 2],
    result: DataType,
    dims: [i64; 3],
    batch: i64,
    scales: usize,
    bias: bool,
    activation: Option<PointwiseMode>,
}

/// Row-major a and column-major b, which the tensor cores take without a copy.
fn product(form: Form) -> Case {
    let Form { factors: [a_type, b_type], result, dims: [m, n, k], batch, scales, bias, activation } = form;
    let name = activation.map_or("nothing", PointwiseMode::name);
    let mut case = Case::new(format!(
        "matmul {} x {} to {}, {batch} of {m} x {n} x {k}, {scales} scales, bias {bias}, {name}",
        a_type.name(),
        b_type.name(),
        result.name(),
    ));
    let a = case.input(a_type, &[batch, m, k], FIRST, [-2.0, 2.0]);
    let b = case.input_with_strides(b_type, &[batch, k, n], &[k * n, 1, k], [-2.0, 2.0]);
    let of_c = [batch, m, n];
    let mut links = Vec::new();
    for near in [0.25, 3.0].into_iter().take(scales) {
        let scale = case.input(DataType::Float, &[1, 1, 1], FIRST, [near, near + 0.5]);
        links.push((PointwiseMode::Mul, Some(scale)));
    }
    if bias {
        let of_bias = if result == DataType::Half { result } else { DataType::Bfloat16 };
        links.push((PointwiseMode::Add, Some(case.input(of_bias, &[1, 1, n], FIRST, [-1.0, 1.0]))));
    }
    links.extend(activation.map(|mode| (mode, None)));
    let out = |case: &mut Case, is_last: bool| {
        if is_last {
            case.output_with_strides(result, &of_c, &strides(&of_c, FIRST))
        } else {
            case.between(DataType::Float, &of_c, FIRST)
        }
    };
    let mut last = out(&mut case, links.is_empty());
    case.node(Matmul { a, b, c: last });
    for (place, (mode, other)) in links.iter().enumerate() {
        let next = out(&mut case, place + 1 == links.len());
        case.node(Pointwise::new(*mode, last, *other, next));
        last = next;
    }
    case
}

pub fn cases() -> Vec<Case> {
    use DataType::{Bfloat16, Float, Fp8E4m3, Fp8E5m2, Half};
    let plain = Form {
        factors: [Fp8E4m3, Fp8E4m3],
        result: Bfloat16,
        dims: [64, 48, 128],
        batch: 1,
        scales: 2,
        bias: false,
        activation: None,
    };
    let mut cases = Vec::new();
    for factors in [[Fp8E4m3, Fp8E4m3], [Fp8E4m3, Fp8E5m2], [Fp8E5m2, Fp8E4m3]] {
        for result in [Float, Half, Bfloat16] {
            cases.push(product(Form { factors, result, ..plain }));
        }
    }
    for scales in [0, 1] {
        cases.push(product(Form { scales, ..plain }));
    }
    cases.push(product(Form { batch: 3, ..plain }));
    cases.push(product(Form { dims: [256, 512, 1024], ..plain }));
    for result in [Half, Bfloat16] {
        let bias = Form { result, bias: true, ..plain };
        cases.push(product(bias));
        for mode in [PointwiseMode::ReluFwd, PointwiseMode::GeluApproxTanhFwd] {
            cases.push(product(Form { activation: Some(mode), ..bias }));
        }
    }
    cases
}

macro_rules! convolution {
    ($operation:ident { $($tensor:ident: $value:expr),+ }) => {
        $operation {
            $($tensor: $value,)+
            pre_padding: vec![1; 2],
            post_padding: vec![1; 2],
            stride: vec![1; 2],
            dilation: vec![1; 2],
            conv_mode: ConvMode::CrossCorrelation,
        }
    };
}

/// Convolves channels-last images with 3 x 3 filters, or computes a gradient, followed by so many scales.
fn convolution(direction: &str, factors: [DataType; 2], result: DataType, scales: usize) -> Case {
    const LAST: Order = Order::ChannelsLast;
    const RANGE: [f32; 2] = [-2.0, 2.0];
    let [x_dims, w_dims, y_dims] = [[4, 64, 14, 14], [32, 64, 3, 3], [4, 32, 14, 14]];
    let [first, second] = factors;
    let mut case = Case::new(format!(
        "small conv {direction} {} x {} to {}, {scales} scales",
        first.name(),
        second.name(),
        result.name()
    ));
    let dims = match direction {
        "forward" => [x_dims, w_dims, y_dims],
        "data" => [y_dims, w_dims, x_dims],
        _ => [x_dims, y_dims, w_dims],
    };
    let a = case.input(first, &dims[0], LAST, RANGE);
    let b = case.input(second, &dims[1], LAST, RANGE);
    let factors: Vec<i64> = [0.25, 3.0]
        .into_iter()
        .take(scales)
        .map(|near| case.input(DataType::Float, &[1; 4], FIRST, [near, near + 0.5]))
        .collect();
    let out = |case: &mut Case, is_last: bool| {
        if is_last {
            case.output(result, &dims[2], LAST)
        } else {
            case.between(DataType::Float, &dims[2], LAST)
        }
    };
    let mut last = out(&mut case, factors.is_empty());
    match direction {
        "forward" => case.node(convolution!(ConvolutionForward { x: a, w: b, y: last })),
        "data" => case.node(convolution!(ConvolutionBackwardData { dy: a, w: b, dx: last })),
        _ => case.node(convolution!(ConvolutionBackwardFilter { x: a, dy: b, dw: last })),
    }
    for (place, factor) in factors.iter().enumerate() {
        let next = out(&mut case, place + 1 == factors.len());
        case.node(Pointwise::new(PointwiseMode::Mul, last, Some(*factor), next));
        last = next;
    }
    case
}

pub fn convolutions() -> Vec<Case> {
    use DataType::{Bfloat16, Float, Fp8E4m3, Fp8E5m2, Half};
    let mut cases = Vec::new();
    for factors in [[Fp8E4m3, Fp8E4m3], [Fp8E4m3, Fp8E5m2], [Fp8E5m2, Fp8E4m3], [Fp8E5m2, Fp8E5m2]] {
        for direction in ["forward", "data", "filter"] {
            for scales in [0, 2] {
                cases.push(convolution(direction, factors, Float, scales));
            }
        }
    }
    for result in [Half, Bfloat16, Fp8E4m3] {
        cases.push(convolution("forward", [Fp8E4m3; 2], result, 0));
        cases.push(convolution("forward", [Fp8E4m3; 2], result, 2));
    }
    cases
}
