mod gradients;
mod layouts;
use crate::attention::softmax::Weight;
use crate::fusion::node::plan_node_at;
use crate::kernel::Refusal;
use crate::simd::isa::Isa;
use crate::testing;
use crate::testing::limits::{Limit, scale_of, step_of};
use crate::testing::{Array, EIGHT_BITS, Random, cases, order, run, run_planned, strides};
use crate::threading::partition::Threads;
use hipdnn_plugin_sdk::graph::operation::Sdpa;
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, Graph, Node, Operation};

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

/// Results of a case: o, the statistics of each row, and the largest values.
const RESULTS: [i64; 6] = [4, 10, 11, 12, 37, 38];

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
            // Heads between one row and the next.
            axes = vec![0, 2, 1, 3];
        }
        let array = Array::new(uid, data_type, dims, &strides(dims, &axes, random.of(&[0, 0, 3])));
        self.arrays.push(array.filled(|| random.real() / 2.0));
        self.arrays.len() - 1
    }

    /// A case of random shape, layout, types and options.
    fn random(random: &mut Random, longest: usize) -> Self {
        Self::of(random, longest, &FLOATS)
    }

    /// The same with 8-bit tensors and their factors.
    fn of_eight_bits(random: &mut Random, longest: usize) -> Self {
        let mut case = Self::of(random, longest, &EIGHT_BITS);
        if random.within(0, 5) == 0 {
            case.compute_type = DataType::Double;
        }
        for mask in case.arrays.iter_mut().filter(|array| array.tensor.uid == 6) {
            // 8-bit masks do not hide: -∞ becomes a value so large that little of a score remains.
            if EIGHT_BITS.contains(&mask.tensor.data_type) {
                *mask = mask.clone().filled(|| random.real());
            }
        }
        if random.within(0, 2) == 0 {
            case.add(random, 13, DataType::Float, &case.arrays[3].tensor.dims.clone());
            // A wider dtype, to show the effect of rounding the probabilities.
            let mut o = case.arrays.pop().unwrap();
            o.tensor.uid = 4;
            case.arrays[3] = o;
        }
        let operation = case.operation.clone();
        case.operation = case.with_factors(random, operation);
        case
    }

    fn with_factors(&mut self, random: &mut Random, mut operation: Sdpa) -> Sdpa {
        let heads = [0, 1, 2].map(|at| self.arrays[at].tensor.dims[1]);
        let batch = self.arrays[0].tensor.dims[0];
        for (at, (uid, field)) in
            [(30, &mut operation.descale_q), (31, &mut operation.descale_k), (32, &mut operation.descale_v)]
                .into_iter()
                .enumerate()
        {
            if random.within(0, 1) == 0 {
                let dims = random.of(&[[1, 1, 1, 1], [batch, heads[at], 1, 1], [1, heads[at], 1, 1]]);
                self.add(random, uid, DataType::Float, &dims);
                let array = self.arrays.pop().unwrap();
                self.arrays.push(array.filled(|| 1.0 + random.real() / 12.0));
                *field = Some(uid);
            }
        }
        let one = |uid, number| Array::new(uid, DataType::Float, &[1], &[1]).filled(|| number);
        if random.within(0, 2) > 0 {
            // Values that use the range of the type, and some that do not.
            let scale = random.of(&[1.0, 3.0, 200.0]);
            (operation.scale_s, operation.descale_s) = (Some(33), Some(34));
            self.arrays.extend([one(33, scale), one(34, 1.0 / scale)]);
        }
        if random.within(0, 1) == 0 {
            operation.scale_o = Some(35);
            self.arrays.push(one(35, 1.5));
        }
        if random.within(0, 1) == 0 {
            operation.amax_o = Some(38);
            self.arrays.push(one(38, -1.0));
        }
        if operation.sink_token.is_none() && random.within(0, 1) == 0 {
            operation.amax_s = Some(37);
            self.arrays.push(one(37, -1.0));
        }
        operation
    }

    /// A case with random shape, layout, one of these types and options.
    fn of(random: &mut Random, longest: usize, types: &[DataType]) -> Self {
        let one = random.of(types);
        let mixed = random.within(0, 5) == 0;
        let mut operation = Sdpa::new(1, 2, 3, 4);
        let compute_type = if one == DataType::Double { one } else { random.of(&[DataType::Float, one]) };
        let compute_type = if compute_type == DataType::Double { DataType::Double } else { DataType::Float };
        let heads = random.of(&[1, 2, 3, 4, 6]);
        let divisors: Vec<i64> = (1..=heads).filter(|divisor| heads % divisor == 0).collect();
        let (of_k, of_v) = (random.of(&divisors), random.of(&divisors));
        let batch = random.within(1, 2) as i64;
        // Single queries of several heads may be computed together.
        let queries = if random.within(0, 4) == 0 { 1 } else { random.within(1, longest) as i64 };
        let [other, few, any] = [longest, 20, 70].map(|most| random.within(1, most) as i64);
        let keys = random.of(&[queries, other]);
        let depth = random.of(&[few, 16, 64]);
        let width = random.of(&[depth, any]);
        let mut case = Self { operation: Sdpa::new(1, 2, 3, 4), compute_type, arrays: Vec::new() };
        let kind = |random: &mut Random| if mixed { random.of(types) } else { one };
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
        case.drop(random, &mut operation, [batch, heads, queries, keys]);
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
        case.vary_layout(random);
        case
    }

    /// What the reference computes.
    fn expected(&self) -> Vec<Array> {
        let mut arrays = self.arrays.clone();
        run_planned(self.operation.clone().into(), self.compute_type, &mut arrays, |_, node| {
            crate::reference::plan_node(node)
        })
        .unwrap();
        arrays
    }

    fn compare(&self, what: &str) {
        let expected = self.expected();
        let operation = Operation::from(self.operation.clone());
        let has_factors = EIGHT_BITS.contains(&self.arrays[2].tensor.data_type);
        // A probability near the middle of two elements may become either, which changes a mean of values by
        // at most that much.
        let rounds = has_factors && self.operation.scale_s.is_some();
        let step = if rounds { step_of(self.arrays[2].tensor.data_type) } else { 0.0 };
        for isa in Isa::available() {
            let mut moved = 0;
            let mut arrays = self.arrays.clone();
            run(self.operation.clone().into(), self.compute_type, *isa, &mut arrays).unwrap();
            for (got, expected) in
                arrays.iter().zip(&expected).filter(|(a, _)| RESULTS.contains(&a.tensor.uid))
            {
                let uid = got.tensor.uid;
                let scale = scale_of(&expected.values());
                let limit = Limit::new(&operation, self.compute_type, *isa, &self.arrays, (uid, scale));
                for ((index, a), b) in got.indices().iter().zip(got.values()).zip(expected.values()) {
                    let near = limit.holds(a, b);
                    let is_moved = !near && (a - b).abs() <= limit.allows(a, b) + step * b.abs().max(4.0);
                    moved += usize::from(is_moved);
                    assert!(
                        near || (is_moved && rounds) || testing::same(a, b),
                        "{what}, {isa:?}, tensor {uid} at {index:?}: {a} is not {b}\n{:#?}",
                        self.operation
                    );
                }
            }
            // All results of a query change together.
            let (all, width) = (self.arrays[3].indices().len(), self.arrays[3].tensor.dims[3]);
            assert!(moved <= 2 * width as usize + all / 100, "{what}, {isa:?}: {moved} moved");
        }
    }
}

#[test]
fn floats_of_8_bits_and_their_factors() {
    for seed in 0..cases(400) {
        Case::of_eight_bits(&mut Random::new(seed + 20_000), 40).compare(&format!("seed {}", seed + 20_000));
    }
    for seed in 21_000..21_004 {
        Case::of_eight_bits(&mut Random::new(seed), 700).compare(&format!("seed {seed}"));
    }
}

#[test]
fn nan_and_infinity_in_8_bit_floats() {
    for seed in 22_000..22_000 + cases(300) {
        let random = &mut Random::new(seed);
        let mut case = Case::of_eight_bits(random, 30);
        for _ in 0..random.within(1, 3) {
            let array = &mut case.arrays[random.within(0, 2)];
            let indices = array.indices();
            let at = &indices[random.within(0, indices.len() - 1)];
            let codes = match array.tensor.data_type {
                DataType::Fp8E4m3 => [0x7F, 0xFF, 0x7F],
                // NaN and both infinities.
                DataType::Fp8E5m2 => [0x7E, 0x7C, 0xFC],
                _ => [0x80; 3],
            };
            array.set_code(at, random.of(&codes));
        }
        case.compare(&format!("seed {seed}"));
    }
}

#[test]
fn any_shape_layout_type_and_option() {
    for seed in 0..cases(400) {
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
fn results_do_not_depend_on_the_number_of_threads() {
    for seed in 0..8 {
        let random = &mut Random::new(seed + 5000);
        let case = if seed < 5 { Case::random(random, 300) } else { Case::of_eight_bits(random, 300) };
        let of = |most| {
            let threads = Threads { most, ..Threads::default() };
            let mut arrays = case.arrays.clone();
            run_planned(case.operation.clone().into(), case.compute_type, &mut arrays, |graph, node| {
                plan_node_at(graph, node, Isa::detect(), threads)
            })
            .unwrap();
            let results = arrays.iter().filter(|array| RESULTS.contains(&array.tensor.uid));
            results.flat_map(Array::values).map(f64::to_bits).collect::<Vec<_>>()
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
    crate::fusion::node::plan_node(&graph, &node).err().unwrap()
}

#[test]
fn unsupported_options_are_refused() {
    let one = |uid| Array::new(uid, DataType::Float, &[1], &[1]);
    let amax = refusal(|operation, arrays| {
        (operation.amax_s, operation.sink_token) = (Some(5), Some(6));
        arrays.extend([one(5), Array::new(6, DataType::Float, &[1, 2, 1, 1], &[2, 1, 1, 1])]);
    });
    assert_eq!(amax, "amax_s beside sink_token: given, expected none");
    let deep = refusal(|_, arrays| {
        *arrays = (1..5).map(|uid| Array::new(uid, DataType::Float, &[1, 1, 1, 4096], &[4096; 4])).collect();
    });
    assert_eq!(deep, "q: has rows of 4096 values, expected at most 2048");
}

#[test]
fn weights_are_exponentials() {
    for fused in [false, true] {
        let weight = |x: f32| if fused { x.weight::<true>() } else { x.weight::<false>() };
        let precise = |x: f64| if fused { x.weight::<true>() } else { x.weight::<false>() };
        // What `hipdnn run --check` counts on: five half steps, and two times |ln w| for the rounding of the argument.
        let limit = |epsilon: f64, x: f64| epsilon / 2.0 * (5.0 - 2.0 * x);
        for step in 0..=100_000 {
            let x = -87.0 * (step as f32 / 100_000.0);
            let exact = f64::from(x).exp();
            let far = (f64::from(weight(x)) - exact).abs() / exact;
            assert!(far < limit(f32::EPSILON.into(), x.into()), "e to {x} is off by {far}");
            let x = 8.0 * f64::from(x);
            let far = (precise(x) - x.exp()).abs() / x.exp();
            assert!(far < limit(f64::EPSILON, x), "e to {x} is off by {far}");
        }
        assert_eq!([0.0, f32::NEG_INFINITY, -88.0, f32::MIN].map(weight), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!([0.0, f64::NEG_INFINITY, -709.0, f64::MIN].map(precise), [1.0, 0.0, 0.0, 0.0]);
        assert!(weight(f32::NAN).is_nan() && precise(f64::NAN).is_nan());
    }
}
