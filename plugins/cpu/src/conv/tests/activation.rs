use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{ConvMode, Operation, PointwiseMode as Mode, Tensor};

use crate::conv::tests::{Case, dilated, plain};
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::limits::{Limit, scale_of};
use crate::testing::{Array, Random, order, run, run_together_for, strides};

const FORMS: [Algorithm; 7] = [
    Algorithm::Automatic,
    Algorithm::ImplicitGemm,
    Algorithm::Im2col,
    Algorithm::Direct,
    Algorithm::DirectSmall,
    Algorithm::Winograd,
    Algorithm::Winograd4,
];

/// Tensors that are added or multiplied.
const BIAS: i64 = 4;
const WHOLE: i64 = 5;
const A: i64 = 6;
const B: i64 = 7;

/// The first result of the convolution; those of the operations follow.
const FIRST: i64 = 10;

/// The operations of an activation of tensor `x`, with results numbered from `x + 1`.
fn activation(kind: usize, x: i64) -> Vec<Operation> {
    let clip = |from: i64, to: i64, [low, high]: [f32; 2]| {
        let mut clip = Pointwise::new(Mode::ReluFwd, from, None, to);
        (clip.relu_lower_clip, clip.relu_upper_clip) = (Some(low), Some(high));
        clip.into()
    };
    let two = |mode: Mode, a: i64, b: i64, to: i64| Pointwise::new(mode, a, Some(b), to).into();
    let one = |mode: Mode, to: i64| Pointwise::new(mode, x, None, to).into();
    let ramp =
        || vec![two(Mode::Mul, x, A, x + 1), two(Mode::Add, B, x + 1, x + 2), clip(x + 2, x + 3, [0.0, 1.0])];
    match kind {
        0 => vec![clip(x, x + 1, [-2.0, 6.0])],
        1 => ramp(),
        2 => ramp().into_iter().chain([two(Mode::Mul, x, x + 3, x + 4)]).collect(),
        3 => vec![one(Mode::TanhFwd, x + 1)],
        4 => vec![one(Mode::SigmoidFwd, x + 1), two(Mode::Mul, x + 1, x, x + 2)],
        5 => vec![one(Mode::GeluFwd, x + 1)],
        // Not fused into one loop: the product has another operand.
        _ => vec![one(Mode::SigmoidFwd, x + 1), two(Mode::Mul, x + 1, WHOLE, x + 2)],
    }
}

/// The operations after a convolution.
fn behind(random: &mut Random, seed: usize) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    let add = |operations: &mut Vec<Operation>, other: i64| {
        let last = FIRST + operations.len() as i64;
        operations.push(Pointwise::new(Mode::Add, last, Some(other), last + 1).into());
    };
    if random.within(0, 2) > 0 {
        add(&mut operations, BIAS);
    }
    let place = random.within(0, 2);
    if place == 1 {
        add(&mut operations, WHOLE);
    }
    let last = FIRST + operations.len() as i64;
    operations.extend(activation(seed % 7, last));
    if place == 2 {
        add(&mut operations, WHOLE);
    }
    if random.within(0, 2) == 0 {
        let last = FIRST + operations.len() as i64;
        operations.push(Pointwise::new(Mode::Identity, last, None, last + 1).into());
    }
    operations
}

/// A fused convolution gives the same as one operation after the other.
#[test]
fn activations_of_a_convolution() {
    for seed in 0..210 {
        let mut random = Random::new(7000 + seed as u64);
        let case = if random.within(0, 1) == 0 {
            let (rows, channels) = (random.of(&[3, 16, 70]), random.within(1, 20) as i64);
            let x = [random.within(1, 2) as i64, channels, random.within(3, 12) as i64, random.of(&[7, 16])];
            let side = random.of(&[1, 3]);
            let step = random.of(&[1, 1, 2]);
            // A third of them by channel, whose epilogue is partly in registers.
            let (side, window) = match random.within(0, 2) {
                0 => (side + 2, [channels, 1]),
                _ => (side, [rows, channels]),
            };
            let w = [window[0], window[1], side, side];
            plain(x, w, step, side / 2, ConvMode::CrossCorrelation)
        } else if random.within(0, 3) == 0 {
            let sizes = [random.within(2, 9), random.within(1, 19), 20];
            dilated::case(&mut random, sizes)
        } else {
            Case::random(&mut random)
        };
        let mut y = case.y.tensor.clone();
        y.data_type = case.compute;
        let rank = y.dims.len();
        let mut dims = vec![1; rank];
        dims[1] = y.dims[1];
        let mut array = |uid: i64, dims: &[i64]| {
            let strides = strides(dims, &order(rank, 0), 0);
            Array::new(uid, case.compute, dims, &strides).filled(|| random.real())
        };
        let ones = vec![1; rank];
        let others = [array(BIAS, &dims), array(WHOLE, &y.dims), array(A, &ones), array(B, &ones)];
        let operations = behind(&mut random, seed);
        let last = FIRST + operations.len() as i64;
        let result = |uid: i64| Array::new(uid, case.compute, &y.dims, &y.strides);
        for isa in Isa::available() {
            let mut arrays = vec![case.x.clone(), case.w.clone(), result(3)];
            run(case.operation(Direction::Forward), case.compute, *isa, &mut arrays).unwrap();
            let mut known = arrays.split_off(2);
            known[0].tensor.uid = FIRST;
            known.extend(others.iter().cloned());
            for (at, operation) in operations.iter().enumerate() {
                known.push(result(FIRST + 1 + at as i64));
                run(operation.clone(), case.compute, *isa, &mut known).unwrap();
            }
            let expected = known.last().unwrap().values();
            let scale = scale_of(&known[0].values()).max(scale_of(&expected));
            let convolution = FORMS[seed % FORMS.len()];
            arrays.push(result(last));
            arrays.extend(others.iter().cloned());
            let settings = Settings { convolution, ..Settings::default() };
            let between: Vec<Tensor> =
                (FIRST..last).map(|uid| Tensor { uid, is_virtual: true, ..y.clone() }).collect();
            let mut all = vec![case.operation(Direction::Forward)];
            if let [Operation::ConvolutionForward(convolution)] = all.as_mut_slice() {
                convolution.y = FIRST;
            }
            all.extend(operations.iter().cloned());
            run_together_for(&all, case.compute, (*isa, settings), &mut arrays, &between);
            let of = (&between[..], (last, scale));
            let limit = Limit::of_graph(&all, case.compute, (*isa, settings), &arrays, of);
            let got = arrays[2].values();
            for (index, (got, expected)) in got.into_iter().zip(expected).enumerate() {
                assert!(
                    limit.holds(got, expected),
                    "seed {seed} at {isa:?}, element {index} is {got}, expected {expected}, {limit:?}: {operations:?}"
                );
            }
        }
    }
}
