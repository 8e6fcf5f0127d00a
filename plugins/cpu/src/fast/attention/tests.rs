use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, Graph, Node, Operation};

use super::super::lanes::Threads;
use super::super::level::Level;
use super::super::testing::{Array, Random, order, run, run_planned, strides};
use super::super::{plan_node_at, testing};
use super::softmax::Weight;
use crate::kernel::Refusal;

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

/// Results of a case: o and what is kept of each row.
const RESULTS: [i64; 4] = [4, 10, 11, 12];

/// An attention with its tensors.
struct Case {
    operation: Sdpa,
    compute_type: DataType,
    arrays: Vec<Array>,
}

impl Case {
    /// Adds a tensor in some layout.
    fn add(&mut self, random: &mut Random, uid: i64, data_type: DataType, dims: &[i64]) -> usize {
        let axes = random.of(&[0, 0, 1, 2]);
        let mut axes = order(dims.len(), axes);
        if random.within(0, 2) == 0 && dims.len() == 4 {
            // Heads between a row and the next.
            axes = vec![0, 2, 1, 3];
        }
        let array = Array::new(uid, data_type, dims, &strides(dims, &axes, random.of(&[0, 0, 3])));
        self.arrays.push(array.filled(|| random.real() / 2.0));
        self.arrays.len() - 1
    }

    /// A case of random shape, layout, types and options.
    fn random(random: &mut Random, longest: usize) -> Self {
        let one = random.of(&FLOATS);
        let mixed = random.within(0, 5) == 0;
        let mut operation = Sdpa::new(1, 2, 3, 4);
        let compute_type = if one == DataType::Double { one } else { random.of(&[DataType::Float, one]) };
        let compute_type = if compute_type == DataType::Double { DataType::Double } else { DataType::Float };
        let heads = random.of(&[1, 2, 3, 4, 6]);
        let divisors: Vec<i64> = (1..=heads).filter(|divisor| heads % divisor == 0).collect();
        let (of_k, of_v) = (random.of(&divisors), random.of(&divisors));
        let batch = random.within(1, 2) as i64;
        let queries = random.within(1, longest) as i64;
        let [other, few, any] = [longest, 20, 70].map(|most| random.within(1, most) as i64);
        let keys = random.of(&[queries, other]);
        let depth = random.of(&[few, 16, 64]);
        let width = random.of(&[depth, any]);
        let mut case = Self { operation: Sdpa::new(1, 2, 3, 4), compute_type, arrays: Vec::new() };
        let kind = |random: &mut Random| if mixed { random.of(&FLOATS) } else { one };
        for (uid, dims) in [
            (1, [batch, heads, queries, depth]),
            (2, [batch, of_k, keys, depth]),
            (3, [batch, of_v, keys, width]),
            (4, [batch, heads, queries, width]),
        ] {
            let data_type = kind(random);
            case.add(random, uid, data_type, &dims);
        }
        if random.within(0, 1) == 0 {
            operation.attn_scale_value = Some(random.of(&[0.5, 0.125, -0.3]));
        }
        if random.within(0, 5) == 0 {
            operation.scale = Some(5);
            case.arrays.push(Array::new(5, DataType::Float, &[1], &[1]).filled(|| 0.375));
        }
        if random.within(0, 2) == 0 {
            operation.attn_mask = Some(6);
            let dims = [batch, heads, queries, keys].map(|dim| random.of(&[1, dim, dim]));
            let float = kind(random);
            let data_type = random.of(&[DataType::Boolean, float]);
            let first = random.within(0, 1) * 2;
            case.add(random, 6, data_type, &dims[first..]);
            let array = case.arrays.pop().unwrap();
            let boolean = data_type == DataType::Boolean;
            case.arrays.push(array.filled(|| match random.within(0, 3) {
                0 if boolean => 0.0,
                0 => f64::NEG_INFINITY,
                _ if boolean => 1.0,
                _ => random.real(),
            }));
        }
        if random.within(0, 2) == 0 {
            operation.padding_mask = true;
            (operation.seq_len_q, operation.seq_len_kv) = (Some(7), Some(8));
            for (uid, most) in [(7, queries), (8, keys)] {
                let lengths = Array::new(uid, DataType::Int32, &[batch, 1, 1, 1], &[1, 1, 1, 1]);
                case.arrays.push(lengths.filled(|| random.within(0, most as usize) as f64));
            }
        }
        match random.within(0, 5) {
            0 | 1 => operation.causal_mask = true,
            2 => operation.causal_mask_bottom_right = true,
            3 => {
                let (left, right) = (random.within(1, longest) as i64, random.within(0, 9) as i64);
                operation.left_bound = random.of(&[None, Some(left)]);
                operation.right_bound = random.of(&[None, Some(right)]);
                operation.diagonal_alignment =
                    random.of(&[DiagonalAlignment::TopLeft, DiagonalAlignment::BottomRight]);
            }
            _ => {}
        }
        operation.alibi_mask = random.within(0, 5) == 0;
        if random.within(0, 4) == 0 {
            operation.sink_token = Some(9);
            case.arrays.push(
                Array::new(9, DataType::Float, &[1, heads, 1, 1], &[heads, 1, 1, 1]).filled(|| random.real()),
            );
        }
        for (uid, field) in
            [(10, &mut operation.stats), (11, &mut operation.max), (12, &mut operation.sum_exp)]
        {
            if random.within(0, 1) == 0 {
                *field = Some(uid);
                let data_type = random.of(&[DataType::Float, DataType::Double]);
                case.add(random, uid, data_type, &[batch, heads, queries, 1]);
            }
        }
        case.operation = operation;
        case
    }

    /// What the reference computes.
    fn expected(&self) -> Vec<Array> {
        let mut arrays = self.arrays.clone();
        run_planned(
            self.operation.clone().into(),
            self.compute_type,
            &mut arrays,
            crate::reference::plan_node,
        )
        .unwrap();
        arrays
    }

    fn compare(&self, what: &str) {
        let expected = self.expected();
        // A score's error is that of its sum, and its weight's relative error the same; a result is a mean of values.
        let unit: f64 = if self.compute_type == DataType::Double { 1e-13 } else { 4e-5 };
        for level in Level::available() {
            let mut arrays = self.arrays.clone();
            run(self.operation.clone().into(), self.compute_type, *level, &mut arrays).unwrap();
            for (got, expected) in
                arrays.iter().zip(&expected).filter(|(a, _)| RESULTS.contains(&a.tensor.uid))
            {
                let (type_, uid) = (got.tensor.data_type, got.tensor.uid);
                let half_a_unit = match type_ {
                    DataType::Half => 1e-3,
                    DataType::Bfloat16 => 8e-3,
                    DataType::Float => 1e-6,
                    _ => 1e-14,
                };
                for ((index, a), b) in got.indices().iter().zip(got.numbers()).zip(expected.numbers()) {
                    let near = (a - b).abs() <= (unit + half_a_unit) * b.abs().max(1.0);
                    assert!(
                        near || testing::same(a, b),
                        "{what}, {level:?}, tensor {uid} at {index:?}: {a} is not {b}\n{:#?}",
                        self.operation
                    );
                }
            }
        }
    }
}

#[test]
fn any_shape_layout_type_and_option() {
    for seed in 0..400 {
        Case::random(&mut Random::new(seed), 40).compare(&format!("seed {seed}"));
    }
}

#[test]
fn more_keys_than_a_block_and_more_queries() {
    for seed in 0..5 {
        let random = &mut Random::new(seed + 7000);
        Case::random(random, 700).compare(&format!("seed {}", seed + 7000));
    }
}

#[test]
fn infinities_and_nan() {
    for seed in 0..300 {
        let random = &mut Random::new(seed + 3000);
        let mut case = Case::random(random, 30);
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for _ in 0..random.within(1, 3) {
            let array = random.within(0, 2);
            let indices = case.arrays[array].indices();
            let at = &indices[random.within(0, indices.len() - 1)];
            case.arrays[array].set(at, random.of(&special));
        }
        case.compare(&format!("seed {}", seed + 3000));
    }
}

#[test]
fn threads_do_not_show() {
    for seed in 0..5 {
        let random = &mut Random::new(seed + 5000);
        let case = Case::random(random, 300);
        let of = |most| {
            let threads = Threads { most, deterministic: false };
            let mut arrays = case.arrays.clone();
            run_planned(case.operation.clone().into(), case.compute_type, &mut arrays, |graph, node| {
                plan_node_at(graph, node, Level::best(), threads)
            })
            .unwrap();
            let results = arrays.iter().filter(|array| RESULTS.contains(&array.tensor.uid));
            results.flat_map(Array::numbers).map(f64::to_bits).collect::<Vec<_>>()
        };
        let one = of(1);
        for most in 2..5 {
            assert!(of(most) == one, "seed {}, {most} threads", seed + 5000);
        }
    }
}

fn refusal(change: impl FnOnce(&mut Sdpa, &mut Vec<Array>)) -> Refusal {
    let mut operation = Sdpa::new(1, 2, 3, 4);
    let dims = [1, 2, 4, 8];
    let mut arrays: Vec<Array> =
        (1..5).map(|uid| Array::new(uid, DataType::Float, &dims, &[64, 32, 8, 1])).collect();
    change(&mut operation, &mut arrays);
    let graph = Graph { tensors: arrays.iter().map(|a| a.tensor.clone()).collect(), ..Graph::default() };
    let operation: Operation = operation.into();
    let node = Node { name: String::new(), compute_type: DataType::Float, operation };
    plan_node_at(&graph, &node, Level::best(), Threads::default()).err().unwrap()
}

#[test]
fn what_the_reference_alone_computes_is_refused() {
    let one = |uid| Array::new(uid, DataType::Float, &[1], &[1]);
    let dropout = refusal(|operation, arrays| {
        (operation.dropout_mask, operation.dropout_scale) = (Some(5), Some(6));
        arrays.extend([Array::new(5, DataType::Float, &[1, 2, 4, 4], &[32, 16, 4, 1]), one(6)]);
    });
    assert_eq!(dropout, "dropout: given, expected none");
    let amax = refusal(|operation, arrays| {
        operation.amax_o = Some(5);
        arrays.push(one(5));
    });
    assert_eq!(amax, "amax_o: given, expected none");
    let factor = refusal(|operation, arrays| {
        operation.descale_v = Some(5);
        arrays.push(one(5));
    });
    assert_eq!(factor, "descale_q, descale_k or descale_v: given, expected none");
    let deep = refusal(|_, arrays| {
        *arrays = (1..5).map(|uid| Array::new(uid, DataType::Float, &[1, 1, 1, 4096], &[4096; 4])).collect();
    });
    assert_eq!(deep, "q: has rows of 4096 numbers, expected at most 2048");
}

/// The gradients of an attention whose result is tensor 4 and whose statistics are tensor 10: tensors 21 to 23 from tensor 20.
fn gradients_of(forward: &Sdpa) -> SdpaBackward {
    SdpaBackward {
        q: forward.q,
        k: forward.k,
        v: forward.v,
        o: forward.o,
        do_: 20,
        stats: 10,
        dq: 21,
        dk: 22,
        dv: 23,
        scale: forward.scale,
        attn_mask: forward.attn_mask,
        seq_len_q: forward.seq_len_q,
        seq_len_kv: forward.seq_len_kv,
        seed: None,
        offset: None,
        dropout_mask: None,
        dropout_scale: None,
        dropout_scale_inv: None,
        dbias: None,
        alibi_mask: forward.alibi_mask,
        padding_mask: forward.padding_mask,
        causal_mask: forward.causal_mask,
        causal_mask_bottom_right: forward.causal_mask_bottom_right,
        dropout_probability: None,
        attn_scale_value: forward.attn_scale_value,
        left_bound: forward.left_bound,
        right_bound: forward.right_bound,
        diagonal_alignment: forward.diagonal_alignment,
    }
}

/// A random attention after its forward direction, with what its gradients need; and these.
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
    let operation = gradients_of(&case.operation).into();
    (case, operation)
}

fn compare_gradients(seed: u64, longest: usize, change: impl FnOnce(&mut Random, &mut Case)) -> bool {
    let random = &mut Random::new(seed);
    let (mut case, operation) = backward(random, longest);
    if case.arrays[1].tensor.dims[1] != case.arrays[2].tensor.dims[1] {
        // Left to the reference.
        return false;
    }
    change(random, &mut case);
    let mut expected = case.arrays.clone();
    let reference = crate::reference::plan_node;
    run_planned(operation.clone(), case.compute_type, &mut expected, reference).unwrap();
    let unit: f64 = if case.compute_type == DataType::Double { 1e-12 } else { 4e-4 };
    for level in Level::available() {
        let mut arrays = case.arrays.clone();
        run(operation.clone(), case.compute_type, *level, &mut arrays).unwrap();
        for (got, expected) in arrays.iter().zip(&expected).filter(|(a, _)| a.tensor.uid > 20) {
            let (type_, uid) = (got.tensor.data_type, got.tensor.uid);
            let half_a_unit = match type_ {
                DataType::Half => 1e-3,
                DataType::Bfloat16 => 8e-3,
                DataType::Float => 1e-6,
                _ => 1e-14,
            };
            for ((index, a), b) in got.indices().iter().zip(got.numbers()).zip(expected.numbers()) {
                let near = (a - b).abs() <= (unit + half_a_unit) * b.abs().max(1.0);
                assert!(
                    near || testing::same(a, b),
                    "seed {seed}, {level:?}, tensor {uid} at {index:?}: {a} is not {b}\n{operation:#?}"
                );
            }
        }
    }
    true
}

#[test]
fn gradients_of_any_shape_layout_type_and_option() {
    let compared = (0..300).filter(|seed| compare_gradients(seed + 10_000, 40, |_, _| {})).count();
    assert!(compared > 150, "{compared}");
    for seed in 0..5 {
        compare_gradients(seed + 11_000, 400, |_, _| {});
    }
}

#[test]
fn gradients_of_nan() {
    for seed in 0..200 {
        compare_gradients(seed + 12_000, 20, |random, case| {
            let places = [0, 1, 2, case.arrays.iter().position(|a| a.tensor.uid == 20).unwrap()];
            let array = &mut case.arrays[random.of(&places)];
            let indices = array.indices();
            array.set(&indices[random.within(0, indices.len() - 1)], f64::NAN);
        });
    }
}

#[test]
fn threads_do_not_show_in_gradients() {
    for seed in 0..5 {
        let (case, operation) = backward(&mut Random::new(seed + 13_000), 200);
        if case.arrays[1].tensor.dims[1] != case.arrays[2].tensor.dims[1] {
            continue;
        }
        let of = |most| {
            let threads = Threads { most, deterministic: false };
            let mut arrays = case.arrays.clone();
            run_planned(operation.clone(), case.compute_type, &mut arrays, |graph, node| {
                plan_node_at(graph, node, Level::best(), threads)
            })
            .unwrap();
            let results = arrays.iter().filter(|array| array.tensor.uid > 20);
            results.flat_map(Array::numbers).map(f64::to_bits).collect::<Vec<_>>()
        };
        let one = of(1);
        for most in 2..5 {
            assert!(of(most) == one, "seed {}, {most} threads", seed + 13_000);
        }
    }
}

#[test]
fn weights_are_exponentials() {
    for fused in [false, true] {
        let weight = |x: f32| if fused { x.weight::<true>() } else { x.weight::<false>() };
        let precise = |x: f64| if fused { x.weight::<true>() } else { x.weight::<false>() };
        for step in 0..=100_000 {
            let x = -87.0 * (step as f32 / 100_000.0);
            let exact = f64::from(x).exp();
            let far = (f64::from(weight(x)) - exact).abs() / exact;
            assert!(far < 3e-7 + 1.2e-7 * f64::from(-x), "e to {x} is off by {far}");
            let x = 8.0 * f64::from(x);
            let far = (precise(x) - x.exp()).abs() / x.exp();
            assert!(far < 4e-16 + 2.3e-16 * -x, "e to {x} is off by {far}");
        }
        assert_eq!([0.0, f32::NEG_INFINITY, -88.0, f32::MIN].map(weight), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!([0.0, f64::NEG_INFINITY, -709.0, f64::MIN].map(precise), [1.0, 0.0, 0.0, 0.0]);
        assert!(weight(f32::NAN).is_nan() && precise(f64::NAN).is_nan());
    }
}
