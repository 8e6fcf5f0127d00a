//! Attentions and mixtures of experts with random damage, and with random numbers as lengths, offsets and
//! indices: accepted graphs run inside their tensors or report what is out of range, and nothing panics.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{MoeGroupedMatmul, MoeGroupedMatmulBackward, Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, Graph, MoeGroupedMatmulMode};

use super::common::{Case, Memory, Random, cases};
use super::hostile_graphs::{damage, small};

const FLOAT: DataType = DataType::Float;
const INT: DataType = DataType::Int32;

/// Queries and keys of two sequences, with random options.
fn attention(random: &mut Random) -> (Case, Sdpa) {
    let mut case = Case::new();
    let paged = random.chance(40);
    let packed = paged && random.chance(40);
    let q_dims: [i64; 4] = if packed { [1, 4, 5, 2] } else { [2, 4, 3, 2] };
    let kv = |width| if paged { [4, 2, 2, width] } else { [2, 2, 4, width] };
    let row = [q_dims[0], 4, q_dims[2], 1];
    let [q, k, v] = [q_dims, kv(2), kv(3)].map(|dims| case.tensor(FLOAT, &dims));
    let o = case.tensor(FLOAT, &[q_dims[0], 4, q_dims[2], 3]);
    let mut node = Sdpa::new(q, k, v, o);
    let stats = case.tensor(FLOAT, &row);
    node.stats = Some(stats);
    if paged || random.chance(50) {
        node.padding_mask = true;
        let [queries, keys] = [0; 2].map(|_| case.tensor(INT, &[2]));
        (node.seq_len_q, node.seq_len_kv) = (Some(queries), Some(keys));
    }
    if paged {
        node.page_table_k = Some(case.tensor(INT, &[2, 2]));
        node.page_table_v = Some(case.tensor(INT, &[2, 1, 2, 1]));
    } else if node.padding_mask && random.chance(60) {
        let offsets = case.tensor(INT, &[3]);
        for uid in [q, k, v, o, stats] {
            if random.chance(60) {
                case.graph.tensors[uid as usize - 1].ragged_offset_uid = Some(offsets);
            }
        }
    }
    if !packed && random.chance(40) {
        node.attn_mask = Some(case.tensor(random.one_of(&[FLOAT, DataType::Boolean]), &[1, 4, 3, 1]));
    }
    if !packed && random.chance(30) {
        node.block_mask = Some(case.tensor(DataType::Uint8, &[1, 1, 1, 1]));
    }
    if random.chance(30) {
        node.dropout_probability = Some(0.5);
        let [seed, offset] = [0; 2].map(|_| case.tensor(DataType::Int64, &[1]));
        (node.seed, node.offset) = (Some(seed), Some(offset));
    }
    if random.chance(30) {
        node.sink_token = Some(case.tensor(FLOAT, &[4]));
        node.descale_k = Some(case.tensor(FLOAT, &[2, 2, 1, 1]));
        node.amax_o = Some(case.tensor(FLOAT, &[1]));
    }
    node.right_bound = random.chance(40).then_some(1);
    node.left_bound = random.chance(40).then_some(i64::MAX);
    node.alibi_mask = random.chance(30);
    if random.chance(50) {
        node.diagonal_alignment = DiagonalAlignment::BottomRight;
    }
    (case, node)
}

/// A valid graph of the given kind.
fn sound(kind: i64, random: &mut Random) -> Graph {
    match kind {
        0 => {
            let (mut case, node) = attention(random);
            case.node(node);
            case.graph
        }
        1 => {
            // Skips attentions without gradients.
            let (mut case, mut node) = loop {
                let (case, node) = attention(random);
                if node.page_table_k.is_none() {
                    break (case, node);
                }
            };
            let stats = node.stats.take().unwrap();
            let [d_o, dq, dk, dv] = [[2, 4, 3, 3], [2, 4, 3, 2], [2, 2, 4, 2], [2, 2, 4, 3]]
                .map(|dims| case.tensor(FLOAT, &dims));
            let mut gradients = SdpaBackward::of(&node, [d_o, stats], [dq, dk, dv]);
            let mask = gradients.attn_mask.map(|uid| case.graph.tensors[uid as usize - 1].data_type);
            gradients.dbias = (mask == Some(FLOAT)).then(|| case.tensor(FLOAT, &[1, 4, 3, 1]));
            case.node(gradients);
            case.graph
        }
        _ => {
            let mut case = Case::new();
            let [token, output] = [[1, 4, 2], [1, 4, 3]].map(|dims| case.tensor(FLOAT, &dims));
            let weight = case.tensor(FLOAT, &[2, 2, 3]);
            let first_token_offset = case.tensor(INT, &[4]);
            let [index, ks] = [0; 2].map(|_| case.tensor(INT, &[1, 4, 1]));
            let mode = random.one_of(&[
                MoeGroupedMatmulMode::None,
                MoeGroupedMatmulMode::Gather,
                MoeGroupedMatmulMode::Scatter,
            ]);
            if kind == 2 {
                case.node(MoeGroupedMatmul {
                    token,
                    weight,
                    first_token_offset,
                    token_index: (mode != MoeGroupedMatmulMode::None).then_some(index),
                    token_ks: (mode == MoeGroupedMatmulMode::Scatter).then_some(ks),
                    output,
                    mode,
                    top_k: 2,
                });
            } else {
                case.node(MoeGroupedMatmulBackward {
                    doutput: output,
                    token,
                    first_token_offset,
                    dweight: weight,
                });
            }
            case.graph
        }
    }
}

#[test]
fn damage_is_refused_or_harmless() {
    let (mut refused, mut failed, mut ran) = (0, 0, 0);
    let count = cases(8_000);
    for seed in 0..count {
        let random = &mut Random(seed);
        let kind = random.int(0, 3);
        let mut graph = sound(kind, random);
        planner(1).plan(&graph).unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        for _ in 0..random.int(0, 2) {
            damage(random, &mut graph);
        }
        let plan = match planner(random.int(0, 1) as usize).plan(&graph) {
            Ok(plan) => plan,
            Err(refusal) => {
                assert!(!refusal.is_empty());
                refused += 1;
                continue;
            }
        };
        if !small(&graph) {
            continue;
        }
        let prepared = hipdnn_plugin_planner::prepare::prepare(&graph).unwrap().graph;
        // Half of the time, numbers that are never out of range, so that some runs succeed.
        let most = random.one_of(&[1.0, 7.0]);
        let memory = plan.bound().iter().map(|uid| {
            let mut memory = Memory::new(prepared.tensor(*uid).unwrap(), 0);
            match memory.tensor.data_type {
                // Ascending, so that offsets may be valid.
                DataType::Int32 | DataType::Int64 => {
                    let mut number = if most == 1.0 { 0.0 } else { -0.5 };
                    memory.fill(|| {
                        number += random.real(0.0, most / 2.0);
                        number
                    });
                }
                _ => memory.fill(|| random.real(-3.0, 3.0)),
            }
            memory
        });
        let memory = memory.collect();
        let mut case = Case { graph: prepared, memory };
        match case.try_execute(&plan) {
            Ok(()) => ran += 1,
            Err(error) => {
                let known =
                    ["seq_len", "page_table", "ragged offsets", "first_token", "token_index", "token_ks"];
                assert!(known.iter().any(|name| error.to_string().contains(name)), "{error}");
                failed += 1;
            }
        }
    }
    let enough = [refused * 8, failed * 27, ran * 8].iter().all(|n| *n > count);
    assert!(enough, "{refused} refused, {failed} failed, {ran} ran");
}
