//! Kernels of rows, which reduce and go on.

use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Operation, PointwiseMode, ReductionMode, Tensor};

use crate::dtype::element::Compute;
use crate::pointwise::chain::{Chain, Input, Value};
use crate::pointwise::plan_rows;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::tensor::row_converter::RowConverter;
use crate::testing::limits::Limit;
use crate::testing::{Array, Random, operand, packed, run_kernel, same};
use crate::threading::partition::Threads;

/// The input and the result of [`limit_of`].
const X: i64 = 1;
const Y: i64 = 9;

fn reduction(mode: ReductionMode, in_: i64, out: i64) -> Operation {
    Reduction { in_, out, mode, is_deterministic: false }.into()
}

fn pointwise(mode: PointwiseMode, x: i64, y: Option<i64>, to: i64) -> Operation {
    Pointwise::new(mode, x, y, to).into()
}

/// What the results of a kernel that computes these operations of rows may differ by, beside a magnitude of 1. The types are those of the
/// input, of what is between, and of the result.
fn limit_of(
    operations: &[Operation],
    isa: Isa,
    [rows, len]: [usize; 2],
    row_stride: usize,
    [from, between, to]: [DataType; 3],
) -> Limit {
    let dims = [rows as i64, len as i64];
    let arrays =
        [Array::new(X, from, &dims, &[row_stride as i64, 1]), Array::new(Y, to, &dims, &[dims[1], 1])];
    let outputs = operations.iter().flat_map(|it| it.outputs().into_iter().map(move |uid| (it, uid)));
    let virtuals = outputs.filter(|(_, uid)| *uid != Y).map(|(operation, uid)| {
        let is_reduced = matches!(operation, Operation::Reduction(_));
        let dims = if is_reduced { [dims[0], 1] } else { dims };
        Tensor { is_virtual: true, ..packed(uid, between, &dims) }
    });
    let virtuals: Vec<Tensor> = virtuals.collect();
    let compute = if between == DataType::Double { between } else { DataType::Float };
    Limit::of_graph(operations, compute, (isa, Settings::default()), &arrays, (&virtuals, (Y, 1.0)))
}

/// A reduction of values, one after the other.
fn reduced(mode: ReductionMode, values: &[f64]) -> f64 {
    let nan = values.iter().any(|number| number.is_nan());
    let sizes = || values.iter().map(|number| number.abs());
    match mode {
        ReductionMode::Mul => values.iter().product(),
        ReductionMode::MulNoZeros => values.iter().filter(|number| **number != 0.0).product(),
        _ if nan => f64::NAN,
        ReductionMode::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        ReductionMode::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ReductionMode::Amax => sizes().fold(0.0, f64::max),
        ReductionMode::Norm1 => sizes().sum(),
        ReductionMode::Norm2 => values.iter().map(|number| number * number).sum::<f64>().sqrt(),
        ReductionMode::Avg => values.iter().sum::<f64>() / values.len() as f64,
        _ => values.iter().sum(),
    }
}

#[test]
fn rows_are_reduced_on_every_isa() {
    let mut random = Random::new(31);
    let modes = [
        ReductionMode::Add,
        ReductionMode::Mul,
        ReductionMode::Min,
        ReductionMode::Max,
        ReductionMode::Amax,
        ReductionMode::Avg,
        ReductionMode::Norm1,
        ReductionMode::Norm2,
        ReductionMode::MulNoZeros,
    ];
    for (isa, mode) in Isa::available().iter().flat_map(|isa| modes.map(|mode| (*isa, mode))) {
        for _ in 0..20 {
            let (rows, len) = (random.within(1, 4), random.of(&[2, 3, 7, 31, 32, 33, 64, 65, 200]));
            let special = random.within(0, 3) == 0;
            let mut x: Vec<f64> = (0..rows * len)
                .map(|_| match random.within(0, 20) {
                    0 if special => random.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
                    1 => 0.0,
                    // Small integers: sums are exact in any order.
                    _ => {
                        if mode == ReductionMode::Mul || mode == ReductionMode::MulNoZeros {
                            random.of(&[1.0, -1.0, 2.0, 0.5])
                        } else {
                            random.whole()
                        }
                    }
                })
                .collect();
            let mut strides = [0; crate::layout::MAX_RANK];
            (strides[0], strides[1]) = (len, 1);
            let mut chain = Chain::default();
            chain.inputs.push(Input { slot: 0, data_type: DataType::Double, strides, replaced: false });
            let one = chain.push_reduction(mode, Value::Input(0), DataType::Double);
            chain.push_mode(PointwiseMode::Sub, vec![one, Value::Input(0)], DataType::Double);
            let output = operand(1, DataType::Double, &[rows as i64, len as i64], &[len as i64, 1]);
            let kernel = plan_rows(
                &chain,
                &[rows, len],
                &[false, true],
                &output,
                Compute::Double,
                isa,
                Threads::default(),
            )
            .unwrap();
            let mut out = vec![7.0_f64; rows * len];
            let pointers = [x.as_mut_ptr().cast(), out.as_mut_ptr().cast()];
            // SAFETY: both tensors have their elements.
            unsafe { run_kernel(&*kernel, &pointers) };
            let operations = [reduction(mode, X, 2), pointwise(PointwiseMode::Sub, 2, Some(X), Y)];
            let limit = limit_of(&operations, isa, [rows, len], len, [DataType::Double; 3]);
            for (x, out) in x.chunks(len).zip(out.chunks(len)) {
                let one = reduced(mode, x);
                let limit = limit.beside(one.abs());
                for (x, got) in x.iter().zip(out) {
                    let near = limit.holds(*got, one - x);
                    assert!(near || same(*got, one - x), "{mode:?} at {isa:?}: {got}, expected {one} - {x}");
                }
            }
        }
    }
}

#[test]
fn softmax_matches_its_operations_on_every_isa() {
    let mut random = Random::new(41);
    for isa in Isa::available() {
        for len in (2..70).chain([127, 128, 129, 200, 512, 1000]) {
            // Some rows are computed together, others alone; they need not be contiguous.
            let (rows, row_stride) = (random.within(3, 40), len + random.of(&[0, 0, 3]));
            let mut x: Vec<f32> = (0..rows * row_stride).map(|_| 8.0 * random.real() as f32).collect();
            // The second row has minus infinities, as from a mask; the third has values that make it NaN.
            for i in (row_stride..row_stride + len - 1).step_by(3) {
                x[i] = f32::NEG_INFINITY;
            }
            x[2 * row_stride + random.within(0, len - 1)] = random.of(&[f32::NAN, f32::INFINITY]);
            // Converted rows are computed together, too.
            let stored = [(); 2]
                .map(|()| random.of(&[DataType::Float, DataType::Float, DataType::Half, DataType::Bfloat16]));
            let [from, to] = stored.map(|data_type| RowConverter::<f32>::of(data_type).unwrap());
            let mut bytes = vec![0_u8; from.size * x.len()];
            // SAFETY: there are as many elements as values.
            unsafe {
                (from.store)(x.as_ptr(), bytes.as_mut_ptr(), 1, x.len());
                (from.load)(bytes.as_ptr(), 1, x.as_mut_ptr(), x.len());
            }
            let mut strides = [0; crate::layout::MAX_RANK];
            (strides[0], strides[1]) = (row_stride, 1);
            let mut chain = Chain::default();
            chain.inputs.push(Input { slot: 0, data_type: stored[0], strides, replaced: false });
            let input = Value::Input(0);
            let largest = chain.push_reduction(ReductionMode::Max, input, DataType::Float);
            let less = chain.push_mode(PointwiseMode::Sub, vec![input, largest], DataType::Float);
            let power = chain.push_mode(PointwiseMode::Exp, vec![less], DataType::Float);
            let sum = chain.push_reduction(ReductionMode::Add, power, DataType::Float);
            let quotient = chain.push_mode(PointwiseMode::Div, vec![power, sum], DataType::Float);
            // Sometimes an operation follows and also reads the sum, so that the operations run one by one.
            let (follows, other) = (random.within(0, 1) == 0, random.within(0, 1) == 0);
            if follows {
                let last = if other { sum } else { quotient };
                chain.push_mode(PointwiseMode::Mul, vec![quotient, last], DataType::Float);
            }
            let output = operand(1, stored[1], &[rows as i64, len as i64], &[len as i64, 1]);
            let (dims, reduced) = ([rows, len], [false, true]);
            let single = Compute::Single;
            let kernel =
                plan_rows(&chain, &dims, &reduced, &output, single, *isa, Threads::default()).unwrap();
            let mut written = vec![7_u8; to.size * rows * len];
            let pointers = [bytes.as_mut_ptr(), written.as_mut_ptr()];
            // SAFETY: both tensors have their elements.
            unsafe { run_kernel(&*kernel, &pointers) };
            let mut out = vec![7.0_f32; rows * len];
            // SAFETY: there are as many elements as values.
            unsafe { (to.load)(written.as_ptr(), 1, out.as_mut_ptr(), out.len()) };
            let last = if follows { 6 } else { Y };
            let mut operations = vec![
                reduction(ReductionMode::Max, X, 2),
                pointwise(PointwiseMode::Sub, X, Some(2), 3),
                pointwise(PointwiseMode::Exp, 3, None, 4),
                reduction(ReductionMode::Add, 4, 5),
                pointwise(PointwiseMode::Div, 4, Some(5), last),
            ];
            if follows {
                operations.push(pointwise(PointwiseMode::Mul, 6, Some(if other { 5 } else { 6 }), Y));
            }
            let types = [stored[0], DataType::Float, stored[1]];
            // No result is above 1.
            let limit = limit_of(&operations, *isa, [rows, len], row_stride, types).beside(1.0);
            for (row, (x, out)) in x.chunks(row_stride).zip(out.chunks(len)).enumerate() {
                let x = &x[..len];
                let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let powers: Vec<f64> = x.iter().map(|x| (f64::from(*x) - f64::from(most)).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for (power, got) in powers.iter().zip(out) {
                    let factor = match (follows, other) {
                        (false, _) => 1.0,
                        (true, true) => sum,
                        (true, false) => power / sum,
                    };
                    let expected = power / sum * factor;
                    let got = f64::from(*got);
                    assert!(
                        if row == 2 { got.is_nan() } else { limit.holds(got, expected) },
                        "{got} in row {row} of {len} at {isa:?}, expected {expected}"
                    );
                }
            }
        }
    }
}
