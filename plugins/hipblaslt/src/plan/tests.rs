use hipdnn_plugin_planner::chain::check;
use hipdnn_plugin_sdk::graph::operation::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};

use super::*;

#[test]
fn choices_are_read_as_they_were_written() {
    let choice = Choice { library: Library::HipblasLt, algorithm: [7; 16] };
    let other = Choice { library: Library::Rocblas, ..choice };
    let mut found = Found::default();
    found.add(&[2, 3], choice.write());
    found.add(&[4], other.write());
    assert_eq!(Choice::of(&found, &[2, 3]), Ok(Some(choice)));
    assert_eq!(Choice::of(&found, &[4]), Ok(Some(other)));
    assert_eq!(Choice::of(&found, &[3]), Ok(None));
    let mut bytes = choice.write();
    for cut in 0..bytes.len() {
        assert_eq!(Choice::read(&bytes[..cut]), None, "{cut} bytes");
    }
    bytes[0] = 3;
    found.add(&[5], bytes);
    assert!(Choice::of(&found, &[5]).unwrap_err().message().contains("a saved choice"));
}

#[test]
fn a_node_in_no_chain_is_named() {
    let tensor = |uid, dims: [i64; 2]| Tensor::new(uid, DataType::Float, &dims, &[dims[1], 1]);
    let node = |name: &str, operation: Operation| Node {
        name: name.to_owned(),
        compute_type: DataType::Float,
        operation,
    };
    let mut graph = Graph {
        tensors: vec![
            tensor(1, [2, 3]),
            tensor(2, [3, 4]),
            tensor(3, [2, 4]),
            tensor(4, [4, 2]),
            tensor(5, [2, 2]),
        ],
        nodes: vec![
            node("second", Matmul { a: 3, b: 4, c: 5 }.into()),
            node("first", Matmul { a: 1, b: 2, c: 3 }.into()),
        ],
        ..Graph::default()
    };
    graph.nodes.swap(0, 1);
    assert_eq!(check(&graph), Ok(()));
    let reduction = hipdnn_plugin_sdk::graph::operation::Reduction {
        in_: 5,
        out: 6,
        mode: hipdnn_plugin_sdk::graph::ReductionMode::Add,
        is_deterministic: false,
    };
    graph.tensors.push(tensor(6, [2, 1]));
    graph.nodes.push(node("sum", reduction.into()));
    let refusal = check(&graph).unwrap_err().to_string();
    assert!(
        refusal.starts_with("node 2 \"sum\"") && refusal.contains("does not follow a matmul"),
        "{refusal}"
    );
}
