use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor, TensorValue};

use super::*;
use crate::lowering::{Lowered, Place, lower};
use crate::names::{
    BACKEND_OPERATION_MATMUL_DESCRIPTOR, BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
    BACKEND_OPERATION_RNG_DESCRIPTOR,
};

const HEADS: [i64; 4] = [2, 4, 16, 32];
/// The heads of a position are adjacent.
const INSIDE: [i64; 4] = [2048, 32, 128, 1];

fn tensor(uid: i64, data_type: DataType, dims: &[i64]) -> Tensor {
    Tensor::new(uid, data_type, dims, &packed(dims).strides)
}

/// Queries, keys, values and the output are tensors 1 to 4, the lengths 5 and 6.
fn sequences() -> (Vec<Tensor>, Sdpa) {
    let mut tensors: Vec<_> = (1..=4).map(|uid| tensor(uid, DataType::Half, &HEADS)).collect();
    tensors.extend([5, 6].map(|uid| tensor(uid, DataType::Int32, &[2, 1, 1, 1])));
    let node = Sdpa { padding_mask: true, seq_len_q: Some(5), seq_len_kv: Some(6), ..Sdpa::new(1, 2, 3, 4) };
    (tensors, node)
}

/// The same with offsets: those of 1 and 4 in tensor 7, those of 2 and 3 in tensor 8.
fn ragged() -> (Vec<Tensor>, Sdpa) {
    let (mut tensors, node) = sequences();
    for (tensor, offsets) in tensors.iter_mut().zip([7, 8, 8, 7]) {
        tensor.strides = INSIDE.to_vec();
        tensor.ragged_offset_uid = Some(offsets);
    }
    tensors.extend([7, 8].map(|uid| tensor(uid, DataType::Int32, &[3])));
    (tensors, node)
}

/// Keys and values in 9 blocks of 4 positions, the tables in tensors 7 and 8.
fn paged() -> (Vec<Tensor>, Sdpa) {
    let (mut tensors, mut node) = sequences();
    for place in [1, 2] {
        tensors[place] = tensor(tensors[place].uid, DataType::Half, &[9, 4, 4, 32]);
    }
    tensors.extend([7, 8].map(|uid| tensor(uid, DataType::Int32, &[2, 4])));
    (node.page_table_k, node.page_table_v) = (Some(7), Some(8));
    (tensors, node)
}

fn lowered(tensors: Vec<Tensor>, operation: impl Into<Operation>) -> Result<Lowered, Refusal> {
    let node = Node { name: "n".to_owned(), compute_type: DataType::Float, operation: operation.into() };
    let graph = Graph {
        intermediate_type: DataType::Float,
        io_type: DataType::Float,
        compute_type: DataType::Float,
        nodes: vec![node],
        tensors,
        ..Graph::default()
    };
    lower(&prepare(&graph)?, 0..1)
}

fn refusal(tensors: Vec<Tensor>, operation: impl Into<Operation>) -> String {
    lowered(tensors, operation).err().unwrap_or_default()
}

/// For each ragged tensor its uid in the graph (0 if virtual) and the uid of its offsets.
fn offsets(lowered: &Lowered) -> Vec<(i64, i64)> {
    let tensors = &lowered.described.tensors;
    let uid = |place: Place| match place {
        Place::Given(index) => lowered.uids[index],
        _ => 0,
    };
    let ragged =
        tensors.iter().enumerate().filter_map(|(place, tensor)| Some((place, tensor, tensor.offsets?)));
    ragged
        .map(|(place, tensor, offsets)| {
            assert!(offsets < place, "cuDNN gets the offsets first");
            assert_eq!(tensors[offsets].shape, packed(&[3, 1, 1, 1]));
            (uid(tensor.place), uid(tensors[offsets].place))
        })
        .collect()
}

#[test]
fn ragged_tensors_have_their_offsets() {
    let (tensors, node) = ragged();
    assert_eq!(offsets(&lowered(tensors, node).unwrap()), [(1, 7), (2, 8), (3, 8), (4, 7)]);
    let (tensors, node) = sequences();
    assert!(offsets(&lowered(tensors, node).unwrap()).is_empty());
}

#[test]
fn gradients_of_ragged_tensors_are_ragged() {
    let (mut tensors, node) = ragged();
    for (uid, offsets) in [(11, 7), (12, 7), (13, 8), (14, 8)] {
        let mut gradient = tensor(uid, DataType::Half, &HEADS);
        (gradient.strides, gradient.ragged_offset_uid) = (INSIDE.to_vec(), Some(offsets));
        tensors.push(gradient);
    }
    tensors.push(tensor(10, DataType::Float, &[2, 4, 16, 1]));
    let node = SdpaBackward {
        seq_len_q: node.seq_len_q,
        seq_len_kv: node.seq_len_kv,
        padding_mask: true,
        ..SdpaBackward::new([1, 2, 3, 4, 11, 10], [12, 13, 14])
    };
    let gradients = lowered(tensors.clone(), node.clone()).unwrap();
    let mut found = offsets(&gradients);
    found.sort_unstable();
    // The keys occur again untransposed.
    assert_eq!(found, [(0, 8), (1, 7), (2, 8), (3, 8), (4, 7), (11, 7), (12, 7), (13, 8), (14, 8)]);
    let kinds = gradients.described.operations.iter().map(|operation| operation.kind);
    assert_eq!(kinds.filter(|kind| *kind == BACKEND_OPERATION_RESHAPE_DESCRIPTOR).count(), 3);

    tensors.push(tensor(20, DataType::Half, &[2, 4, 16, 16]));
    tensors.push(Tensor { value: Some(TensorValue::Float32(2.0)), ..tensor(21, DataType::Float, &[1]) });
    let dropped = SdpaBackward {
        dropout_mask: Some(20),
        dropout_scale: Some(21),
        dropout_scale_inv: Some(21),
        ..node.clone()
    };
    let words = refusal(tensors.clone(), dropped);
    assert!(words.contains("dropout_mask: is given, expected a seed"), "{words}");

    tensors.extend([22, 23].map(|uid| tensor(uid, DataType::Int64, &[1])));
    let drawn = SdpaBackward { dropout_probability: Some(0.25), seed: Some(22), offset: Some(23), ..node };
    let drawn = lowered(tensors, drawn).unwrap().described;
    assert_eq!(drawn.operations.iter().filter(|one| one.kind == BACKEND_OPERATION_RNG_DESCRIPTOR).count(), 1);
    // The mask multiplies both the weights and their gradients.
    let mask = drawn.operations.iter().find(|one| one.kind == BACKEND_OPERATION_RNG_DESCRIPTOR).unwrap();
    let (_, mask) = &mask.attributes[0];
    let uses = |one: &&Descriptor| {
        one.kind != BACKEND_OPERATION_RNG_DESCRIPTOR && one.attributes.iter().any(|(_, value)| value == mask)
    };
    assert_eq!(drawn.operations.iter().filter(uses).count(), 2);
}

#[test]
fn keys_and_values_are_loaded_from_their_blocks() {
    let (tensors, node) = paged();
    let lowered = lowered(tensors, node).unwrap();
    let kinds: Vec<_> = lowered.described.operations.iter().map(|operation| operation.kind).collect();
    let loads = kinds.iter().filter(|kind| **kind == BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR);
    assert_eq!(loads.count(), 2);
    let [first, second, ..] = kinds.as_slice() else { panic!("{kinds:?}") };
    assert_eq!(*first, BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR);
    assert_eq!(*second, BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    let shapes: Vec<_> = lowered.described.tensors.iter().map(|tensor| &tensor.shape).collect();
    assert!(shapes.contains(&&packed(&[2, 4, 16, 32]).transposed()), "the keys, transposed");
    assert_eq!(shapes.iter().filter(|shape| ***shape == packed(&[2, 1, 4, 1])).count(), 2);
}

#[test]
fn layouts_that_cudnn_ignores_are_refused() {
    let changed = |(mut tensors, node): (Vec<Tensor>, Sdpa), uid: i64, change: fn(&mut Tensor)| {
        change(tensors.iter_mut().find(|tensor| tensor.uid == uid).unwrap());
        refusal(tensors, node)
    };
    for (said, expected) in [
        (
            changed(ragged(), 1, |tensor| tensor.ragged_offset_multiplier = 128),
            "q: ragged_offset_multiplier is 128, expected 1: cuDNN's offsets count elements",
        ),
        (
            changed(ragged(), 2, |tensor| tensor.strides = packed(&HEADS).strides),
            "k: is ragged with strides [2048, 512, 32, 1], expected the heads of a position to be adjacent",
        ),
        (
            changed(ragged(), 8, |tensor| tensor.strides = vec![2]),
            "ragged offsets of k: stride is 2, expected 1",
        ),
        (
            changed(sequences(), 5, |tensor| tensor.strides = vec![2, 1, 1, 1]),
            "seq_len_q: stride is 2, expected 1",
        ),
        (
            changed(paged(), 7, |tensor| tensor.strides = vec![8, 1]),
            "page_table_k: strides are [8, 1], expected 4 and 1, without gaps",
        ),
        (
            changed(paged(), 3, |tensor| tensor.strides = vec![512, 32, 128, 1]),
            "v: strides of the blocks are [512, 32, 128, 1], expected [512, 128, 32, 1], without gaps",
        ),
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let (tensors, mut node) = paged();
    node.max_seq_len_kv = Some(12);
    assert!(refusal(tensors, node).contains("page_table_k: has 4 blocks a sequence, expected 3 for 12 keys"));
    let (mut tensors, node) = paged();
    for place in [0, 3] {
        tensors[place] = tensor(tensors[place].uid, DataType::Half, &[1, 4, 16, 32]);
    }
    assert!(refusal(tensors, node).contains("q: sequences are packed into one"));
}

#[test]
fn statistics_are_dense_unless_ragged() {
    let of = |strides: [i64; 4]| {
        let (mut tensors, mut node) = sequences();
        tensors.push(Tensor::new(9, DataType::Float, &[2, 4, 16, 1], &strides));
        (node.stats, node.generate_stats) = (Some(9), Some(true));
        refusal(tensors, node)
    };
    assert_eq!(of([64, 16, 1, 1]), "");
    assert!(of([64, 1, 4, 1]).contains("stats: strides are [64, 1, 4, 1], expected [64, 16, 1, 1]"));
}

#[test]
fn dropout_takes_a_mask_or_has_one_drawn() {
    let (mut tensors, node) = sequences();
    tensors.push(tensor(10, DataType::Half, &[2, 4, 16, 16]));
    tensors.extend([11, 12, 13].map(|uid| tensor(uid, DataType::Int64, &[1])));
    tensors.push(tensor(14, DataType::Float, &[1]));
    tensors.push(tensor(15, DataType::Float, &[2, 4, 16, 16]));
    let seeded = |probability| Sdpa {
        dropout_probability: Some(probability),
        seed: Some(11),
        offset: Some(12),
        ..node.clone()
    };
    let draws = |node: Sdpa| {
        let operations = lowered(tensors.clone(), node).unwrap().described.operations;
        operations.iter().filter(|operation| operation.kind == BACKEND_OPERATION_RNG_DESCRIPTOR).count()
    };
    assert_eq!(draws(seeded(0.25)), 1);
    assert_eq!(draws(seeded(0.0)), 0);
    // The mask is drawn even if nothing is dropped.
    assert_eq!(draws(Sdpa { rng_dump: Some(15), ..seeded(0.0) }), 1);
    assert!(
        refusal(tensors.clone(), seeded(1.0)).contains("dropout_probability: is 1, expected less than 1")
    );
    let masked = Sdpa { dropout_mask: Some(10), dropout_scale: Some(14), ..node };
    assert_eq!(refusal(tensors.clone(), masked.clone()), "");
    let from_the_end = Sdpa { causal_mask_bottom_right: true, ..masked };
    assert!(refusal(tensors, from_the_end).contains("expected TOP_LEFT beside attn_mask or dropout"));
}

#[test]
fn bands_that_mask_all_keys_of_a_query_are_refused() {
    let of = |queries: i64, change: fn(&mut Sdpa)| {
        let (mut tensors, _) = sequences();
        for place in [0, 3] {
            tensors[place] = tensor(tensors[place].uid, DataType::Half, &[2, 4, queries, 32]);
        }
        let mut node = Sdpa::new(1, 2, 3, 4);
        change(&mut node);
        refusal(tensors, node)
    };
    for change in
        [|node: &mut Sdpa| node.causal_mask_bottom_right = true, |node: &mut Sdpa| node.left_bound = Some(4)]
    {
        assert_eq!(of(16, change), "");
        assert!(of(17, change).contains("q: has 17 queries for 16 keys and a band"));
    }
    assert_eq!(of(17, |node| node.causal_mask = true), "");
}
