use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Tensor};

use crate::gemm::byte_kernel::Form;
use crate::int8::epilogue::{NO_CLIPS, Param, PostOp, Quantize, Residual, Round, Scaled, Stages};
use crate::int8::problem::Problem;
use crate::int8::vector16::{Vector16, Vector16Task, quotient, run_at};
use crate::int8::with_stages;
use crate::layout::MAX_RANK;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, run_planned, strides};
use crate::threading::partition::Threads;
use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Matmul};

const BYTES: [DataType; 2] = [DataType::Int8, DataType::Uint8];

/// A byte of either type, with the ends of the ranges more frequent.
fn byte(random: &mut Random) -> f64 {
    let any = random.within(0, 255) as f64 - 128.0;
    random.of(&[-128.0, -127.0, 0.0, 1.0, 127.0, 128.0, 255.0, any, any])
}

/// An array in a random order of dimensions, sometimes with gaps.
fn array(random: &mut Random, uid: i64, data_type: DataType, dims: &[i64]) -> Array {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    match random.within(0, 3) {
        0 => (1..order.len()).rev().for_each(|i| order.swap(i, random.within(0, i))),
        1 if dims.len() > 2 => {
            let channels = order.remove(1);
            order.push(channels);
        }
        _ => {}
    }
    Array::new(uid, data_type, dims, &strides(dims, &order, random.of(&[0, 0, 0, 2]))).filled(|| byte(random))
}

fn settings(random: &mut Random) -> Settings {
    let threads = Threads { most: random.of(&[1, 2, 3]), ..Threads::default() };
    Settings { threads, constant_weights: random.within(0, 1) == 0, ..Settings::default() }
}

/// The sum as stored in the result's type.
fn stored(data_type: DataType, sum: i64) -> f64 {
    match data_type {
        DataType::Int8 => sum.clamp(-128, 127) as f64,
        DataType::Uint8 => sum.clamp(0, 255) as f64,
        DataType::Float => f64::from(sum as f32),
        _ => sum as f64,
    }
}

fn stages(data_type: DataType) -> Stages {
    let scaled = (data_type == DataType::Float).then_some(Scaled::NONE);
    Stages { scaled, ..Stages::default() }
}

const RESULTS: [DataType; 4] = [DataType::Int32, DataType::Int32, DataType::Float, DataType::Int8];

/// Every form: matrices of any size and layout, with or without a batch that shares operand B.
#[test]
fn every_form_multiplies_int8_matrices_exactly() {
    for form in Form::available(Isa::detect()) {
        for seed in 0..60 {
            let random = &mut Random::new(seed + 900);
            let most = random.of(&[3, 40, 100]);
            let [m, n, k] = [(); 3].map(|()| random.within(1, most) as i64);
            let k = if seed % 40 == 0 { 8_192 } else { k };
            let [m, n] = if seed % 40 == 0 { [m.min(2), n.min(3)] } else { [m, n] };
            let batch = random.of(&[None, None, Some(3)]);
            let shares = random.within(0, 1) == 0;
            let outer = |shares: bool| batch.map(|size| if shares { 1 } else { size }).into_iter();
            let dims = [(false, [m, k]), (shares, [k, n]), (false, [m, n])]
                .map(|(shares, last)| outer(shares).chain(last).collect::<Vec<i64>>());
            let types = [random.of(&BYTES), random.of(&BYTES), random.of(&RESULTS)];
            let mut arrays = [0, 1, 2].map(|at| array(random, at as i64 + 1, types[at], &dims[at]));
            let settings = settings(random);
            run_planned(Matmul { a: 1, b: 2, c: 3 }.into(), DataType::Float, &mut arrays, |graph, node| {
                let matmul = crate::testing::matmul_of(graph, &node.node.operation);
                let problem = Problem::of_matmul(&matmul)?;
                with_stages("matmul", problem, stages(types[2]), (Isa::detect(), Some(form)), settings)
            })
            .unwrap();
            let [a, b, c] = &arrays;
            let own = |index: usize, shares: bool| if shares { 0 } else { index };
            for index in c.indices() {
                let (outer, last) = index.split_at(index.len() - 2);
                let terms = (0..k as usize).map(|l| {
                    let of_a = [outer, &[last[0], l]].concat();
                    let of_b: Vec<usize> = outer.iter().map(|at| own(*at, shares)).collect();
                    let of_b = [of_b.as_slice(), &[l, last[1]]].concat();
                    a.get(&of_a) as i64 * b.get(&of_b) as i64
                });
                let expected = stored(types[2], terms.sum());
                let got = c.get(&index);
                assert_eq!(got, expected, "{form:?}, seed {seed}, {m} x {n} x {k} {types:?} at {index:?}");
            }
        }
    }
}

/// Every form: convolutions of any size and layout against the definition.
#[test]
fn every_form_computes_int8_convolutions_exactly() {
    for form in Form::available(Isa::detect()) {
        for seed in 0..80 {
            let random = &mut Random::new(seed + 7000);
            let spatial = random.of(&[1, 2, 2, 2, 3]);
            let groups = random.of(&[1, 1, 1, 2, 3]);
            let channels = random.of(&[1, 2, 3, 16, 20]).max(if groups > 1 { 2 } else { 1 });
            let out = random.of(&[1, 5, 16, 35]);
            let batch = random.of(&[1, 2]);
            let window: Vec<i64> = (0..spatial).map(|_| random.of(&[1, 1, 2, 3])).collect();
            let dilation: Vec<i64> = (0..spatial).map(|_| random.of(&[1, 1, 2])).collect();
            let stride: Vec<i64> = (0..spatial).map(|_| random.of(&[1, 1, 2, 3])).collect();
            let padding: [Vec<i64>; 2] =
                [(); 2].map(|()| (0..spatial).map(|_| random.of(&[0, 0, 1, 2])).collect());
            let reach = |i: usize| (window[i] - 1) * dilation[i] + 1;
            let input: Vec<i64> = (0..spatial).map(|i| reach(i) + random.within(0, 9) as i64).collect();
            let output: Vec<i64> = (0..spatial)
                .map(|i| (input[i] + padding[0][i] + padding[1][i] - reach(i)) / stride[i] + 1)
                .collect();
            let types = [random.of(&BYTES), random.of(&BYTES), random.of(&RESULTS)];
            let dims = [
                [&[batch, groups * channels], input.as_slice()].concat(),
                [&[groups * out, channels], window.as_slice()].concat(),
                [&[batch, groups * out], output.as_slice()].concat(),
            ];
            let mut arrays = [0, 1, 2].map(|at| array(random, at as i64 + 1, types[at], &dims[at]));
            let settings = settings(random);
            let conv_mode = random.of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]);
            let operation = ConvolutionForward {
                x: 1,
                w: 2,
                y: 3,
                pre_padding: padding[0].clone(),
                post_padding: padding[1].clone(),
                stride,
                dilation,
                conv_mode,
            };
            let reference = {
                let mut arrays = arrays.clone();
                let [x, w, y] = &mut arrays;
                for array in [x, w, y] {
                    let Tensor { uid, dims, strides, .. } = array.tensor.clone();
                    let mut values = array.values().into_iter();
                    *array =
                        Array::new(uid, DataType::Double, &dims, &strides).filled(|| values.next().unwrap());
                }
                crate::testing::run(operation.clone().into(), DataType::Double, Isa::Portable, &mut arrays)
                    .unwrap();
                arrays[2].values()
            };
            run_planned(operation.into(), DataType::Float, &mut arrays, |graph, node| {
                let convolution = crate::testing::convolution_of(graph, &node.node.operation);
                let problem = Problem::of_convolution(&convolution)?;
                with_stages("conv", problem, stages(types[2]), (Isa::detect(), Some(form)), settings)
            })
            .unwrap();
            for (at, (got, expected)) in arrays[2].values().iter().zip(reference).enumerate() {
                let expected = stored(types[2], expected as i64);
                assert_eq!(*got, expected, "{form:?}, seed {seed}: element {at} of {dims:?}, {types:?}");
            }
        }
    }
}

/// Values divided by a divisor, as a division rounds them.
struct Quotients<'a>(&'a [f32], f32);

impl Vector16Task for Quotients<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    unsafe fn run<S: Vector16>(self) -> Vec<f32> {
        let Self(numbers, divisor) = self;
        let mut got = vec![0.0; numbers.len()];
        for (from, to) in numbers.chunks_exact(16).zip(got.chunks_exact_mut(16)) {
            // SAFETY: the processor has the instructions, which the test checked, and both chunks have
            // sixteen values.
            unsafe {
                let quotients = quotient::<S>(S::load_floats(from.as_ptr()), divisor, 1.0 / divisor);
                S::store_floats(quotients, to.as_mut_ptr());
            }
        }
        got
    }
}

/// Quotients between two bytes and everywhere else equal those of a division, to the last bit.
#[test]
fn quotients_are_those_of_a_division() {
    let random = &mut Random::new(31);
    for _ in 0..3_000 {
        let divisor = (3.01 + random.real()) as f32 * random.of(&[1.0, 1.0, -1.0, 1e-12, 1e12]);
        let numbers: Vec<f32> = (0..64)
            .map(|at| match at % 4 {
                0 => (random.within(0, 600) as f32 - 300.5) * divisor,
                1 => f32::from_bits(((random.within(0, 600) as f32 + 0.5) * divisor).to_bits() + 1),
                2 => random.real() as f32 * 1e6 * divisor,
                _ => random.real() as f32 * 300.0 * divisor,
            })
            .collect();
        let expected: Vec<f32> = numbers.iter().map(|number| number / divisor).collect();
        for isa in Isa::available() {
            // SAFETY: the processor has the instructions of every available level.
            let got = unsafe { run_at(*isa, Quotients(&numbers, divisor)) };
            assert_eq!(got, expected, "{isa:?}, divisor {divisor:e}");
        }
    }
}

/// A round with its own parameters: quotients are often in the middle of two integers, or next to it.
fn round(random: &mut Random, residual: Option<Residual>) -> Scaled {
    let number =
        |value: f32| Param { slot: 0, data_type: DataType::Float, stride: 0, value: Some(f64::from(value)) };
    let factor: f32 = random.of(&[1.0, 0.5, 0.013, 3.7]);
    let scale = factor * random.of(&[1.0, 0.5, 0.25, 0.125, 1.0 / 3.0, 0.037, 1e-9]);
    let shift = factor * random.of(&[0.0, 0.5, 7.3, -90.0, 4e4, f32::INFINITY]);
    let quantize = Quantize {
        factor: Some(number(if random.within(0, 3) == 0 { 1.0 / factor } else { factor })),
        divides: random.within(0, 3) > 0,
        before: random.of(&[0.0, 0.0, 0.0, 0.5]),
        clips_before: NO_CLIPS,
        round: random.of(&[Round::Even, Round::Even, Round::Even, Round::Down]),
        after: Some(number(random.of(&[0.0, 3.0, 128.0, 255.0, 700.0]))),
        clips_after: NO_CLIPS,
    };
    Scaled {
        scales: vec![number(scale)],
        second: random.of(&[None, Some(number(1.7))]),
        shift: vec![number(shift)],
        residual: residual.map(|of| Residual { scale: Some(number(scale * random.of(&[1.0, 3.1]))), ..of }),
        clips: random.of(&[NO_CLIPS, [0.0, f32::INFINITY], [-factor, 9.0 * factor]]),
        quantize: Some(quantize),
    }
}

/// Instruction sets that round with one multiplication give the bits of those that compute every operation.
#[test]
fn rounding_in_the_folded_form_gives_the_same_bytes() {
    for seed in 0..400 {
        let random = &mut Random::new(seed + 400);
        let (m, n, k) = (random.within(1, 20) as i64, random.within(1, 40) as i64, 40);
        let types = [random.of(&BYTES), DataType::Int8, random.of(&BYTES)];
        let dims = [[m, k], [k, n], [m, n]];
        let arrays = [0, 1, 2].map(|at| array(random, at as i64 + 1, types[at], &dims[at]));
        // Operand A is also the residual: it has more columns than the result.
        let mut added = [0; MAX_RANK];
        added.iter_mut().zip(&arrays[0].tensor.strides).for_each(|(to, stride)| *to = *stride as usize);
        let residual = Residual { slot: 0, data_type: types[0], strides: added, zero: None, scale: None };
        let adds = random.within(0, 2);
        let scaled = Some(round(random, (adds == 1).then_some(residual)));
        let zero = Param { slot: 0, data_type: DataType::Float, stride: 0, value: Some(5.0) };
        let later = (random.within(0, 1) == 0).then(|| PostOp::Round {
            zero: Some(zero),
            scaled: Box::new(round(random, (adds == 2).then_some(residual))),
            output: types[2],
        });
        let inner = later.is_some().then(|| random.of(&BYTES));
        let stages = Stages { scaled, inner, post_ops: later.into_iter().collect(), ..Stages::default() };
        let settings = settings(random);
        let results = Isa::available().iter().map(|isa| {
            let mut arrays = arrays.clone();
            run_planned(Matmul { a: 1, b: 2, c: 3 }.into(), DataType::Float, &mut arrays, |graph, node| {
                let matmul = crate::testing::matmul_of(graph, &node.node.operation);
                with_stages("matmul", Problem::of_matmul(&matmul)?, stages.clone(), (*isa, None), settings)
            })
            .unwrap();
            arrays[2].values()
        });
        let results: Vec<Vec<f64>> = results.collect();
        for (isa, got) in Isa::available().iter().zip(&results) {
            assert_eq!(*got, results[0], "{isa:?}, seed {seed}, {m} x {n} of {types:?}: {stages:?}");
        }
    }
}
