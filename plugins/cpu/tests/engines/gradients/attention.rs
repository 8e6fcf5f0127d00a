//! Gradients of attention.

use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, TensorValue};

use super::{Check, DOUBLE};
use crate::engines::common::{Case, Random, fill};
use crate::engines::reference_attention::{SMALL, Sizes, filled, random_case};

/// Checks dq, dk, dv and, with a mask, dbias; `options` sets further options.
#[track_caller]
fn check(seed: u64, sizes: &Sizes, bias: bool, options: impl Fn(&mut Case, &mut Sdpa)) {
    let mut random = Random(seed);
    let (mut case, mut node) = random_case(sizes, &mut random);
    options(&mut case, &mut node);
    let [stats, d_o, dq, dk, dv] =
        [sizes.rows(), sizes.o(), sizes.q(), sizes.k(), sizes.v()].map(|dims| case.tensor(DOUBLE, &dims));
    fill(&mut random, &mut case, d_o, -1.0, 1.0);
    node.stats = Some(stats);
    let mut check = Check::of(seed, case, random);
    check.weighted(node.o, d_o);
    let mut gradients = SdpaBackward::of(&node, [d_o, stats], [dq, dk, dv]);
    for (of, written_to) in [(node.q, dq), (node.k, dk), (node.v, dv)] {
        check.gradient_at(of, written_to);
    }
    if let Some(mask) = node.attn_mask.filter(|_| bias) {
        let dims = check.case.graph.tensor(mask).unwrap().dims.clone();
        let dbias = check.case.tensor(DOUBLE, &dims);
        check.gradient_at(mask, dbias);
        gradients.dbias = Some(dbias);
    }
    check.forward(node);
    check.backward(gradients);
    check.holds(1e-8);
}

#[test]
fn of_a_plain_attention() {
    check(1, &SMALL, false, |_, _| {});
    check(2, &SMALL, false, |_, node| node.attn_scale_value = Some(0.5));
    check(3, &SMALL, false, |case, node| {
        node.scale = Some(case.value(DOUBLE, TensorValue::Float64(1.75)));
    });
}

#[test]
fn summed_over_shared_heads() {
    check(4, &Sizes { heads: 4, key_heads: 2, value_heads: 1, ..SMALL }, false, |_, _| {});
    check(5, &Sizes { heads: 6, key_heads: 2, value_heads: 3, ..SMALL }, false, |_, node| {
        node.alibi_mask = true;
        node.right_bound = Some(0);
        node.diagonal_alignment = DiagonalAlignment::BottomRight;
    });
}

#[test]
fn within_a_band() {
    check(6, &SMALL, false, |_, node| node.causal_mask = true);
    check(7, &Sizes { queries: 4, keys: 3, ..SMALL }, false, |_, node| {
        node.left_bound = Some(1);
        node.right_bound = Some(0);
        node.diagonal_alignment = DiagonalAlignment::BottomRight;
    });
}

#[test]
fn of_a_mask() {
    for (seed, dims) in [(8, vec![2, 2, 3, 4]), (9, vec![1, 1, 3, 4]), (10, vec![2, 1, 1, 4]), (11, vec![4])]
    {
        check(seed, &SMALL, true, |case, node| {
            let mask = case.tensor(DOUBLE, &dims);
            let random = &mut Random(seed);
            case.memory(mask).fill(|| random.real(-1.0, 1.0));
            node.attn_mask = Some(mask);
            node.right_bound = Some(1);
        });
    }
    check(12, &SMALL, false, |case, node| {
        node.attn_mask = Some(filled(case, DataType::Boolean, &[1, 1, 1, 4], &[1.0, 0.0, 1.0, 1.0]));
    });
}

#[test]
fn with_padding() {
    check(13, &SMALL, true, |case, node| {
        node.padding_mask = true;
        node.seq_len_q = Some(filled(case, DataType::Int32, &[2, 1, 1, 1], &[3.0, 2.0]));
        node.seq_len_kv = Some(filled(case, DataType::Int32, &[2, 1, 1, 1], &[2.0, 4.0]));
        node.right_bound = Some(0);
        node.diagonal_alignment = DiagonalAlignment::BottomRight;
        let mask: Vec<f64> = (0..12).map(|at| 0.5 - f64::from(at % 5) / 4.0).collect();
        node.attn_mask = Some(filled(case, DOUBLE, &[3, 4], &mask));
    });
}

#[test]
fn with_dropout() {
    check(14, &SMALL, true, |case, node| {
        node.dropout_probability = Some(0.4);
        node.seed = Some(filled(case, DataType::Int64, &[1], &[42.0]));
        node.offset = Some(filled(case, DataType::Int64, &[1], &[7.0]));
        node.attn_mask = Some(filled(case, DOUBLE, &[4], &[0.5, 1.0, -0.5, 0.0]));
    });
    check(15, &Sizes { key_heads: 1, ..SMALL }, false, |case, node| {
        node.dropout_mask = Some(filled(case, DOUBLE, &[1, 1, 1, 4], &[1.0, 0.0, 1.0, 1.0]));
        node.dropout_scale = Some(filled(case, DOUBLE, &[1], &[1.5]));
    });
}
