//! Sequences of different lengths in all layouts: padded, ragged, paged, packed.

use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment};

use super::{SMALL, Sizes, filled, random_case};
use crate::engines::common::{Case, Memory, Random, strides};
use crate::engines::limits::assert_near;

const LENGTHS: [[f64; 2]; 2] = [[2.0, 3.0], [4.0, 1.0]];

fn padded(case: &mut Case, node: &mut Sdpa) {
    node.padding_mask = true;
    node.seq_len_q = Some(filled(case, DataType::Int32, &[2, 1, 1, 1], &LENGTHS[0]));
    node.seq_len_kv = Some(filled(case, DataType::Int32, &[2, 1, 1, 1], &LENGTHS[1]));
}

/// A causal attention of padded sequences, with its statistics.
fn padded_case(random: &mut Random) -> (Case, Sdpa) {
    let (mut case, mut node) = random_case(&SMALL, random);
    padded(&mut case, &mut node);
    node.stats = Some(case.tensor(DataType::Double, &SMALL.rows()));
    node.right_bound = Some(0);
    node.diagonal_alignment = DiagonalAlignment::BottomRight;
    (case, node)
}

/// Graphs of 2026 give lengths, with or without page tables, without the flag.
#[test]
fn lengths_apply_without_the_flag() {
    let (mut case, mut node) = padded_case(&mut Random(2));
    let results = [node.o, node.stats.unwrap()];
    node.padding_mask = false;
    let mut unmasked = case.clone();
    unmasked.node(node.clone());
    node.padding_mask = true;
    case.node(node);
    for engine in 0..2 {
        case.run(planner(engine));
        unmasked.run(planner(engine));
        for uid in results {
            assert_eq!(case.values(uid), unmasked.values(uid), "engine {engine}");
        }
    }
}

#[test]
fn padding_has_no_effect() {
    let (mut case, node) = padded_case(&mut Random(1));
    case.node(node.clone());
    for engine in 0..2 {
        case.run(planner(engine));
        let (o, stats) = (case.values(node.o), case.values(node.stats.unwrap()));
        for b in 0..2 {
            let (queries, keys) = (LENGTHS[0][b] as usize, LENGTHS[1][b] as usize);
            // The same sequence alone.
            let sizes = Sizes { batch: 1, queries: queries as i64, keys: keys as i64, ..SMALL };
            let (mut alone, mut of_alone) = random_case(&sizes, &mut Random(0));
            for (uid, from, length, of) in [
                (of_alone.q, node.q, queries, 3),
                (of_alone.k, node.k, keys, 4),
                (of_alone.v, node.v, keys, 4),
            ] {
                let values = case.values(from);
                let width = values.len() / 4 / of;
                let heads =
                    (0..2).flat_map(|h| values[(b * 2 + h) * of * width..][..length * width].to_vec());
                alone.fill(uid, &heads.collect::<Vec<_>>());
            }
            of_alone.right_bound = Some(0);
            of_alone.diagonal_alignment = DiagonalAlignment::BottomRight;
            alone.node(of_alone.clone());
            alone.run(Planner::Reference);
            let expected = alone.values(of_alone.o);
            let rows = (0..2).flat_map(|h| o[(b * 2 + h) * 3 * 3..][..queries * 3].to_vec());
            alone.fill(of_alone.o, &rows.collect::<Vec<_>>());
            assert_near(&alone, engine, &[(of_alone.o, &expected)]);
            for h in 0..2 {
                let row = (b * 2 + h) * 3;
                assert!(o[(row + queries) * 3..(row + 3) * 3].iter().all(|o| *o == 0.0));
                assert!(stats[row + queries..row + 3].iter().all(|stats| *stats == f64::NEG_INFINITY));
            }
        }
    }
}

/// Makes a tensor ragged: contiguous sequences, positions before heads, offsets in positions.
fn make_ragged(case: &mut Case, uid: i64, lengths: &[f64; 2]) {
    let dims: [i64; 4] = case.memory(uid).tensor.dims.clone().try_into().unwrap();
    let offsets = [0.0, lengths[0], lengths[0] + lengths[1]];
    let offsets = filled(case, DataType::Int64, &[3, 1, 1, 1], &offsets);
    let tensor = case.graph.tensors.iter_mut().find(|tensor| tensor.uid == uid).unwrap();
    tensor.strides = strides(&dims, &[0, 2, 1, 3]);
    tensor.ragged_offset_uid = Some(offsets);
    tensor.ragged_offset_multiplier = dims[1] * dims[3];
    let tensor = tensor.clone();
    let values = case.values(uid);
    *case.memory(uid) = Memory::new(&tensor, 0);
    case.fill(uid, &ragged(&values, dims, lengths));
}

/// The values of a padded tensor in a ragged layout, in the ragged tensor's index order. Values beyond the
/// sequences are NaN.
fn ragged(values: &[f64], [_, heads, length, width]: [i64; 4], lengths: &[f64; 2]) -> Vec<f64> {
    let (heads, length, width) = (heads as usize, length as usize, width as usize);
    let mut memory = vec![f64::NAN; values.len()];
    let mut at = 0;
    for b in 0..2 {
        for s in 0..lengths[b] as usize {
            for h in 0..heads {
                for d in 0..width {
                    memory[at] = values[((b * heads + h) * length + s) * width + d];
                    at += 1;
                }
            }
        }
    }
    // From memory order, with positions before heads, to index order.
    let mut by_index = vec![0.0; values.len()];
    for b in 0..2 {
        for h in 0..heads {
            for s in 0..length {
                for d in 0..width {
                    by_index[((b * heads + h) * length + s) * width + d] =
                        memory[((b * length + s) * heads + h) * width + d];
                }
            }
        }
    }
    by_index
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| if value.is_nan() { 0 } else { value.to_bits() }).collect()
}

#[test]
fn ragged_tensors_match_padded_ones() {
    let (mut case, node) = padded_case(&mut Random(2));
    let stats = node.stats.unwrap();
    let mut packed = case.clone();
    case.node(node.clone());
    for (uid, lengths) in [(node.q, 0), (node.k, 1), (node.v, 1), (node.o, 0), (stats, 0)] {
        make_ragged(&mut packed, uid, &LENGTHS[lengths]);
    }
    packed.node(node.clone());
    for engine in 0..2 {
        packed.run(planner(engine));
        case.run(planner(engine));
        for (uid, dims) in [(node.o, SMALL.o()), (stats, SMALL.rows())] {
            let expected = ragged(&case.values(uid), dims, &LENGTHS[0]);
            assert_eq!(bits(&packed.values(uid)), bits(&expected));
        }
    }
    // The gradients likewise.
    let mut random = Random(3);
    let d_o = case.tensor(DataType::Double, &SMALL.o());
    case.memory(d_o).fill(|| random.real(-1.0, 1.0));
    let d_o_values = case.values(d_o);
    let backward = |case: &mut Case, d_o: i64, with: &dyn Fn(&mut Case, i64, usize)| {
        case.graph.nodes.clear();
        let outputs = [SMALL.q(), SMALL.k(), SMALL.v()].map(|dims| case.tensor(DataType::Double, &dims));
        for (uid, lengths) in outputs.into_iter().zip([0, 1, 1]) {
            with(case, uid, lengths);
        }
        let [dq, dk, dv] = outputs;
        case.node(SdpaBackward::of(&node, [d_o, stats], [dq, dk, dv]));
        case.run(Planner::Reference);
        outputs
    };
    let dense = backward(&mut case, d_o, &|_, _, _| {});
    let d_o = filled(&mut packed, DataType::Double, &SMALL.o(), &d_o_values);
    make_ragged(&mut packed, d_o, &LENGTHS[0]);
    let sparse = backward(&mut packed, d_o, &|case, uid, lengths| make_ragged(case, uid, &LENGTHS[lengths]));
    for ((dense, sparse), (dims, lengths)) in
        dense.into_iter().zip(sparse).zip([(SMALL.q(), 0), (SMALL.k(), 1), (SMALL.v(), 1)])
    {
        let expected = ragged(&case.values(dense), dims, &LENGTHS[lengths]);
        assert_eq!(bits(&packed.values(sparse)), bits(&expected));
    }
}

/// A paged attention of the padded case, with blocks of two keys and of three values in mixed order.
struct Paged {
    case: Case,
    node: Sdpa,
}

fn paged(padded: &Case, of: &Sdpa, packed: bool, rank: usize) -> Paged {
    let mut case = Case::new();
    case.graph.compute_type = DataType::Double;
    let double = DataType::Double;
    let (k, v) = (padded.values(of.k), padded.values(of.v));
    // Keys of sequence b and block j are in block `tables[b][j]`.
    let tables = [[4_usize, 1], [0, 3]];
    let mut container = |values: &[f64], width: usize, block: usize| {
        let uid = case.tensor(double, &[5, 2, block as i64, width as i64]);
        let mut blocks = vec![f64::NAN; 5 * 2 * block * width];
        for b in 0..2 {
            for h in 0..2 {
                for s in 0..LENGTHS[1][b] as usize {
                    let at = ((tables[b][s / block] * 2 + h) * block + s % block) * width;
                    blocks[at..at + width].copy_from_slice(&values[((b * 2 + h) * 4 + s) * width..][..width]);
                }
            }
        }
        case.fill(uid, &blocks);
        uid
    };
    let (k, v) = (container(&k, 2, 2), container(&v, 3, 3));
    let dims: &[i64] = if rank == 2 { &[2, 2] } else { &[2, 1, 2, 1] };
    let table = filled(&mut case, DataType::Int32, dims, &[4.0, 1.0, 0.0, 3.0]);
    let q_values = padded.values(of.q);
    let (q, o, stats) = if packed {
        // Five queries of two sequences, and another that belongs to neither.
        let mut packed = vec![7.0; 2 * 6 * 2];
        for h in 0..2 {
            for (place, (b, s)) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)].into_iter().enumerate() {
                packed[(h * 6 + place) * 2..][..2]
                    .copy_from_slice(&q_values[((b * 2 + h) * 3 + s) * 2..][..2]);
            }
        }
        let q = filled(&mut case, double, &[1, 2, 6, 2], &packed);
        (q, case.tensor(double, &[1, 2, 6, 3]), case.tensor(double, &[1, 2, 6, 1]))
    } else {
        let q = filled(&mut case, double, &SMALL.q(), &q_values);
        (q, case.tensor(double, &SMALL.o()), case.tensor(double, &SMALL.rows()))
    };
    let mut node = Sdpa::new(q, k, v, o);
    self::padded(&mut case, &mut node);
    node.page_table_k = Some(table);
    node.page_table_v = Some(table);
    node.max_seq_len_kv = Some(4);
    node.stats = Some(stats);
    node.right_bound = Some(0);
    node.diagonal_alignment = DiagonalAlignment::BottomRight;
    case.node(node.clone());
    Paged { case, node }
}

#[test]
fn blocks_are_found_by_the_table() {
    let (mut case, node) = padded_case(&mut Random(4));
    case.node(node.clone());
    case.run(Planner::Reference);
    let (o, stats) = (case.values(node.o), case.values(node.stats.unwrap()));
    for rank in [2, 4] {
        let mut paged = paged(&case, &node, false, rank);
        paged.case.run(Planner::Reference);
        assert_eq!(paged.case.values(paged.node.o), o);
        assert_eq!(paged.case.values(paged.node.stats.unwrap()), stats);
    }
    let mut packed = paged(&case, &node, true, 2);
    packed.case.run(Planner::Reference);
    let got = (packed.case.values(packed.node.o), packed.case.values(packed.node.stats.unwrap()));
    for h in 0..2 {
        for (place, (b, s)) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)].into_iter().enumerate() {
            let row = (b * 2 + h) * 3 + s;
            assert_eq!(got.0[(h * 6 + place) * 3..][..3], o[row * 3..][..3]);
            assert_eq!(got.1[h * 6 + place], stats[row]);
        }
        assert_eq!(got.0[(h * 6 + 5) * 3..][..3], [0.0; 3]);
        assert_eq!(got.1[h * 6 + 5], f64::NEG_INFINITY);
    }
}

/// The message of an execution that fails.
#[track_caller]
fn failure(case: &mut Case) -> String {
    let plan = Planner::Reference.plan(&case.graph).unwrap();
    let mut workspace = vec![0_u8; plan.workspace_size()];
    let buffers = case.buffers();
    // SAFETY: every tensor has memory for its extent.
    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap_err().to_string()
}

#[test]
fn lengths_out_of_range_stop_the_execution() {
    for (of, values, message) in [
        (0, [2.0, 4.0], "node 0: seq_len_q[1] is 4, expected 0 to 3"),
        (0, [-1.0, 3.0], "node 0: seq_len_q[0] is -1, expected 0 to 3"),
        (1, [5.0, 1.0], "node 0: seq_len_kv[0] is 5, expected 0 to 4"),
        (1, [1.0, -2_147_483_648.0], "node 0: seq_len_kv[1] is -2147483648, expected 0 to 4"),
    ] {
        let (mut case, node) = padded_case(&mut Random(5));
        case.node(node.clone());
        case.fill([node.seq_len_q, node.seq_len_kv][of].unwrap(), &values);
        assert_eq!(failure(&mut case), message);
        // Nothing was written.
        assert!(case.values(node.o).iter().all(|o| o.is_nan()));
    }
    let (case, node) = padded_case(&mut Random(5));
    let mut packed = paged(&case, &node, true, 2);
    packed.case.fill(packed.node.seq_len_q.unwrap(), &[4.0, 3.0]);
    assert_eq!(failure(&mut packed.case), "node 0: seq_len_q[1] is 3, expected 0 to 2");
}

#[test]
fn tables_out_of_range_stop_the_execution() {
    let (case, node) = padded_case(&mut Random(6));
    let mut paged = paged(&case, &node, false, 4);
    let table = paged.node.page_table_k.unwrap();
    for (entry, shown) in [(5.0, "5"), (-1.0, "-1"), (2_147_483_647.0, "2147483647")] {
        paged.case.fill(table, &[4.0, entry, 0.0, 3.0]);
        assert_eq!(
            failure(&mut paged.case),
            format!("node 0: page_table_k[0, 1] is {shown}, expected 0 to 4")
        );
    }
    // The second sequence has one key, so its second block is not looked up.
    paged.case.fill(table, &[4.0, 1.0, 0.0, -7.0]);
    paged.case.run(Planner::Reference);
}

#[test]
fn offsets_out_of_range_stop_the_execution() {
    for offsets in [
        [-1.0, 2.0, 5.0],
        [0.0, 1.0, 5.0],
        [3.0, 2.0, 5.0],
        [0.0, 2.0, 4.0],
        [5.0, 7.0, 10.0],
        [0.0, 2.0, 9e18],
    ] {
        let (mut case, node) = padded_case(&mut Random(7));
        make_ragged(&mut case, node.q, &LENGTHS[0]);
        let uid = case.graph.tensors.iter().find_map(|tensor| tensor.ragged_offset_uid).unwrap();
        case.fill(uid, &offsets);
        case.node(node);
        if offsets[2] == 9e18 {
            // A far end is harmless: only the beginnings are used.
            case.run(Planner::Reference);
        } else {
            let message = failure(&mut case);
            assert!(message.starts_with("node 0: ragged offsets of q: sequence "), "{message}");
        }
    }
}
