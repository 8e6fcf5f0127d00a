//! Gradients of both engines against differences of the forward direction.

use hipdnn_cpu_plugin::plugin::{Planner, planner};
use hipdnn_plugin_sdk::graph::operation::Sdpa;
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, TensorValue};

use super::super::common::{Case, Random};
use super::{SMALL, Sizes, assert_close, filled, gradients_of, random_case};

/// Checks dq, dk, dv and, with a mask, dbias of Σ o · d_o, where `options` adds the options.
fn check(seed: u64, sizes: &Sizes, bias: bool, options: impl Fn(&mut Case, &mut Sdpa)) {
    let random = &mut Random(seed);
    let (mut case, mut node) = random_case(sizes, random);
    options(&mut case, &mut node);
    let stats = case.tensor(DataType::Double, &sizes.rows());
    node.stats = Some(stats);
    let d_o = case.tensor(DataType::Double, &sizes.o());
    case.memory(d_o).fill(|| random.real(-1.0, 1.0));
    let mut forward = case.clone();
    forward.node(node.clone());
    let value = |case: &Case| {
        let mut case = case.clone();
        case.run(Planner::Reference);
        case.values(node.o)
            .iter()
            .zip(case.values(d_o))
            .map(|(o, d)| if d == 0.0 { 0.0 } else { o * d })
            .sum::<f64>()
    };
    let slopes = |uid: i64| {
        let at = forward.values(uid);
        let step = 1e-5;
        (0..at.len())
            .map(|place| {
                let moved = |by: f64| {
                    let mut values = at.clone();
                    values[place] += by;
                    let mut case = forward.clone();
                    case.fill(uid, &values);
                    value(&case)
                };
                (moved(step) - moved(-step)) / (2.0 * step)
            })
            .collect::<Vec<_>>()
    };
    let expected = [node.q, node.k, node.v].map(slopes);
    let expected_bias = bias.then(|| slopes(node.attn_mask.unwrap()));
    forward.run(Planner::Reference);
    let mut backward = forward.clone();
    backward.graph.nodes.clear();
    let [dq, dk, dv] = [sizes.q(), sizes.k(), sizes.v()].map(|dims| backward.tensor(DataType::Double, &dims));
    let mut gradients = gradients_of(&node, [d_o, stats, dq, dk, dv]);
    if let Some(mask) = node.attn_mask.filter(|_| bias) {
        let dims = backward.memory(mask).tensor.dims.clone();
        gradients.dbias = Some(backward.tensor(DataType::Double, &dims));
    }
    let dbias = gradients.dbias;
    backward.node(gradients);
    // Tensors that only the forward direction uses are not the graph's any more.
    for engine in 0..2 {
        backward.run(planner(engine));
        for (uid, expected) in [dq, dk, dv].into_iter().zip(&expected) {
            assert_close(&backward.values(uid), expected, 1e-8);
            assert!(expected.iter().any(|slope| slope.abs() > 1e-3), "nothing to see");
        }
        if let Some((uid, expected)) = dbias.zip(expected_bias.as_ref()) {
            assert_close(&backward.values(uid), expected, 1e-8);
        }
    }
}

#[test]
fn of_a_plain_attention() {
    check(1, &SMALL, false, |_, _| {});
    check(2, &SMALL, false, |_, node| node.attn_scale_value = Some(0.5));
    check(3, &SMALL, false, |case, node| {
        node.scale = Some(case.value(DataType::Double, TensorValue::Float64(1.75)));
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
            let mask = case.tensor(DataType::Double, &dims);
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
        node.attn_mask = Some(filled(case, DataType::Double, &[3, 1], &[0.5, 1.0, -0.5]));
    });
}

#[test]
fn with_dropout() {
    check(14, &SMALL, true, |case, node| {
        node.dropout_probability = Some(0.4);
        node.seed = Some(filled(case, DataType::Int64, &[1], &[42.0]));
        node.offset = Some(filled(case, DataType::Int64, &[1], &[7.0]));
        node.attn_mask = Some(filled(case, DataType::Double, &[4], &[0.5, 1.0, -0.5, 0.0]));
    });
    check(15, &Sizes { key_heads: 1, ..SMALL }, false, |case, node| {
        node.dropout_mask = Some(filled(case, DataType::Double, &[1, 1, 1, 4], &[1.0, 0.0, 1.0, 1.0]));
        node.dropout_scale = Some(filled(case, DataType::Double, &[1], &[1.5]));
    });
}
