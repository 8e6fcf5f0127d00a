//! Invalid attentions and their error messages.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment};

use super::{SMALL, filled, random_case};
use crate::engines::common::{Case, Random};

#[track_caller]
fn refused(change: impl Fn(&mut Case, &mut Sdpa), message: &str) {
    let (mut case, mut node) = random_case(&SMALL, &mut Random(1));
    change(&mut case, &mut node);
    case.node(node);
    for engine in 0..2 {
        let refusal = planner(engine).plan(&case.graph).err().expect("the graph is refused");
        assert!(refusal.contains(&format!("(Sdpa): {message}")), "{refusal}");
    }
}

fn reshape(case: &mut Case, uid: i64, dims: &[i64]) {
    let tensor = case.graph.tensors.iter_mut().find(|tensor| tensor.uid == uid).unwrap();
    tensor.dims = dims.to_vec();
    tensor.strides = crate::engines::common::packed(dims);
}

#[test]
fn shapes() {
    refused(|c, n| reshape(c, n.q, &[2, 3, 2]), "q: dims are [2, 3, 2], expected batch");
    refused(|c, n| reshape(c, n.k, &[3, 2, 4, 2]), "k: dims are [3, 2, 4, 2], expected 2 sequence(s)");
    refused(|c, n| reshape(c, n.k, &[2, 2, 4, 5]), "k: dims are [2, 2, 4, 5], expected 2 elements");
    refused(|c, n| reshape(c, n.k, &[2, 3, 4, 2]), "k: has 3 heads, expected a divisor of the 2");
    refused(|c, n| reshape(c, n.v, &[2, 2, 5, 3]), "v: has 5 keys, expected 4");
    refused(|c, n| reshape(c, n.o, &[2, 2, 3, 2]), "o: dims are [2, 2, 3, 2], expected [2, 2, 3, 3]");
    refused(
        |c, n| n.stats = Some(c.tensor(DataType::Float, &[2, 2, 4, 1])),
        "stats: dims are [2, 2, 4, 1], expected [2, 2, 3, 1]",
    );
    refused(
        |c, n| n.attn_mask = Some(c.tensor(DataType::Float, &[3, 1, 1, 4])),
        "attn_mask: dims [3, 1, 1, 4] do not spread over [2, 2, 3, 4]",
    );
    refused(
        |c, n| n.sink_token = Some(c.tensor(DataType::Float, &[3])),
        "sink_token: dims are [3], expected 2 element(s)",
    );
    refused(
        |c, n| n.block_mask = Some(c.tensor(DataType::Uint8, &[2, 2, 3, 4])),
        "block_mask: dims are [2, 2, 3, 4], expected [2, 2, 1, 1]",
    );
    refused(
        |c, n| n.block_mask = Some(c.tensor(DataType::Float, &[2, 2, 1, 1])),
        "block_mask: data type is float, expected uint8",
    );
    refused(
        |c, n| n.scale = Some(c.tensor(DataType::Float, &[2])),
        "scale: dims are [2], expected a single element",
    );
    refused(
        |c, n| n.descale_k = Some(c.tensor(DataType::Float, &[2, 3, 1, 1])),
        "descale_k: dims are [2, 3, 1, 1], expected a single element",
    );
    refused(|_, n| n.max_seq_len_kv = Some(3), "max_seq_len_kv: is 3, expected 4");
}

#[test]
fn bounds() {
    refused(|_, n| n.left_bound = Some(-2), "left_bound: is -2, expected at least -1");
    refused(|_, n| n.right_bound = Some(i64::MIN), "right_bound: is -9223372036854775808");
    refused(
        |_, n| (n.causal_mask, n.causal_mask_bottom_right) = (true, true),
        "causal_mask_bottom_right: is true, expected false as causal_mask is true",
    );
    refused(
        |_, n| (n.causal_mask, n.right_bound) = (true, Some(0)),
        "right_bound: given, expected none as causal_mask is true",
    );
    refused(
        |_, n| (n.causal_mask_bottom_right, n.left_bound) = (true, Some(3)),
        "left_bound: given, expected none as causal_mask_bottom_right is true",
    );
    refused(
        |_, n| (n.causal_mask, n.diagonal_alignment) = (true, DiagonalAlignment::BottomRight),
        "diagonal_alignment: is BOTTOM_RIGHT, expected TOP_LEFT",
    );
}

#[test]
fn lengths() {
    let lengths = |c: &mut Case, t, n| Some(c.tensor(t, &[n]));
    refused(|_, n| n.padding_mask = true, "seq_len_q: absent, expected a tensor as padding_mask is true");
    refused(
        |c, n| (n.padding_mask, n.seq_len_q) = (true, lengths(c, DataType::Int32, 2)),
        "seq_len_kv: absent",
    );
    refused(
        |c, n| n.seq_len_q = lengths(c, DataType::Int32, 2),
        "seq_len_kv: absent, expected a tensor as seq_len_q is given",
    );
    refused(
        |c, n| (n.padding_mask, n.seq_len_q) = (true, lengths(c, DataType::Float, 2)),
        "seq_len_q: data type is float, expected int32",
    );
    refused(
        |c, n| (n.padding_mask, n.seq_len_q) = (true, lengths(c, DataType::Int32, 3)),
        "seq_len_q: dims are [3], expected 2 element(s)",
    );
    refused(
        |c, n| n.page_table_k = Some(c.tensor(DataType::Int32, &[3, 2])),
        "page_table_k: has 3 row(s), expected 2, one for each sequence",
    );
    refused(
        |c, n| {
            n.page_table_k = Some(c.tensor(DataType::Int32, &[2, 2]));
            n.page_table_v = n.page_table_k;
        },
        "seq_len_q: absent, expected a tensor as there is a page table",
    );
    refused(
        |c, n| n.page_table_k = Some(c.tensor(DataType::Int64, &[2, 2])),
        "page_table_k: data type is int64, expected int32",
    );
    let ragged = |c: &mut Case, n: &Sdpa, data_type, count| {
        let offsets = c.tensor(data_type, &[count]);
        c.graph.tensors.iter_mut().find(|t| t.uid == n.q).unwrap().ragged_offset_uid = Some(offsets);
    };
    refused(
        |c, n| ragged(c, n, DataType::Int32, 3),
        "seq_len_q: absent, expected a tensor as q has ragged offsets",
    );
    let with_lengths = |c: &mut Case, n: &mut Sdpa| {
        n.padding_mask = true;
        (n.seq_len_q, n.seq_len_kv) = (lengths(c, DataType::Int32, 2), lengths(c, DataType::Int32, 2));
    };
    refused(
        |c, n| {
            with_lengths(c, n);
            ragged(c, n, DataType::Int32, 2);
        },
        "ragged offsets of q: dims are [2], expected 3 element(s)",
    );
    refused(
        |c, n| {
            with_lengths(c, n);
            ragged(c, n, DataType::Float, 3);
        },
        "ragged offsets of q: data type is float, expected int32 or int64",
    );
    refused(
        |c, n| {
            with_lengths(c, n);
            c.graph.tensors[0].ragged_offset_uid = Some(99);
        },
        "q: tensor 1 has its offsets in tensor 99, which is not in the graph",
    );
    refused(
        |c, n| {
            with_lengths(c, n);
            ragged(c, n, DataType::Int32, 3);
            c.graph.tensors[0].ragged_offset_multiplier = 0;
        },
        "q: ragged_offset_multiplier is 0, expected at least 1",
    );
}

#[test]
fn dropout() {
    let one = |c: &mut Case| Some(c.tensor(DataType::Int64, &[1]));
    refused(|_, n| n.dropout_probability = Some(0.5), "seed: absent");
    refused(
        |c, n| (n.dropout_probability, n.seed) = (Some(0.5), one(c)),
        "offset: absent, expected a tensor as dropout_probability is 0.5",
    );
    refused(|c, n| n.seed = one(c), "dropout_probability: absent");
    refused(|_, n| n.dropout_probability = Some(1.5), "dropout_probability: is 1.5, expected 0 to 1");
    refused(|_, n| n.dropout_probability = Some(f32::NAN), "dropout_probability: is NaN, expected 0 to 1");
    refused(|c, n| n.dropout_mask = Some(c.tensor(DataType::Float, &[4])), "dropout_scale: absent");
    refused(|c, n| n.dropout_scale = Some(c.tensor(DataType::Float, &[1])), "dropout_mask: absent");
    refused(
        |c, n| {
            n.dropout_mask = Some(c.tensor(DataType::Float, &[4]));
            n.dropout_scale = Some(c.tensor(DataType::Float, &[1]));
            n.dropout_probability = Some(0.5);
        },
        "dropout_mask: given, expected none as there is a probability",
    );
    refused(
        |c, n| n.rng_dump = Some(c.tensor(DataType::Float, &SMALL.scores())),
        "rng_dump: given, expected none as there is no dropout with a seed",
    );
}

#[test]
fn statistics_and_types() {
    refused(
        |_, n| n.generate_stats = Some(true),
        "stats: absent, expected a tensor as generate_stats is true",
    );
    refused(
        |c, n| {
            n.generate_stats = Some(false);
            n.stats = Some(c.tensor(DataType::Float, &SMALL.rows()));
        },
        "stats: given, expected none as generate_stats is false",
    );
    refused(
        |c, n| n.stats = Some(c.tensor(DataType::Int32, &SMALL.rows())),
        "stats: data type is int32, expected float",
    );
    refused(|c, n| n.attn_mask = Some(c.tensor(DataType::Int32, &[4])), "attn_mask: data type is int32");
}

#[test]
fn gradients() {
    let refused = |change: &dyn Fn(&mut Case, &mut Sdpa) -> Option<i64>, message: &str| {
        let (mut case, mut node) = random_case(&SMALL, &mut Random(1));
        let dbias = change(&mut case, &mut node);
        let [d_o, stats, dq, dk, dv] = [SMALL.o(), SMALL.rows(), SMALL.q(), SMALL.k(), SMALL.v()]
            .map(|dims| case.tensor(DataType::Double, &dims));
        let mut gradients = SdpaBackward::of(&node, [d_o, stats], [dq, dk, dv]);
        gradients.dbias = dbias;
        case.node(gradients);
        let refusal = planner(1).plan(&case.graph).err().expect("the graph is refused");
        assert!(refusal.contains(&format!("(SdpaBackward): {message}")), "{refusal}");
    };
    refused(
        &|c, _| Some(c.tensor(DataType::Double, &[4])),
        "dbias: given, expected none as attn_mask is absent",
    );
    refused(
        &|c, n| {
            n.attn_mask = Some(c.tensor(DataType::Boolean, &[4]));
            Some(c.tensor(DataType::Double, &[4]))
        },
        "dbias: given, expected none as attn_mask is boolean",
    );
    refused(
        &|c, n| {
            n.attn_mask = Some(c.tensor(DataType::Double, &[4]));
            Some(c.tensor(DataType::Double, &[3, 4]))
        },
        "dbias: dims are [3, 4], expected [4]",
    );
    refused(
        &|_, n| {
            n.causal_mask = true;
            n.causal_mask_bottom_right = true;
            None
        },
        "causal_mask_bottom_right: is true",
    );
    refused(
        &|c, n| {
            n.seed = Some(filled(c, DataType::Int64, &[1], &[1.0]));
            None
        },
        "dropout_probability: absent",
    );
}
