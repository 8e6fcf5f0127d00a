//! Matmuls with epilogues.
//!
//! hipBLASLt's kernels for `float` and `double` need waves of 64 lanes, which the emulated device does not have: rocBLAS computes
//! these types here.

use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::HIPBLASLT;
use crate::case::{Case, Order, strides};

const RANGE: [f32; 2] = [-1.0, 1.0];
const ROWS_FIRST: Order = Order::ChannelsFirst;

/// Which library computes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Library {
    HipblasLt = 1,
    Rocblas = 2,
}

/// The layout of a matrix's last two dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Rows,
    Columns,
    /// Rows with gaps between them.
    Gaps,
    /// Rows, and all matrices of the outermost dimension in one place.
    Shared,
}

fn lie(dims: &[i64], lie: Lie) -> Vec<i64> {
    let mut strides = strides(dims, ROWS_FIRST);
    match (lie, strides.as_mut_slice(), dims) {
        (Lie::Columns, [.., row, column], [.., rows, _]) => (*row, *column) = (1, *rows),
        (Lie::Gaps, strides, dims) => {
            let mut next = 1;
            for (stride, dim) in strides.iter_mut().zip(dims).rev() {
                *stride = next;
                next *= dim + 3;
            }
        }
        (Lie::Shared, [outer, ..], _) => *outer = 0,
        _ => {}
    }
    strides
}

/// A case that one of the libraries computes.
fn case(name: &str, library: Library, data_type: DataType) -> Case {
    let mut case = Case::new(format!("{name} {} by {library:?}", data_type.name()));
    case.knobs = vec![("hipblaslt.library", library as i64)];
    if data_type == DataType::Double {
        case.graph.compute_type = DataType::Double;
    }
    case
}

/// A matmul alone, [m, k] · [k, n] in the last two dimensions.
fn product(library: Library, data_type: DataType, dims: [&[i64]; 3], lies: [Lie; 3]) -> Case {
    let [a, b, c] = dims;
    let mut case =
        case(&format!("matmul {a:?} {:?} {b:?} {:?} {:?}", lies[0], lies[1], lies[2]), library, data_type);
    let node = Matmul {
        a: case.input_with_strides(data_type, a, &lie(a, lies[0]), RANGE),
        b: case.input_with_strides(data_type, b, &lie(b, lies[1]), RANGE),
        c: case.output_with_strides(data_type, c, &lie(c, lies[2])),
    };
    case.node(node);
    case
}

/// Matmuls of all layouts and batches.
fn products(library: Library, data_type: DataType) -> Vec<Case> {
    use Lie::{Columns, Gaps, Rows, Shared};
    let matrices: [&[i64]; 3] = [&[33, 40], &[40, 24], &[33, 24]];
    let batch: [&[i64]; 3] = [&[3, 17, 20], &[3, 20, 12], &[3, 17, 12]];
    let mut cases: Vec<Case> = [
        [Rows, Rows, Rows],
        [Columns, Rows, Rows],
        [Rows, Columns, Rows],
        [Columns, Columns, Rows],
        [Rows, Rows, Columns],
        [Columns, Columns, Columns],
        [Gaps, Gaps, Rows],
    ]
    .into_iter()
    .map(|lies| product(library, data_type, matrices, lies))
    .collect();
    for lies in [[Rows, Columns, Rows], [Gaps, Rows, Columns], [Rows, Shared, Rows], [Shared, Rows, Rows]] {
        cases.push(product(library, data_type, batch, lies));
    }
    let others: [[&[i64]; 3]; 6] = [
        [&[1, 64], &[64, 48], &[1, 48]],
        [&[48, 64], &[64, 1], &[48, 1]],
        // One operand for all, one for every four neighbours, separate dimensions for each.
        [&[3, 17, 20], &[1, 20, 12], &[3, 17, 12]],
        [&[1, 17, 20], &[3, 20, 12], &[3, 17, 12]],
        [&[2, 8, 5, 16], &[2, 2, 16, 7], &[2, 8, 5, 7]],
        [&[2, 1, 5, 16], &[1, 3, 16, 7], &[2, 3, 5, 7]],
    ];
    cases.extend(others.map(|dims| product(library, data_type, dims, [Rows; 3])));
    cases
}

/// The nodes of an epilogue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    /// Not a node: neither operand is shared, so that each matrix is a separate matmul.
    Batch,
    /// Not a node: the dot products are so long that workgroups share them, for which they need workspace.
    Long,
    Scale,
    Residual,
    /// The same one for each matrix.
    SpreadResidual,
    Bias,
    /// A bias of another type than the result's.
    WideBias,
    /// One for each row, which needs a column-major result.
    RowBias,
    Activation(PointwiseMode),
}

/// A matmul with an epilogue in one call: the plan needs no workspace for tensors between nodes.
fn chain(library: Library, data_type: DataType, links: &[Link]) -> Case {
    let names: Vec<String> = links
        .iter()
        .map(|link| match link {
            Link::Activation(mode) => mode.name().to_owned(),
            other => format!("{other:?}").to_lowercase(),
        })
        .collect();
    let mut case = case(&format!("matmul + {}", names.join(" + ")), library, data_type);
    case.workspace_limit = (!links.contains(&Link::Long)).then_some(0);
    let (rows, columns) = (36, 24);
    let terms = if links.contains(&Link::Long) { 4096 } else { 40 };
    let [mut a, mut b, dims] = [[2, rows, terms], [1, terms, columns], [2, rows, columns]];
    let mut strides = lie(&dims, Lie::Rows);
    if links.contains(&Link::RowBias) {
        (a, b) = ([1, rows, terms], [2, terms, columns]);
        strides = lie(&dims, Lie::Columns);
    }
    if links.contains(&Link::Batch) || links.contains(&Link::SpreadResidual) {
        (a, b) = ([2, rows, terms], [2, terms, columns]);
    }
    let between = |case: &mut Case| {
        let uid = case.between(data_type, &dims, ROWS_FIRST);
        if let Some(tensor) = case.graph.tensors.last_mut() {
            tensor.strides = strides.clone();
        }
        uid
    };
    let mut last = between(&mut case);
    let node = Matmul {
        a: case.input(data_type, &a, ROWS_FIRST, RANGE),
        b: case.input(data_type, &b, ROWS_FIRST, RANGE),
        c: last,
    };
    case.node(node);
    for (place, link) in links.iter().enumerate() {
        let (mode, other) = match link {
            Link::Batch | Link::Long => continue,
            Link::SpreadResidual => {
                (PointwiseMode::Add, Some(case.input(data_type, &[1, rows, columns], ROWS_FIRST, RANGE)))
            }
            Link::Scale => (PointwiseMode::Mul, Some(case.value(0.25))),
            Link::Residual => {
                (PointwiseMode::Add, Some(case.input_with_strides(data_type, &dims, &strides, RANGE)))
            }
            Link::Bias => {
                (PointwiseMode::Add, Some(case.input(data_type, &[1, 1, columns], ROWS_FIRST, RANGE)))
            }
            Link::WideBias => {
                (PointwiseMode::Add, Some(case.input(DataType::Float, &[1, 1, columns], ROWS_FIRST, RANGE)))
            }
            Link::RowBias => {
                (PointwiseMode::Add, Some(case.input(data_type, &[1, rows, 1], ROWS_FIRST, RANGE)))
            }
            Link::Activation(mode) => (*mode, None),
        };
        let out = if place + 1 == links.len() {
            case.output_with_strides(data_type, &dims, &strides)
        } else {
            between(&mut case)
        };
        // Tests both orders of a sum's operands.
        let node = match other {
            Some(other) if place % 2 == 1 => Pointwise::new(mode, other, Some(last), out),
            other => Pointwise::new(mode, last, other, out),
        };
        case.node(node);
        last = out;
    }
    case
}

/// Two layers, with the tensor between them in the workspace.
fn perceptron(data_type: DataType) -> Case {
    let mut case = case("matmul + bias + gelu, matmul + bias", Library::HipblasLt, data_type);
    let mut last = case.input(data_type, &[2, 16, 32], ROWS_FIRST, RANGE);
    for (terms, columns, activation) in [(32, 48, true), (48, 20, false)] {
        let dims = [2, 16, columns];
        let weights = case.input_with_strides(
            data_type,
            &[1, terms, columns],
            &lie(&[1, terms, columns], Lie::Columns),
            [-0.3, 0.3],
        );
        let bias = case.input(data_type, &[columns], ROWS_FIRST, RANGE);
        let (product, sum) =
            (case.between(data_type, &dims, ROWS_FIRST), case.between(data_type, &dims, ROWS_FIRST));
        case.node(Matmul { a: last, b: weights, c: product });
        if activation {
            case.node(Pointwise::new(PointwiseMode::Add, product, Some(bias), sum));
            last = case.between(data_type, &dims, ROWS_FIRST);
            case.node(Pointwise::new(PointwiseMode::GeluApproxTanhFwd, sum, None, last));
        } else {
            last = case.output(data_type, &dims, ROWS_FIRST);
            case.node(Pointwise::new(PointwiseMode::Add, product, Some(bias), last));
        }
    }
    case
}

/// A single-precision result of half-precision operands.
fn wide(library: Library, data_type: DataType) -> Case {
    let mut case = case("matmul to float of", library, data_type);
    let node = Matmul {
        a: case.input(data_type, &[33, 40], ROWS_FIRST, RANGE),
        b: case.input(data_type, &[40, 24], ROWS_FIRST, RANGE),
        c: case.output(DataType::Float, &[33, 24], ROWS_FIRST),
    };
    case.node(node);
    case
}

/// Products for generated kernels.
pub fn generated() -> Vec<Case> {
    let types = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];
    let long: [&[i64]; 3] = [&[4, 4096], &[4096, 24], &[4, 24]];
    use Link::{Activation, Batch, Bias, Long, Residual, RowBias, Scale, SpreadResidual, WideBias};
    let chains: [&[Link]; 7] = [
        &[Bias, Activation(PointwiseMode::GeluApproxTanhFwd)],
        &[RowBias, Activation(PointwiseMode::ReluFwd)],
        &[Scale, WideBias, Residual, Activation(PointwiseMode::SwishFwd)],
        &[SpreadResidual],
        &[Batch, Residual, Bias],
        &[Long, Bias, Activation(PointwiseMode::ReluFwd)],
        &[Long, RowBias, Residual],
    ];
    let all = types.into_iter().flat_map(|data_type| {
        let mut all = products(Library::Rocblas, data_type);
        all.push(product(Library::Rocblas, data_type, long, [Lie::Rows; 3]));
        all.extend(chains.map(|links| chain(Library::Rocblas, data_type, links)));
        all
    });
    all.map(|mut case| {
        case.knobs.clear();
        case.name = case.name.replace(" by Rocblas", ", generated");
        case
    })
    .collect()
}

pub fn cases() -> Vec<(&'static str, Case)> {
    use Library::{HipblasLt, Rocblas};
    use Link::{Activation, Batch, Bias, Residual, RowBias, Scale, SpreadResidual, WideBias};
    use PointwiseMode::{GeluApproxTanhFwd, ReluFwd, SwishFwd};
    let mut cases = Vec::new();
    for data_type in [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16] {
        cases.extend(products(Rocblas, data_type));
        for links in [&[Residual][..], &[Scale], &[Scale, Residual], &[Batch, Residual], &[SpreadResidual]] {
            cases.push(chain(Rocblas, data_type, links));
        }
    }
    for data_type in [DataType::Half, DataType::Bfloat16] {
        cases.extend(products(HipblasLt, data_type));
        cases.push(wide(Rocblas, data_type));
        cases.push(wide(HipblasLt, data_type));
        cases.push(perceptron(data_type));
        for mode in [ReluFwd, GeluApproxTanhFwd, SwishFwd] {
            cases.push(chain(HipblasLt, data_type, &[Activation(mode)]));
            cases.push(chain(HipblasLt, data_type, &[Bias, Activation(mode)]));
        }
        for links in [
            &[Bias][..],
            &[WideBias],
            &[RowBias],
            &[RowBias, Activation(ReluFwd)],
            &[Scale, Bias, Activation(SwishFwd)],
            &[Residual],
            &[Residual, Bias, Activation(GeluApproxTanhFwd)],
            &[Scale, Bias, Residual, Activation(ReluFwd)],
            &[SpreadResidual],
            &[Batch, Bias, Activation(ReluFwd)],
            &[Batch, RowBias],
            &[Batch, Residual, Bias, Activation(SwishFwd)],
        ] {
            cases.push(chain(HipblasLt, data_type, links));
            cases.push(chain(HipblasLt, data_type, links).with_wide_tensors());
        }
        cases.push(chain(Rocblas, data_type, &[Scale, Residual]).with_wide_tensors());
    }
    cases.into_iter().map(|case| (HIPBLASLT, case)).collect()
}
