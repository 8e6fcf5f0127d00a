use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, ConvolutionForward, Matmul, Pointwise, Reduction, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    DataType, Node, Operation, PointwiseMode, ReductionMode, Tensor, TensorValue,
};

use super::*;

const IMAGE: [i64; 4] = [2, 4, 5, 5];

fn graph(tensors: Vec<Tensor>, operations: Vec<Operation>) -> Prepared {
    let nodes = operations.into_iter().enumerate().map(|(place, operation)| Node {
        name: format!("n{place}"),
        compute_type: DataType::Float,
        operation,
    });
    prepare(&Graph { nodes: nodes.collect(), tensors, ..Graph::default() }).unwrap()
}

fn tensor(uid: i64, dims: &[i64]) -> Tensor {
    Tensor::packed(uid, DataType::Float, dims)
}

fn between(uid: i64, dims: &[i64]) -> Tensor {
    Tensor { is_virtual: true, ..tensor(uid, dims) }
}

fn convolution() -> Operation {
    ConvolutionForward::new(1, 2, 3, 2).into()
}

/// Convolution, batchnorm training, RELU.
fn block() -> Prepared {
    let channels = [1, 4, 1, 1];
    let mut epsilon = tensor(6, &[1]);
    epsilon.value = Some(TensorValue::Float32(1e-5));
    let tensors = vec![
        tensor(1, &IMAGE),
        tensor(2, &[4, 4, 1, 1]),
        between(3, &IMAGE),
        tensor(4, &channels),
        tensor(5, &channels),
        epsilon,
        between(7, &IMAGE),
        tensor(8, &IMAGE),
    ];
    let relu = Pointwise::new(PointwiseMode::ReluFwd, 7, None, 8);
    graph(tensors, vec![convolution(), Batchnorm::new(3, 4, 5, 6, 7).into(), relu.into()])
}

#[test]
fn only_graphs_that_other_engines_do_not_fuse_are_divided() {
    assert!(may_divide(&block()));
    let single =
        graph(vec![tensor(1, &IMAGE), tensor(2, &[4, 4, 1, 1]), tensor(3, &IMAGE)], vec![convolution()]);
    assert!(!may_divide(&single));

    let tensors = vec![tensor(1, &[4, 4]), between(2, &[4, 4]), tensor(3, &[4, 1])];
    let exp = Pointwise::new(PointwiseMode::Exp, 1, None, 2);
    let sum = Reduction { in_: 2, out: 3, mode: ReductionMode::Add, is_deterministic: false };
    assert!(!may_divide(&graph(tensors, vec![exp.into(), sum.into()])));

    // A chain that cuBLASLt computes in one call, and one without an epilogue in cuBLASLt.
    let chain = |mode| {
        let tensors = vec![tensor(1, &[4, 4]), tensor(2, &[4, 4]), between(3, &[4, 4]), tensor(4, &[4, 4])];
        let last = Pointwise::new(mode, 3, None, 4);
        graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into(), last.into()])
    };
    assert!(!may_divide(&chain(PointwiseMode::ReluFwd)));
    assert!(may_divide(&chain(PointwiseMode::SwishFwd)));
    assert!(may_divide(&chain(PointwiseMode::TanhFwd)));
}

#[test]
fn gradients_that_cublaslt_computes_in_one_call_are_not_divided() {
    // The gradient of a matmul followed by GELU.
    let of = |data_type, batch: i64| {
        let dims = [batch, 8, 8];
        let mut tensors =
            vec![tensor(1, &dims), tensor(2, &dims), between(3, &dims), tensor(4, &dims), tensor(5, &dims)];
        tensors.iter_mut().for_each(|tensor| tensor.data_type = data_type);
        let through = Pointwise::new(PointwiseMode::GeluApproxTanhBwd, 3, Some(4), 5);
        graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into(), through.into()])
    };
    for data_type in [DataType::Float, DataType::Half, DataType::Bfloat16] {
        assert!(!may_divide(&of(data_type, 1)) && !may_divide(&of(data_type, 3)), "{data_type:?}");
    }

    // The gradients of weights and of a bias, which sums an operand.
    let of = |batch: i64| {
        let dims = [batch, 8, 8];
        let tensors = vec![tensor(1, &dims), tensor(2, &dims), tensor(3, &dims), tensor(4, &[batch, 8, 1])];
        let sum = Reduction { in_: 1, out: 4, mode: ReductionMode::Add, is_deterministic: false };
        graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into(), sum.into()])
    };
    assert!(!may_divide(&of(1)));
    assert!(may_divide(&of(3)));
}

#[test]
fn unsupported_nodes_are_refused_before_a_device_is_needed() {
    let mut mask = tensor(2, &[4, 4]);
    mask.data_type = DataType::Boolean;
    let compare = Pointwise::new(PointwiseMode::CmpGt, 1, Some(3), 2);
    let prepared = graph(vec![tensor(1, &[4, 4]), mask, tensor(3, &[4, 4])], vec![compare.into()]);
    let asked = || Err(PluginError::internal("a device was asked for"));
    let refusal = parts(asked, &prepared, &Options::default(), &Found::default()).unwrap_err();
    assert!(refusal.message().starts_with("node 0 \"n0\""), "{refusal}");

    // The same in a graph that could be divided.
    let mut mask = tensor(4, &IMAGE);
    mask.data_type = DataType::Boolean;
    let tensors = vec![tensor(1, &IMAGE), tensor(2, &[4, 4, 1, 1]), between(3, &IMAGE), mask];
    let compare = Pointwise::new(PointwiseMode::CmpGt, 3, Some(1), 4);
    let prepared = graph(tensors, vec![convolution(), compare.into()]);
    assert!(may_divide(&prepared));
    let refusal = parts(asked, &prepared, &Options::default(), &Found::default()).unwrap_err();
    assert!(refusal.message().starts_with("node 1 \"n1\""), "{refusal}");

    let missing = parts(asked, &block(), &Options::default(), &Found::default()).unwrap_err();
    assert_eq!(missing.message(), "a device was asked for");
}

#[test]
fn a_refusal_of_one_node_names_it() {
    let prepared = block();
    let refusal = || PluginError::not_applicable("cuDNN has no engine for it");
    let one = named(&prepared, &(1..2), refusal());
    assert!(one.message().starts_with("node 1 \"n1\" (Batchnorm"), "{one}");
    assert_eq!(named(&prepared, &(1..3), refusal()), refusal());
}

#[test]
fn divisions_are_remembered_for_the_same_graph_options_and_context() {
    let graph = |name: &str| Graph { name: name.to_owned(), ..Graph::default() };
    let division = |name: &str, parts: &[Range<usize>]| Division {
        graph: graph(name),
        options: Options::default(),
        context: 77,
        parts: parts.to_vec(),
    };
    remember(division("a", &[0..1, 1..2]));
    remember(division("b", &[0..2, 2..3]));
    remember(division("a", &[0..3, 3..4]));
    let find = |name, options: &Options, context| known(&graph(name), options, context);
    assert_eq!(find("a", &Options::default(), 77), Some(vec![0..3, 3..4]));
    assert_eq!(find("b", &Options::default(), 77), Some(vec![0..2, 2..3]));
    assert_eq!(find("b", &Options::default(), 78), None);
    assert_eq!(find("b", &Options { tf32: true, ..Options::default() }, 77), None);
    for place in 0..DIVISIONS {
        remember(division(&format!("other {place}"), &[0..1, 1..3]));
    }
    assert_eq!(find("b", &Options::default(), 77), None);
    assert!(KNOWN.lock().len() <= DIVISIONS);
}

#[test]
fn attention_is_never_fused_with_other_nodes() {
    let heads = [1, 2, 8, 16];
    let tensors = vec![
        between(1, &heads),
        tensor(2, &heads),
        tensor(3, &heads),
        between(4, &heads),
        tensor(5, &heads),
        tensor(6, &heads),
        tensor(7, &heads),
    ];
    let before = Pointwise::new(PointwiseMode::Exp, 5, None, 1);
    let behind = Pointwise::new(PointwiseMode::Add, 4, Some(7), 6);
    let prepared = graph(tensors, vec![before.into(), Sdpa::new(1, 2, 3, 4).into(), behind.into()]);
    assert!(may_divide(&prepared));
    let found = [0..3, 0..2, 1..2, 1..3, 0..1, 2..3].map(|nodes| has_attention(&prepared, &nodes));
    assert_eq!(found, [true, true, true, true, false, false]);
}
