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

/// Modes whose results are truth values, or that read them.
fn is_logical(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    matches!(
        mode,
        M::CmpEq
            | M::CmpGe
            | M::CmpGt
            | M::CmpLe
            | M::CmpLt
            | M::CmpNeq
            | M::LogicalAnd
            | M::LogicalOr
            | M::LogicalNot
    )
}

/// One mode; the numbers of activations are none of their defaults.
fn mode_of(mode: PointwiseMode, data_type: DataType) -> Case {
    let mut case = Case::new(format!("pointwise {} {}", mode.name(), data_type.name()));
    case.tolerance = case.tolerance.max(3e-5);
    let inputs: Vec<i64> =
        (0..mode.operands()).map(|_| case.input(data_type, &DIMS, FIRST, range(mode))).collect();
    let out = case.output(if is_logical(mode) { DataType::Float } else { data_type }, &DIMS, FIRST);
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
    case.tolerance = case.tolerance.max(3e-5);
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
    case.tolerance = case.tolerance.max(1e-4);
    // Products stay near one.
    let range =
        if matches!(mode, ReductionMode::Mul | ReductionMode::MulNoZeros) { [0.9, 1.1] } else { [-1.0, 1.5] };
    let in_ = case.input(data_type, &DIMS, FIRST, range);
    let out = case.output(DataType::Float, &to, FIRST);
    case.node(Reduction { in_, out, mode, is_deterministic: false });
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        cases.extend((1..=47).filter_map(PointwiseMode::from_wire).map(|mode| mode_of(mode, data_type)));
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
