use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionForward, Layernorm, Matmul, Pointwise, ResampleBackward, Sdpa,
};
use hipdnn_plugin_sdk::graph::{ConvMode, NormFwdPhase, PaddingMode, PointwiseMode, ResampleMode};
use hipdnn_plugin_sdk::graph::{Node, Tensor};

use hipdnn_plugin_planner::prepare::prepare;

use super::*;
use crate::names::{
    BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, BACKEND_OPERATION_MATMUL_DESCRIPTOR,
    BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
};

fn graph(tensors: Vec<hipdnn_plugin_sdk::graph::Tensor>, operations: Vec<Operation>) -> Graph {
    let nodes = operations.into_iter().map(|operation| Node {
        name: "n".to_owned(),
        compute_type: DataType::Float,
        operation,
    });
    Graph {
        intermediate_type: DataType::Float,
        io_type: DataType::Float,
        compute_type: DataType::Float,
        nodes: nodes.collect(),
        tensors,
        ..Graph::default()
    }
}

fn tensor(uid: i64, dims: &[i64]) -> hipdnn_plugin_sdk::graph::Tensor {
    Tensor::new(uid, DataType::Half, dims, &packed(dims).strides)
}

/// Lowers a whole graph.
fn lower(graph: &Graph) -> Result<Lowered, Refusal> {
    super::lower(&prepare(graph)?, 0..graph.nodes.len())
}

fn kinds(lowered: &Lowered) -> Vec<c_int> {
    lowered.described.operations.iter().map(|operation| operation.kind).collect()
}

fn convolution(first: i64, dims: &[i64]) -> Graph {
    let spatial = dims.len() - 2;
    let filter: Vec<i64> = [&[6, dims[1]][..], &vec![1; spatial]].concat();
    let result: Vec<i64> = [&[dims[0], 6][..], &dims[2..]].concat();
    let mut product = tensor(first + 2, &result);
    product.is_virtual = true;
    let tensors = vec![tensor(first, dims), tensor(first + 1, &filter), product, tensor(first + 3, &result)];
    let convolution = ConvolutionForward {
        x: first,
        w: first + 1,
        y: first + 2,
        pre_padding: vec![0; spatial],
        post_padding: vec![0; spatial],
        stride: vec![1; spatial],
        dilation: vec![1; spatial],
        conv_mode: ConvMode::CrossCorrelation,
    };
    let relu = Pointwise::new(PointwiseMode::ReluFwd, first + 2, None, first + 3);
    graph(tensors, vec![convolution.into(), relu.into()])
}

/// cuDNN 9.19 computed nothing of the second group.
#[test]
fn nodes_without_a_common_tensor_are_not_computed_in_one_call() {
    let mut graph = convolution(1, &[2, 4, 5, 5]);
    graph.tensors.extend([tensor(5, &[2, 3, 5, 5]), tensor(6, &[2, 3, 5, 5])]);
    let copy = Pointwise::new(PointwiseMode::Identity, 5, None, 6);
    graph.nodes.push(Node { operation: copy.into(), ..graph.nodes[0].clone() });
    let prepared = prepare(&graph).unwrap();
    let refusal = super::lower(&prepared, 0..3).unwrap_err();
    assert_eq!(refusal, "2 groups of nodes without a tensor in common, expected one");
    assert!(super::lower(&prepared, 0..2).is_ok() && super::lower(&prepared, 2..3).is_ok());
}

/// With strides of both layouts cuDNN 9.19 returned NaN.
#[test]
fn images_of_one_pixel_have_channels_last_and_others_their_own_layout() {
    let strides = |graph: &Graph| -> Vec<Vec<i64>> {
        let lowered = lower(graph).unwrap();
        lowered.described.tensors.into_iter().map(|tensor| tensor.shape.strides).collect()
    };
    for strides in strides(&convolution(1, &[8, 4, 1, 1])) {
        let channels = strides[0];
        assert_eq!(strides, [channels, 1, channels, channels]);
    }
    let mut images = convolution(1, &[2, 4, 5, 5]);
    let found = strides(&images);
    assert!(found.contains(&vec![100, 25, 5, 1]) && found.contains(&vec![4, 1, 1, 1]), "{found:?}");
    for (tensor, strides) in images.tensors.iter_mut().zip([100, 4, 150, 150].map(|batch| [batch, 1, 4, 4])) {
        let width = if tensor.uid > 2 { 6 } else { 4 };
        let row = if tensor.uid == 2 { 1 } else { 5 * width };
        tensor.strides = vec![strides[0], strides[1], row, if tensor.uid == 2 { 1 } else { width }];
    }
    let found = strides(&images);
    assert!(found.contains(&vec![100, 1, 20, 4]) && found.contains(&vec![4, 1, 4, 4]), "{found:?}");
}

#[test]
fn convolutions_to_one_pixel_are_alone_unless_channels_lie_last() {
    let mut graph = convolution(1, &[2, 4, 5, 5]);
    for (tensor, dims) in graph.tensors.iter_mut().skip(1).zip([[6, 4, 5, 5], [2, 6, 1, 1], [2, 6, 1, 1]]) {
        (tensor.dims, tensor.strides) = (dims.to_vec(), packed(&dims).strides);
    }
    let refusal = lower(&graph).unwrap_err();
    assert!(refusal.contains("images of 25 and 1 pixels beside other operations"), "{refusal}");
    let prepared = prepare(&graph).unwrap();
    assert!(super::lower(&prepared, 0..1).is_ok() && super::lower(&prepared, 1..2).is_ok());
    graph.tensors[0].strides = vec![100, 1, 20, 4];
    assert!(lower(&graph).is_ok());
    // Of one channel, which has no order, to one pixel.
    for (tensor, dims) in graph.tensors.iter_mut().zip([[2, 1, 5, 5], [6, 1, 5, 5]]) {
        (tensor.dims, tensor.strides) = (dims.to_vec(), packed(&dims).strides);
    }
    let strides: Vec<_> =
        lower(&graph).unwrap().described.tensors.into_iter().map(|tensor| tensor.shape.strides).collect();
    assert!(strides.contains(&vec![25, 1, 5, 1]) && strides.contains(&vec![6, 1, 6, 6]), "{strides:?}");
}

#[test]
fn a_broadcast_result_cannot_be_computed_in_the_same_call() {
    let mut graph = convolution(1, &[2, 4, 1, 1]);
    let relu = graph.tensors.iter_mut().find(|tensor| tensor.uid == 4).unwrap();
    relu.is_virtual = true;
    graph.tensors.extend([tensor(5, &[2, 6, 3, 3]), tensor(6, &[2, 6, 3, 3])]);
    let product = Pointwise::new(PointwiseMode::Mul, 5, Some(4), 6);
    graph.nodes.push(Node { operation: product.into(), ..graph.nodes[0].clone() });
    let refusal = lower(&graph).unwrap_err();
    assert!(
        refusal.contains("tensor 4: has the dimensions [2, 6, 1, 1] and is computed in the same call"),
        "{refusal}"
    );
    let prepared = prepare(&graph).unwrap();
    assert!(super::lower(&prepared, 0..2).is_ok() && super::lower(&prepared, 2..3).is_ok());
}

#[test]
fn a_graph_becomes_one_list_of_operations_whatever_its_uids_are() {
    let lowered = lower(&convolution(7, &[2, 4, 5, 5])).unwrap();
    assert_eq!(
        kinds(&lowered),
        [BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, BACKEND_OPERATION_POINTWISE_DESCRIPTOR]
    );
    let mut uids = lowered.uids.clone();
    uids.sort_unstable();
    assert_eq!(uids, [7, 8, 10]);
    let virtuals = lowered.described.tensors.iter().filter(|tensor| tensor.place == Place::Virtual);
    assert_eq!(virtuals.count(), 1);
    assert_eq!(lower(&convolution(-5, &[2, 4, 5, 5])).unwrap().described, lowered.described);
    assert_ne!(lower(&convolution(7, &[2, 4, 5, 6])).unwrap().described, lowered.described);
}

#[test]
fn images_have_two_spatial_dimensions_at_least() {
    let lowered = lower(&convolution(1, &[2, 4, 5])).unwrap();
    assert!(lowered.described.tensors.iter().all(|tensor| tensor.shape.dims.len() == 4));
    assert_eq!(lowered.described.tensors[0].shape, packed(&[2, 4, 1, 5]));
}

#[test]
fn matrices_have_a_batch_and_products_of_floats_may_use_tf32() {
    let of = |data_type| {
        let tensors: Vec<_> = [(1, [3, 4]), (2, [4, 5]), (3, [3, 5])]
            .iter()
            .map(|(uid, dims)| Tensor::new(*uid, data_type, dims, &packed(dims).strides))
            .collect();
        lower(&graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into()])).unwrap()
    };
    let lowered = of(DataType::Half);
    assert_eq!(kinds(&lowered), [BACKEND_OPERATION_MATMUL_DESCRIPTOR]);
    assert_eq!(lowered.described.tensors[0].shape, packed(&[1, 3, 4]));
    assert!(!lowered.described.may_use_tf32);
    assert!(of(DataType::Float).described.may_use_tf32);
}

#[test]
fn rows_of_a_normalization_are_counted_by_one_dimension() {
    let mut epsilon = Tensor::new(4, DataType::Float, &[1], &[1]);
    epsilon.value = Some(TensorValue::Float32(1e-5));
    let tensors = vec![
        tensor(1, &[2, 3, 8]),
        tensor(2, &[8]),
        tensor(3, &[1, 1, 8]),
        epsilon,
        tensor(5, &[2, 3, 8]),
        Tensor::new(6, DataType::Float, &[2, 3], &[3, 1]),
    ];
    let norm = Layernorm {
        x: 1,
        scale: 2,
        bias: 3,
        epsilon: 4,
        y: 5,
        mean: Some(6),
        inv_variance: None,
        forward_phase: NormFwdPhase::NotSet,
        normalized_dim_count: 1,
    };
    let lowered = lower(&graph(tensors, vec![norm.into()])).unwrap();
    assert_eq!(kinds(&lowered), [BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR]);
    let dims: Vec<&[i64]> =
        lowered.described.tensors.iter().map(|tensor| tensor.shape.dims.as_slice()).collect();
    assert!(dims.contains(&[6, 8, 1, 1].as_slice()) && dims.contains(&[1, 8, 1, 1].as_slice()), "{dims:?}");
    // Results that are not requested are in scratch memory.
    assert_eq!(dims.iter().filter(|dims| **dims == [6, 1, 1, 1]).count(), 2);
    assert!(lowered.described.scratch >= 24);
}

#[test]
fn attention_is_lowered_to_two_matmuls_and_a_softmax() {
    let tensors = (1..=4).map(|uid| tensor(uid, &[2, 3, 8, 16])).collect();
    let sdpa = Sdpa { attn_scale_value: Some(0.25), causal_mask: true, ..Sdpa::new(1, 2, 3, 4) };
    let lowered = lower(&graph(tensors, vec![sdpa.clone().into()])).unwrap();
    let kinds = kinds(&lowered);
    let count = |kind| kinds.iter().filter(|other| **other == kind).count();
    assert_eq!(count(BACKEND_OPERATION_MATMUL_DESCRIPTOR), 2);
    assert_eq!(count(BACKEND_OPERATION_REDUCTION_DESCRIPTOR), 2);
    let keys = lowered.described.tensors.iter().find(|tensor| tensor.shape.dims == [2, 3, 16, 8]).unwrap();
    assert_eq!(keys.shape.strides, [384, 128, 1, 16]);

    let tensors = (1..=4).map(|uid| tensor(uid, &[2, 3, 8, 16])).collect();
    let alibi = Sdpa { alibi_mask: true, ..sdpa.clone() };
    let lowered = lower(&graph(tensors, vec![alibi.clone().into()])).unwrap().described;
    let slopes = lowered.tensors.iter().find(|tensor| tensor.shape.dims == [1, 3, 1, 1]).unwrap();
    let [(offset, bytes)] = &lowered.fills[..] else { panic!("filled with {:?}", lowered.fills) };
    assert_eq!(slopes.place, Place::Scratch(*offset));
    // The first two heads have the slopes of two heads, the third has the first of four.
    let expected = [1.0 / 16.0, 1.0 / 256.0, 1.0 / 4.0_f32];
    assert_eq!(*bytes, expected.map(f32::to_ne_bytes).concat());
    let tensors = (1..=4).map(|uid| tensor(uid, &[2, 3, 8, 16])).collect();
    let both_ways = Sdpa { causal_mask: false, ..alibi };
    let refusal = lower(&graph(tensors, vec![both_ways.into()])).unwrap_err();
    assert!(refusal.contains("alibi_mask: is true without causal_mask"), "{refusal}");

    let mut tensors: Vec<_> = (1..=4).map(|uid| tensor(uid, &[2, 3, 8, 16])).collect();
    tensors.push(Tensor::new(5, DataType::Float, &[3], &[1]));
    let sink = Sdpa { sink_token: Some(5), ..sdpa.clone() };
    let with_sink = lower(&graph(tensors, vec![sink.into()])).unwrap();
    assert_eq!(with_sink.described.operations.len(), kinds.len() + 4);
    let sinks = with_sink.described.tensors.iter().filter(|tensor| tensor.shape.dims == [1, 3, 1, 1]);
    assert_eq!(sinks.count(), 1);

    let with = |max, sum_exp| {
        let mut tensors: Vec<_> = (1..=4).map(|uid| tensor(uid, &[2, 3, 8, 16])).collect();
        tensors.extend([max, sum_exp].into_iter().flatten().map(|uid| tensor(uid, &[2, 3, 8, 1])));
        lower(&graph(tensors, vec![Sdpa { max, sum_exp, ..sdpa.clone() }.into()]))
    };
    assert!(with(Some(5), Some(6)).is_ok());
    for alone in [with(Some(5), None), with(None, Some(6))] {
        let refusal = alone.unwrap_err();
        assert!(refusal.contains("max or sum_exp without the other: given, which"), "{refusal}");
    }
}

#[test]
fn booleans_in_memory_are_refused_since_cudnn_packs_them() {
    let mut tensors = vec![tensor(1, &[4, 4]), tensor(2, &[4, 4]), tensor(3, &[4, 4])];
    tensors[2].data_type = DataType::Boolean;
    let compare = Pointwise::new(PointwiseMode::CmpGt, 1, Some(2), 3);
    let refusal = lower(&graph(tensors, vec![compare.into()])).unwrap_err();
    assert!(refusal.contains("tensor 3") && refusal.contains("boolean"), "{refusal}");
}

#[test]
fn a_matmul_with_a_shared_operand_needs_a_following_operation() {
    let of = |batch| {
        let tensors = vec![tensor(1, &[3, 4, 8]), tensor(2, &[batch, 8, 6]), tensor(3, &[3, 4, 6])];
        graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into()])
    };
    assert!(lower(&of(3)).is_ok());
    let refusal = lower(&of(1)).unwrap_err();
    assert!(refusal.contains("batches [3] and [1], expected equal ones"), "{refusal}");
    let mut chain = of(1);
    chain.tensors[2].is_virtual = true;
    chain.tensors.push(tensor(4, &[3, 4, 6]));
    let relu = graph(Vec::new(), vec![Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4).into()]);
    chain.nodes.extend(relu.nodes);
    assert!(lower(&chain).is_ok());
}

#[test]
fn select_conditions_become_booleans() {
    let tensors = (1..=4).map(|uid| tensor(uid, &[2, 3, 4, 5])).collect();
    let mut select = Pointwise::new(PointwiseMode::BinarySelect, 1, Some(2), 4);
    select.in_2 = Some(3);
    let lowered = lower(&graph(tensors, vec![select.into()])).unwrap();
    assert_eq!(kinds(&lowered), [BACKEND_OPERATION_POINTWISE_DESCRIPTOR; 2]);
    let truth = lowered.described.tensors.iter().find(|tensor| tensor.data_type == DATA_BOOLEAN).unwrap();
    assert_eq!(truth.place, Place::Virtual);
}

#[test]
fn a_per_channel_value_prevents_merging_images_to_matrices() {
    let shapes = |dims: &[i64]| {
        let tensors = vec![tensor(1, &[4, 16, 8, 10]), tensor(2, dims), tensor(3, &[4, 16, 8, 10])];
        let add = Pointwise::new(PointwiseMode::Add, 1, Some(2), 3);
        let lowered = lower(&graph(tensors, vec![add.into()])).unwrap();
        lowered.described.tensors.iter().map(|tensor| tensor.shape.dims.len()).collect::<Vec<_>>()
    };
    assert_eq!(shapes(&[4, 16, 8, 10]), [3; 3]);
    assert_eq!(shapes(&[1, 1, 1, 1]), [3; 3]);
    assert_eq!(shapes(&[1, 16, 1, 1]), [4; 3]);
}

#[test]
fn a_part_is_passed_the_tensors_it_shares() {
    let prepared = prepare(&convolution(7, &[2, 4, 5, 5])).unwrap();
    let [product, relu] = [0..1, 1..2].map(|part| super::lower(&prepared, part).unwrap());
    assert_eq!(kinds(&product), [BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR]);
    assert_eq!(kinds(&relu), [BACKEND_OPERATION_POINTWISE_DESCRIPTOR]);
    assert_eq!((product.uids, relu.uids), (vec![7, 8, 9], vec![10, 9]));
    for lowered in [product.described, relu.described] {
        assert!(lowered.tensors.iter().all(|tensor| matches!(tensor.place, Place::Given(_))));
    }
    assert_eq!(super::lower(&prepared, 0..3).unwrap_err(), "there are no such nodes");
}

#[test]
fn booleans_do_not_leave_a_part() {
    let mut tensors: Vec<_> = (1..=4).map(|uid| tensor(uid, &[4, 4])).collect();
    tensors[2].data_type = DataType::Boolean;
    tensors[2].is_virtual = true;
    let mut select = Pointwise::new(PointwiseMode::BinarySelect, 1, Some(2), 4);
    select.in_2 = Some(3);
    let compare = Pointwise::new(PointwiseMode::CmpGt, 1, Some(2), 3);
    let prepared = prepare(&graph(tensors, vec![compare.into(), select.into()])).unwrap();
    assert!(super::lower(&prepared, 0..2).is_ok());
    for (part, node) in [(0..1, "node 0"), (1..2, "node 1")] {
        let refusal = super::lower(&prepared, part).unwrap_err();
        assert!(refusal.starts_with(node) && refusal.contains("is boolean and in memory"), "{refusal}");
    }
}

#[test]
fn a_matmul_is_last_if_no_node_of_its_part_reads_it() {
    let mut tensors =
        vec![tensor(1, &[3, 4, 8]), tensor(2, &[1, 8, 6]), tensor(3, &[3, 4, 6]), tensor(4, &[3, 4, 6])];
    tensors[2].is_virtual = true;
    let relu = Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4);
    let prepared = prepare(&graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into(), relu.into()])).unwrap();
    assert!(super::lower(&prepared, 0..2).is_ok());
    assert!(super::lower(&prepared, 0..1).unwrap_err().contains("expected equal ones"));
}

#[test]
fn rows_are_no_longer_than_cudnn_supports() {
    let relu = |dims: &[i64]| {
        let tensors = vec![tensor(1, dims), tensor(2, dims)];
        let lowered = lower(&graph(tensors, vec![Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2).into()]));
        lowered.map(|lowered| lowered.described.tensors.into_iter().map(|tensor| tensor.shape).collect())
    };
    let twice = |dims: &[i64]| Ok(vec![packed(dims); 2]);
    assert_eq!(relu(&[128, 64, 32, 32]), twice(&[1, 1 << 13, 1 << 10]));
    assert_eq!(relu(&[100_000_000]), twice(&[1, 156_250, 640]));
    assert_eq!(relu(&[4, 1 << 23]), twice(&[1, 4 << 13, 1 << 10]));
    assert_eq!(relu(&[4, 16, 8, 10]), twice(&[1, 5, 1024]));
    assert_eq!(relu(&[4, 16, 4, 4]), twice(&[1, 1, 1024]));
    let refusal = relu(&[100_000_007]).unwrap_err();
    assert!(refusal.starts_with("100000007 elements lie in a row, expected at most 262144"), "{refusal}");
}

#[test]
fn pooling_gradients_need_channels_last_in_both_tensors() {
    let pooling = |dy_strides: &[i64], dx_strides: &[i64]| {
        let of = |uid, dims: &[i64], strides: &[i64]| Tensor::new(uid, DataType::Half, dims, strides);
        let tensors = vec![of(1, &[2, 16, 1, 1], dy_strides), of(2, &[2, 16, 4, 5], dx_strides)];
        let gradient = ResampleBackward {
            dy: 1,
            dx: 2,
            index: None,
            pre_padding: vec![0; 2],
            post_padding: vec![0; 2],
            stride: vec![4, 5],
            window: vec![4, 5],
            resample_mode: ResampleMode::AvgpoolExcludePadding,
            padding_mode: PaddingMode::ZeroPad,
        };
        let lowered = lower(&graph(tensors, vec![gradient.into()]))?;
        Ok::<_, Refusal>(lowered.described.tensors.into_iter().map(|t| t.shape.strides).collect::<Vec<_>>())
    };
    // The layout of one pixel is ambiguous, so cuDNN is told the other tensor's.
    let last = [320, 1, 80, 16];
    for dy in [[16, 1, 1, 1], [16, 1, 16, 16]] {
        assert_eq!(pooling(&dy, &last).unwrap(), [vec![16, 1, 16, 16], last.to_vec()]);
        let refusal = pooling(&dy, &[320, 20, 5, 1]).unwrap_err();
        assert!(refusal.contains("dx: channels are not innermost"), "{refusal}");
    }
    assert!(pooling(&[32, 2, 1, 1], &last).unwrap_err().contains("dy: channels are not innermost"));
}

#[test]
fn head_elements_are_contiguous_for_vector_loads() {
    let refusal = |data_type, changed: i64, strides: [i64; 4]| {
        let of = |uid| {
            let packed = packed(&[2, 4, 16, 32]).strides;
            Tensor::new(uid, data_type, &[2, 4, 16, 32], if uid == changed { &strides } else { &packed })
        };
        let tensors = (1..=4).map(of).collect();
        lower(&graph(tensors, vec![Sdpa::new(1, 2, 3, 4).into()])).err().unwrap_or_default()
    };
    // Heads innermost, like channels in PyTorch's channels_last.
    for (uid, name) in [(1, "q"), (2, "k"), (3, "v"), (4, "o")] {
        let said = refusal(DataType::Float, uid, [2048, 1, 128, 4]);
        assert!(said.contains(&format!("{name}: stride of the last dimension is 4, expected 1")), "{said}");
    }
    let said = refusal(DataType::Half, 2, [2064, 516, 36, 1]);
    assert!(
        said.contains("k: a stride is 516 elements of 2 bytes, expected a multiple of 16 bytes"),
        "{said}"
    );
    // With wider elements the same strides are multiples; there may be gaps between sequences, heads and
    // rows.
    assert_eq!(refusal(DataType::Float, 2, [2304, 576, 36, 1]), "");
    assert_eq!(refusal(DataType::Half, 3, [2048, 32, 128, 1]), "");
}

#[test]
fn block_scales_are_lowered_for_matmul_operands() {
    use hipdnn_plugin_sdk::graph::operation::{BlockScaleDequantize, BlockScaleQuantize};

    let of = |block_size: Vec<i32>, scales: &[i64], is_negative_scale| {
        let mut tensors =
            vec![tensor(1, &[2, 4, 64]), tensor(2, scales), tensor(3, &[2, 4, 64]), tensor(4, &[2, 64, 8])];
        (tensors[0].data_type, tensors[1].data_type) = (DataType::Fp8E4m3, DataType::Fp8E8m0);
        tensors[2].is_virtual = true;
        tensors.push(tensor(5, &[2, 4, 8]));
        let node = BlockScaleDequantize { x: 1, scale: 2, y: 3, block_size, is_negative_scale };
        lower(&graph(tensors, vec![node.into(), Matmul { a: 3, b: 4, c: 5 }.into()]))
    };
    let lowered = of(vec![32], &[2, 4, 2], false).unwrap();
    assert_eq!(lowered.described.operations[0].attributes.last().unwrap().1, Value::Counts(vec![1, 32]));
    assert_eq!(lowered.described.tensors[1].data_type, DATA_FP8_E8M0);
    let lowered = of(vec![2, 32], &[2, 2, 2], false).unwrap();
    assert_eq!(lowered.described.operations[0].attributes.last().unwrap().1, Value::Counts(vec![2, 32]));
    let refusal = of(vec![2, 2, 32], &[1, 2, 2], false).unwrap_err();
    assert!(refusal.contains("block_size: blocks are [2, 2, 32], expected those of a matrix"), "{refusal}");
    assert!(of(vec![32], &[2, 4, 2], true).unwrap_err().contains("is_negative_scale: is true"));

    let mut tensors = vec![tensor(1, &[4, 64]), tensor(2, &[4, 64]), tensor(3, &[4, 2])];
    (tensors[1].data_type, tensors[2].data_type) = (DataType::Fp8E4m3, DataType::Fp8E8m0);
    let quantize = BlockScaleQuantize { x: 1, y: 2, scale: 3, block_size: 32, axis: None, transpose: false };
    let refusal = lower(&graph(tensors, vec![quantize.into()])).unwrap_err();
    assert!(refusal.contains("operation: makes scales"), "{refusal}");
}

#[test]
fn scales_of_8_bit_floats_are_aligned() {
    let refusal = |data_type, alignment| {
        let mut tensors = vec![tensor(1, &[2, 16, 64]), tensor(2, &[2, 64, 16]), tensor(3, &[2, 16, 16])];
        tensors.extend([tensor(4, &[1, 1, 1]), tensor(5, &[2, 16, 16])]);
        (tensors[0].data_type, tensors[1].data_type) = (data_type, data_type);
        tensors[2].is_virtual = true;
        tensors[3].alignment = alignment;
        let scaled = Pointwise::new(PointwiseMode::Mul, 3, Some(4), 5);
        lower(&graph(tensors, vec![Matmul { a: 1, b: 2, c: 3 }.into(), scaled.into()])).err()
    };
    assert_eq!(refusal(DataType::Fp8E5m2, 16), None);
    assert_eq!(refusal(DataType::Half, 4), None);
    let expected = "alignment is 4, expected 16 for a scale of 8-bit floats";
    assert!(refusal(DataType::Fp8E4m3, 4).is_some_and(|refusal| refusal.contains(expected)));
}
