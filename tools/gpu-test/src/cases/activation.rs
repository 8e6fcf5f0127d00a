use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::{MIOPEN, ORDERS, TYPES_WITHOUT_BFLOAT16};
use crate::case::{Case, Order};
use crate::memory::half_step;

/// The shape of images.
const IMAGES: &[i64] = &[2, 3, 5, 7];
/// The shape of volumes.
const VOLUMES: &[i64] = &[2, 3, 3, 4, 5];

fn case(
    dims: &[i64],
    mode: PointwiseMode,
    name: &str,
    data_type: DataType,
    order: Order,
    with: impl Fn(&mut Pointwise),
) -> (&'static str, Case) {
    let mut case = Case::new(format!("{}{name} {} {order:?}", mode.name(), data_type.name()));
    let backward = mode.operands() == 2;
    let first = case.input(data_type, dims, order, [-3.0, 3.0]);
    let second = backward.then(|| case.input(data_type, dims, order, [-3.0, 3.0]));
    let out = case.output(data_type, dims, order);
    if matches!(mode, PointwiseMode::SigmoidBwd | PointwiseMode::TanhBwd) {
        // MIOpen computes these from the activation's rounded result a: up to 3 |1 - 2 a| or 6 |a| half steps of it, over results up to 3.
        case.allowance = 4.0 * half_step(data_type);
    }
    let mut node = Pointwise::new(mode, first, second, out);
    with(&mut node);
    case.node(node);
    (MIOPEN, case)
}

pub fn cases() -> Vec<(&'static str, Case)> {
    use PointwiseMode as Mode;
    let mut cases = Vec::new();
    for order in ORDERS {
        for data_type in TYPES_WITHOUT_BFLOAT16 {
            for mode in [Mode::ReluFwd, Mode::ReluBwd, Mode::TanhFwd, Mode::SigmoidBwd] {
                cases.push(case(VOLUMES, mode, " of volumes", data_type, order, |_| {}));
            }
        }
    }
    for data_type in TYPES_WITHOUT_BFLOAT16 {
        for order in ORDERS {
            for mode in [
                Mode::Identity,
                Mode::Abs,
                Mode::ReluFwd,
                Mode::ReluBwd,
                Mode::SigmoidFwd,
                Mode::SigmoidBwd,
                Mode::TanhFwd,
                Mode::TanhBwd,
                Mode::SoftplusFwd,
                Mode::SoftplusBwd,
                Mode::EluFwd,
                Mode::EluBwd,
            ] {
                cases.push(case(IMAGES, mode, "", data_type, order, |_| {}));
            }
            for mode in [Mode::ReluFwd, Mode::ReluBwd] {
                let clipped = |node: &mut Pointwise| node.relu_upper_clip = Some(1.5);
                let leaky = |node: &mut Pointwise| node.relu_lower_clip_slope = Some(0.25);
                cases.push(case(IMAGES, mode, " clipped at 1.5", data_type, order, clipped));
                cases.push(case(IMAGES, mode, " with slope 0.25", data_type, order, leaky));
            }
            for mode in [Mode::EluFwd, Mode::EluBwd] {
                let alpha = |node: &mut Pointwise| node.elu_alpha = Some(0.5);
                cases.push(case(IMAGES, mode, " with alpha 0.5", data_type, order, alpha));
            }
        }
    }
    cases
}
