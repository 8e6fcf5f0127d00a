use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use crate::case::{Case, Order, strides};
use crate::cases::TYPES;

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-1.0, 1.0];

/// The strides of matrices that lie by columns.
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
    case.tolerance = case.tolerance.max(2e-5);
    let lie = |dims: &[i64], columns: bool| if columns { by_columns(dims) } else { strides(dims, FIRST) };
    let node = Matmul {
        a: case.input_with_strides(data_type, a, &lie(a, columns[0]), RANGE),
        b: case.input_with_strides(data_type, b, &lie(b, columns[1]), RANGE),
        c: case.output_with_strides(data_type, c, &lie(c, columns[2])),
    };
    case.node(node);
    case
}

/// A product with nodes behind it: bias or residual, activation.
fn chain(
    data_type: DataType,
    bias: bool,
    residual: bool,
    activation: std::option::Option<PointwiseMode>,
) -> Case {
    let name = activation.map_or("nothing", PointwiseMode::name);
    let mut case =
        Case::new(format!("matmul, bias {bias}, residual {residual}, {name}, {}", data_type.name()));
    case.tolerance = case.tolerance.max(2e-5);
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
