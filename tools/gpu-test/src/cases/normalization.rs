use hipdnn_plugin_sdk::graph::operation::{Layernorm, RmsNorm, RmsNormBackward};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase};

use super::{MIOPEN, TYPES};
use crate::case::{Case, Order};

const EPSILON: f32 = 1e-3;

/// Dims of x, and how many of them are normalized.
const SHAPES: [(&[i64], usize); 3] = [(&[6, 70], 1), (&[2, 3, 4, 8], 3), (&[2, 5, 3, 33], 2)];

fn case(centered: bool, dims: &[i64], count: usize, data_type: DataType, statistics: bool) -> Case {
    let name = if centered { "layernorm" } else { "RMSNorm" };
    let with = if statistics { " with statistics" } else { "" };
    let mut case = Case::new(format!("{name}{with} of {count} of {dims:?} {}", data_type.name()));
    let order = Order::ChannelsFirst;
    let leading = dims.len() - count;
    let part = |rows: bool| -> Vec<i64> {
        dims.iter().enumerate().map(|(axis, dim)| if (axis < leading) == rows { *dim } else { 1 }).collect()
    };
    let (rows, places) = (part(true), part(false));
    let x = case.input(data_type, dims, order, [-2.0, 3.0]);
    let scale = case.input(data_type, &places, order, [-1.0, 2.0]);
    let bias = centered.then(|| case.input(data_type, &places, order, [-1.0, 1.0]));
    let epsilon = case.value(EPSILON);
    let y = case.output(data_type, dims, order);
    let mut statistic = |wanted: bool| wanted.then(|| case.output(data_type, &rows, order));
    let (mean, inverse) = (statistic(statistics && centered), statistic(statistics));
    let forward_phase = if statistics { NormFwdPhase::Training } else { NormFwdPhase::Inference };
    match bias {
        Some(bias) => case.node(Layernorm {
            x,
            scale,
            bias,
            epsilon,
            y,
            mean,
            inv_variance: inverse,
            forward_phase,
            normalized_dim_count: count as i64,
        }),
        None => case.node(RmsNorm { x, scale, bias: None, epsilon, y, inv_rms: inverse, forward_phase }),
    }
    case
}

/// The gradient of RMSNorm. Many long rows are summed in two steps.
fn gradient(dims: &[i64], count: usize, data_type: DataType) -> Case {
    let mut case = Case::new(format!("RMSNorm backward of {count} of {dims:?} {}", data_type.name()));
    let order = Order::ChannelsFirst;
    let leading = dims.len() - count;
    let part = |rows: bool| -> Vec<i64> {
        dims.iter().enumerate().map(|(axis, dim)| if (axis < leading) == rows { *dim } else { 1 }).collect()
    };
    let (rows, places) = (part(true), part(false));
    let node = RmsNormBackward {
        dy: case.input(data_type, dims, order, [-1.0, 1.0]),
        x: case.input(data_type, dims, order, [-2.0, 2.0]),
        scale: case.input(data_type, &places, order, [0.5, 1.5]),
        inv_rms: Some(case.input(data_type, &rows, order, [0.5, 1.5])),
        dx: case.output(data_type, dims, order),
        dscale: case.output(data_type, &places, order),
        dbias: None,
    };
    case.node(node);
    case
}

pub fn cases() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    for (dims, count) in SHAPES {
        for data_type in TYPES {
            for centered in [true, false] {
                for statistics in [true, false] {
                    cases.push((MIOPEN, case(centered, dims, count, data_type, statistics)));
                }
            }
        }
    }
    for data_type in TYPES {
        for (dims, count) in SHAPES {
            cases.push((MIOPEN, gradient(dims, count, data_type)));
        }
        cases.push((MIOPEN, gradient(&[300, 260], 1, data_type)));
    }
    cases
}
