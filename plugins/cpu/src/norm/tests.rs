use hipdnn_plugin_sdk::graph::operation::{Layernorm, LayernormBackward, RmsNorm, RmsNormBackward};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, Operation};

use crate::fusion::node::plan_node_at;
use crate::simd::isa::Isa;
use crate::testing::limits::scale_of;
use crate::testing::{Array, Random, check_with_reference, order, run, run_planned, same, strides};
use crate::threading::partition::Threads;

const X: i64 = 1;

const SCALE: i64 = 2;

const BIAS: i64 = 3;

const EPSILON: i64 = 4;

const DY: i64 = 5;

/// The result, or its gradient.
const RESULT: i64 = 6;

const DSCALE: i64 = 7;

const DBIAS: i64 = 8;

const MEAN: i64 = 9;

const INVERSE: i64 = 10;

/// Shapes, and how many of their last dimensions are normalized.
const SHAPES: [(&[i64], usize); 9] = [
    (&[7], 1),
    (&[3, 1], 1),
    (&[5, 67], 1),
    (&[2, 3, 130], 1),
    (&[4, 3, 5, 7], 2),
    (&[3, 6, 4, 2], 3),
    (&[300, 19], 1),
    (&[2, 5000], 1),
    (&[1, 2, 2, 3, 9], 4),
];

#[derive(Clone)]
struct Case {
    count: usize,
    centered: bool,
    data_type: DataType,
    arrays: Vec<Array>,
}

impl Case {
    fn new(
        random: &mut Random,
        (dims, count): (&[i64], usize),
        centered: bool,
        which: usize,
        data_type: DataType,
        gap: i64,
    ) -> Self {
        // RMS normalization never includes the first dimension.
        let count = if centered { count } else { count.min(dims.len() - 1).max(1) };
        let leading = dims.len() - count;
        let whole = |random: &mut Random, uid, which| {
            Array::new(uid, data_type, dims, &strides(dims, &order(dims.len(), which), gap))
                .filled(|| random.real() + 0.5)
        };
        let mut arrays =
            vec![whole(random, X, which), whole(random, DY, (which + 1) % 3), whole(random, RESULT, which)];
        let own =
            random.of(&[data_type, if data_type == DataType::Double { data_type } else { DataType::Float }]);
        let (mut places, mut rows) = (dims.to_vec(), dims.to_vec());
        places[..leading].fill(1);
        rows[leading..].fill(1);
        for (uid, dims) in [
            (SCALE, &places),
            (BIAS, &places),
            (DSCALE, &places),
            (DBIAS, &places),
            (MEAN, &rows),
            (INVERSE, &rows),
        ] {
            let steps = strides(dims, &order(dims.len(), random.of(&[0, 0, 2])), random.of(&[0, 1]));
            arrays.push(Array::new(uid, own, dims, &steps).filled(|| random.real().abs() + 0.25));
        }
        arrays.push(Array::new(EPSILON, DataType::Float, &[1], &[1]).filled(|| 0.125));
        Self { count, centered, data_type, arrays }
    }

    fn compute(&self) -> DataType {
        if self.data_type == DataType::Double { DataType::Double } else { DataType::Float }
    }

    fn array(&mut self, uid: i64) -> &mut Array {
        self.arrays.iter_mut().find(|array| array.tensor.uid == uid).unwrap()
    }

    fn forward(&self, keep: bool) -> Operation {
        let forward_phase = NormFwdPhase::Training;
        if self.centered {
            Layernorm {
                x: X,
                scale: SCALE,
                bias: BIAS,
                epsilon: EPSILON,
                y: RESULT,
                mean: keep.then_some(MEAN),
                inv_variance: keep.then_some(INVERSE),
                forward_phase,
                normalized_dim_count: self.count as i64,
            }
            .into()
        } else {
            RmsNorm {
                x: X,
                scale: SCALE,
                epsilon: EPSILON,
                y: RESULT,
                bias: keep.then_some(BIAS),
                inv_rms: keep.then_some(INVERSE),
                forward_phase,
            }
            .into()
        }
    }

    fn backward(&self, saved: bool) -> Operation {
        if self.centered {
            LayernormBackward {
                dy: DY,
                x: X,
                scale: SCALE,
                mean: saved.then_some(MEAN),
                inv_variance: saved.then_some(INVERSE),
                epsilon: Some(EPSILON),
                dx: RESULT,
                dscale: DSCALE,
                dbias: DBIAS,
                normalized_dim_count: self.count as i64,
            }
            .into()
        } else {
            RmsNormBackward {
                dy: DY,
                x: X,
                scale: SCALE,
                inv_rms: Some(INVERSE),
                dx: RESULT,
                dscale: DSCALE,
                dbias: saved.then_some(DBIAS),
            }
            .into()
        }
    }

    /// Compares all tensors after a run with the reference's.
    fn check(&self, operation: &Operation, isa: Isa) {
        let uids: Vec<i64> = self.arrays.iter().map(|array| array.tensor.uid).collect();
        check_with_reference(operation, self.compute(), isa, &self.arrays, &uids, |expected| {
            Some(scale_of(&expected.values()))
        });
    }

    fn all(&self, isa: Isa) {
        for flag in [false, true] {
            self.check(&self.forward(flag), isa);
            self.check(&self.backward(flag), isa);
        }
    }
}

#[test]
fn every_variant_in_every_layout() {
    let mut random = Random::new(21);
    for (dims, count) in SHAPES {
        for centered in [true, false] {
            if !centered && dims.len() == 1 {
                continue;
            }
            for which in 0..3 {
                for data_type in [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16] {
                    for gap in [0, 2] {
                        let case = Case::new(&mut random, (dims, count), centered, which, data_type, gap);
                        for isa in Isa::available() {
                            case.all(*isa);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn work_for_several_threads() {
    let mut random = Random::new(22);
    for centered in [true, false] {
        let case = Case::new(&mut random, (&[700, 517], 1), centered, 0, DataType::Float, 0);
        case.all(Isa::detect());
    }
}

#[test]
fn nan_infinite_and_large_values() {
    let mut random = Random::new(23);
    // Squares of 5e37 exceed single precision, its products with scale do not.
    for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, 5e37, 0.0] {
        for centered in [true, false] {
            let mut case = Case::new(&mut random, (&[3, 70], 1), centered, 0, DataType::Float, 0);
            for place in [0, 13, 69] {
                case.array(X).set(&[1, place], special);
            }
            for isa in Isa::available() {
                case.check(&case.forward(true), *isa);
            }
        }
    }
}

#[test]
fn a_large_mean_does_not_cancel_the_variance() {
    let mut random = Random::new(24);
    let mut case = Case::new(&mut random, (&[5, 300], 1), true, 0, DataType::Float, 0);
    for index in case.array(X).indices() {
        let x = case.array(X);
        x.set(&index, 4096.0 + x.get(&index));
    }
    for isa in Isa::available() {
        case.check(&case.forward(true), *isa);
    }
}

#[test]
fn rows_may_begin_far_from_their_mean() {
    let mut random = Random::new(26);
    let mut case = Case::new(&mut random, (&[5, 20_000], 1), true, 0, DataType::Float, 0);
    for index in case.array(X).indices() {
        let x = case.array(X);
        if index[1] < 16 {
            x.set(&index, 1000.0 + x.get(&index));
        }
    }
    for isa in Isa::available() {
        case.check(&case.forward(true), *isa);
    }
}

#[test]
fn results_are_the_same_bits_for_any_number_of_threads() {
    let mut random = Random::new(25);
    for data_type in [DataType::Float, DataType::Half] {
        let case = Case::new(&mut random, (&[1500, 257], 1), true, 0, data_type, 0);
        for operation in [case.forward(true), case.backward(false)] {
            let results = [1, 2, 3, 5].map(|most| {
                let mut arrays = case.arrays.clone();
                run_planned(operation.clone(), DataType::Float, &mut arrays, |graph, node| {
                    plan_node_at(
                        graph,
                        node,
                        Isa::detect(),
                        Threads { most, deterministic: true, ..Threads::default() },
                    )
                })
                .unwrap();
                arrays.iter().map(Array::values).collect::<Vec<_>>()
            });
            assert!(results.iter().all(|result| *result == results[0]));
        }
    }
}

#[test]
fn rows_do_not_depend_on_their_neighbours() {
    let mut random = Random::new(27);
    for (data_type, len) in [(DataType::Float, 83), (DataType::Bfloat16, 83), (DataType::Float, 5000)] {
        let mut case = Case::new(&mut random, (&[11, len], 1), true, 0, data_type, 0);
        // A row whose first values are far from its mean, and one with an infinity.
        for column in 0..16 {
            case.array(X).set(&[2, column], 1000.0);
        }
        case.array(X).set(&[5, 1], f64::INFINITY);
        for isa in Isa::available() {
            let row_of = |first: usize, rows: usize| {
                let mut part = case.clone();
                for uid in [X, RESULT, MEAN, INVERSE] {
                    let all = case.arrays.iter().find(|array| array.tensor.uid == uid).unwrap();
                    let dims = [rows as i64, all.tensor.dims[1]];
                    let mut some = Array::new(uid, all.tensor.data_type, &dims, &[dims[1], 1]);
                    for index in some.indices() {
                        some.set(&index, all.get(&[first + index[0], index[1]]));
                    }
                    *part.array(uid) = some;
                }
                run(part.forward(true), part.compute(), *isa, &mut part.arrays).unwrap();
                [RESULT, MEAN, INVERSE].map(|uid| part.array(uid).clone())
            };
            let all = row_of(0, 11);
            for row in 0..11 {
                for (alone, all) in row_of(row, 1).iter().zip(&all) {
                    for index in alone.indices() {
                        let (alone, beside) = (alone.get(&index), all.get(&[row, index[1]]));
                        assert!(same(alone, beside), "row {row} at {isa:?}: {alone} alone, else {beside}");
                    }
                }
            }
        }
    }
}
