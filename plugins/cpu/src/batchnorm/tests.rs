use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance, Pointwise,
};
use hipdnn_plugin_sdk::graph::{DataType, Operation, PointwiseMode, Tensor};

use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::limits::{Limit, scale_of};
use crate::testing::{Array, Random, order, run, run_together, strides};

const DIMS: [&[i64]; 11] = [
    &[5, 3],
    &[7, 1, 9],
    &[4, 17, 5, 6],
    &[2, 33, 3, 2, 4],
    &[600, 5, 1, 1],
    &[3, 520, 2, 1],
    // Planes of one vector, of one and a part, of more than are added up at a time.
    &[9, 3, 4, 4],
    &[11, 2, 6, 6],
    &[6, 2, 7, 7],
    &[70, 2, 8, 8],
    &[3, 2, 50, 45],
];

/// The channel of an element of a tensor with these dimensions, the last dimension fastest.
fn channel_of(dims: &[i64], element: usize) -> usize {
    let inner: i64 = dims[2..].iter().product();
    element / inner as usize % dims[1] as usize
}

struct Case {
    dims: Vec<i64>,
    compute: DataType,
    arrays: Vec<Array>,
}

const DY: i64 = 1;

const X: i64 = 2;

const RESULT: i64 = 3;

/// Parameters that are read: scale, bias, mean, variance (or its inverse), running mean and variance.
const SCALE: i64 = 4;

const BIAS: i64 = 5;

const MEAN: i64 = 6;

const VARIANCE: i64 = 7;

const EPSILON: i64 = 8;

/// Parameters that are written.
const FIRST: i64 = 10;

const SECOND: i64 = 11;

const NEXT_MEAN: i64 = 12;

const NEXT_VARIANCE: i64 = 13;

impl Case {
    fn new(random: &mut Random, dims: &[i64], which: usize, data_type: DataType, gap: i64) -> Self {
        let compute = if data_type == DataType::Double { DataType::Double } else { DataType::Float };
        let mut arrays = Vec::new();
        for uid in [DY, X, RESULT] {
            let tensor_strides = strides(dims, &order(dims.len(), which), gap);
            arrays.push(Array::new(uid, data_type, dims, &tensor_strides).filled(|| random.real()));
        }
        let mut parameter = vec![1; dims.len()];
        parameter[1] = dims[1];
        let tensor_strides = strides(&parameter, &order(dims.len(), 0), 0);
        let own = if data_type == DataType::Double { DataType::Double } else { DataType::Float };
        for uid in [SCALE, BIAS, MEAN, VARIANCE, FIRST, SECOND, NEXT_MEAN, NEXT_VARIANCE] {
            let relu = uid == VARIANCE;
            arrays.push(
                Array::new(uid, own, &parameter, &tensor_strides)
                    .filled(|| if relu { random.real().abs() + 0.5 } else { random.real() }),
            );
        }
        arrays.push(Array::new(EPSILON, own, &[1], &[1]).filled(|| 0.125));
        Self { dims: dims.to_vec(), compute, arrays }
    }

    fn array(&self, uid: i64) -> &Array {
        self.arrays.iter().find(|array| array.tensor.uid == uid).unwrap()
    }

    fn parameter(&self, uid: i64) -> Vec<f64> {
        self.array(uid).values()
    }

    /// Sums a term over the elements of each channel.
    fn sums(&self, term: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.dims[1] as usize];
        for element in 0..self.elements() {
            let channel = channel_of(&self.dims, element);
            sums[channel] += term(element, channel);
        }
        sums
    }

    fn elements(&self) -> usize {
        self.dims.iter().product::<i64>() as usize
    }

    fn count(&self) -> f64 {
        self.elements() as f64 / self.dims[1] as f64
    }

    /// Mean and biased variance of each channel of x.
    fn statistics(&self) -> (Vec<f64>, Vec<f64>) {
        let x = self.array(X).values();
        let n = self.count();
        let mean: Vec<f64> = self.sums(|i, _| x[i]).into_iter().map(|sum| sum / n).collect();
        let variance = self.sums(|i, c| (x[i] - mean[c]).powi(2)).into_iter().map(|sum| sum / n).collect();
        (mean, variance)
    }

    /// Runs the operation and compares what it has written.
    fn check(&self, operation: Operation, isa: Isa, expected: &[(i64, Vec<f64>)]) {
        let mut arrays = self.arrays.clone();
        let what = operation.spec().name;
        run(operation.clone(), self.compute, isa, &mut arrays).unwrap();
        self.compare(what, isa, &arrays, (&[operation], &[]), expected);
    }

    fn compare(
        &self,
        what: &str,
        isa: Isa,
        arrays: &[Array],
        (operations, between): (&[Operation], &[Tensor]),
        expected: &[(i64, Vec<f64>)],
    ) {
        for (uid, expected) in expected {
            let array = arrays.iter().find(|array| array.tensor.uid == *uid).unwrap();
            let result = (*uid, scale_of(expected));
            let limit = Limit::of_graph(
                operations,
                self.compute,
                (isa, Settings::default()),
                arrays,
                (between, result),
            );
            for (i, (got, expected)) in array.values().into_iter().zip(expected).enumerate() {
                assert!(
                    limit.holds(got, *expected),
                    "{what} at {isa:?}: tensor {uid} element {i} is {got}, expected {expected}, {limit:?}\n{:?} {:?}",
                    self.dims,
                    self.array(X).tensor.strides,
                );
            }
        }
    }

    fn normalized(&self, mean: &[f64], inv: &[f64]) -> Vec<f64> {
        let (x, scale, bias) = (self.array(X).values(), self.parameter(SCALE), self.parameter(BIAS));
        let of = |i| channel_of(&self.dims, i);
        (0..self.elements()).map(|i| scale[of(i)] * (x[i] - mean[of(i)]) * inv[of(i)] + bias[of(i)]).collect()
    }

    fn inference(&self, isa: Isa) {
        let (mean, variance) = (self.parameter(MEAN), self.parameter(VARIANCE));
        let operation = BatchnormInference {
            x: X,
            mean: MEAN,
            inv_variance: VARIANCE,
            scale: SCALE,
            bias: BIAS,
            y: RESULT,
        };
        self.check(operation.into(), isa, &[(RESULT, self.normalized(&mean, &variance))]);
        let inv: Vec<f64> = variance.iter().map(|v| 1.0 / (v + 0.125).sqrt()).collect();
        let operation = BatchnormInferenceVariance {
            x: X,
            mean: MEAN,
            variance: VARIANCE,
            scale: SCALE,
            bias: BIAS,
            y: RESULT,
            epsilon: EPSILON,
        };
        self.check(operation.into(), isa, &[(RESULT, self.normalized(&mean, &inv))]);
    }

    fn training(&self, isa: Isa) {
        let (mean, variance) = self.statistics();
        let inv: Vec<f64> = variance.iter().map(|v| 1.0 / (v + 0.125).sqrt()).collect();
        let n = self.count();
        let blend = |old: Vec<f64>, new: Vec<f64>| -> Vec<f64> {
            old.iter().zip(new).map(|(old, new)| 0.9 * old + 0.1 * new).collect()
        };
        // Deviations are from the mean in the compute type.
        let single = self.compute == DataType::Float;
        let rounded: Vec<f64> = mean.iter().map(|m| if single { f64::from(*m as f32) } else { *m }).collect();
        let unbiased = variance.iter().map(|v| v * n / (n - 1.0)).collect();
        let operation = Batchnorm {
            prev_running_mean: Some(MEAN),
            prev_running_variance: Some(VARIANCE),
            mean: Some(FIRST),
            inv_variance: Some(SECOND),
            next_running_mean: Some(NEXT_MEAN),
            next_running_variance: Some(NEXT_VARIANCE),
            ..Batchnorm::new(X, SCALE, BIAS, EPSILON, RESULT)
        };
        self.check(
            operation.into(),
            isa,
            &[
                (RESULT, self.normalized(&rounded, &inv)),
                (NEXT_MEAN, blend(self.parameter(MEAN), mean.clone())),
                (NEXT_VARIANCE, blend(self.parameter(VARIANCE), unbiased)),
                (FIRST, mean),
                (SECOND, inv),
            ],
        );
    }

    /// The gradients for this dy: dx, dscale and dbias.
    fn gradients(&self, dy: &[f64], saved: bool) -> [(i64, Vec<f64>); 3] {
        let (mean, inv) = if saved {
            (self.parameter(MEAN), self.parameter(VARIANCE))
        } else {
            let (mean, variance) = self.statistics();
            (mean, variance.iter().map(|v| 1.0 / (v + 1e-5).sqrt()).collect())
        };
        let (x, scale) = (self.array(X).values(), self.parameter(SCALE));
        let normal = |i: usize, c: usize| (x[i] - mean[c]) * inv[c];
        let dbias = self.sums(|i, _| dy[i]);
        let dscale = self.sums(|i, c| dy[i] * normal(i, c));
        let n = self.count();
        let dx = (0..self.elements())
            .map(|i| {
                let c = channel_of(&self.dims, i);
                scale[c] * inv[c] * (dy[i] - dbias[c] / n - normal(i, c) * dscale[c] / n)
            })
            .collect();
        [(RESULT, dx), (FIRST, dscale), (SECOND, dbias)]
    }

    fn backward_of(dy: i64, saved: bool) -> Operation {
        BatchnormBackward {
            dy,
            x: X,
            scale: SCALE,
            dx: RESULT,
            dscale: FIRST,
            dbias: SECOND,
            mean: saved.then_some(MEAN),
            inv_variance: saved.then_some(VARIANCE),
            peer_stats: vec![],
        }
        .into()
    }

    fn backward(&self, isa: Isa, saved: bool) {
        let expected = self.gradients(&self.array(DY).values(), saved);
        self.check(Self::backward_of(DY, saved), isa, &expected);
    }

    /// The gradients with a RELU after the batch normalization, as one graph.
    fn backward_of_relu(&self, isa: Isa, saved: bool, input: &Array) {
        const INPUT: i64 = 20;
        const BETWEEN: i64 = 21;
        let mut arrays = self.arrays.clone();
        arrays.push(input.clone());
        arrays.last_mut().unwrap().tensor.uid = INPUT;
        let between = Tensor { uid: BETWEEN, is_virtual: true, ..self.array(DY).tensor.clone() };
        let operations = [
            Pointwise::new(PointwiseMode::ReluBwd, DY, Some(INPUT), BETWEEN).into(),
            Self::backward_of(BETWEEN, saved),
        ];
        let between = [between];
        run_together(&operations, self.compute, isa, &mut arrays, &between);
        let passes = input.values();
        let dy = self.array(DY).values();
        let dy: Vec<f64> = dy.iter().zip(passes).map(|(dy, x)| if x <= 0.0 { 0.0 } else { *dy }).collect();
        self.compare(
            "RELU and batch normalization",
            isa,
            &arrays,
            (&operations, &between),
            &self.gradients(&dy, saved),
        );
    }

    fn all(&self, isa: Isa) {
        self.inference(isa);
        self.training(isa);
        self.backward(isa, true);
        self.backward(isa, false);
    }
}

#[test]
fn every_variant_in_every_layout() {
    let mut random = Random::new(8);
    for dims in DIMS {
        for which in 0..3 {
            for data_type in [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16] {
                for gap in [0, 3] {
                    let case = Case::new(&mut random, dims, which, data_type, gap);
                    for isa in Isa::available() {
                        case.all(*isa);
                    }
                }
            }
        }
    }
}

#[test]
fn the_gradient_of_a_relu_after_it_in_every_layout() {
    let mut random = Random::new(13);
    for dims in DIMS {
        for (which, other_order) in [(0, 0), (0, 1), (1, 1), (2, 2)] {
            for data_type in [DataType::Float, DataType::Double, DataType::Half] {
                let case = Case::new(&mut random, dims, which, data_type, 0);
                let tensor_strides = strides(dims, &order(dims.len(), other_order), 0);
                // Zeros are at the RELU's edge.
                let number = || (random.real() * 4.0).round().clamp(-1.0, 1.0);
                let input = Array::new(X, data_type, dims, &tensor_strides).filled(number);
                for isa in Isa::available() {
                    for saved in [true, false] {
                        case.backward_of_relu(*isa, saved, &input);
                    }
                }
            }
        }
    }
}

#[test]
fn work_for_several_threads() {
    let mut random = Random::new(9);
    for which in 0..2 {
        for dims in [[9, 24, 40, 41], [400, 24, 5, 6]] {
            let case = Case::new(&mut random, &dims, which, DataType::Float, 0);
            case.all(Isa::detect());
            let input = case.array(X).clone();
            case.backward_of_relu(Isa::detect(), true, &input);
        }
    }
}

#[test]
fn a_large_mean_does_not_cancel_the_variance() {
    let mut random = Random::new(10);
    for which in 0..2 {
        let mut case = Case::new(&mut random, &[64, 3, 6, 6], which, DataType::Float, 0);
        let x = case.arrays.iter_mut().find(|array| array.tensor.uid == X).unwrap();
        for index in x.indices() {
            x.set(&index, 4096.0 + x.get(&index));
        }
        for isa in Isa::available() {
            case.training(*isa);
        }
    }
}

#[test]
fn the_first_values_may_be_far_from_the_mean() {
    let mut random = Random::new(12);
    let mut case = Case::new(&mut random, &[64, 3, 6, 6], 0, DataType::Float, 0);
    let x = case.arrays.iter_mut().find(|array| array.tensor.uid == X).unwrap();
    for index in x.indices() {
        if index[0] == 0 && index[2] < 3 {
            x.set(&index, 4096.0 + x.get(&index));
        }
    }
    for isa in Isa::available() {
        case.training(*isa);
    }
}

/// What follows a result, and the function that computes it from the result and an element of another tensor.
type Follower = (&'static [PointwiseMode], fn(f64, f64) -> f64);

const FOLLOWERS: [Follower; 5] = [
    (&[PointwiseMode::ReluFwd], |y, _| y.max(0.0)),
    (&[PointwiseMode::Add], |y, added| y + added),
    (&[PointwiseMode::Add, PointwiseMode::ReluFwd], |y, added| (y + added).max(0.0)),
    (&[PointwiseMode::Mul], |y, factor| y * factor),
    (&[PointwiseMode::Abs, PointwiseMode::Add, PointwiseMode::ReluFwd], |y, added| {
        (y.abs() + added).max(0.0)
    }),
];

/// The variants that can be followed.
#[derive(Clone, Copy, Debug)]
enum Form {
    Inference,
    InferenceVariance,
    Training,
}

impl Case {
    /// Mean and inverse deviation of each channel, as a variant takes them.
    fn moments(&self, form: Form) -> (Vec<f64>, Vec<f64>) {
        let inverse = |variance: Vec<f64>| variance.iter().map(|v| 1.0 / (v + 0.125).sqrt()).collect();
        match form {
            Form::Inference => (self.parameter(MEAN), self.parameter(VARIANCE)),
            Form::InferenceVariance => (self.parameter(MEAN), inverse(self.parameter(VARIANCE))),
            Form::Training => {
                let (mean, variance) = self.statistics();
                (mean, inverse(variance))
            }
        }
    }

    /// Runs a variant with the operations that follow, whose second operand is `other`.
    fn followed(&self, isa: Isa, form: Form, (modes, function): Follower, other: &Array) {
        const OTHER: i64 = 20;
        const BETWEEN: i64 = 21;
        let mut arrays = self.arrays.clone();
        arrays.push(other.clone());
        arrays.last_mut().unwrap().tensor.uid = OTHER;
        let result = self.array(RESULT).tensor.clone();
        let between: Vec<Tensor> = (BETWEEN..)
            .take(modes.len())
            .map(|uid| Tensor { uid, is_virtual: true, ..result.clone() })
            .collect();
        let (mean, spread, scale, bias, y) = (MEAN, VARIANCE, SCALE, BIAS, BETWEEN);
        let mut operations: Vec<Operation> = vec![match form {
            Form::Inference => BatchnormInference { x: X, mean, inv_variance: spread, scale, bias, y }.into(),
            Form::InferenceVariance => {
                let (variance, epsilon) = (spread, EPSILON);
                BatchnormInferenceVariance { x: X, mean, variance, scale, bias, y, epsilon }.into()
            }
            Form::Training => Batchnorm {
                mean: Some(FIRST),
                inv_variance: Some(SECOND),
                ..Batchnorm::new(X, scale, bias, EPSILON, y)
            }
            .into(),
        }];
        for (number, mode) in modes.iter().enumerate() {
            let last = BETWEEN + number as i64;
            let to = if number + 1 == modes.len() { RESULT } else { last + 1 };
            let second = (mode.operands() == 2).then_some(OTHER);
            operations.push(Pointwise::new(*mode, last, second, to).into());
        }
        run_together(&operations, self.compute, isa, &mut arrays, &between);
        let (mean, inv) = self.moments(form);
        let normal = self.normalized(&mean, &inv);
        let others = other.values();
        let got = arrays.iter().find(|array| array.tensor.uid == RESULT).unwrap().values();
        let scale = (RESULT, scale_of(&normal));
        let limit = Limit::of_graph(
            &operations,
            self.compute,
            (isa, Settings::default()),
            &arrays,
            (&between, scale),
        );
        for (i, got) in got.into_iter().enumerate() {
            let other = others[if others.len() == normal.len() { i } else { channel_of(&self.dims, i) }];
            let expected = function(normal[i], other);
            assert!(
                limit.holds(got, expected),
                "{form:?}, {modes:?} at {isa:?}: element {i} is {got}, expected {expected}, {limit:?}\n{:?} {:?}",
                self.dims,
                self.array(X).tensor.strides,
            );
        }
    }
}

#[test]
fn epilogues_of_every_variant() {
    let mut random = Random::new(11);
    let dims: [&[i64]; 6] =
        [&[3, 5, 7, 7], &[2, 17, 5, 6], &[1, 3, 40, 41], &[5, 1, 9], &[2, 3, 3, 2, 4], &[7, 6]];
    for dims in dims {
        for (which, other_order) in [(0, 0), (0, 1), (1, 1)] {
            for data_type in [DataType::Float, DataType::Double, DataType::Half] {
                let case = Case::new(&mut random, dims, which, data_type, 0);
                let other = |random: &mut Random, dims: &[i64]| {
                    let tensor_strides = strides(dims, &order(dims.len(), other_order), 0);
                    Array::new(X, data_type, dims, &tensor_strides).filled(|| random.real())
                };
                let of_channels: Vec<i64> =
                    dims.iter().enumerate().map(|(axis, dim)| if axis == 1 { *dim } else { 1 }).collect();
                let others = [other(&mut random, dims), other(&mut random, &of_channels)];
                for isa in Isa::available() {
                    for follower in FOLLOWERS {
                        for other in &others {
                            for form in [Form::Inference, Form::InferenceVariance, Form::Training] {
                                case.followed(*isa, form, follower, other);
                            }
                        }
                    }
                }
            }
        }
    }
}
