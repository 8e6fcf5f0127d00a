use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};

use crate::case::{Case, Order, strides};
use crate::cases::TYPES;

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-1.0, 1.0];

/// The strides of column-major matrices.
fn by_columns(dims: &[i64]) -> Vec<i64> {
    let mut strides = strides(dims, FIRST);
    if let ([.., row, column], [.., rows, _]) = (strides.as_mut_slice(), dims) {
        (*row, *column) = (1, *rows);
    }
    strides
}

fn product(data_type: DataType, dims: [&[i64]; 3], columns: [bool; 3]) -> Case {
    let [a, b, c] = dims;
    let mut case = Case::new(format!("matmul {a:?} {b:?}, by columns {columns:?}, {}", data_type.name()));
    let lie = |dims: &[i64], columns: bool| if columns { by_columns(dims) } else { strides(dims, FIRST) };
    let node = Matmul {
        a: case.input_with_strides(data_type, a, &lie(a, columns[0]), RANGE),
        b: case.input_with_strides(data_type, b, &lie(b, columns[1]), RANGE),
        c: case.output_with_strides(data_type, c, &lie(c, columns[2])),
    };
    case.node(node);
    case
}

/// A matmul with an epilogue: bias or residual, activation.
fn chain(
    data_type: DataType,
    bias: bool,
    residual: bool,
    activation: std::option::Option<PointwiseMode>,
) -> Case {
    let name = activation.map_or("nothing", PointwiseMode::name);
    let mut case =
        Case::new(format!("matmul, bias {bias}, residual {residual}, {name}, {}", data_type.name()));
    let dims = [2, 32, 48];
    let a = case.input(data_type, &[2, 32, 64], FIRST, RANGE);
    let b = case.input(data_type, &[1, 64, 48], FIRST, RANGE);
    let mut last = case.between(DataType::Float, &dims, FIRST);
    case.node(Matmul { a, b, c: last });
    let mut links = Vec::new();
    if bias {
        links.push((PointwiseMode::Add, Some(case.input(data_type, &[1, 1, 48], FIRST, RANGE))));
    }
    if residual {
        links.push((PointwiseMode::Add, Some(case.input(data_type, &dims, FIRST, RANGE))));
    }
    links.extend(activation.map(|mode| (mode, None)));
    for (place, (mode, other)) in links.iter().enumerate() {
        let out = if place + 1 == links.len() {
            case.output(data_type, &dims, FIRST)
        } else {
            case.between(DataType::Float, &dims, FIRST)
        };
        case.node(Pointwise::new(*mode, last, *other, out));
        last = out;
    }
    case
}

fn sum(case: &mut Case, in_: i64, data_type: DataType, dims: &[i64]) {
    let out = case.output(data_type, dims, FIRST);
    case.node(Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: true });
}

/// A matmul and GELU, whose input is also a result.
fn kept(data_type: DataType, bias: bool, dims: &[i64]) -> Case {
    let mut case =
        Case::new(format!("matmul, bias {bias}, gelu with its input {dims:?}, {}", data_type.name()));
    let of_a: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if axis + 1 == dims.len() { 64 } else { *dim }).collect();
    let columns = dims.last().copied().unwrap_or(1);
    let mut of_b = vec![1; dims.len()];
    if let [.., rows, last] = of_b.as_mut_slice() {
        (*rows, *last) = (64, columns);
    }
    let mut of_bias = vec![1; dims.len()];
    if let [.., last] = of_bias.as_mut_slice() {
        *last = columns;
    }
    let a = case.input(data_type, &of_a, FIRST, RANGE);
    let b = case.input(data_type, &of_b, FIRST, RANGE);
    let x = case.output(data_type, dims, FIRST);
    if bias {
        let c = case.between(DataType::Float, dims, FIRST);
        case.node(Matmul { a, b, c });
        let added = case.input(data_type, &of_bias, FIRST, RANGE);
        case.node(Pointwise::new(PointwiseMode::Add, c, Some(added), x));
    } else {
        case.node(Matmul { a, b, c: x });
    }
    let y = case.output(data_type, dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::GeluApproxTanhFwd, x, None, y));
    case
}

/// dy · wᵀ times the derivative of GELU at x, optionally with the gradient of the bias before GELU.
fn gelu_gradient(data_type: DataType, sums: bool, batch: i64) -> Case {
    let mut case =
        Case::new(format!("matmul, gradient of gelu, sums {sums}, {batch} x, {}", data_type.name()));
    let dims = [batch, 32, 48];
    let dy = case.input(data_type, &[batch, 32, 64], FIRST, RANGE);
    let w = case.input_with_strides(data_type, &[1, 64, 48], &[64 * 48, 1, 64], RANGE);
    let x = case.input(data_type, &dims, FIRST, [-3.0, 3.0]);
    let da = case.between(DataType::Float, &dims, FIRST);
    case.node(Matmul { a: dy, b: w, c: da });
    let dx = case.output(data_type, &dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::GeluApproxTanhBwd, da, Some(x), dx));
    if sums {
        sum(&mut case, dx, data_type, &[1, 1, 48]);
    }
    case
}

/// The gradient of weights, and that of the bias: the sums of dy, which is the left or the right operand.
fn weights_gradient(data_type: DataType, left: bool) -> Case {
    let mut case = Case::new(format!(
        "matmul, sums of the {} factor, {}",
        if left { "left" } else { "right" },
        data_type.name()
    ));
    let dims = if left { [48, 32] } else { [32, 48] };
    let x = if left { [64, 32] } else { [32, 64] };
    let dy = if left { [48, 64] } else { [64, 48] };
    // The transposed operand is column-major, like row-major activations read transposed.
    let transposed = |dims: [i64; 2]| [1, dims[0]];
    let (a, b) = if left {
        let dy = case.input_with_strides(data_type, &dy, &transposed(dy), RANGE);
        (dy, case.input(data_type, &x, FIRST, RANGE))
    } else {
        let x = case.input_with_strides(data_type, &x, &transposed(x), RANGE);
        (x, case.input(data_type, &dy, FIRST, RANGE))
    };
    let c = case.output(data_type, &dims, FIRST);
    case.node(Matmul { a, b, c });
    if left {
        sum(&mut case, a, data_type, &[48, 1]);
    } else {
        sum(&mut case, b, data_type, &[1, 48]);
    }
    case
}

/// Matmuls with epilogues of training, which only CUBLASLT_ENGINE computes in one call.
pub fn gradients() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for bias in [false, true] {
            cases.push(kept(data_type, bias, &[32, 48]));
            cases.push(kept(data_type, bias, &[2, 32, 48]));
        }
        for sums in [false, true] {
            cases.push(gelu_gradient(data_type, sums, 1));
            cases.push(gelu_gradient(data_type, sums, 3));
        }
        cases.push(weights_gradient(data_type, true));
        cases.push(weights_gradient(data_type, false));
    }
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        for columns in [
            [false; 3],
            [true, false, false],
            [false, true, false],
            [true, true, false],
            [false, false, true],
        ] {
            cases.push(product(data_type, [&[32, 64], &[64, 48], &[32, 48]], columns));
        }
        cases.push(product(data_type, [&[3, 16, 40], &[3, 40, 24], &[3, 16, 24]], [false; 3]));
        cases.push(product(
            data_type,
            [&[2, 4, 16, 32], &[2, 4, 32, 8], &[2, 4, 16, 8]],
            [false, true, false],
        ));
        cases.push(product(data_type, [&[3, 16, 40], &[1, 40, 24], &[3, 16, 24]], [false; 3]));
        cases.push(product(data_type, [&[33, 40], &[40, 23], &[33, 23]], [false; 3]));
        for activation in [PointwiseMode::ReluFwd, PointwiseMode::GeluApproxTanhFwd] {
            cases.push(chain(data_type, false, false, Some(activation)));
            cases.push(chain(data_type, true, false, Some(activation)));
        }
        cases.push(chain(data_type, true, false, None));
        cases.push(chain(data_type, false, true, None));
        cases.push(chain(data_type, true, true, Some(PointwiseMode::ReluFwd)));
    }
    cases
}
