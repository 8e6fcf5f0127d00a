use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::{Node, Tensor};

use super::*;
use crate::plan::check;

fn tensor(uid: i64, dims: &[i64], is_virtual: bool) -> Tensor {
    Tensor { is_virtual, ..Tensor::packed(uid, DataType::Float, dims) }
}

fn graph(tensors: Vec<Tensor>, operations: Vec<Operation>) -> Graph {
    Graph { tensors, nodes: operations.into_iter().map(Node::single).collect(), ..Graph::default() }
}

fn pointwise(mode: PointwiseMode, in_0: i64, in_1: Option<i64>, out: i64) -> Operation {
    Pointwise::new(mode, in_0, in_1, out).into()
}

fn reduction(in_: i64, mode: ReductionMode, out: i64) -> Operation {
    Reduction { in_, out, mode, is_deterministic: false }.into()
}

const DIMS: [i64; 3] = [4, 6, 5];

/// Softmax of 1 along the second dimension: 2 is the maximum, 3 the difference, 4 the exponentials, 5 the
/// sum, 6 the result.
fn softmax() -> Graph {
    let rows = [4, 1, 5];
    graph(
        vec![
            tensor(1, &DIMS, false),
            tensor(2, &rows, true),
            tensor(3, &DIMS, true),
            tensor(4, &DIMS, true),
            tensor(5, &rows, true),
            tensor(6, &DIMS, false),
        ],
        vec![
            reduction(1, ReductionMode::Max, 2),
            pointwise(PointwiseMode::Sub, 1, Some(2), 3),
            pointwise(PointwiseMode::Exp, 3, None, 4),
            reduction(4, ReductionMode::Add, 5),
            pointwise(PointwiseMode::Div, 4, Some(5), 6),
        ],
    )
}

/// The gradient of softmax: y is 1, dy 2, the products 3, their sum 4, the difference 5, dx 6.
fn gradient() -> Graph {
    let rows = [4, 1, 5];
    graph(
        vec![
            tensor(1, &DIMS, false),
            tensor(2, &DIMS, false),
            tensor(3, &DIMS, true),
            tensor(4, &rows, true),
            tensor(5, &DIMS, true),
            tensor(6, &DIMS, false),
        ],
        vec![
            pointwise(PointwiseMode::Mul, 1, Some(2), 3),
            reduction(3, ReductionMode::Add, 4),
            pointwise(PointwiseMode::Sub, 2, Some(4), 5),
            pointwise(PointwiseMode::Mul, 1, Some(5), 6),
        ],
    )
}

fn found(graph: &Graph) -> Vec<Softmax> {
    let prepared = prepare(graph).unwrap();
    find(&prepared.graph, &prepared.readers()).unwrap()
}

fn refused(graph: &Graph, expected: &str) {
    let refusal = check(graph, None).unwrap_err().to_string();
    assert!(refusal.starts_with("node 2") && refusal.contains(expected), "{refusal}, expected {expected}");
}

#[test]
fn nodes_that_are_a_softmax_become_one_step() {
    let graph = softmax();
    assert_eq!(check(&graph, None), Ok(false));
    let [softmax] = found(&graph).try_into().unwrap_or_else(|_| panic!("expected one softmax"));
    assert_eq!((softmax.nodes, softmax.uids), (vec![0, 1, 2, 3, 4], vec![1, 6]));
    assert_eq!(
        (softmax.design.shape.dims, softmax.design.shape.strides),
        (vec![4, 6, 1, 5], vec![30, 5, 5, 1])
    );
    assert!(!softmax.design.logarithm && !softmax.design.backward);
}

#[test]
fn summed_dimensions_are_adjacent_in_memory() {
    let dims = |layout: &[i64], strides: &[i64], left: &[i64]| {
        let layout = Layout::of(&Tensor::new(1, DataType::Float, layout, strides)).unwrap();
        shape(1, DataType::Float, &layout, left).map(|shape| shape.dims)
    };
    assert_eq!(dims(&[2, 3, 4, 5], &[60, 20, 5, 1], &[2, 1, 1, 1]), Ok(vec![2, 60, 1, 1]));
    assert_eq!(dims(&[2, 3, 4, 5], &[60, 20, 5, 1], &[1, 1, 4, 5]), Ok(vec![1, 6, 1, 20]));
    assert_eq!(dims(&[2, 3, 4, 5], &[60, 1, 15, 3], &[2, 1, 4, 5]), Ok(vec![40, 3, 1, 1]));
    assert_eq!(dims(&[2, 1, 4, 5], &[20, 20, 5, 1], &[2, 1, 4, 5]), Ok(vec![40, 1, 1, 1]));
    for (strides, left, expected) in [
        ([60, 20, 5, 1], [2, 1, 4, 1], "are not adjacent"),
        ([60, 1, 15, 3], [2, 1, 1, 5], "are not adjacent"),
        ([61, 20, 5, 1], [2, 1, 4, 5], "expected no gaps"),
    ] {
        let refusal = dims(&[2, 3, 4, 5], &strides, &left).unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn an_unsupported_softmax_is_refused_with_the_reason() {
    let mut seen = softmax();
    seen.tensors[4].is_virtual = false;
    refused(&seen, "tensor 5 is not virtual");
    let mut read = softmax();
    read.tensors.push(tensor(7, &DIMS, false));
    read.nodes.push(Node { operation: pointwise(PointwiseMode::Abs, 3, None, 7), ..read.nodes[0].clone() });
    refused(&read, "tensor 3 is read by node 5");
    let mut turned = softmax();
    turned.nodes[4].operation = pointwise(PointwiseMode::Div, 5, Some(4), 6);
    refused(&turned, "the dividend of the sum");
    let mut unfinished = softmax();
    unfinished.nodes.pop();
    refused(&unfinished, "neither a quotient by the sum");
    let mut bfloat16 = softmax();
    for place in [0, 5] {
        bfloat16.tensors[place].data_type = DataType::Bfloat16;
    }
    refused(&bfloat16, "tensor 1: data type is bfloat16");
    let mut wider = softmax();
    wider.tensors[5].data_type = DataType::Half;
    refused(&wider, "tensor 6 is half");
    let mut double = softmax();
    double.nodes[1].compute_type = DataType::Double;
    refused(&double, "compute type is double");
    // Without a maximum it does not resemble a softmax at all.
    let mut other = softmax();
    other.nodes[0].operation = reduction(1, ReductionMode::Avg, 2);
    refused(&other, "operation: is exp");
}

#[test]
fn gradients_are_found_in_both_orders_of_the_factors() {
    let graph = gradient();
    let [softmax] = found(&graph).try_into().unwrap_or_else(|_| panic!("expected one gradient"));
    assert_eq!((softmax.nodes, softmax.uids), (vec![0, 1, 2, 3], vec![1, 2, 6]));
    assert!(softmax.design.backward);
    let mut turned = gradient();
    turned.nodes[0].operation = pointwise(PointwiseMode::Mul, 2, Some(1), 3);
    turned.nodes[3].operation = pointwise(PointwiseMode::Mul, 5, Some(1), 6);
    assert_eq!(found(&turned)[0].uids, [1, 2, 6]);
    // Its nodes can be computed one by one, so nothing is refused.
    let mut seen = gradient();
    seen.tensors[3].is_virtual = false;
    assert!(found(&seen).is_empty());
    assert_eq!(check(&seen, None), Ok(false));
    let mut another = gradient();
    another.nodes[3].operation = pointwise(PointwiseMode::Mul, 2, Some(5), 6);
    assert!(found(&another).is_empty());
}
