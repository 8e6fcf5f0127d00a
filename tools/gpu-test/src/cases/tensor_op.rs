use hipdnn_plugin_sdk::graph::PointwiseMode;
use hipdnn_plugin_sdk::graph::operation::Pointwise;

use super::{MIOPEN, ORDERS, TYPES_WITHOUT_BFLOAT16};
use crate::case::Case;

pub fn cases() -> Vec<(&'static str, Case)> {
    use PointwiseMode as Mode;
    let whole: &[i64] = &[2, 3, 4, 5];
    let volumes: &[i64] = &[2, 3, 2, 4, 3];
    /// A name, the dims of both operands and of the result.
    type Shapes<'a> = (&'a str, [&'a [i64]; 3]);
    let shapes: [Shapes<'_>; 4] = [
        ("of two tensors", [whole; 3]),
        ("with a channel's number", [whole, &[1, 3, 1, 1], whole]),
        ("of a channel's number and a tensor", [&[1, 3, 1, 1], whole, whole]),
        ("of volumes with a channel's number", [volumes, &[1, 3, 1, 1, 1], volumes]),
    ];
    let mut cases = Vec::new();
    for mode in [Mode::Add, Mode::Sub, Mode::Mul, Mode::Min, Mode::Max] {
        for (name, [a, b, c]) in shapes {
            for data_type in TYPES_WITHOUT_BFLOAT16 {
                for order in ORDERS {
                    let mut case =
                        Case::new(format!("{} {name} {} {order:?}", mode.name(), data_type.name()));
                    let a = case.input(data_type, a, order, [-2.0, 2.0]);
                    let b = case.input(data_type, b, order, [-2.0, 2.0]);
                    let c = case.output(data_type, c, order);
                    case.node(Pointwise::new(mode, a, Some(b), c));
                    cases.push((MIOPEN, case));
                }
            }
        }
    }
    cases
}
