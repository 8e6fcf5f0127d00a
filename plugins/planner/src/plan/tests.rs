use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Node, PointwiseMode, TensorValue};

use super::*;
use crate::prepare::{Prepared, prepare};

/// 3 = 1 + 2, 4 = 3 + 5, 6 = -4; 3 and 4 are virtual, 5 is a value, 2 is passed at execution, and 6 is an
/// unmarked output.
fn prepared() -> Prepared {
    let tensor = |uid, dims: &[i64]| Tensor::new(uid, DataType::Float, dims, &[1]);
    let mut tensors: Vec<Tensor> = (1..=6).map(|uid| tensor(uid, &[100])).collect();
    tensors[1] = Tensor { is_runtime_pass_by_value: true, ..tensor(2, &[1]) };
    tensors[4] = Tensor { value: Some(TensorValue::Float32(1.0)), ..tensor(5, &[1]) };
    for uid in [3, 4, 6] {
        tensors[uid - 1].is_virtual = true;
    }
    let node = |operation: Pointwise| Node::single(operation);
    let nodes = vec![
        node(Pointwise::new(PointwiseMode::Add, 1, Some(2), 3)),
        node(Pointwise::new(PointwiseMode::Add, 3, Some(5), 4)),
        node(Pointwise::new(PointwiseMode::Neg, 4, None, 6)),
    ];
    prepare(&Graph { tensors, nodes, ..Graph::default() }).unwrap()
}

#[test]
fn every_tensor_has_its_place() {
    let Prepared { graph, unmarked, .. } = prepared();
    let steps: Vec<StepTensors> =
        graph.nodes.iter().map(|node| StepTensors::from(node.operation.tensors())).collect();
    let placed = Placed::new(&graph, &unmarked, steps.iter()).unwrap();
    // 512 bytes each: the lifetimes of 3 and 4 overlap, and those of 4 and 6.
    assert_eq!(
        placed.slots,
        [
            [Slot::Device(1), Slot::Workspace(0), Slot::Host(2)].into(),
            [Slot::Workspace(0), Slot::Workspace(512), Slot::Nowhere].into(),
            <Box<[Slot]>>::from([Slot::Workspace(512), Slot::Unmarked(6, 0)]),
        ]
    );
    assert_eq!(placed.workspace(100).unwrap().size(), 2 * 512 + 100 + ALIGNMENT - 1);
}

#[test]
fn tensors_inside_a_step_have_no_memory() {
    let Prepared { graph, unmarked, .. } = prepared();
    let whole = StepTensors { all: vec![1, 2, 3, 5, 4, 6], inside: vec![3, 4] };
    let placed = Placed::new(&graph, &unmarked, std::iter::once(&whole)).unwrap();
    let nowhere = Slot::Nowhere;
    let expected = [Slot::Device(1), Slot::Host(2), nowhere, nowhere, nowhere, Slot::Unmarked(6, 0)];
    assert_eq!(placed.slots, [<Box<[Slot]>>::from(expected)]);
    assert_eq!(placed.virtuals().places.iter().map(|place| place.uid).collect::<Vec<_>>(), [6]);

    let many = StepTensors::from(vec![1; MAX_TENSORS + 1]);
    let refusal = Placed::new(&graph, &unmarked, std::iter::once(&many)).unwrap_err();
    assert_eq!(refusal, "a step has 129 tensors, expected at most 128");
}

#[test]
fn results_of_steps_are_found_by_their_nodes() {
    let mut found = Found::default();
    assert!(found.is_empty());
    found.add(&[3], []);
    found.add(&[0, 1, 2], *b"chain");
    let bytes = found.write().unwrap();
    // Last node, number of nodes, size, bytes.
    assert_eq!(bytes[..17], *b"\x02\0\0\0\x03\0\0\0\x05\0\0\0chain");
    assert_eq!(Found::read(&bytes), Ok(found.clone()));
    assert_eq!(found.of(&[0, 1, 2]), Some(&b"chain"[..]));
    assert_eq!(found.of(&[3]), Some(&b""[..]));
    // Steps with other nodes have no results.
    assert_eq!((found.of(&[1, 2]), found.of(&[0, 1]), found.of(&[])), (None, None, None));
    for cut in (1..bytes.len()).filter(|cut| *cut != 17) {
        let error = Found::read(&bytes[..cut]).unwrap_err();
        assert!(error.message().contains("ends too early"), "{cut} bytes");
    }
    assert!(Found::read(&[0xff; 64]).is_err());
}

#[test]
fn ranges_of_steps_are_those_of_a_whole_graph_or_none() {
    let ranges = |steps: &[&[usize]], count| {
        let mut found = Found::default();
        steps.iter().for_each(|nodes| found.add(nodes, []));
        found.ranges(count)
    };
    assert_eq!(ranges(&[&[2], &[0, 1], &[3, 4, 5]], 6), Some(vec![0..2, 2..3, 3..6]));
    for (steps, count) in [
        (&[][..], 0),
        (&[&[0, 1][..], &[3]][..], 4),
        (&[&[0, 1], &[1, 2]], 3),
        (&[&[0, 1]], 3),
        (&[&[0, 1, 2, 3]], 3),
        // More nodes than there are up to the last one.
        (&[&[4, 3, 1]], 2),
    ] {
        assert_eq!(ranges(steps, count), None, "{steps:?} of {count}");
    }
}
