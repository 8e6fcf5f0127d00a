use hipdnn_plugin_sdk::graph::operation::{
    Layernorm, LayernormBackward, Pointwise, RmsNorm, RmsNormBackward,
};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, PointwiseMode};

use crate::case::{Case, Order};
use crate::cases::TYPES;

const FIRST: Order = Order::ChannelsFirst;

/// Dims of x, and how many of them are normalized.
const SHAPES: [(&[i64], usize); 4] =
    [(&[24, 128], 1), (&[2, 6, 256], 1), (&[3, 4, 8, 16], 2), (&[64, 1024], 1)];

struct Parts {
    case: Case,
    data_type: DataType,
    dims: &'static [i64],
    rows: Vec<i64>,
    places: Vec<i64>,
}

impl Parts {
    fn new(name: &str, (dims, count): (&'static [i64], usize), data_type: DataType) -> Self {
        let case = Case::new(format!("{name} of {count} of {dims:?} {}", data_type.name()));
        let leading = dims.len() - count;
        let part = |rows: bool| {
            dims.iter()
                .enumerate()
                .map(|(axis, dim)| if (axis < leading) == rows { *dim } else { 1 })
                .collect()
        };
        Self { case, data_type, dims, rows: part(true), places: part(false) }
    }

    fn x(&mut self) -> i64 {
        self.case.input(self.data_type, self.dims, FIRST, [-2.0, 3.0])
    }

    fn y(&mut self) -> i64 {
        self.case.output(self.data_type, self.dims, FIRST)
    }

    fn given(&mut self, data_type: DataType, range: [f32; 2]) -> i64 {
        self.case.input(data_type, &self.places, FIRST, range)
    }

    fn made(&mut self, data_type: DataType) -> i64 {
        self.case.output(data_type, &self.places, FIRST)
    }
}

fn layernorm(
    statistics: bool,
    parameters: DataType,
    shape: (&'static [i64], usize),
    data_type: DataType,
) -> Case {
    let with = if statistics { " with statistics" } else { "" };
    let mut p = Parts::new(&format!("layernorm{with}, parameters {}", parameters.name()), shape, data_type);
    let x = p.x();
    let (scale, bias) = (p.given(parameters, [-1.0, 2.0]), p.given(parameters, [-1.0, 1.0]));
    let epsilon = p.case.value(1e-3);
    let y = p.y();
    let mut statistic = || statistics.then(|| p.case.output(DataType::Float, &p.rows, FIRST));
    let (mean, inv_variance) = (statistic(), statistic());
    let forward_phase = if statistics { NormFwdPhase::Training } else { NormFwdPhase::Inference };
    let normalized_dim_count = shape.1 as i64;
    p.case.node(Layernorm {
        x,
        scale,
        bias,
        epsilon,
        y,
        mean,
        inv_variance,
        forward_phase,
        normalized_dim_count,
    });
    p.case
}

fn layernorm_backward(shape: (&'static [i64], usize), data_type: DataType) -> Case {
    let mut p = Parts::new("layernorm backward", shape, data_type);
    let (dy, x) = (p.x(), p.x());
    let scale = p.given(data_type, [0.5, 1.5]);
    let rows = p.rows.clone();
    let mean = Some(p.case.input(DataType::Float, &rows, FIRST, [-0.5, 0.5]));
    let inv_variance = Some(p.case.input(DataType::Float, &rows, FIRST, [0.5, 1.0]));
    let (dx, dscale, dbias) = (p.y(), p.made(data_type), p.made(data_type));
    let normalized_dim_count = shape.1 as i64;
    p.case.node(LayernormBackward {
        dy,
        x,
        scale,
        mean,
        inv_variance,
        epsilon: None,
        dx,
        dscale,
        dbias,
        normalized_dim_count,
    });
    p.case
}

fn rms(statistics: bool, residual: bool, shape: (&'static [i64], usize), data_type: DataType) -> Case {
    let with = if statistics { " with statistics" } else { "" };
    let before = if residual { "residual + " } else { "" };
    let mut p = Parts::new(&format!("{before}RMSNorm{with}"), shape, data_type);
    let mut x = p.x();
    if residual {
        let other = p.x();
        let sum = p.case.between(p.data_type, p.dims, FIRST);
        p.case.node(Pointwise::new(PointwiseMode::Add, x, Some(other), sum));
        x = sum;
    }
    let scale = p.given(data_type, [-1.0, 2.0]);
    let epsilon = p.case.value(1e-3);
    let y = p.y();
    let rows = p.rows.clone();
    let inv_rms = statistics.then(|| p.case.output(DataType::Float, &rows, FIRST));
    let forward_phase = if statistics { NormFwdPhase::Training } else { NormFwdPhase::Inference };
    p.case.node(RmsNorm { x, scale, epsilon, y, bias: None, inv_rms, forward_phase });
    p.case
}

fn rms_backward(shape: (&'static [i64], usize), data_type: DataType) -> Case {
    let mut p = Parts::new("RMSNorm backward", shape, data_type);
    let (dy, x) = (p.x(), p.x());
    let scale = p.given(data_type, [0.5, 1.5]);
    let rows = p.rows.clone();
    let inv_rms = Some(p.case.input(DataType::Float, &rows, FIRST, [0.5, 1.0]));
    let (dx, dscale) = (p.y(), p.made(data_type));
    p.case.node(RmsNormBackward { dy, x, scale, inv_rms, dx, dscale, dbias: None });
    p.case
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for shape in SHAPES {
            for statistics in [false, true] {
                cases.push(layernorm(statistics, data_type, shape, data_type));
                if data_type != DataType::Float {
                    cases.push(layernorm(statistics, DataType::Float, shape, data_type));
                }
                cases.push(rms(statistics, false, shape, data_type));
            }
            cases.push(layernorm_backward(shape, data_type));
            cases.push(rms_backward(shape, data_type));
        }
        cases.push(rms(false, true, SHAPES[3], data_type));
    }
    cases
}
