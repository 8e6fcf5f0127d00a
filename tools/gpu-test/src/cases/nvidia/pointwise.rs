use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};

use crate::case::{Case, Order};
use crate::cases::{ORDERS, TYPES};

const FIRST: Order = Order::ChannelsFirst;
const DIMS: [i64; 4] = [2, 8, 4, 16];

fn range(mode: PointwiseMode) -> [f32; 2] {
    use PointwiseMode as M;
    match mode {
        M::Log | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Div => [0.25, 4.0],
        M::Tan => [-1.2, 1.2],
        _ => [-3.0, 3.0],
    }
}

/// One mode; activations have non-default parameters.
fn mode_of(mode: PointwiseMode, data_type: DataType) -> Case {
    let mut case = Case::new(format!("pointwise {} {}", mode.name(), data_type.name()));
    let inputs: Vec<i64> =
        (0..mode.operands()).map(|_| case.input(data_type, &DIMS, FIRST, range(mode))).collect();
    let out = case.output(if mode.is_logical() { DataType::Float } else { data_type }, &DIMS, FIRST);
    let mut node = Pointwise::new(mode, inputs.first().copied().unwrap_or(0), inputs.get(1).copied(), out);
    node.in_2 = inputs.get(2).copied();
    node.axis = (mode == PointwiseMode::GenIndex).then_some(1);
    match mode {
        PointwiseMode::ReluFwd | PointwiseMode::ReluBwd => {
            node.relu_lower_clip = Some(-1.0);
            node.relu_upper_clip = Some(2.0);
            node.relu_lower_clip_slope = Some(0.1);
        }
        PointwiseMode::SwishFwd | PointwiseMode::SwishBwd => node.swish_beta = Some(0.7),
        PointwiseMode::EluFwd | PointwiseMode::EluBwd => node.elu_alpha = Some(0.3),
        PointwiseMode::SoftplusFwd | PointwiseMode::SoftplusBwd => node.softplus_beta = Some(1.7),
        _ => {}
    }
    case.node(node);
    case
}

/// relu(x · scale + bias + residual)
fn chain(data_type: DataType, order: Order) -> Case {
    let mut case = Case::new(format!("scale, bias, residual, relu {} {order:?}", data_type.name()));
    let channels = [1, DIMS[1], 1, 1];
    let x = case.input(data_type, &DIMS, order, [-2.0, 2.0]);
    let scale = case.input(DataType::Float, &channels, order, [0.5, 1.5]);
    let bias = case.input(DataType::Float, &channels, order, [-1.0, 1.0]);
    let residual = case.input(data_type, &DIMS, order, [-2.0, 2.0]);
    let [scaled, biased, sum] = [0; 3].map(|_| case.between(DataType::Float, &DIMS, order));
    let y = case.output(data_type, &DIMS, order);
    case.node(Pointwise::new(PointwiseMode::Mul, x, Some(scale), scaled));
    case.node(Pointwise::new(PointwiseMode::Add, scaled, Some(bias), biased));
    case.node(Pointwise::new(PointwiseMode::Add, biased, Some(residual), sum));
    case.node(Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
    case
}

/// gelu(x · number + row), matrices of two dimensions
fn matrices(data_type: DataType) -> Case {
    let mut case = Case::new(format!("number, row, gelu of a matrix {}", data_type.name()));
    let dims = [24, 32];
    let x = case.input(data_type, &dims, FIRST, [-2.0, 2.0]);
    let number = case.value(0.5);
    let row = case.input(data_type, &[32], FIRST, [-1.0, 1.0]);
    let [scaled, sum] = [0; 2].map(|_| case.between(DataType::Float, &dims, FIRST));
    let y = case.output(data_type, &dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::Mul, x, Some(number), scaled));
    case.node(Pointwise::new(PointwiseMode::Add, scaled, Some(row), sum));
    case.node(Pointwise::new(PointwiseMode::GeluFwd, sum, None, y));
    case
}

fn reduction(mode: ReductionMode, to: [i64; 4], data_type: DataType) -> Case {
    let mut case = Case::new(format!("reduction {} to {to:?} {}", mode.name(), data_type.name()));
    // Products stay near 1.
    let range =
        if matches!(mode, ReductionMode::Mul | ReductionMode::MulNoZeros) { [0.9, 1.1] } else { [-1.0, 1.5] };
    let in_ = case.input(data_type, &DIMS, FIRST, range);
    let out = case.output(DataType::Float, &to, FIRST);
    case.node(Reduction { in_, out, mode, is_deterministic: false });
    case
}

/// One contiguous row of more than 65535 blocks of 128 elements.
const LONG: i64 = 1 << 23;

/// RELU of a packed tensor, which is one long row.
fn long(dims: &[i64], data_type: DataType) -> Case {
    let mut case = Case::new(format!("relu of {dims:?} {}", data_type.name()));
    let x = case.input(data_type, dims, FIRST, [-2.0, 2.0]);
    let y = case.output(data_type, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, x, None, y));
    case
}

/// A sum along such a row.
fn long_sum(dims: [i64; 2], to: [i64; 2]) -> Case {
    let mut case = Case::new(format!("sum of {dims:?} to {to:?}"));
    let in_ = case.input(DataType::Float, &dims, FIRST, [0.0, 1.0]);
    let out = case.output(DataType::Float, &to, FIRST);
    case.node(Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: false });
    case
}

/// More matrices, with gaps between and inside them, than a grid has blocks along a side.
fn many_matrices() -> Case {
    let dims = [70_000, 3, 8];
    let mut case = Case::new(format!("relu of {dims:?} with gaps"));
    let x = case.input_with_strides(DataType::Float, &dims, &[32, 9, 1], [-2.0, 2.0]);
    let y = case.output(DataType::Float, &dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::ReluFwd, x, None, y));
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        long(&[8, 1024, 32, 32], DataType::Half),
        long(&[LONG + (1 << 20)], DataType::Float),
        long(&[2, LONG], DataType::Bfloat16),
        long(&[1 << 20], DataType::Half),
        long(&[5, 3, 40, 64], DataType::Float),
        // A size that does not divide evenly, and one that need not be divided.
        long(&[3, 7, 99, 101], DataType::Half),
        long(&[2, 1 << 18], DataType::Bfloat16),
        long_sum([1, LONG], [1, 1]),
        long_sum([2, LONG], [2, 1]),
        long_sum([2, LONG], [1, LONG]),
        many_matrices(),
    ];
    for data_type in TYPES {
        cases.extend(PointwiseMode::every().map(|mode| mode_of(mode, data_type)));
        cases.extend(ORDERS.map(|order| chain(data_type, order)));
        cases.push(matrices(data_type));
        for to in [[2, 8, 4, 1], [2, 1, 1, 1], [1, 8, 1, 1], [1, 1, 1, 1]] {
            cases.push(reduction(ReductionMode::Add, to, data_type));
        }
        cases.extend(
            (2..=9).filter_map(ReductionMode::from_wire).map(|mode| reduction(mode, [2, 8, 4, 1], data_type)),
        );
    }
    cases
}
