//! Attention with options that have a fast kernel, and with some that do not.
//!
//! A score is a sum of as many terms as a query has elements, with an error of δ = (depth + 4) · eps · Σ|t|.
//! Its weight then has a relative error of 2 δ, as does the sum of weights; a result is a mean of values,
//! whose sum adds an error per key.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};

use super::{FAST, REFERENCE, both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, EIGHT_BITS, Random};
use crate::engines::reference_attention::{Sizes, filled};

fn sizes(random: &mut Random, longest: i64) -> Sizes {
    let heads = random.one_of(&[1, 2, 4, 6]);
    let divisors: Vec<i64> = (1..=heads).filter(|divisor| heads % divisor == 0).collect();
    let queries = random.int(1, longest);
    let others = random.int(1, longest);
    let depth = random.int(1, 40);
    let width = random.int(1, 40);
    Sizes {
        batch: random.int(1, 3),
        heads,
        key_heads: random.one_of(&divisors),
        value_heads: random.one_of(&divisors),
        queries,
        keys: random.one_of(&[queries, others]),
        depth: random.one_of(&[depth, 64]),
        value_depth: random.one_of(&[width, 64]),
    }
}

/// An attention with some options, and its scale.
fn problem(random: &mut Random, case: &mut Case, longest: i64) -> (Sizes, Sdpa, f32) {
    let sizes = sizes(random, longest);
    let types: [DataType; 4] = types(random, case);
    let dims = [sizes.q(), sizes.k(), sizes.v(), sizes.o()];
    let [q, k, v, o] = [0, 1, 2, 3].map(|at| tensor(random, case, types[at], &dims[at]));
    for uid in [q, k, v] {
        fill(random, case, uid, -1.0, 1.0);
    }
    let mut sdpa = Sdpa::new(q, k, v, o);
    let scale = random.one_of(&[1.0, 0.125, -0.5]);
    sdpa.attn_scale_value = Some(scale);
    sdpa.causal_mask = random.chance(40);
    if random.chance(30) {
        let dims = sizes.scores().map(|dim| random.one_of(&[1, dim]));
        let mask = tensor(random, case, types[3], &dims);
        fill(random, case, mask, -1.0, 1.0);
        sdpa.attn_mask = Some(mask);
    }
    if random.chance(30) {
        sdpa.padding_mask = true;
        let mut lengths = |most| {
            let lengths: Vec<f64> = (0..sizes.batch).map(|_| random.int(0, most) as f64).collect();
            Some(filled(case, DataType::Int32, &[sizes.batch, 1, 1, 1], &lengths))
        };
        (sdpa.seq_len_q, sdpa.seq_len_kv) = (lengths(sizes.queries), lengths(sizes.keys));
    }
    (sizes, sdpa, scale)
}

/// Adds the factors of 8-bit tensors.
fn add_factors(random: &mut Random, case: &mut Case, sizes: &Sizes, sdpa: &mut Sdpa) {
    let mut factor = |case: &mut Case, dims: &[i64], low: f64, high: f64| {
        random.chance(50).then(|| {
            let count = dims.iter().product();
            let numbers: Vec<f64> = (0..count).map(|_| random.real(low, high)).collect();
            filled(case, DataType::Float, dims, &numbers)
        })
    };
    let (one, batch) = ([1; 4], sizes.batch);
    sdpa.descale_q = factor(case, &one, 0.5, 1.0);
    sdpa.descale_k = factor(case, &[batch, sizes.key_heads, 1, 1], 0.5, 1.0);
    sdpa.descale_v = factor(case, &[1, sizes.value_heads, 1, 1], 0.5, 1.0);
    sdpa.scale_s = factor(case, &one, 1.0, 400.0);
    sdpa.descale_s = factor(case, &one, 1.0 / 400.0, 1.0 / 300.0);
    sdpa.scale_o = factor(case, &one, 0.5, 2.0);
}

fn attention(seed: u64, longest: i64) {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let (sizes, mut sdpa, scale) = problem(random, &mut case, longest);
    if random.chance(50) {
        sdpa.stats = Some(case.tensor(DataType::Float, &sizes.rows()));
    }
    let of_values = case.graph.tensor(sdpa.v).unwrap().data_type;
    let has_eight_bits = EIGHT_BITS.contains(&of_values);
    if has_eight_bits || random.chance(10) {
        add_factors(random, &mut case, &sizes, &mut sdpa);
        sdpa.amax_o = Some(case.tensor(DataType::Float, &[1]));
        sdpa.amax_s = Some(case.tensor(DataType::Float, &[1]));
    }
    let of = |uid: Option<i64>| uid.map_or(1.0, |uid| case.values(uid)[0]);
    let (scale_s, descale_s) = (of(sdpa.scale_s), of(sdpa.descale_s));
    let last = scale_s * descale_s * of(sdpa.scale_o);
    let (o, stats, amax) = (sdpa.o, sdpa.stats, [sdpa.amax_s, sdpa.amax_o]);
    let rounds = has_eight_bits && sdpa.scale_s.is_some();
    case.node(sdpa);
    let (fast, reference) = both(&case);
    let (eps, _) = roundoff(compute(&case));
    let (depth, keys) = (sizes.depth as f64, sizes.keys as f64);
    // The mask is one more term.
    let of_score = (depth + 4.0) * eps * (depth * f64::from(scale).abs() + 1.0);
    // A probability rounded to the values' type may become a neighbour of the reference's.
    let (unit, smallest) = roundoff(of_values);
    let of_roundings = if rounds { 2.0 * unit + keys * smallest / scale_s } else { 0.0 };
    let of_result = (4.0 * of_score + 2.0 * (keys + 8.0) * eps + of_roundings) * last.max(1.0);
    compare(seed, "o", &fast, &reference, o, |_| of_result);
    for amax in amax.into_iter().flatten() {
        compare(seed, "amax", &fast, &reference, amax, |_| of_result);
    }
    if let Some(stats) = stats {
        compare(seed, "stats", &fast, &reference, stats, |_| 4.0 * of_score + (keys + 16.0) * eps);
    }
}

/// Gradients of the reference's forward results. A weight has a relative error of 2 δ, as above; the gradient
/// of a score is the weight times the difference of two sums of as many terms as a value has elements, each
/// at most 1. The results are sums of these over keys, or over the queries of all heads that share a key.
fn gradients(seed: u64) {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let (sizes, mut sdpa, scale) = problem(random, &mut case, 30);
    let stats = case.tensor(DataType::Float, &sizes.rows());
    sdpa.stats = Some(stats);
    case.node(sdpa.clone());
    case.run(planner(REFERENCE));
    case.graph.nodes.clear();
    let of = case.graph.tensor(sdpa.o).unwrap().data_type;
    let [d_o, dq, dk, dv] =
        [sizes.o(), sizes.q(), sizes.k(), sizes.v()].map(|dims| tensor(random, &mut case, of, &dims));
    fill(random, &mut case, d_o, -1.0, 1.0);
    case.node(SdpaBackward::of(&sdpa, [d_o, stats], [dq, dk, dv]));
    let (fast, reference) = both(&case);
    let (eps, _) = roundoff(compute(&case));
    let (depth, width, scale) = (sizes.depth as f64, sizes.value_depth as f64, f64::from(scale).abs());
    let of_weight = 2.0 * (depth + 4.0) * eps * (depth * scale + 1.0);
    let of_slope = 2.0 * width * of_weight + 4.0 * (width + 4.0) * eps * width;
    let sharing = (sizes.heads / sizes.key_heads.min(sizes.value_heads)) as f64;
    let terms = (sizes.queries as f64 * sharing).max(sizes.keys as f64);
    let bound = (terms + 8.0) * (of_slope * scale.max(1.0) + of_weight + (terms + 8.0) * eps * 2.0 * width);
    for (what, uid) in [("dq", dq), ("dk", dk), ("dv", dv)] {
        compare(seed, what, &fast, &reference, uid, |_| bound);
    }
}

#[test]
fn gradients_of_attentions() {
    (32_000..32_200).for_each(gradients);
}

#[test]
fn attentions() {
    for seed in 30_000..30_250 {
        attention(seed, 30);
    }
}

#[test]
fn long_attentions() {
    for seed in 31_000..31_006 {
        attention(seed, 450);
    }
}

#[test]
fn a_length_out_of_range_is_an_error() {
    let mut case = Case::new();
    let [q, k, v, o] = [(); 4].map(|()| case.tensor(DataType::Float, &[1, 1, 3, 2]));
    let mut sdpa = Sdpa::new(q, k, v, o);
    sdpa.padding_mask = true;
    sdpa.seq_len_q = Some(filled(&mut case, DataType::Int32, &[1, 1, 1, 1], &[3.0]));
    sdpa.seq_len_kv = Some(filled(&mut case, DataType::Int32, &[1, 1, 1, 1], &[4.0]));
    case.node(sdpa);
    let plan = planner(FAST).plan(&case.graph).unwrap();
    let error = case.try_execute(&plan).unwrap_err();
    assert!(error.to_string().contains("seq_len_kv[0] is 4, expected 0 to 3"), "{error}");
}

/// Rows whose keys are all masked: forward writes -∞ as their statistics; backward takes whatever is there, and any result.
#[test]
fn rows_without_a_visible_key_have_no_gradients() {
    for seed in 9800..9860 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let of = random.one_of(&[DataType::Float, DataType::Bfloat16, DataType::Half]);
        let heads = random.one_of(&[1, 2, 4]);
        let sizes = Sizes {
            batch: random.int(1, 2),
            heads,
            key_heads: heads,
            value_heads: heads,
            queries: random.int(2, 70),
            keys: random.int(1, 150),
            depth: random.int(1, 40),
            value_depth: random.int(1, 40),
        };
        let rows = [sizes.q(), sizes.k(), sizes.v(), sizes.o()];
        let [q, k, v, o] = rows.map(|dims| case.tensor(of, &dims));
        let [d_o, dq, dk, dv] =
            [sizes.o(), sizes.q(), sizes.k(), sizes.v()].map(|dims| case.tensor(of, &dims));
        [q, k, v, d_o].into_iter().for_each(|uid| fill(random, &mut case, uid, -1.0, 1.0));
        let stats = case.tensor(DataType::Float, &sizes.rows());
        let mut forward = Sdpa { attn_scale_value: Some(0.5), stats: Some(stats), ..Sdpa::new(q, k, v, o) };
        let hidden: Vec<bool> = (0..sizes.queries).map(|_| random.chance(40)).collect();
        if random.chance(70) {
            let is_boolean = random.chance(50);
            let mask = if is_boolean { DataType::Boolean } else { DataType::Float };
            let (masked, seen) = if is_boolean { (0.0, 1.0) } else { (f64::NEG_INFINITY, 0.0) };
            let values =
                hidden.iter().flat_map(|row| (0..sizes.keys).map(|_| if *row { masked } else { seen }));
            let values: Vec<f64> = values.collect();
            forward.attn_mask = Some(filled(&mut case, mask, &[1, 1, sizes.queries, sizes.keys], &values));
        } else {
            // With more queries than keys, the first see none.
            forward.causal_mask_bottom_right = true;
        }
        let mut forwards = case.clone();
        forwards.node(forward.clone());
        case.node(SdpaBackward::of(&forward, [d_o, stats], [dq, dk, dv]));
        for engine in [FAST, REFERENCE] {
            forwards.run(planner(engine));
            let (results, known) = (forwards.values(o), forwards.values(stats));
            let is_masked = |row: usize| known[row] == f64::NEG_INFINITY;
            for (row, values) in results.chunks(sizes.value_depth as usize).enumerate() {
                let is_hidden = match forward.attn_mask {
                    Some(_) => hidden[row % hidden.len()],
                    None => ((row as i64) % sizes.queries) < sizes.queries - sizes.keys,
                };
                assert_eq!(
                    is_masked(row),
                    is_hidden,
                    "seed {seed}, engine {engine}, row {row}: {}",
                    known[row]
                );
                assert!(!is_hidden || values.iter().all(|value| *value == 0.0));
            }
            let gradients = |statistics: f64, result: f64| {
                let mut case = case.clone();
                let of_row = |row: usize| if is_masked(row) { statistics } else { known[row] };
                case.fill(stats, &(0..known.len()).map(of_row).collect::<Vec<_>>());
                let width = sizes.value_depth as usize;
                let of_element =
                    |(at, value): (usize, &f64)| if is_masked(at / width) { result } else { *value };
                case.fill(o, &results.iter().enumerate().map(of_element).collect::<Vec<_>>());
                case.run(planner(engine));
                [dq, dk, dv].map(|uid| case.values(uid))
            };
            let expected = gradients(f64::NEG_INFINITY, 0.0);
            assert!(expected.iter().flatten().all(|value| value.is_finite()), "seed {seed}, engine {engine}");
            for statistics in [f64::INFINITY, f64::NAN, 0.0, -1e30, 1e30] {
                let got = gradients(statistics, random.one_of(&[0.0, f64::NAN]));
                assert!(got == expected, "seed {seed}, engine {engine}: with {statistics}");
            }
        }
    }
}
