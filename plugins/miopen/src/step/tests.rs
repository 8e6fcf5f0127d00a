use hipdnn_plugin_sdk::graph::operation::{
    Layernorm, LayernormBackward, Reduction, ResampleBackward, ResampleForward, RmsNorm, RmsNormBackward,
};
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, Node, NormFwdPhase, Operation, PaddingMode, ReductionMode, ResampleMode, Tensor,
    TensorValue,
};

use crate::plan::check;

fn graph(tensors: Vec<Tensor>, operation: impl Into<Operation>) -> Graph {
    Graph {
        tensors,
        nodes: vec![Node { name: "n".to_owned(), ..Node::single(operation) }],
        ..Graph::default()
    }
}

fn refused(graph: &Graph, expected: &str) {
    let refusal = check(graph, None).unwrap_err().to_string();
    assert!(refusal.contains(expected), "{refusal}, expected {expected}");
}

fn pooling(mode: ResampleMode, padding_mode: PaddingMode, pre: i64, post: i64) -> Graph {
    let output = (6 + pre + post - 3) / 2 + 1;
    let node = ResampleForward {
        x: 1,
        y: 2,
        index: None,
        pre_padding: vec![pre, pre],
        post_padding: vec![post, post],
        stride: vec![2, 2],
        window: vec![3, 3],
        resample_mode: mode,
        padding_mode,
        generate_index: None,
    };
    let y = Tensor::packed(2, DataType::Float, &[1, 2, output, output]);
    graph(vec![Tensor::packed(1, DataType::Float, &[1, 2, 6, 6]), y], node)
}

/// The gradient of [`pooling`].
fn gradient(mode: ResampleMode, padding_mode: PaddingMode, pre: i64, post: i64) -> Graph {
    let mut graph = pooling(mode, padding_mode, pre, post);
    let index = (mode == ResampleMode::Maxpool).then_some(3);
    let node = ResampleBackward {
        dy: 2,
        dx: 1,
        index,
        pre_padding: vec![pre, pre],
        post_padding: vec![post, post],
        stride: vec![2, 2],
        window: vec![3, 3],
        resample_mode: mode,
        padding_mode,
    };
    graph.nodes[0].operation = node.into();
    if let Some(uid) = index {
        let index = Tensor { uid, data_type: DataType::Int32, ..graph.tensors[1].clone() };
        graph.tensors.push(index);
    }
    graph
}

#[test]
fn pooling_is_refused_if_miopen_places_windows_differently() {
    use PaddingMode::{NegInfPad, ZeroPad};
    use ResampleMode::{AvgpoolExcludePadding, Maxpool};
    for (mode, padding, pre, post) in
        [(Maxpool, NegInfPad, 1, 1), (Maxpool, ZeroPad, 0, 0), (AvgpoolExcludePadding, ZeroPad, 1, 1)]
    {
        assert_eq!(check(&gradient(mode, padding, pre, post), None), Ok(false));
        let forward = pooling(mode, padding, pre, post);
        if mode == Maxpool {
            refused(&forward, "resample_mode: is maxpool, which MIOpen computes without infinities");
        } else {
            assert_eq!(check(&forward, None), Ok(false));
        }
    }
    refused(&gradient(Maxpool, ZeroPad, 1, 1), "padding_mode: has zeros");
    for pooling in [pooling, gradient] {
        refused(&pooling(AvgpoolExcludePadding, NegInfPad, 0, 2), "post_padding[0]: makes the output 3 long");
        refused(
            &pooling(AvgpoolExcludePadding, NegInfPad, 3, 3),
            "pre_padding[0]: is 3, expected less than the window of 3",
        );
        let mut last = pooling(AvgpoolExcludePadding, NegInfPad, 1, 1);
        last.tensors[0].strides = vec![72, 1, 12, 2];
        last.tensors[1].strides = vec![18, 1, 6, 2];
        refused(&last, "x: is channels last");
        let mut bfloat16 = pooling(AvgpoolExcludePadding, NegInfPad, 1, 1);
        for tensor in &mut bfloat16.tensors {
            tensor.data_type = DataType::Bfloat16;
        }
        refused(&bfloat16, "x: data type is bfloat16");
    }
}

#[test]
fn reductions_are_refused_by_mode_and_type() {
    let reduction = |mode, out| {
        let node = Reduction { in_: 1, out: 2, mode, is_deterministic: false };
        graph(vec![Tensor::packed(1, DataType::Float, &[4, 6]), Tensor::packed(2, out, &[4, 1])], node)
    };
    assert_eq!(check(&reduction(ReductionMode::Norm2, DataType::Float), None), Ok(false));
    for mode in [ReductionMode::Max, ReductionMode::Min] {
        refused(&reduction(mode, DataType::Float), "which MIOpen computes without infinities");
    }
    refused(&reduction(ReductionMode::MulNoZeros, DataType::Float), "mode: is mul_no_zeros");
    refused(
        &reduction(ReductionMode::Add, DataType::Half),
        "out: data type is half, expected float as in in",
    );
}

#[test]
fn normalizations_are_refused_by_type_layout_and_bias() {
    let epsilon =
        Tensor { value: Some(TensorValue::Float32(1e-5)), ..Tensor::packed(4, DataType::Float, &[1]) };
    let tensors = |parameter: DataType| {
        let parameter = |uid| Tensor::packed(uid, parameter, &[1, 6]);
        let x = |uid| Tensor::packed(uid, DataType::Half, &[4, 6]);
        vec![x(1), parameter(2), parameter(3), epsilon.clone(), x(5)]
    };
    let forward_phase = NormFwdPhase::Inference;
    let layernorm = |parameter| {
        let node = Layernorm {
            x: 1,
            scale: 2,
            bias: 3,
            epsilon: 4,
            y: 5,
            mean: None,
            inv_variance: None,
            forward_phase,
            normalized_dim_count: 1,
        };
        graph(tensors(parameter), node)
    };
    assert_eq!(check(&layernorm(DataType::Half), None), Ok(false));
    refused(&layernorm(DataType::Float), "scale: data type is float, expected half as in x");
    let mut turned = layernorm(DataType::Half);
    turned.tensors[0].strides = vec![1, 4];
    refused(&turned, "x: dims [4, 6] and strides [1, 4]");
    let rms = |bias| {
        let node = RmsNorm { x: 1, scale: 2, bias, epsilon: 4, y: 5, inv_rms: None, forward_phase };
        graph(tensors(DataType::Half), node)
    };
    assert_eq!(check(&rms(None), None), Ok(false));
    refused(&rms(Some(3)), "bias: given");
}

#[test]
fn normalization_gradients_are_refused_except_rmsnorm() {
    let rms = |inv_rms, dbias| {
        let x = |uid| Tensor::packed(uid, DataType::Float, &[4, 6]);
        let places = |uid| Tensor::packed(uid, DataType::Float, &[1, 6]);
        let inverse = Tensor::packed(4, DataType::Float, &[4, 1]);
        let tensors = vec![x(1), x(2), places(3), inverse, x(5), places(6), places(7)];
        let node = RmsNormBackward { dy: 1, x: 2, scale: 3, inv_rms, dx: 5, dscale: 6, dbias };
        graph(tensors, node)
    };
    assert_eq!(check(&rms(Some(4), None), None), Ok(false));
    refused(&rms(Some(4), Some(7)), "dbias: given");
    let mut mixed = rms(Some(4), None);
    mixed.tensors[5].data_type = DataType::Half;
    refused(&mixed, "dscale: data type is half, expected float as in x");
    let x = |uid| Tensor::packed(uid, DataType::Float, &[4, 6]);
    let places = |uid| Tensor::packed(uid, DataType::Float, &[1, 6]);
    let rows = |uid| Tensor::packed(uid, DataType::Float, &[4, 1]);
    let node = LayernormBackward {
        dy: 1,
        x: 2,
        scale: 3,
        mean: Some(4),
        inv_variance: Some(5),
        epsilon: None,
        dx: 6,
        dscale: 7,
        dbias: 8,
        normalized_dim_count: 1,
    };
    let tensors = vec![x(1), x(2), places(3), rows(4), rows(5), x(6), places(7), places(8)];
    refused(&graph(tensors, node), "the gradient of a layernorm");
}
