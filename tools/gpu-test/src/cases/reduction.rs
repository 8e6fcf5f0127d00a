use hipdnn_plugin_sdk::graph::operation::Reduction;
use hipdnn_plugin_sdk::graph::{DataType, ReductionMode};

use super::{MIOPEN, RTC};
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
    (of(mode), case)
}

/// The largest of rows that are masked altogether, or the smallest of such rows.
fn masked(mode: ReductionMode, mask: f32, data_type: DataType) -> (&'static str, Case) {
    let mut case = Case::new(format!("reduction {} of rows of {mask} {}", mode.name(), data_type.name()));
    let values =
        (0..6 * 70).map(|place| if place / 70 % 2 == 0 { mask } else { (place % 9) as f32 }).collect();
    let in_ = case.input_of(data_type, &[6, 70], values);
    let out = case.output(data_type, &[6, 1], Order::ChannelsFirst);
    case.node(Reduction { in_, out, mode, is_deterministic: false });
    (of(mode), case)
}

/// MIOpen starts with finite numbers where it compares.
fn of(mode: ReductionMode) -> &'static str {
    if matches!(mode, ReductionMode::Max | ReductionMode::Min) { RTC } else { MIOPEN }
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
    for (mode, mask) in [(Mode::Max, f32::NEG_INFINITY), (Mode::Min, f32::INFINITY), (Mode::Amax, 0.0)] {
        for data_type in [DataType::Float, DataType::Half] {
            cases.push(masked(mode, mask, data_type));
        }
    }
    cases
}
