use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode as Mode, ReductionMode};

use super::{MIOPEN, TYPES_WITHOUT_BFLOAT16};
use crate::case::{Case, Order};

/// Dimensions of x, reduced dimensions, and the layout.
type Shape = (&'static [i64], &'static [i64], Order);

/// Rows, channels of images, whole images, and many terms.
const SHAPES: [Shape; 8] = [
    (&[6, 70], &[6, 1], Order::ChannelsFirst),
    (&[2, 5, 3, 4], &[2, 1, 3, 4], Order::ChannelsFirst),
    (&[2, 5, 3, 4], &[2, 1, 3, 4], Order::ChannelsLast),
    (&[2, 3, 4, 5], &[2, 1, 1, 1], Order::ChannelsLast),
    (&[2, 3, 2, 3, 5], &[2, 3, 1, 1, 1], Order::ChannelsFirst),
    (&[3, 1100], &[3, 1], Order::ChannelsFirst),
    (&[2, 5, 2, 3, 2], &[2, 1, 2, 3, 2], Order::ChannelsFirst),
    (&[2, 5, 2, 3, 2], &[2, 1, 2, 3, 2], Order::ChannelsLast),
];

fn reduction(in_: i64, out: i64, mode: ReductionMode) -> Reduction {
    Reduction { in_, out, mode, is_deterministic: false }
}

fn forward(logarithm: bool, (dims, left, order): Shape, data_type: DataType) -> Case {
    let name = if logarithm { "logarithm of softmax" } else { "softmax" };
    let mut case = Case::new(format!("{name} {dims:?} to {left:?} {} {order:?}", data_type.name()));
    // One kernel needs no workspace.
    case.workspace_limit = Some(0);
    let between = |case: &mut Case, dims| case.between(DataType::Float, dims, order);
    let x = case.input(data_type, dims, order, [-4.0, 4.0]);
    let most = between(&mut case, left);
    case.node(reduction(x, most, ReductionMode::Max));
    let below = between(&mut case, dims);
    case.node(Pointwise::new(Mode::Sub, x, Some(most), below));
    let powers = between(&mut case, dims);
    case.node(Pointwise::new(Mode::Exp, below, None, powers));
    let sum = between(&mut case, left);
    case.node(reduction(powers, sum, ReductionMode::Add));
    if logarithm {
        let log = between(&mut case, left);
        case.node(Pointwise::new(Mode::Log, sum, None, log));
        let y = case.output(data_type, dims, order);
        case.node(Pointwise::new(Mode::Sub, below, Some(log), y));
    } else {
        let y = case.output(data_type, dims, order);
        case.node(Pointwise::new(Mode::Div, powers, Some(sum), y));
    }
    case
}

fn backward(logarithm: bool, (dims, left, order): Shape, data_type: DataType) -> Case {
    let name = if logarithm { "logarithm of softmax" } else { "softmax" };
    let mut case = Case::new(format!("{name} backward {dims:?} to {left:?} {} {order:?}", data_type.name()));
    case.workspace_limit = Some(0);
    let between = |case: &mut Case, dims| case.between(DataType::Float, dims, order);
    let y = case.input(data_type, dims, order, if logarithm { [-4.0, -1.0] } else { [0.0, 0.2] });
    let dy = case.input(data_type, dims, order, [-1.0, 1.0]);
    let (sum, products) = (between(&mut case, left), between(&mut case, dims));
    if logarithm {
        case.node(reduction(dy, sum, ReductionMode::Add));
        let powers = between(&mut case, dims);
        case.node(Pointwise::new(Mode::Exp, y, None, powers));
        case.node(Pointwise::new(Mode::Mul, powers, Some(sum), products));
        let dx = case.output(data_type, dims, order);
        case.node(Pointwise::new(Mode::Sub, dy, Some(products), dx));
    } else {
        case.node(Pointwise::new(Mode::Mul, dy, Some(y), products));
        case.node(reduction(products, sum, ReductionMode::Add));
        let less = between(&mut case, dims);
        case.node(Pointwise::new(Mode::Sub, dy, Some(sum), less));
        let dx = case.output(data_type, dims, order);
        case.node(Pointwise::new(Mode::Mul, less, Some(y), dx));
    }
    case
}

pub fn cases() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    for data_type in TYPES_WITHOUT_BFLOAT16 {
        // MIOpen compiles a kernel for each.
        let shapes = SHAPES.iter().take(if data_type == DataType::Float { SHAPES.len() } else { 3 });
        for shape in shapes {
            for logarithm in [false, true] {
                cases.push((MIOPEN, forward(logarithm, *shape, data_type)));
                cases.push((MIOPEN, backward(logarithm, *shape, data_type)));
            }
        }
    }
    cases
}
