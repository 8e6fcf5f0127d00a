use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardFilter, ConvolutionForward, CustomOp, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, PointwiseMode};

use super::*;

fn node(operation: impl Into<Operation>) -> Node {
    Node { name: "it".to_owned(), compute_type: DataType::Unset, operation: operation.into() }
}

fn tensor(uid: i64, dims: &[i64]) -> Tensor {
    Tensor::packed(uid, DataType::Float, dims)
}

fn graph(tensors: Vec<Tensor>, nodes: Vec<Node>) -> Graph {
    Graph { tensors, nodes, ..Graph::default() }
}

/// 3 = relu(2), 2 = relu(1); 2 is virtual.
fn chain() -> Graph {
    let mut tensors = vec![tensor(1, &[4]), tensor(2, &[4]), tensor(3, &[4])];
    tensors[1].is_virtual = true;
    let nodes = vec![
        node(Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2)),
        node(Pointwise::new(PointwiseMode::Abs, 2, None, 3)),
    ];
    graph(tensors, nodes)
}

fn refusal(graph: &Graph) -> String {
    prepare(graph).expect_err("the graph is refused")
}

#[track_caller]
fn assert_refused(graph: &Graph, parts: &[&str]) {
    let text = refusal(graph);
    for part in parts {
        assert!(text.contains(part), "\"{text}\" does not say \"{part}\"");
    }
}

#[test]
fn virtual_tensors_that_no_node_reads_are_outputs() {
    let mut graph = chain();
    graph.tensors[2].is_virtual = true;
    // Tensor 4 is a marked output.
    graph.tensors.push(tensor(4, &[4]));
    graph.nodes.push(node(Pointwise::new(PointwiseMode::Neg, 2, None, 4)));
    let prepared = prepare(&graph).unwrap();
    assert_eq!(prepared.unmarked, HashSet::from([3]));
    let virtuals: Vec<bool> = prepared.graph.tensors.iter().map(|tensor| tensor.is_virtual).collect();
    assert_eq!(virtuals, [false, true, false, false]);
    // It keeps the type of a virtual tensor.
    graph.tensors.iter_mut().for_each(|tensor| tensor.data_type = DataType::Unset);
    (graph.io_type, graph.intermediate_type) = (DataType::Half, DataType::Double);
    let prepared = prepare(&graph).unwrap().graph;
    assert_eq!(prepared.tensors[2].data_type, DataType::Double);
    assert_eq!(prepare(&chain()).unwrap().unmarked, HashSet::new());
}

#[test]
fn types_are_filled_from_the_graph() {
    let mut graph = chain();
    graph.io_type = DataType::Half;
    graph.intermediate_type = DataType::Double;
    graph.tensors.iter_mut().for_each(|tensor| tensor.data_type = DataType::Unset);
    let mut scalar = tensor(4, &[1]);
    scalar.data_type = DataType::Unset;
    scalar.value = Some(TensorValue::Float32(0.5));
    scalar.is_virtual = true;
    graph.tensors.push(scalar);
    graph.nodes[1] = node(Pointwise::new(PointwiseMode::Add, 2, Some(4), 3));
    graph.nodes[1].compute_type = DataType::Double;
    let prepared = prepare(&graph).unwrap().graph;
    let types: Vec<_> = prepared.tensors.iter().map(|tensor| tensor.data_type).collect();
    assert_eq!(types, [DataType::Half, DataType::Double, DataType::Half, DataType::Float]);
    assert_eq!(prepared.nodes[0].compute_type, DataType::Float);
    assert_eq!(prepared.nodes[1].compute_type, DataType::Double);
    assert!(!prepared.tensors[3].is_virtual);
    graph.compute_type = DataType::Bfloat16;
    assert_eq!(prepare(&graph).unwrap().graph.nodes[0].compute_type, DataType::Bfloat16);
    graph.io_type = DataType::Unset;
    assert_refused(&graph, &["node 0 \"it\" (Pointwise)", "in_0", "tensor 1", "io type"]);
}

#[test]
fn uid_0_of_older_writers_is_ignored() {
    let mut graph = chain();
    graph.nodes[0] = node(Pointwise::new(PointwiseMode::ReluFwd, 1, Some(0), 2));
    assert!(prepare(&graph).is_ok());
    graph.nodes[0] = node(Pointwise::new(PointwiseMode::ReluFwd, 1, Some(3), 2));
    assert!(prepare(&graph).is_err());
}

#[test]
fn inconsistent_graphs_are_refused() {
    assert_refused(&Graph::default(), &["no nodes"]);

    let mut graph = chain();
    graph.tensors[2].uid = 1;
    assert_refused(&graph, &["two tensors", "uid 1"]);

    let mut graph = chain();
    graph.tensors.remove(0);
    assert_refused(&graph, &["node 0", "in_0", "uid 1"]);

    let mut graph = chain();
    graph.nodes.reverse();
    assert_refused(&graph, &["in_0", "tensor 2", "is read here and written by node 1"]);

    let mut graph = chain();
    graph.nodes.remove(0);
    assert_refused(&graph, &["in_0", "tensor 2", "virtual and no node writes it"]);

    let mut graph = chain();
    graph.nodes.push(node(Pointwise::new(PointwiseMode::Neg, 1, None, 3)));
    assert_refused(&graph, &["node 2", "tensor 3", "node 1 writes already"]);

    let mut graph = chain();
    graph.nodes[0] = node(Pointwise::new(PointwiseMode::Neg, 2, None, 2));
    assert_refused(&graph, &["tensor 2", "written by node 0"]);

    let mut graph = chain();
    graph.nodes[0] = node(CustomOp {
        input_tensor_uids: vec![1],
        output_tensor_uids: vec![2],
        custom_op_id: "it".to_owned(),
        data: vec![],
    });
    assert_refused(&graph, &["(CustomOp)", "operation is not one"]);
}

#[test]
fn tensors_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut Tensor), parts: &[&str]| {
        let mut graph = chain();
        change(&mut graph.tensors[2]);
        assert_refused(&graph, &[&["node 1", "out_0", "tensor 3"], parts].concat());
    };
    refused(|t| t.dims = vec![-4], &["dims[0] is -4"]);
    refused(|t| t.strides = vec![0], &["same place"]);
    refused(|t| t.strides = vec![], &["strides has 0 entries, expected 1"]);
    refused(|t| t.strides = vec![-1], &["strides[0] is -1"]);
    refused(|t| t.strides = vec![i64::MAX / 2], &["address space"]);
    refused(|t| t.ragged_offset_uid = Some(9), &["ragged"]);
    refused(|t| t.is_runtime_pass_by_value = true, &["written and passed by value"]);
    refused(|t| t.value = Some(TensorValue::Float32(1.0)), &["has a value", "single element"]);

    let mut graph = chain();
    graph.tensors[0] = tensor(1, &[1]);
    graph.tensors[0].value = Some(TensorValue::Float8(1));
    assert_refused(&graph, &["in_0", "tensor 1", "8-bit"]);
}

#[test]
fn a_stored_byte_is_read_by_its_tensors_type() {
    let prepared = |data_type: DataType| {
        let mut graph = chain();
        graph.tensors[0] = Tensor::new(1, data_type, &[1], &[1]);
        graph.tensors[0].value = Some(TensorValue::Float8(0xf9));
        prepare(&graph).map(|prepared| prepared.graph.tensors[0].value)
    };
    assert_eq!(prepared(DataType::Int8), Ok(Some(TensorValue::Int32(-7))));
    assert_eq!(prepared(DataType::Uint8), Ok(Some(TensorValue::Int32(249))));
    assert!(prepared(DataType::Fp8E5m2).is_err());
}

#[test]
fn pointwise_shapes_are_checked() {
    let of = |operation: Pointwise| {
        let tensors = vec![tensor(1, &[2, 3]), tensor(2, &[3]), tensor(3, &[2, 3]), tensor(4, &[2])];
        graph(tensors, vec![node(operation)])
    };
    assert!(prepare(&of(Pointwise::new(PointwiseMode::Add, 1, Some(2), 3))).is_ok());
    assert_refused(&of(Pointwise::new(PointwiseMode::Add, 1, Some(4), 3)), &["in_1", "[2]", "[2, 3]"]);
    assert_refused(&of(Pointwise::new(PointwiseMode::Abs, 1, None, 2)), &["in_0", "do not spread"]);
    assert_refused(&of(Pointwise::new(PointwiseMode::Add, 1, None, 3)), &["in_1", "absent"]);
    assert_refused(&of(Pointwise::new(PointwiseMode::Abs, 1, Some(2), 3)), &["in_1", "abs reads 1"]);
    assert_refused(&of(Pointwise::new(PointwiseMode::Unset, 1, None, 3)), &["operation"]);
    assert_refused(&of(Pointwise::new(PointwiseMode::GenIndex, 1, None, 3)), &["axis", "absent"]);
    for axis in [-1, 2] {
        let index = Pointwise { axis: Some(axis), ..Pointwise::new(PointwiseMode::GenIndex, 1, None, 3) };
        assert_refused(&of(index), &["axis", &axis.to_string(), "0 to 1"]);
    }
}

fn convolution(x: &[i64], w: &[i64], y: &[i64], change: impl Fn(&mut ConvolutionForward)) -> Graph {
    let spatial = x.len().saturating_sub(2);
    let mut operation = ConvolutionForward {
        x: 1,
        w: 2,
        y: 3,
        pre_padding: vec![1; spatial],
        post_padding: vec![0; spatial],
        stride: vec![2; spatial],
        dilation: vec![1; spatial],
        conv_mode: ConvMode::CrossCorrelation,
    };
    change(&mut operation);
    graph(vec![tensor(1, x), tensor(2, w), tensor(3, y)], vec![node(operation)])
}

#[test]
fn convolution_shapes_are_checked() {
    let same = |_: &mut ConvolutionForward| {};
    assert!(prepare(&convolution(&[2, 4, 5, 6], &[6, 2, 3, 3], &[2, 6, 2, 3], same)).is_ok());
    let refused = |x: &[i64], w: &[i64], y: &[i64], parts: &[&str]| {
        assert_refused(&convolution(x, w, y, same), parts);
    };
    refused(&[2, 4, 5, 6], &[6, 3, 3, 3], &[2, 6, 2, 3], &["w", "dims[1] is 3", "4 channels"]);
    refused(&[2, 4, 5, 6], &[5, 2, 3, 3], &[2, 5, 2, 3], &["w", "dims[0] is 5", "2 groups"]);
    refused(&[2, 4, 5, 6], &[6, 2, 3, 3], &[1, 6, 2, 3], &["y", "dims[0] is 1", "expected 2"]);
    refused(&[2, 4, 5, 6], &[6, 2, 3, 3], &[2, 4, 2, 3], &["y", "dims[1] is 4", "expected 6"]);
    refused(&[2, 4, 5, 6], &[6, 2, 3, 3], &[2, 6, 2, 2], &["y", "dims[3] is 2", "expected 3"]);
    refused(&[2, 4, 5, 6], &[6, 2, 7, 3], &[2, 6, 1, 3], &["w", "dims[2] is 7", "at most the 6"]);
    refused(&[2, 4, 5, 6], &[6, 2, 3], &[2, 6, 2, 3], &["w", "expected 4"]);
    refused(&[2, 4], &[6, 2], &[2, 6], &["x", "2 entries"]);
    refused(&[1; 8], &[1; 8], &[1; 8], &["x", "8 entries"]);
    let changed = |change: fn(&mut ConvolutionForward), parts: &[&str]| {
        assert_refused(&convolution(&[2, 4, 5, 6], &[6, 2, 3, 3], &[2, 6, 2, 3], change), parts);
    };
    changed(|c| c.stride = vec![2, 0], &["stride[1]", "is 0", "at least 1"]);
    changed(|c| c.dilation = vec![-1, 1], &["dilation[0]", "is -1"]);
    changed(|c| c.pre_padding = vec![-1, 1], &["pre_padding[0]", "is -1", "at least 0"]);
    changed(|c| c.post_padding = vec![1], &["post_padding", "1 entries", "expected 2"]);
    changed(|c| c.pre_padding = vec![i64::MAX, 1], &["pre_padding[0]"]);
    changed(|c| c.dilation = vec![i64::MAX / 2, 1], &["spans"]);
    changed(|c| c.conv_mode = ConvMode::Unset, &["conv_mode", "UNSET"]);

    let mut graph = convolution(&[2, 4, 5, 6], &[6, 2, 3, 3], &[2, 6, 2, 3], same);
    graph.nodes[0] = node(ConvolutionBackwardFilter {
        x: 1,
        dy: 3,
        dw: 2,
        pre_padding: vec![1; 2],
        post_padding: vec![0; 2],
        stride: vec![1; 2],
        dilation: vec![1; 2],
        conv_mode: ConvMode::CrossCorrelation,
    });
    assert_refused(&graph, &["(ConvolutionBackwardFilter)", "dy", "dims[2] is 2, expected 4"]);
}

fn training(change: impl Fn(&mut Batchnorm)) -> Graph {
    let mut tensors = vec![tensor(1, &[4, 3, 2]), tensor(2, &[4, 3, 2])];
    tensors.extend((3..=10).map(|uid| tensor(uid, &[1, 3, 1])));
    tensors.push(tensor(11, &[1]));
    tensors.push(tensor(12, &[3, 1]));
    tensors.push(tensor(13, &[4]));
    let mut operation = Batchnorm {
        x: 1,
        scale: 3,
        bias: 4,
        epsilon: 11,
        y: 2,
        prev_running_mean: Some(5),
        prev_running_variance: Some(6),
        momentum: Some(11),
        mean: Some(7),
        inv_variance: Some(8),
        next_running_mean: Some(9),
        next_running_variance: Some(10),
        peer_stats: vec![],
    };
    change(&mut operation);
    graph(tensors, vec![node(operation)])
}

#[test]
fn batchnorm_shapes_are_checked() {
    assert!(prepare(&training(|_| {})).is_ok());
    assert!(prepare(&training(|b| b.scale = 12)).is_ok(), "any one dimension may hold the channels");
    assert_refused(&training(|b| b.scale = 13), &["scale", "[4]", "3 element(s)"]);
    assert_refused(&training(|b| b.epsilon = 3), &["epsilon", "single element"]);
    assert_refused(&training(|b| b.y = 13), &["y", "[4]", "[4, 3, 2]"]);
    assert!(prepare(&training(|b| b.peer_stats = vec![3])).is_ok(), "one device's own buffer");
    assert_refused(&training(|b| b.peer_stats = vec![3, 4]), &["peer_stats", "2 tensors"]);
    assert_refused(
        &training(|b| b.prev_running_mean = None),
        &["prev_running_mean: absent", "next_running_variance"],
    );
    let no_results = |b: &mut Batchnorm| (b.next_running_mean, b.next_running_variance) = (None, None);
    assert!(prepare(&training(no_results)).is_ok(), "unwanted running statistics are not computed");
    assert_refused(&training(|b| b.x = 13), &["x: dims are [4]"]);

    let backward = BatchnormBackward {
        dy: 1,
        x: 1,
        scale: 3,
        dx: 2,
        dscale: 4,
        dbias: 5,
        mean: Some(6),
        inv_variance: None,
        peer_stats: vec![],
    };
    let mut graph = training(|_| {});
    graph.nodes[0] = node(backward.clone());
    assert_refused(&graph, &["inv_variance: absent", "or neither"]);
    graph.nodes[0] = node(BatchnormBackward { mean: None, inv_variance: Some(6), ..backward.clone() });
    assert_refused(&graph, &["mean: absent", "or neither"]);
    graph.nodes[0] = node(BatchnormBackward { mean: None, ..backward });
    assert!(prepare(&graph).is_ok());
}

#[test]
fn each_node_has_its_problem() {
    let prepared = prepare(&chain()).unwrap();
    let modes: Vec<_> = prepared
        .nodes()
        .map(|node| match (node.place, node.problem) {
            (place, Problem::Pointwise(pointwise)) => (place, pointwise.mode),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(modes, [(0, PointwiseMode::ReluFwd), (1, PointwiseMode::Abs)]);
    assert_eq!(prepared.readers(), Readers::from([(1, vec![0]), (2, vec![1])]));
    assert!(prepared.node(2).is_none());
    assert!(prepared.refusal(1, "no".to_owned()).starts_with("node 1 \"it\" (Pointwise): no"));
}

#[test]
fn problems_follow_changes_of_the_graph() {
    let mut prepared = prepare(&chain()).unwrap();
    prepared.graph.tensors[1].data_type = DataType::Half;
    prepared.update_problems().unwrap();
    let [Problem::Pointwise(first), Problem::Pointwise(second)] = prepared.problems.as_slice() else {
        panic!("{:?}", prepared.problems);
    };
    assert_eq!(first.output.data_type, DataType::Half);
    assert_eq!(second.inputs[0].operand.data_type, DataType::Half);
    prepared.graph.tensors[1].dims = vec![3];
    assert!(prepared.update_problems().unwrap_err().contains("node 0"));
}
