//! Rows: matrix multiplications, normalizations, reductions, softmax and chains.

use hipdnn_plugin_sdk::graph::operation::{
    Layernorm, LayernormBackward, Matmul, Pointwise, Reduction, RmsNorm,
};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, PointwiseMode, ReductionMode, TensorValue};

use super::super::common::{Strides, packed, strides};
use super::{Problem, at_each_level, check};

const FLOAT: DataType = DataType::Float;

/// The last two dimensions swapped in memory.
fn columns_first(dims: &[i64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.reverse();
    strides(dims, &order)
}

/// Rows of operand A with one operand B.
fn product(of: DataType, [n, k]: [i64; 2], order: Strides, epilogue: Option<PointwiseMode>) -> Problem {
    let layout = if order(&[2, 3]) == [3, 1] { "" } else { ", B by columns" };
    let name = format!("rows of {} times {k} x {n}{layout}, epilogue {epilogue:?}", of.name());
    let problem = Problem::new(name, move |batch| {
        let to = if of == DataType::Int8 { DataType::Int32 } else { of };
        let (m, compute) = (batch.len(), if of == DataType::Double { of } else { FLOAT });
        batch.case.graph.compute_type = if of == DataType::Int8 { DataType::Int32 } else { compute };
        let a = batch.items(of, &[m, k], packed);
        let b = batch.shared(of, &[k, n], order);
        let Some(mode) = epilogue else {
            let c = batch.result(to, &[m, n], packed);
            return batch.case.node(Matmul { a, b, c });
        };
        let bias = batch.shared(FLOAT, &[1, n], packed);
        let [c, sum] = [(); 2].map(|()| batch.temporary(FLOAT, &[m, n]));
        batch.case.node(Matmul { a, b, c });
        batch.case.node(Pointwise::new(PointwiseMode::Add, c, Some(bias), sum));
        let y = batch.result(of, &[m, n], packed);
        batch.case.node(Pointwise::new(mode, sum, None, y));
    });
    Problem { may_be_spoiled: of != DataType::Int8, large: if n * k < 300 { 530 } else { 40 }, ..problem }
}

/// Matrices of a batch.
fn products(of: DataType, [m, n, k]: [i64; 3], shares: bool) -> Problem {
    Problem::new(
        format!("matrices of {} {m} x {k} times {k} x {n}, shared: {shares}", of.name()),
        move |batch| {
            let count = batch.len();
            let a = batch.items(of, &[count, m, k], packed);
            let b = if shares {
                batch.shared(of, &[1, k, n], packed)
            } else {
                batch.items(of, &[count, k, n], packed)
            };
            let c = batch.result(of, &[count, m, n], packed);
            batch.case.node(Matmul { a, b, c });
        },
    )
}

#[test]
fn products_of_rows() {
    at_each_level("rows::products_of_rows", || {
        let mut problems = Vec::new();
        for of in [FLOAT, DataType::Half, DataType::Bfloat16, DataType::Double, DataType::Int8] {
            for [n, k] in [[1, 40], [3, 5], [17, 64], [100, 33], [16, 1100], [40, 300]] {
                problems.push(product(of, [n, k], packed, None));
                problems.push(product(of, [n, k], columns_first, None));
            }
        }
        for of in [FLOAT, DataType::Bfloat16] {
            problems.push(product(of, [70, 9000], packed, None));
            problems.push(product(of, [300, 64], packed, Some(PointwiseMode::GeluFwd)));
            problems.push(product(of, [33, 70], columns_first, Some(PointwiseMode::ReluFwd)));
            problems.push(Problem { constant_weights: true, ..product(of, [130, 300], packed, None) });
            for sizes in [[3, 5, 7], [1, 20, 30], [40, 40, 40], [5, 8, 300], [70, 1, 9], [1, 1, 100]] {
                problems.push(products(of, sizes, false));
                problems.push(products(of, sizes, true));
            }
        }
        check(problems);
    });
}

fn layernorm(of: DataType, dims: &'static [i64], normalized: i64) -> Problem {
    Problem::new(format!("layernorm of {} {dims:?}", of.name()), move |batch| {
        let dims = [&[batch.len()], dims].concat();
        let axes = dims.len() - normalized as usize;
        let of_scale: Vec<i64> =
            (0..dims.len()).map(|axis| if axis < axes { 1 } else { dims[axis] }).collect();
        let of_rows: Vec<i64> =
            (0..dims.len()).map(|axis| if axis < axes { dims[axis] } else { 1 }).collect();
        let x = batch.items(of, &dims, packed);
        let [scale, bias] = [(); 2].map(|()| batch.shared(FLOAT, &of_scale, packed));
        let epsilon = batch.case.value(FLOAT, TensorValue::Float32(1e-5));
        let y = batch.result(of, &dims, packed);
        let [mean, inv_variance] = [(); 2].map(|()| Some(batch.result(FLOAT, &of_rows, packed)));
        batch.case.node(Layernorm {
            x,
            scale,
            bias,
            epsilon,
            y,
            mean,
            inv_variance,
            forward_phase: NormFwdPhase::Training,
            normalized_dim_count: normalized,
        });
    })
}

/// Those of scale and bias are sums over the batch.
fn gradient_of_layernorm(of: DataType, width: i64) -> Problem {
    Problem::new(format!("gradient of layernorm of {} {width}", of.name()), move |batch| {
        let dims = [batch.len(), width];
        let [dy, x] = [(); 2].map(|()| batch.items(of, &dims, packed));
        let scale = batch.shared(FLOAT, &[1, width], packed);
        let epsilon = batch.case.value(FLOAT, TensorValue::Float32(1e-5));
        let dx = batch.result(of, &dims, packed);
        let [dscale, dbias] = [(); 2].map(|()| batch.case.tensor(FLOAT, &[1, width]));
        let (epsilon, normalized_dim_count) = (Some(epsilon), 1);
        let node = LayernormBackward {
            dy,
            x,
            scale,
            mean: None,
            inv_variance: None,
            epsilon,
            dx,
            dscale,
            dbias,
            normalized_dim_count,
        };
        batch.case.node(node);
    })
}

fn rms_norm(of: DataType, width: i64) -> Problem {
    Problem::new(format!("RMS norm of {} {width}", of.name()), move |batch| {
        let dims = [batch.len(), width];
        let x = batch.items(of, &dims, packed);
        let scale = batch.shared(of, &[1, width], packed);
        let epsilon = batch.case.value(FLOAT, TensorValue::Float32(1e-5));
        let y = batch.result(of, &dims, packed);
        let forward_phase = NormFwdPhase::Inference;
        batch.case.node(RmsNorm { x, scale, epsilon, y, bias: None, inv_rms: None, forward_phase });
    })
}

fn reduction(of: DataType, dims: &'static [i64], axis: usize, mode: ReductionMode) -> Problem {
    Problem::new(format!("{mode:?} of {} {dims:?} along {axis}", of.name()), move |batch| {
        let dims = [&[batch.len()], dims].concat();
        let in_ = batch.items(of, &dims, packed);
        let mut reduced = dims.clone();
        reduced[axis] = 1;
        let out = batch.result(FLOAT, &reduced, packed);
        batch.case.node(Reduction { in_, out, mode, is_deterministic: false });
    })
}

/// Softmax as PyTorch's decomposition has it.
fn softmax(of: DataType, dims: &'static [i64], axis: usize) -> Problem {
    Problem::new(format!("softmax of {} {dims:?} along {axis}", of.name()), move |batch| {
        let dims = [&[batch.len()], dims].concat();
        let x = batch.items(of, &dims, packed);
        let mut reduced = dims.clone();
        reduced[axis] = 1;
        let [most, sum] = [(); 2].map(|()| batch.temporary(FLOAT, &reduced));
        let [difference, weights] = [(); 2].map(|()| batch.temporary(FLOAT, &dims));
        let y = batch.result(of, &dims, packed);
        let reduce = |mode, in_, out| Reduction { in_, out, mode, is_deterministic: false };
        batch.case.node(reduce(ReductionMode::Max, x, most));
        batch.case.node(Pointwise::new(PointwiseMode::Sub, x, Some(most), difference));
        batch.case.node(Pointwise::new(PointwiseMode::Exp, difference, None, weights));
        batch.case.node(reduce(ReductionMode::Add, weights, sum));
        batch.case.node(Pointwise::new(PointwiseMode::Div, weights, Some(sum), y));
    })
}

/// Functions of elements: some have other code in whole vectors than beside them.
fn chain(of: DataType, dims: &'static [i64], mode: PointwiseMode, order: Strides) -> Problem {
    Problem::new(format!("{mode:?} of {} {dims:?}, {:?}", of.name(), order(&[2, 3, 4])), move |batch| {
        let dims = [&[batch.len()], dims].concat();
        let x = batch.items(of, &dims, order);
        let mut channel = vec![1; dims.len()];
        channel[1] = dims[1];
        let factor = batch.shared(FLOAT, &channel, packed);
        let between = batch.temporary(FLOAT, &dims);
        let y = batch.result(of, &dims, order);
        batch.case.node(Pointwise::new(PointwiseMode::Mul, x, Some(factor), between));
        batch.case.node(Pointwise::new(mode, between, None, y));
    })
}

/// The batch along the innermost dimension.
fn batch_last(dims: &[i64]) -> Vec<i64> {
    columns_first(dims)
}

#[test]
fn norms_reductions_and_chains() {
    use PointwiseMode as P;
    at_each_level("rows::norms_reductions_and_chains", || {
        let mut problems = Vec::new();
        for of in [FLOAT, DataType::Bfloat16] {
            for dims in [&[5][..], &[33], &[768], &[7, 40]] {
                problems.push(layernorm(of, dims, 1));
            }
            problems.push(layernorm(of, &[4, 6, 7], 2));
            problems.extend([5, 64, 1000].map(|width| gradient_of_layernorm(of, width)));
            problems.extend([3, 64, 1000, 5000].map(|width| rms_norm(of, width)));
            for mode in [ReductionMode::Add, ReductionMode::Norm2] {
                for dims in [&[5][..], &[31], &[700], &[70_000], &[3, 40]] {
                    problems.push(reduction(of, dims, dims.len(), mode));
                }
                problems.push(reduction(of, &[3, 40], 1, mode));
                problems.push(reduction(of, &[300, 3], 1, mode));
                problems.push(reduction(of, &[9000, 5], 1, mode));
            }
            for dims in [&[3][..], &[8], &[16], &[20], &[50], &[1000]] {
                problems.push(softmax(of, dims, 1));
            }
            problems.push(softmax(of, &[30, 7], 1));
            problems.push(softmax(of, &[3, 70], 1));
            problems.push(softmax(of, &[4, 5], 2));
            for mode in [P::GeluFwd, P::Exp, P::TanhFwd, P::SigmoidFwd, P::Log, P::Erf, P::GeluApproxTanhFwd]
            {
                for order in [packed as Strides, batch_last] {
                    problems.push(chain(of, &[37], mode, order));
                    problems.push(chain(of, &[3, 5], mode, order));
                }
            }
        }
        check(problems);
    });
}
