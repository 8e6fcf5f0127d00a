//! Gradients of attention against values computed from their definition.

use super::*;
use crate::fusion::node::plan_node_at;
use crate::simd::isa::Isa;
use crate::testing;
use crate::testing::limits::{Limit, scale_of};
use crate::testing::{Array, Random, cases, run, run_planned};
use crate::threading::partition::Threads;
use hipdnn_plugin_sdk::graph::operation::SdpaBackward;
use hipdnn_plugin_sdk::graph::{DataType, Operation};

/// A random attention after its forward pass, with the gradients' operands, and its gradients.
fn backward(random: &mut Random, longest: usize) -> (Case, Operation) {
    let mut case = Case::random(random, longest);
    let dims = |case: &Case, at: usize| case.arrays[at].tensor.dims.clone();
    let [q, o] = [0, 3].map(|at| dims(&case, at));
    if case.operation.stats.is_none() {
        case.operation.stats = Some(10);
        case.add(random, 10, DataType::Double, &[q[0], q[1], q[2], 1]);
    }
    let mut case = Case { arrays: case.expected(), ..case };
    let data_type = case.arrays[3].tensor.data_type;
    case.add(random, 20, data_type, &o);
    for (uid, like) in [(21, 0), (22, 1), (23, 2)] {
        let (data_type, dims) = (case.arrays[like].tensor.data_type, dims(&case, like));
        case.add(random, uid, data_type, &dims);
    }
    case.as_ragged_as_before(random);
    let operation = SdpaBackward::of(&case.operation, [20, 10], [21, 22, 23]).into();
    (case, operation)
}

/// Keys and values with different heads, or paged, have no fast gradients.
fn is_left_to_the_reference(case: &Case) -> bool {
    case.arrays[1].tensor.dims[1] != case.arrays[2].tensor.dims[1] || case.operation.page_table_k.is_some()
}

fn compare_gradients(seed: u64, longest: usize, change: impl FnOnce(&mut Random, &mut Case)) -> bool {
    let random = &mut Random::new(seed);
    let (mut case, operation) = backward(random, longest);
    if is_left_to_the_reference(&case) {
        return false;
    }
    change(random, &mut case);
    let mut expected = case.arrays.clone();
    let reference = crate::reference::plan_node;
    run_planned(operation.clone(), case.compute_type, &mut expected, |_, node| reference(node)).unwrap();
    for isa in Isa::available() {
        let mut arrays = case.arrays.clone();
        run(operation.clone(), case.compute_type, *isa, &mut arrays).unwrap();
        for (got, expected) in arrays.iter().zip(&expected).filter(|(a, _)| a.tensor.uid > 20) {
            let (uid, scale) = (got.tensor.uid, scale_of(&expected.values()));
            let limit = Limit::new(&operation, case.compute_type, *isa, &case.arrays, (uid, scale));
            for ((index, a), b) in got.indices().iter().zip(got.values()).zip(expected.values()) {
                assert!(
                    limit.holds(a, b) || testing::same(a, b),
                    "seed {seed}, {isa:?}, tensor {uid} at {index:?}: {a} is not {b}\n{operation:#?}"
                );
            }
        }
    }
    true
}

#[test]
fn gradients_of_any_shape_layout_type_and_option() {
    let compared = (0..cases(360)).filter(|seed| compare_gradients(seed + 10_000, 40, |_, _| {})).count();
    assert!(compared as u64 > cases(150), "{compared}");
    for seed in 0..5 {
        compare_gradients(seed + 11_000, 400, |_, _| {});
    }
}

#[test]
fn gradients_of_nan() {
    for seed in 0..cases(200) {
        compare_gradients(seed + 12_000, 20, |random, case| {
            let places = [0, 1, 2, case.arrays.iter().position(|a| a.tensor.uid == 20).unwrap()];
            let array = &mut case.arrays[random.of(&places)];
            let indices = array.indices();
            array.set(&indices[random.within(0, indices.len() - 1)], f64::NAN);
        });
    }
}

#[test]
fn gradients_do_not_depend_on_the_number_of_threads() {
    for seed in 0..5 {
        let (case, operation) = backward(&mut Random::new(seed + 13_000), 200);
        if is_left_to_the_reference(&case) {
            continue;
        }
        let of = |most| {
            let threads = Threads { most, ..Threads::default() };
            let mut arrays = case.arrays.clone();
            run_planned(operation.clone(), case.compute_type, &mut arrays, |graph, node| {
                plan_node_at(graph, node, Isa::detect(), threads)
            })
            .unwrap();
            let results = arrays.iter().filter(|array| array.tensor.uid > 20);
            results.flat_map(Array::values).map(f64::to_bits).collect::<Vec<_>>()
        };
        let one = of(1);
        for most in 2..5 {
            assert!(of(most) == one, "seed {}, {most} threads", seed + 13_000);
        }
    }
}
