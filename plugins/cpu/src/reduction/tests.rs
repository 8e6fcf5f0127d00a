use hipdnn_plugin_sdk::graph::operation::Reduction;
use hipdnn_plugin_sdk::graph::{DataType, ReductionMode};

use crate::fusion::node::plan_node_at;
use crate::simd::isa::Isa;
use crate::testing::limits::scale_of;
use crate::testing::{Array, Random, check_with_reference, order, run, run_planned, strides};
use crate::threading::partition::Threads;

const X: i64 = 1;

const Y: i64 = 2;

/// x and the result of a reduction along the dimensions whose bit is set.
fn arrays(
    random: &mut Random,
    dims: &[i64],
    fold_row: usize,
    which: usize,
    types: [DataType; 2],
) -> Vec<Array> {
    let kept: Vec<i64> =
        dims.iter().enumerate().map(|(axis, dim)| if fold_row >> axis & 1 == 1 { 1 } else { *dim }).collect();
    let gap = random.of(&[0, 0, 3]);
    let x = Array::new(X, types[0], dims, &strides(dims, &order(dims.len(), which), gap));
    let y_order = order(dims.len(), random.within(0, 2));
    let y = Array::new(Y, types[1], &kept, &strides(&kept, &y_order, random.of(&[0, 1]))).filled(|| 77.0);
    vec![x.filled(|| random.real()), y]
}

fn operation(mode: ReductionMode) -> Reduction {
    Reduction { in_: X, out: Y, mode, is_deterministic: false }
}

/// Compares the result with the reference's.
fn check(mode: ReductionMode, compute: DataType, isa: Isa, arrays: &[Array]) {
    let (x, sums) = (arrays[0].values(), arrays[1].values().len());
    // That of all terms of a sum.
    let terms = scale_of(&x) * (x.len() / sums.max(1)) as f64;
    let is_exact = matches!(mode, ReductionMode::Max | ReductionMode::Min | ReductionMode::Amax);
    check_with_reference(&operation(mode).into(), compute, isa, arrays, &[Y], |expected| {
        (!is_exact).then(|| scale_of(&expected.values()).max(terms))
    });
}

fn modes() -> impl Iterator<Item = ReductionMode> {
    ReductionMode::ALL.iter().copied().filter(|mode| *mode != ReductionMode::NotSet)
}

#[test]
fn every_mode_along_any_dimensions() {
    use DataType::{Bfloat16, Double, Float, Half, Int8, Int32};
    let mut random = Random::new(31);
    for dims in [
        &[70][..],
        &[5, 67],
        &[9, 6, 2],
        &[2, 17, 3, 5],
        &[33, 2, 2, 4],
        &[3, 1100],
        &[90, 3, 5],
        &[37, 49],
        &[1, 6, 1, 50],
    ] {
        // Masks that reduce more than dimensions of size 1.
        let reduces =
            |mask: &usize| dims.iter().enumerate().any(|(axis, dim)| mask >> axis & 1 == 1 && *dim > 1);
        for fold_row in (1..1_usize << dims.len()).filter(reduces) {
            for which in 0..3 {
                for mode in modes() {
                    let floats =
                        [[Float, Float], [Float, Half], [Half, Half], [Bfloat16, Float], [Double, Double]];
                    let mut types = random.of(&floats);
                    // Products of many integers are the reference's.
                    let is_product = matches!(mode, ReductionMode::Mul | ReductionMode::MulNoZeros);
                    if !is_product && random.within(0, 5) == 0 {
                        types = [Int8, Int32];
                    }
                    let compute = if types[0] == Double { Double } else { Float };
                    let arrays = arrays(&mut random, dims, fold_row, which, types);
                    for isa in Isa::available() {
                        check(mode, compute, *isa, &arrays);
                    }
                }
            }
        }
    }
}

#[test]
fn few_results_of_many_elements() {
    let mut random = Random::new(32);
    for (dims, fold_row) in [(&[300_000][..], 1), (&[70_000, 7], 1), (&[3, 90_000], 2), (&[40, 3, 5000], 5)] {
        let arrays = arrays(&mut random, dims, fold_row, 0, [DataType::Float; 2]);
        for mode in [ReductionMode::Add, ReductionMode::Max, ReductionMode::Norm2, ReductionMode::Avg] {
            check(mode, DataType::Float, Isa::detect(), &arrays);
            let results = [1, 2, 3].map(|most| {
                let mut arrays = arrays.clone();
                run_planned(operation(mode).into(), DataType::Float, &mut arrays, |graph, node| {
                    plan_node_at(graph, node, Isa::detect(), Threads { most, ..Threads::default() })
                })
                .unwrap();
                arrays[1].values()
            });
            assert!(results.iter().all(|result| *result == results[0]));
        }
    }
}

#[test]
fn nan_infinite_and_large_values() {
    let mut random = Random::new(33);
    for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e25] {
        for fold_row in 1..4 {
            for place in [[0, 0], [2, 36], [1, 17]] {
                let mut arrays = arrays(&mut random, &[3, 37], fold_row, 0, [DataType::Float; 2]);
                arrays[0].set(&place, special);
                for mode in modes() {
                    for isa in Isa::available() {
                        check(mode, DataType::Float, *isa, &arrays);
                    }
                }
            }
        }
    }
}

#[test]
fn different_rounding_is_left_to_the_reference() {
    let mut random = Random::new(34);
    let mut of = |types, mode, compute| {
        let mut arrays = arrays(&mut random, &[4, 5], 2, 0, types);
        run(operation(mode).into(), compute, Isa::detect(), &mut arrays).err().unwrap_or_default()
    };
    let doubles = [DataType::Double, DataType::Float];
    let refusal = of(doubles, ReductionMode::Norm2, DataType::Float);
    assert!(refusal.contains("in: data type is double"), "{refusal}");
    assert_eq!(of(doubles, ReductionMode::Norm2, DataType::Double), "");
    let integers = [DataType::Int32, DataType::Float];
    for compute in [DataType::Float, DataType::Double] {
        let refusal = of(integers, ReductionMode::Mul, compute);
        assert!(refusal.contains("in: 5 values of int32"), "{refusal}");
        assert_eq!(of(integers, ReductionMode::Add, compute), "");
    }
}
