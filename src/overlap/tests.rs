use hipdnn_plugin_sdk::graph::operation::{Batchnorm, CustomOp, Matmul, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, ReductionMode, Tensor};
use hipdnn_plugin_sdk::wire::{self, Layout};

use super::*;
use crate::allocations;

const SIDE: i64 = 8;
const SIZE: usize = (SIDE * SIDE * 4) as usize;

/// A graph of square matrices; those in `between` are virtual.
fn graph(operations: Vec<Operation>, tensors: i64, between: &[i64]) -> Graph {
    let tensor = |uid| {
        let is_virtual = between.contains(&uid);
        Tensor { is_virtual, ..Tensor::new(uid, DataType::Float, &[1, SIDE, SIDE], &[SIDE * SIDE, SIDE, 1]) }
    };
    Graph {
        compute_type: DataType::Float,
        io_type: DataType::Float,
        tensors: (1..=tensors).map(tensor).collect(),
        nodes: operations.into_iter().map(Node::single).collect(),
        ..Graph::default()
    }
}

fn neg(from: i64, to: i64) -> Operation {
    Pointwise::new(PointwiseMode::Neg, from, None, to).into()
}

fn add(one: i64, other: i64, to: i64) -> Operation {
    Pointwise::new(PointwiseMode::Add, one, Some(other), to).into()
}

fn matmul(a: i64, b: i64, c: i64) -> Operation {
    Matmul { a, b, c }.into()
}

/// The clash that an execution with tensors at these addresses reports.
fn clash_at(graph: &Graph, at: &[(i64, usize)]) -> Option<(i64, i64)> {
    let bytes = wire::write(graph, Layout::G2).unwrap();
    let summary = wire::verify(&bytes).unwrap();
    let buffers: Vec<DeviceBuffer> = at
        .iter()
        .map(|(uid, at)| DeviceBuffer { uid: *uid, ptr: std::ptr::without_provenance_mut(*at) })
        .collect();
    let met = may_meet(&summary.tensors, &buffers);
    let clash = clash(&Sharing::of(graph), &buffers, std::iter::empty());
    assert!(met || clash.is_none(), "the bounds are apart");
    let reversed: Vec<DeviceBuffer> = buffers.iter().rev().copied().collect();
    assert_eq!(may_meet(&summary.tensors, &reversed), met);
    clash.map(|clash| (clash.written, clash.other))
}

#[test]
fn overlapping_bytes_are_found_and_neighbours_are_not() {
    let product = graph(vec![matmul(1, 2, 3)], 3, &[]);
    let at = |c: usize| clash_at(&product, &[(1, 0x1000), (2, 0x2000), (3, c)]);
    assert_eq!(at(0x3000), None);
    assert_eq!((at(0x1000), at(0x2000)), (Some((3, 1)), Some((3, 2))));
    assert_eq!((at(0x1000 + SIZE), at(0x1000 - SIZE)), (None, None));
    assert_eq!((at(0x1000 + SIZE - 1), at(0x1001 - SIZE)), (Some((3, 1)), Some((3, 1))));
    // Operands may be the same; null and tensors that the graph does not have are ignored.
    assert_eq!(clash_at(&product, &[(1, 0x1000), (2, 0x1000), (3, 0x2000)]), None);
    assert_eq!(clash_at(&product, &[(1, 0), (2, 0x1000), (3, 0), (9, 0x1000)]), None);
    assert_eq!(clash_at(&product, &[(3, 0x1000), (3, 0x1010)]), None);
}

#[test]
fn in_place_is_allowed_where_each_element_depends_only_on_itself() {
    let same = |graph: &Graph, written: i64, other: i64| {
        let at = |uid: i64| 0x1000 * if uid == written { other } else { uid } as usize;
        let all: Vec<_> = graph.tensors.iter().map(|tensor| (tensor.uid, at(tensor.uid))).collect();
        clash_at(graph, &all)
    };
    let sum = graph(vec![add(1, 2, 3)], 3, &[]);
    assert_eq!((same(&sum, 3, 1), same(&sum, 3, 2)), (None, None));
    // A layer and what is added to it: the summand may be overwritten, the operands may not.
    let layer = graph(vec![matmul(1, 2, 3), add(3, 4, 5), neg(5, 6)], 6, &[3, 5]);
    assert_eq!(
        (same(&layer, 6, 4), same(&layer, 6, 1), same(&layer, 6, 2)),
        (None, Some((6, 1)), Some((6, 2)))
    );
    // A tensor may be overwritten only after its last read.
    let twice = graph(vec![neg(1, 2), matmul(1, 3, 4)], 4, &[]);
    assert_eq!(same(&twice, 2, 1), Some((2, 1)));
    let late = graph(vec![matmul(1, 3, 4), neg(1, 2)], 4, &[]);
    assert_eq!(same(&late, 2, 1), None);
    // A prologue does not change what a matmul reads.
    let prologue = graph(vec![neg(1, 2), matmul(2, 3, 4)], 4, &[2]);
    assert_eq!(same(&prologue, 4, 1), Some((4, 1)));
    // Two results in one place.
    let two = graph(vec![neg(1, 2), add(1, 1, 3)], 3, &[]);
    assert_eq!(same(&two, 2, 3), Some((2, 3)));
    // Softmax as single operations goes row by row.
    let mut softmax = graph(
        vec![
            Reduction { in_: 1, out: 2, mode: ReductionMode::Max, is_deterministic: false }.into(),
            Pointwise::new(PointwiseMode::Sub, 1, Some(2), 3).into(),
            Pointwise::new(PointwiseMode::Exp, 3, None, 4).into(),
            Reduction { in_: 4, out: 5, mode: ReductionMode::Add, is_deterministic: false }.into(),
            Pointwise::new(PointwiseMode::Div, 4, Some(5), 6).into(),
        ],
        6,
        &[2, 3, 4, 5],
    );
    softmax.tensors[1].dims[2] = 1;
    softmax.tensors[4].dims[2] = 1;
    assert_eq!(same(&softmax, 6, 1), None);
}

#[test]
fn another_view_of_the_same_memory_is_not_in_place() {
    let mut transposed = graph(vec![neg(1, 2)], 2, &[]);
    let at = [(1, 0x1000), (2, 0x1000)];
    assert_eq!(clash_at(&transposed, &at), None);
    transposed.tensors[1].strides = vec![SIDE * SIDE, 1, SIDE];
    assert_eq!(clash_at(&transposed, &at), Some((2, 1)));
    transposed.tensors[1].strides = vec![7, SIDE, 1];
    assert_eq!(clash_at(&transposed, &at), None);
    // Another type of the same size is read before it is written, one of another size is written over what is read later.
    transposed.tensors[1].data_type = DataType::Int32;
    assert_eq!(clash_at(&transposed, &at), None);
    transposed.tensors[1].data_type = DataType::Half;
    assert_eq!(clash_at(&transposed, &at), Some((2, 1)));
    // A type that the graph says, and one that nothing says.
    transposed.tensors[1].data_type = DataType::Unset;
    assert_eq!(clash_at(&transposed, &at), None);
    transposed.io_type = DataType::Unset;
    assert_eq!(clash_at(&transposed, &[(1, 0x1000), (2, 0x1004)]), None);
}

#[test]
fn interleaved_tensors_are_disjoint() {
    // Two results of which one has the even rows and one the odd ones.
    let mut two = graph(vec![neg(1, 2), add(1, 1, 3)], 3, &[]);
    for tensor in &mut two.tensors[1..] {
        tensor.strides = vec![2 * SIDE * SIDE, 2 * SIDE, 1];
    }
    let row = SIDE as usize * 4;
    assert_eq!(clash_at(&two, &[(1, 0x8000), (2, 0x1000), (3, 0x1000 + row)]), None);
    assert_eq!(clash_at(&two, &[(1, 0x8000), (2, 0x1000), (3, 0x1004 + row)]), Some((2, 3)));
}

#[test]
fn running_statistics_and_tensors_without_memory_pass() {
    let mut training = Batchnorm::new(1, 2, 3, 4, 5);
    (training.prev_running_mean, training.next_running_mean) = (Some(6), Some(7));
    (training.prev_running_variance, training.next_running_variance) = (Some(8), Some(9));
    training.momentum = Some(10);
    let mut graph = graph(vec![training.into()], 10, &[]);
    for uid in [4, 10] {
        graph.tensors[uid - 1].is_runtime_pass_by_value = true;
    }
    let at = |places: [usize; 10]| {
        let all: Vec<_> = (1..).zip(places.map(|place| place * 0x1000)).collect();
        clash_at(&graph, &all)
    };
    assert_eq!(at([1, 2, 3, 5, 1, 6, 6, 8, 8, 5]), None);
    assert_eq!(at([1, 2, 3, 5, 5, 6, 8, 8, 9, 5]), Some((7, 8)));
    assert_eq!(at([1, 2, 3, 5, 5, 6, 7, 8, 7, 5]), Some((7, 9)));
    // The offsets of a ragged tensor say where its elements are.
    graph.tensors[4].ragged_offset_uid = Some(3);
    assert_eq!(clash_at(&graph, &[(1, 0x1000), (5, 0x1040)]), None);
}

#[test]
fn outputs_of_a_custom_operation_are_left_to_its_engine() {
    let custom = |input, output| CustomOp {
        input_tensor_uids: vec![input],
        output_tensor_uids: vec![output],
        custom_op_id: "append to a cache".to_owned(),
        data: Vec::new(),
    };
    let graph = graph(vec![custom(1, 2).into(), neg(3, 4)], 4, &[]);
    assert_eq!(clash_at(&graph, &[(1, 0x1000), (2, 0x1020), (3, 0x3000), (4, 0x4000)]), None);
    assert_eq!(clash_at(&graph, &[(1, 0x1000), (2, 0x2000), (3, 0x3000), (4, 0x3020)]), Some((4, 3)));
}

#[test]
fn large_graphs_are_checked_closely() {
    let chain: Vec<Operation> = (1..100).map(|uid| neg(uid, uid + 1)).collect();
    let chain = graph(chain, 100, &[]);
    let mut at: Vec<_> = (1..=100).map(|uid| (uid, uid as usize * 0x1000)).collect();
    assert_eq!(clash_at(&chain, &at), None);
    at[70].1 = 0x1000 * 20 + 4;
    assert_eq!(clash_at(&chain, &at), Some((20, 71)));
}

#[test]
fn other_layouts_of_an_execution_count() {
    let sum = graph(vec![add(1, 2, 3)], 3, &[]);
    let sharing = Sharing::of(&sum);
    let buffers = [(1, 0x1000), (2, 0x2000), (3, 0x1000 + SIZE)]
        .map(|(uid, at)| DeviceBuffer { uid, ptr: std::ptr::without_provenance_mut(at) });
    assert_eq!(clash(&sharing, &buffers, std::iter::empty()), None);
    let (larger, strides) = ([1, SIDE + 1, SIDE], [0, SIDE, 1]);
    let clash = clash(&sharing, &buffers, std::iter::once((1, &larger[..], &strides[..]))).unwrap();
    assert_eq!(clash, Clash { written: 3, other: 1, is_other_written: false });
}

#[test]
fn a_close_check_allocates_nothing() {
    let chain = graph((1..16).map(|uid| neg(uid, uid + 1)).collect(), 16, &[]);
    let sharing = Sharing::of(&chain);
    // Each tensor overlaps its neighbours: the second half of one is interleaved with the first half of the next.
    let dims = [1, SIDE, SIDE];
    let strides = [0, 4 * SIDE, 1];
    let row = SIDE as usize * 4;
    let at = |uid: i64| 0x10000 + uid as usize * (16 + 1) * row;
    let buffers: Vec<DeviceBuffer> =
        (1..=16).map(|uid| DeviceBuffer { uid, ptr: std::ptr::without_provenance_mut(at(uid)) }).collect();
    let layouts = || (1..=16).map(|uid| (uid, &dims[..], &strides[..]));
    let before = allocations::on_this_thread();
    let found = clash(&sharing, &buffers, layouts());
    assert_eq!(allocations::on_this_thread() - before, 0);
    assert_eq!(found, None);
    // Allowed in-place tensors do not allocate either; the counter works.
    let in_place = [(1, at(1)), (2, at(1))]
        .map(|(uid, at)| DeviceBuffer { uid, ptr: std::ptr::without_provenance_mut(at) });
    let before = allocations::on_this_thread();
    assert_eq!(clash(&sharing, &in_place, layouts()), None);
    assert_eq!(allocations::on_this_thread() - before, 0);
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations::on_this_thread() - before, 1);
}
