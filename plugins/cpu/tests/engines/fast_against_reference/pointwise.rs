//! All pointwise modes, with infinities, NaN and every dtype.

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::{both, compare, compute, roundoff, tensor, types};
use crate::engines::common::{Case, Random};

/// The largest difference between two engines in a mode.
fn pointwise_bound(mode: PointwiseMode, eps: f64, operands: [f64; 3], result: f64, parameters: f64) -> f64 {
    use PointwiseMode as M;
    let [x, y, _] = operands.map(f64::abs);
    match mode {
        // One rounding of an exact result, or none.
        M::Abs
        | M::Neg
        | M::Identity
        | M::Ceil
        | M::Floor
        | M::Max
        | M::Min
        | M::BinarySelect
        | M::GenIndex => 0.0,
        M::Add | M::Sub | M::Mul | M::Div | M::Sqrt | M::Reciprocal | M::AddSquare => 0.0,
        mode if mode.name().starts_with("cmp") || mode.name().starts_with("logical") => 0.0,
        M::ReluFwd | M::ReluBwd => 4.0 * eps * parameters * (1.0 + x),
        M::Rsqrt => 4.0 * eps * result.abs(),
        // The functions are accurate to some units in the last place, or of 1 if they are differences from 1.
        mode if mode.is_backward() => 32.0 * eps * x * (1.0 + y * y) * parameters,
        _ => 32.0 * eps * (result.abs() + 1.0) * (1.0 + x.min(30.0)) * parameters,
    }
}

fn pointwise(seed: u64, mode: PointwiseMode) {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let [a, b, c, out] = types(random, &mut case);
    let integer = random.chance(15);
    let numbers = [DataType::Int8, DataType::Uint8, DataType::Int32, DataType::Int64, DataType::Boolean];
    let out = if integer { random.one_of(&numbers) } else { out };
    let rank = random.int(1, 5) as usize;
    let most = [900, 50, 12, 7, 5][rank - 1];
    let dims: Vec<i64> = (0..rank).map(|_| random.int(1, most)).collect();
    let mut inputs = Vec::new();
    for data_type in [a, b, c].into_iter().take(mode.operands()) {
        let data_type = if integer { random.one_of(&numbers) } else { data_type };
        let mut shape = dims.clone();
        if random.chance(40) {
            shape.iter_mut().for_each(|dim| *dim = if random.chance(50) { 1 } else { *dim });
            shape.drain(..random.int(0, rank as i64 - 1) as usize);
        }
        let uid = tensor(random, &mut case, data_type, &shape);
        let wide = random.chance(20);
        case.memory(uid).fill(|| match random.int(0, 39) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => 0.0,
            5 => random.int(-3, 3) as f64,
            _ if integer => random.int(-9, 9) as f64,
            _ if wide => random.real(-60.0, 60.0),
            _ => random.real(-4.0, 4.0),
        });
        inputs.push(uid);
    }
    let out_0 = tensor(random, &mut case, out, &dims);
    let mut parameter = |low, high| random.chance(50).then(|| random.real(low, high) as f32);
    let operation = Pointwise {
        in_0: inputs[0],
        out_0,
        in_1: inputs.get(1).copied(),
        in_2: inputs.get(2).copied(),
        axis: None,
        operation: mode,
        relu_lower_clip: parameter(-1.0, 1.0),
        relu_upper_clip: parameter(1.0, 3.0),
        relu_lower_clip_slope: parameter(0.0, 0.5),
        swish_beta: parameter(0.5, 2.0),
        elu_alpha: parameter(0.5, 2.0),
        softplus_beta: parameter(0.5, 2.0),
    };
    let axis = (mode == PointwiseMode::GenIndex).then(|| random.int(0, rank as i64 - 1));
    case.node(Pointwise { axis, ..operation });
    let (mut fast, reference) = both(&case);

    let eps = roundoff(compute(&case)).0;
    let operands: Vec<Vec<f64>> = inputs
        .iter()
        .map(|uid| spread(&case.values(*uid), &case.graph.tensor(*uid).unwrap().dims, &dims))
        .collect();
    let results = reference.values(out_0);
    if mode.is_backward() {
        // A saturated function's slope within roundings of 0 turns an infinite gradient into infinity or NaN.
        let mut values = fast.values(out_0);
        for (at, value) in values.iter_mut().enumerate() {
            let at_end = operands[0][at].is_infinite() && operands[1][at].abs() > 8.0;
            *value = if at_end && !value.is_finite() { results[at] } else { *value };
        }
        fast.fill(out_0, &values);
    }
    compare(seed, mode.name(), &fast, &reference, out_0, |at| {
        let operand = |i: usize| operands.get(i).map_or(0.0, |values| values[at]);
        let bound = pointwise_bound(mode, eps, [operand(0), operand(1), operand(2)], results[at], 4.0);
        // A result near the edge between two integers may be truncated to either.
        let edge = if numbers.contains(&out) { 1.0 } else { 0.0 };
        if bound > 0.0 { bound + edge } else { bound }
    });
}

#[test]
fn the_square_of_add_square_is_rounded_before_the_sum() {
    for (data_type, x, y) in [(DataType::Float, -3e38, 2e19), (DataType::Double, -1.7e308, 1.4e154)] {
        let mut case = Case::new();
        case.graph.compute_type = data_type;
        let [in_0, in_1, out_0] = [0; 3].map(|_| case.tensor(data_type, &[70]));
        case.node(Pointwise::new(PointwiseMode::AddSquare, in_0, Some(in_1), out_0));
        case.memory(in_0).fill(|| x);
        case.memory(in_1).fill(|| y);
        let (fast, reference) = both(&case);
        assert_eq!(reference.values(out_0), [f64::INFINITY; 70]);
        assert_eq!(fast.values(out_0), [f64::INFINITY; 70]);
    }
}

/// The values of a tensor broadcast to a larger shape, aligned at the last dimension.
fn spread(values: &[f64], from: &[i64], to: &[i64]) -> Vec<f64> {
    let steps = crate::engines::common::packed(from);
    let missing = to.len() - from.len();
    let total: i64 = to.iter().product();
    let place = |mut at: i64| {
        let mut offset = 0;
        for axis in (0..to.len()).rev() {
            let index = at % to[axis];
            at /= to[axis];
            if axis >= missing && from[axis - missing] != 1 {
                offset += index * steps[axis - missing];
            }
        }
        offset as usize
    };
    (0..total).map(|at| values[place(at)]).collect()
}

#[test]
fn every_mode() {
    for mode in PointwiseMode::every() {
        for seed in 0..40 {
            pointwise(7000 + 100 * u64::from(mode.wire()) + seed, mode);
        }
    }
}
