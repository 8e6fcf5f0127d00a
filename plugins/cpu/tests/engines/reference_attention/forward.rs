//! Each option separately, against a second, simpler computation.

use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::Sdpa;
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, TensorValue};

use super::{SMALL, Sizes, filled, random_case};
use crate::engines::common::{Case, Random, strides};
use crate::engines::limits::assert_near;

const HIDDEN: f64 = f64::NEG_INFINITY;

/// softmax(score) · v, with `score` for [sequence, head, query, key], and each probability times `kept`.
struct Expected {
    o: Vec<f64>,
    stats: Vec<f64>,
}

fn expected(
    case: &Case,
    sizes: &Sizes,
    [q, k, v]: [i64; 3],
    score: impl Fn(f64, [usize; 4]) -> f64,
    kept: impl Fn([usize; 4]) -> f64,
) -> Expected {
    let (q, k, v) = (case.values(q), case.values(k), case.values(v));
    let s = |n: i64| n as usize;
    let (heads, keys, depth, width) = (s(sizes.heads), s(sizes.keys), s(sizes.depth), s(sizes.value_depth));
    let mut expected = Expected { o: vec![], stats: vec![] };
    for b in 0..s(sizes.batch) {
        for h in 0..heads {
            let of = |others: i64| b * s(others) + h / (heads / s(others));
            let (hk, hv) = (of(sizes.key_heads), of(sizes.value_heads));
            for i in 0..s(sizes.queries) {
                let row = (b * heads + h) * s(sizes.queries) + i;
                let scores: Vec<f64> = (0..keys)
                    .map(|j| {
                        let dot: f64 =
                            (0..depth).map(|d| q[row * depth + d] * k[(hk * keys + j) * depth + d]).sum();
                        score(dot, [b, h, i, j])
                    })
                    .collect();
                let sum: f64 = scores.iter().map(|s| s.exp()).sum();
                expected.stats.push(sum.ln());
                for d in 0..width {
                    let o: f64 = (0..keys)
                        .map(|j| scores[j].exp() / sum * kept([b, h, i, j]) * v[(hv * keys + j) * width + d])
                        .sum();
                    expected.o.push(if sum == 0.0 { 0.0 } else { o });
                }
            }
        }
    }
    expected
}

#[test]
fn two_keys_by_hand() {
    let mut case = Case::new();
    let q = filled(&mut case, DataType::Float, &[1, 1, 1, 2], &[1.0, 2.0]);
    let k = filled(&mut case, DataType::Float, &[1, 1, 2, 2], &[0.0, 0.0, f64::from(2.0_f32.ln()), 0.0]);
    let v = filled(&mut case, DataType::Float, &[1, 1, 2, 1], &[3.0, 6.0]);
    let o = case.tensor(DataType::Float, &[1, 1, 1, 1]);
    let [stats, max, sum_exp] = [0; 3].map(|_| case.tensor(DataType::Float, &[1, 1, 1, 1]));
    let [amax_s, amax_o] = [0; 2].map(|_| case.tensor(DataType::Float, &[1, 1, 1, 1]));
    let mut node = Sdpa::new(q, k, v, o);
    node.stats = Some(stats);
    node.max = Some(max);
    node.sum_exp = Some(sum_exp);
    node.amax_s = Some(amax_s);
    node.amax_o = Some(amax_o);
    node.generate_stats = Some(true);
    case.node(node);
    for engine in 0..2 {
        case.run(planner(engine));
        // Scores 0 and ln 2, so probabilities 1/3 and 2/3.
        let (log_3, log_2) = (3.0_f64.ln(), 2.0_f64.ln());
        let rows =
            [(o, 5.0), (stats, log_3), (max, log_2), (sum_exp, 1.5), (amax_s, 2.0 / 3.0), (amax_o, 5.0)];
        rows.iter().for_each(|(uid, expected)| assert_near(&case, engine, &[(*uid, &[*expected])]));
    }
}

#[test]
fn heads_share_keys_and_values_in_any_layout() {
    let sizes = Sizes { heads: 4, key_heads: 2, value_heads: 1, ..SMALL };
    let mut case = Case::new();
    let random = &mut Random(1);
    // Sequence before heads, as in most models.
    let between = |dims: [i64; 4]| strides(&dims, &[0, 2, 1, 3]);
    let [q, k, v, o] = [sizes.q(), sizes.k(), sizes.v(), sizes.o()]
        .map(|dims| case.tensor_with(DataType::Float, &dims, &between(dims)));
    for uid in [q, k, v] {
        case.memory(uid).fill(|| random.real(-1.0, 1.0));
    }
    case.node(Sdpa::new(q, k, v, o));
    case.run(Planner::Reference);
    let expected = expected(&case, &sizes, [q, k, v], |dot, _| dot, |_| 1.0);
    assert_near(&case, 1, &[(o, &expected.o)]);
}

#[test]
fn a_scale_tensor_comes_before_a_scale_value() {
    for (tensor, value, scale) in [(None, Some(0.5), 0.5), (Some(0.25), Some(0.5), 0.25), (None, None, 1.0)] {
        let (mut case, mut node) = random_case(&SMALL, &mut Random(2));
        node.scale = tensor.map(|scale| case.value(DataType::Float, TensorValue::Float32(scale)));
        node.attn_scale_value = value;
        case.node(node.clone());
        case.run(Planner::Reference);
        let expected = expected(&case, &SMALL, [node.q, node.k, node.v], |dot, _| dot * scale, |_| 1.0);
        assert_near(&case, 1, &[(node.o, &expected.o)]);
    }
}

#[test]
fn masks_are_broadcast() {
    for dims in [vec![2, 2, 3, 4], vec![1, 1, 3, 4], vec![2, 1, 1, 4], vec![3, 4], vec![4], vec![1, 2, 1, 1]]
    {
        let (mut case, mut node) = random_case(&SMALL, &mut Random(3));
        let mask = case.tensor(DataType::Double, &dims);
        let random = &mut Random(4);
        case.memory(mask).fill(|| random.one_of(&[-1.5, 0.0, 2.0, HIDDEN]));
        let values = case.values(mask);
        node.attn_mask = Some(mask);
        case.node(node.clone());
        case.run(Planner::Reference);
        let at = |indices: [usize; 4]| {
            let own = &indices[4 - dims.len()..];
            own.iter().zip(&dims).fold(0, |at, (i, dim)| at * *dim as usize + if *dim == 1 { 0 } else { *i })
        };
        let expected =
            expected(&case, &SMALL, [node.q, node.k, node.v], |dot, i| dot + values[at(i)], |_| 1.0);
        assert_near(&case, 1, &[(node.o, &expected.o)]);
    }
}

#[test]
fn boolean_masks_select_scores() {
    let (mut case, mut node) = random_case(&SMALL, &mut Random(5));
    let mask = filled(&mut case, DataType::Boolean, &[1, 1, 1, 4], &[1.0, 0.0, 1.0, 0.0]);
    node.attn_mask = Some(mask);
    case.node(node.clone());
    case.run(Planner::Reference);
    let score = |dot, [.., key]: [usize; 4]| if key % 2 == 0 { dot } else { HIDDEN };
    let expected = expected(&case, &SMALL, [node.q, node.k, node.v], score, |_| 1.0);
    assert_near(&case, 1, &[(node.o, &expected.o)]);
}

#[test]
fn a_band_bounds_what_a_query_sees() {
    type Bounds = (Option<i64>, Option<i64>, DiagonalAlignment, bool, bool);
    type Seen = fn(i64, i64) -> bool;
    let (top, bottom) = (DiagonalAlignment::TopLeft, DiagonalAlignment::BottomRight);
    // 3 queries, 4 keys: aligned at the end, query i is at key i + 1.
    let cases: [(Bounds, Seen); 8] = [
        ((None, Some(0), top, false, false), |i, j| j <= i),
        ((None, Some(0), bottom, false, false), |i, j| j <= i + 1),
        ((Some(1), None, top, false, false), |i, j| j >= i - 1),
        ((Some(0), Some(1), bottom, false, false), |i, j| j > i && j <= i + 2),
        ((Some(-1), Some(-1), top, false, false), |_, _| true),
        ((None, None, top, true, false), |i, j| j <= i),
        ((None, None, top, false, true), |i, j| j <= i + 1),
        ((Some(i64::MAX), Some(i64::MAX), bottom, false, false), |_, _| true),
    ];
    for ((left, right, alignment, causal, causal_bottom_right), seen) in cases {
        let (mut case, mut node) = random_case(&SMALL, &mut Random(6));
        node.left_bound = left;
        node.right_bound = right;
        node.diagonal_alignment = alignment;
        node.causal_mask = causal;
        node.causal_mask_bottom_right = causal_bottom_right;
        case.node(node.clone());
        case.run(Planner::Reference);
        let score = |dot, [.., i, j]: [usize; 4]| if seen(i as i64, j as i64) { dot } else { HIDDEN };
        let expected = expected(&case, &SMALL, [node.q, node.k, node.v], score, |_| 1.0);
        assert_near(&case, 1, &[(node.o, &expected.o)]);
    }
}

#[test]
fn rows_that_see_nothing_are_zero() {
    let sizes = Sizes { queries: 4, keys: 2, ..SMALL };
    let (mut case, mut node) = random_case(&sizes, &mut Random(7));
    let stats = case.tensor(DataType::Float, &[2, 2, 4]);
    node.stats = Some(stats);
    // Aligned at the end, query i is at key i - 2, so the first two queries see no key.
    node.right_bound = Some(0);
    node.diagonal_alignment = DiagonalAlignment::BottomRight;
    case.node(node.clone());
    case.run(Planner::Reference);
    for head in case.values(node.o).chunks(4 * 3) {
        assert_eq!(head[..6], [0.0; 6]);
        assert!(head[6..].iter().all(|o| *o != 0.0));
    }
    for head in case.values(stats).chunks(4) {
        assert_eq!(head[..2], [HIDDEN; 2]);
        assert!(head[2..].iter().all(|stats| stats.is_finite()));
    }
}

#[test]
fn scores_fall_with_the_distance() {
    let sizes = Sizes { heads: 3, key_heads: 3, value_heads: 3, ..SMALL };
    let (mut case, mut node) = random_case(&sizes, &mut Random(8));
    node.alibi_mask = true;
    case.node(node.clone());
    case.run(Planner::Reference);
    // Two heads have the slopes for two, the third the first slope for four.
    let slopes = [1.0 / 16.0, 1.0 / 256.0, 0.25];
    let score = |dot, [_, h, i, j]: [usize; 4]| dot - slopes[h] * (i as f64 - j as f64).abs();
    let expected = expected(&case, &sizes, [node.q, node.k, node.v], score, |_| 1.0);
    assert_near(&case, 1, &[(node.o, &expected.o)]);
}

#[test]
fn a_sink_adds_to_the_sum() {
    let (mut case, mut node) = random_case(&SMALL, &mut Random(9));
    let sink = filled(&mut case, DataType::Float, &[1, 2, 1, 1], &[0.5, 3.0]);
    let stats = case.tensor(DataType::Double, &SMALL.rows());
    node.sink_token = Some(sink);
    node.stats = Some(stats);
    case.node(node.clone());
    case.run(Planner::Reference);
    let without = expected(&case, &SMALL, [node.q, node.k, node.v], |dot, _| dot, |_| 1.0);
    let (mut o, mut logs) = (vec![], vec![]);
    for (row, log) in without.stats.iter().enumerate() {
        let sink = [0.5_f64, 3.0][row / 3 % 2];
        let share = log.exp() / (log.exp() + sink.exp());
        o.extend(without.o[row * 3..][..3].iter().map(|o| o * share));
        logs.push((log.exp() + sink.exp()).ln());
    }
    assert_near(&case, 1, &[(node.o, &o)]);
    assert_near(&case, 1, &[(stats, &logs)]);
}

#[test]
fn tiles_that_are_masked_do_not_count() {
    let sizes = Sizes { batch: 1, queries: 130, keys: 300, ..SMALL };
    let (mut case, mut node) = random_case(&sizes, &mut Random(10));
    // Two tiles of queries, three of keys; bit 0 is the first tile of keys.
    let mask = filled(&mut case, DataType::Uint8, &[1, 1, 2, 1], &[f64::from(0b101), f64::from(0b010)]);
    node.block_mask = Some(mask);
    case.node(node.clone());
    case.run(Planner::Reference);
    let score = |dot, [_, _, i, j]: [usize; 4]| {
        let seen = [[true, false, true], [false, true, false]];
        if seen[i / 128][j / 128] { dot } else { HIDDEN }
    };
    let expected = expected(&case, &sizes, [node.q, node.k, node.v], score, |_| 1.0);
    assert_near(&case, 1, &[(node.o, &expected.o)]);
}

#[test]
fn dropout_by_a_mask() {
    let (mut case, mut node) = random_case(&SMALL, &mut Random(11));
    let mask = filled(&mut case, DataType::Float, &[1, 1, 1, 4], &[1.0, 0.0, 1.0, 1.0]);
    node.dropout_mask = Some(mask);
    node.dropout_scale = Some(filled(&mut case, DataType::Float, &[1, 1, 1, 1], &[1.25]));
    case.node(node.clone());
    case.run(Planner::Reference);
    let kept = |i: [usize; 4]| if i[3] == 1 { 0.0 } else { 1.25 };
    let expected = expected(&case, &SMALL, [node.q, node.k, node.v], |dot, _| dot, kept);
    assert_near(&case, 1, &[(node.o, &expected.o)]);
}

#[test]
fn dropout_by_a_seed() {
    // The generator's first words for this seed and offset 0, as published by its authors.
    let words = [0x6627_e8d5_u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
    let sizes = Sizes { batch: 1, heads: 1, key_heads: 1, value_heads: 1, queries: 1, ..SMALL };
    for integer in [DataType::Int32, DataType::Int64] {
        let (mut case, mut node) = random_case(&sizes, &mut Random(12));
        let probability = 0.7_f32;
        node.dropout_probability = Some(probability);
        node.seed = Some(filled(&mut case, integer, &[1, 1, 1, 1], &[0.0]));
        node.offset = Some(filled(&mut case, integer, &[1], &[0.0]));
        let dump = case.tensor(DataType::Float, &sizes.scores());
        node.rng_dump = Some(dump);
        case.node(node.clone());
        case.run(Planner::Reference);
        let keeps = words.map(|word| f64::from(word) / 4_294_967_296.0 >= f64::from(probability));
        assert_eq!(keeps, [false, true, true, false]);
        assert_eq!(case.values(dump), [0.0, 1.0, 1.0, 0.0]);
        let scale = 1.0 / (1.0 - f64::from(probability));
        let kept = |i: [usize; 4]| if keeps[i[3]] { scale } else { 0.0 };
        let expected = expected(&case, &sizes, [node.q, node.k, node.v], |dot, _| dot, kept);
        assert_near(&case, 1, &[(node.o, &expected.o)]);
    }
}

#[test]
fn dropout_keeps_its_share_and_follows_seed_and_offset() {
    let sizes = Sizes { queries: 32, keys: 64, ..SMALL };
    let dump = |seed: f64, offset: f64| {
        let (mut case, mut node) = random_case(&sizes, &mut Random(13));
        node.dropout_probability = Some(0.25);
        node.seed = Some(filled(&mut case, DataType::Int64, &[1], &[seed]));
        node.offset = Some(filled(&mut case, DataType::Int64, &[1], &[offset]));
        let dump = case.tensor(DataType::Float, &sizes.scores());
        node.rng_dump = Some(dump);
        case.node(node);
        case.run(Planner::Reference);
        case.values(dump)
    };
    let one = dump(1.0, 0.0);
    let share = one.iter().sum::<f64>() / one.len() as f64;
    // 8192 values: the standard deviation of the share is less than 0.005.
    assert!((share - 0.75).abs() < 0.025, "{share}");
    assert_eq!(one, dump(1.0, 0.0));
    for other in [dump(2.0, 0.0), dump(1.0, 1.0), dump(-1.0, 0.0)] {
        let same = one.iter().zip(&other).filter(|(a, b)| a == b).count() as f64 / one.len() as f64;
        // Two independent masks agree in 0.75² + 0.25² of the places.
        assert!((same - 0.625).abs() < 0.03, "{same}");
    }
}

#[test]
fn every_factor_is_applied() {
    let (mut case, mut node) = random_case(&SMALL, &mut Random(14));
    let [amax_o, amax_s] = [0; 2].map(|_| case.tensor(DataType::Float, &[1]));
    node.amax_o = Some(amax_o);
    node.amax_s = Some(amax_s);
    let factor = |case: &mut Case, value: f32| Some(case.value(DataType::Float, TensorValue::Float32(value)));
    node.descale_q = factor(&mut case, 2.0);
    // One per sequence and head.
    node.descale_k = Some(filled(&mut case, DataType::Float, &[2, 2, 1, 1], &[0.5, 1.0, 1.5, 2.0]));
    node.descale_v = factor(&mut case, 3.0);
    node.scale_s = factor(&mut case, 8.0);
    node.descale_s = factor(&mut case, 0.125);
    node.scale_o = factor(&mut case, 0.5);
    case.node(node.clone());
    case.run(Planner::Reference);
    let score = |dot, [b, h, ..]: [usize; 4]| dot * 2.0 * [[0.5, 1.0], [1.5, 2.0]][b][h];
    let expected = expected(&case, &SMALL, [node.q, node.k, node.v], score, |_| 3.0);
    let halves: Vec<f64> = expected.o.iter().map(|o| o / 2.0).collect();
    assert_near(&case, 1, &[(node.o, &halves)]);
    // Before the result is scaled.
    let largest = expected.o.iter().fold(0.0_f64, |largest, o| largest.max(o.abs()));
    assert_near(&case, 1, &[(amax_o, &[largest])]);
    assert!(case.values(amax_s)[0] > 0.25 && case.values(amax_s)[0] < 1.0);
}
