use hipdnn_plugin_sdk::graph::operation::Reduction;
use hipdnn_plugin_sdk::graph::{DataType, ReductionMode};

use super::MIOPEN;
use crate::case::{Case, Order};

/// Dims of x and y, with a name.
type Shape = (&'static str, &'static [i64], &'static [i64]);

fn case(mode: ReductionMode, (name, x, y): Shape, data_type: DataType, order: Order) -> (&'static str, Case) {
    let mut case = Case::new(format!("reduction {} {name} {} {order:?}", mode.name(), data_type.name()));
    // A product of values near 1 is neither 0 nor infinite.
    let range = if mode == ReductionMode::Mul { [0.9, 1.1] } else { [-2.0, 3.0] };
    let in_ = case.input(data_type, x, order, range);
    let out = case.output(data_type, y, order);
    case.node(Reduction { in_, out, mode, is_deterministic: false });
    (MIOPEN, case)
}

/// Every mode, then every shape, layout and type with few modes: MIOpen compiles each of these for seconds.
pub fn cases() -> Vec<(&'static str, Case)> {
    use ReductionMode as Mode;
    let channels: Shape = ("to channels", &[2, 3, 8, 7], &[1, 3, 1, 1]);
    let others: [Shape; 3] = [
        ("of channels", &[2, 5, 4, 3], &[2, 1, 4, 3]),
        ("to one", &[3, 4, 5], &[1, 1, 1]),
        ("of rows", &[6, 70], &[6, 1]),
    ];
    let mut cases = Vec::new();
    for mode in [Mode::Add, Mode::Mul, Mode::Min, Mode::Max, Mode::Amax, Mode::Avg, Mode::Norm1, Mode::Norm2]
    {
        cases.push(case(mode, channels, DataType::Float, Order::ChannelsFirst));
    }
    for mode in [Mode::Add, Mode::Max] {
        cases.push(case(mode, channels, DataType::Half, Order::ChannelsLast));
    }
    cases.push(case(Mode::Add, channels, DataType::Float, Order::ChannelsLast));
    for shape in others {
        cases.push(case(Mode::Add, shape, DataType::Float, Order::ChannelsFirst));
    }
    cases
}
