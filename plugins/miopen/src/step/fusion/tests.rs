use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise as PointwiseNode};
use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};

use super::*;

fn tensor(uid: i64, dims: [i64; 4], is_virtual: bool) -> Tensor {
    Tensor { is_virtual, ..Tensor::packed(uid, DataType::Float, &dims) }
}

fn pointwise(operation: PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Operation {
    Operation::from(PointwiseNode::new(operation, in_0, in_1, out_0))
}

/// relu(convolution(1, 2) + 4): 3 is the convolution, 5 is with the bias, 6 the result.
fn graph() -> Graph {
    let convolution = ConvolutionForward {
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    let y = [2, 4, 5, 5];
    let operations = [
        Operation::from(convolution),
        pointwise(PointwiseMode::Add, 4, Some(3), 5),
        pointwise(PointwiseMode::ReluFwd, 5, None, 6),
    ];
    Graph {
        tensors: vec![
            tensor(1, [2, 3, 5, 5], false),
            tensor(2, [4, 3, 3, 3], false),
            tensor(3, y, true),
            tensor(4, [1, 4, 1, 1], false),
            tensor(5, y, true),
            tensor(6, y, false),
        ],
        nodes: operations.into_iter().map(Node::single).collect(),
        ..Graph::default()
    }
}

/// The nodes of each chain that begins with the first.
fn nodes(graph: &Graph) -> Vec<Vec<usize>> {
    let prepared = prepare(graph).unwrap();
    chains(&prepared, 0, &prepared.readers()).into_iter().map(|fusion| fusion.nodes).collect()
}

#[test]
fn a_chain_is_followed_to_its_end() {
    let graph = graph();
    assert_eq!(nodes(&graph), [vec![0, 1, 2], vec![0, 1]]);
    let prepared = prepare(&graph).unwrap();
    let chains = chains(&prepared, 0, &prepared.readers());
    let (all, between) = chains[0].tensors(&graph);
    assert_eq!(between, [3, 5]);
    let arguments: Vec<(c_uint, i64)> =
        chains[0].arguments.iter().map(|(id, slot)| (*id, all[*slot])).collect();
    assert_eq!(arguments, [(CONVOLUTION_X, 1), (CONVOLUTION_W, 2), (BIAS, 4), (ACTIVATION_Y, 6)]);
    assert_eq!(chains[1].arguments.last().map(|(id, _)| *id), Some(BIAS_Y));
}

#[test]
fn an_intermediate_with_other_readers_ends_a_chain() {
    let mut seen = graph();
    seen.tensors[4].is_virtual = false;
    assert_eq!(nodes(&seen), [vec![0, 1]]);
    let mut read_twice = graph();
    read_twice.tensors.push(tensor(7, [2, 4, 5, 5], false));
    let node =
        Node { operation: pointwise(PointwiseMode::ReluFwd, 3, None, 7), ..read_twice.nodes[0].clone() };
    read_twice.nodes.push(node);
    assert_eq!(nodes(&read_twice), Vec::<Vec<usize>>::new());
}

#[test]
fn a_sum_other_than_a_bias_ends_a_chain() {
    for dims in [[2, 4, 5, 5], [1, 1, 5, 5], [1, 4, 1, 5], [1, 1, 1, 1]] {
        let mut graph = graph();
        graph.tensors[3] = tensor(4, dims, false);
        assert_eq!(nodes(&graph), Vec::<Vec<usize>>::new(), "{dims:?}");
    }
    let mut twice = graph();
    twice.nodes[1].operation = pointwise(PointwiseMode::Add, 3, Some(3), 5);
    assert_eq!(nodes(&twice), Vec::<Vec<usize>>::new());
}
