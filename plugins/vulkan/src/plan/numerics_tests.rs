use hipdnn_kernels::Scalar;
use hipdnn_kernels::target::VulkanDevice;
use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{Node, Operation, PointwiseMode, ReductionMode, Tensor};
use hipdnn_plugin_sdk::numerics::name_of;

use super::*;

fn product(data_type: DataType, compute_type: DataType, result: DataType) -> Graph {
    let mut tensors: Vec<Tensor> =
        (1..=3).map(|uid| Tensor::new(uid, data_type, &[64, 64], &[64, 1])).collect();
    tensors[2].data_type = result;
    let operation = Matmul { a: 1, b: 2, c: 3 }.into();
    let nodes = vec![Node { name: "m".to_owned(), compute_type, operation }];
    Graph { tensors, nodes, ..Graph::default() }
}

/// What is told on a device with these matrix shapes.
fn told(graph: &Graph, shapes: Vec<CooperativeShape>, batch_invariant: bool) -> Numerics {
    let name = "a device".to_owned();
    let device = VulkanDevice { name, subgroup: 32, shared: 48 << 10, threads: 1024, units: 0, shapes };
    let options = Options { has_doubles: false, batch_invariant };
    engine_numerics(graph, &device.into(), options).unwrap().numerics
}

/// The names of its notes.
fn notes(graph: &Graph, shapes: Vec<CooperativeShape>, batch_invariant: bool) -> Vec<&'static str> {
    told(graph, shapes, batch_invariant).notes.into_iter().map(name_of).collect()
}

#[test]
fn matrices_batches_and_subnormal_numbers_are_noted() {
    let shape = || {
        vec![CooperativeShape {
            m: 16,
            n: 16,
            k: 16,
            operand: Scalar::F16,
            sum: Scalar::F32,
            fragments: None,
        }]
    };
    let half = product(DataType::Half, DataType::Float, DataType::Half);
    let all = ["TENSOR_CORE", "SPLIT_SUMS", "BATCH_DEPENDENT", "FLUSH_SUBNORMALS"];
    assert_eq!(notes(&half, shape(), false), all);
    // As the knobs leave them.
    assert_eq!(notes(&half, Vec::new(), false), all[1..]);
    assert_eq!(notes(&half, shape(), true), ["TENSOR_CORE", "SPLIT_SUMS", "FLUSH_SUBNORMALS"]);
    // Sums of integers are exact.
    let bytes = product(DataType::Int8, DataType::Int32, DataType::Int32);
    assert!(notes(&bytes, Vec::new(), false).is_empty());
}

#[test]
fn maxima_keep_nan_and_depend_on_no_batch() {
    let mut graph = product(DataType::Float, DataType::Float, DataType::Float);
    graph.tensors.truncate(2);
    graph.tensors[1] = Tensor::new(2, DataType::Float, &[64, 1], &[1, 1]);
    let reduction = Reduction { in_: 1, out: 2, mode: ReductionMode::Max, is_deterministic: false };
    graph.nodes[0].operation = Operation::from(reduction);
    assert_eq!(notes(&graph, Vec::new(), false), ["STRICT_NAN_PROP", "FLUSH_SUBNORMALS"]);
}

#[test]
fn functions_have_the_errors_of_the_specification_and_sums_their_parts() {
    let mut graph = product(DataType::Float, DataType::Float, DataType::Float);
    graph.tensors.truncate(2);
    graph.nodes[0].operation = Pointwise::new(PointwiseMode::Exp, 1, None, 2).into();
    assert_eq!(told(&graph, Vec::new(), false).functions, [("exp", Some(261))].into());
    graph.nodes[0].operation = Pointwise::new(PointwiseMode::Sin, 1, None, 2).into();
    assert_eq!(told(&graph, Vec::new(), false).functions, [("sin", None)].into());
    graph.tensors = vec![
        Tensor::new(1, DataType::Float, &[64, 4096], &[4096, 1]),
        Tensor::new(2, DataType::Float, &[64, 1], &[1, 1]),
    ];
    let reduction = Reduction { in_: 1, out: 2, mode: ReductionMode::Add, is_deterministic: false };
    graph.nodes[0].operation = Operation::from(reduction);
    let parts = told(&graph, Vec::new(), false).parts;
    assert!(parts.is_some_and(|parts| parts > 1 && parts <= 1024), "{parts:?}");
}
