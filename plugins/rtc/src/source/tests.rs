use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::operation::{
    BatchnormInference, ConvolutionForward, LayernormBackward, Pointwise, Reduction, ResampleForward, RmsNorm,
};
use hipdnn_plugin_sdk::graph::{
    DataType, NormFwdPhase, Operation, PaddingMode, PointwiseMode, ReductionMode, ResampleMode, Tensor,
    TensorValue,
};

use super::kernel::Argument;
use super::*;

/// A graph with dense tensors 1, 2, 3 and so on of these dims, each virtual or not.
pub(super) fn graph(tensors: &[(&[i64], bool)], operations: Vec<Operation>) -> Graph {
    use hipdnn_plugin_sdk::graph::Node;
    let tensors = tensors.iter().zip(1..).map(|((dims, is_virtual), uid)| {
        let strides: Vec<i64> = (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect();
        Tensor { is_virtual: *is_virtual, ..Tensor::new(uid, DataType::Float, dims, &strides) }
    });
    let nodes = operations.into_iter().map(|operation| Node {
        name: "n".to_owned(),
        compute_type: DataType::Float,
        operation,
    });
    Graph { tensors: tensors.collect(), nodes: nodes.collect(), ..Graph::default() }
}

fn pointwise(operation: PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Operation {
    Operation::from(Pointwise::new(operation, in_0, in_1, out_0))
}

fn reduction(in_: i64, out: i64, mode: ReductionMode) -> Operation {
    Operation::from(Reduction { in_, out, mode, is_deterministic: false })
}

pub(super) fn memory(program: &Program, kernel: usize) -> Vec<i64> {
    let arguments = program.kernels[kernel].arguments.iter();
    arguments
        .map(|argument| match argument {
            Argument::Memory { uid, .. } | Argument::Number { uid, .. } => *uid,
        })
        .collect()
}

const WHOLE: (&[i64], bool) = (&[8, 64], false);
const BETWEEN: (&[i64], bool) = (&[8, 64], true);
const ROWS_BETWEEN: (&[i64], bool) = (&[8, 1], true);

/// exp(x - max) / sum
fn softmax() -> Graph {
    graph(
        &[WHOLE, ROWS_BETWEEN, BETWEEN, BETWEEN, ROWS_BETWEEN, WHOLE],
        vec![
            reduction(1, 2, ReductionMode::Max),
            pointwise(PointwiseMode::Sub, 1, Some(2), 3),
            pointwise(PointwiseMode::Exp, 3, None, 4),
            reduction(4, 5, ReductionMode::Add),
            pointwise(PointwiseMode::Div, 4, Some(5), 6),
        ],
    )
}

#[test]
fn a_chain_is_one_kernel_that_reads_inputs_and_writes_outputs_once() {
    let chain = graph(
        &[WHOLE, WHOLE, BETWEEN, BETWEEN, WHOLE],
        vec![
            pointwise(PointwiseMode::Add, 1, Some(2), 3),
            pointwise(PointwiseMode::Mul, 3, Some(1), 4),
            pointwise(PointwiseMode::ReluFwd, 4, None, 5),
        ],
    );
    let program = generate(&chain).unwrap();
    assert_eq!((program.kernels.len(), program.placed.virtuals().size), (1, 0));
    assert_eq!(memory(&program, 0), [1, 2, 5]);
    assert_eq!(program.kernels[0].nodes, [0, 1, 2]);
    let text = &program.kernels[0].text;
    assert_eq!(text.matches("= *(const pack<f32, 4> *)").count(), 2, "{text}");
    assert_eq!(text.matches("*(pack<f32, 4> *)").count(), 1, "{text}");
    assert!(program.kernels[0].arguments.contains(&Argument::Memory { uid: 5, alignment: 16 }));
    assert_eq!((program.kernels[0].block, program.kernels[0].grid), (256, 1));
}

#[test]
fn softmax_reads_its_rows_once_as_long_as_threads_can_keep_them() {
    let program = generate(&softmax()).unwrap();
    assert_eq!((program.kernels.len(), memory(&program, 0)), (1, vec![1, 6]));
    let reads = |program: &Program| program.kernels[0].text.matches("(const pack<").count();
    assert_eq!(reads(&program), 1);
    let long = generate(&softmax_of(64, 1 << 20)).unwrap();
    assert_eq!((long.kernels.len(), reads(&long)), (1, 3));
}

#[test]
fn loops_over_long_rows_are_not_unrolled() {
    // Sums keep nothing, however long the row.
    let sum = |columns: i64| {
        let operations = vec![reduction(1, 2, ReductionMode::Add)];
        let program = generate(&graph(&[(&[64, columns], false), (&[64, 1], false)], operations)).unwrap();
        program.kernels[0].text.clone()
    };
    assert!(!sum(1 << 14).contains("#pragma unroll 4"));
    assert!(sum(1 << 22).contains("#pragma unroll 4"));
}

fn softmax_of(rows: i64, columns: i64) -> Graph {
    let mut graph = softmax();
    for tensor in &mut graph.tensors {
        tensor.dims[0] = rows;
        if tensor.dims[1] > 1 {
            (tensor.dims[1], tensor.strides[0]) = (columns, columns);
        }
    }
    graph
}

#[test]
fn a_softmax_multiplies_by_the_reciprocal_of_its_sum_and_other_quotients_divide() {
    let text = |graph: &Graph| generate(graph).unwrap().kernels[0].text.clone();
    let own = text(&softmax());
    assert!(own.contains("= 1 / v6;") && own.contains("= v4 * v7;"), "{own}");
    // Without subtracting the maximum the sum may underflow; rounded powers differ from those in the sum; any
    // other sum is arbitrary.
    let mut raw = softmax();
    raw.nodes[1].operation = pointwise(PointwiseMode::Mul, 1, Some(2), 3);
    let mut rounded = softmax();
    rounded.tensors[3].data_type = DataType::Half;
    let mut other = softmax();
    other.nodes[3].operation = reduction(3, 5, ReductionMode::Add);
    for graph in [raw, rounded, other] {
        let text = text(&graph);
        assert!(!text.contains("= 1 / v") && text.contains(" / v"), "{text}");
    }
}

#[test]
fn stored_values_are_rounded_once() {
    let mut chain = graph(&[WHOLE, WHOLE], vec![pointwise(PointwiseMode::Neg, 1, None, 2)]);
    chain.tensors[1].data_type = DataType::Bfloat16;
    let text = generate(&chain).unwrap().kernels[0].text.clone();
    assert!(!text.contains("bf16::store"), "{text}");
    assert_eq!(text.matches("pack<bf16, 4>::of(").count(), 1, "{text}");
}

#[test]
fn floats_of_eight_bits_are_elements_but_not_arguments() {
    let mut chain = graph(&[WHOLE, WHOLE], vec![pointwise(PointwiseMode::Neg, 1, None, 2)]);
    (chain.tensors[0].data_type, chain.tensors[1].data_type) = (DataType::Fp8E5m2, DataType::Fp8E4m3);
    let text = generate(&chain).unwrap().kernels[0].text.clone();
    assert!(text.contains("e5m2") && text.contains("pack<e4m3, "), "{text}");
    chain.tensors[0].dims = vec![1, 1];
    chain.tensors[0].is_runtime_pass_by_value = true;
    assert!(generate(&chain).unwrap_err().contains("an 8-bit float as its value"));
}

#[test]
fn rows_are_kept_in_registers_in_memory_format_while_they_fit() {
    let kept = |columns: i64, data_type: DataType| {
        let mut graph = softmax();
        for tensor in &mut graph.tensors {
            if tensor.dims[1] > 1 {
                (tensor.dims[1], tensor.strides[0]) = (columns, columns);
            }
        }
        (graph.tensors[0].data_type, graph.tensors[5].data_type) = (data_type, data_type);
        let text = generate(&graph).unwrap().kernels[0].text.clone();
        (text.contains("> p0["), text.contains("float k4["))
    };
    assert_eq!(kept(8192, DataType::Bfloat16), (true, true));
    // 1024 threads with 40 values each.
    assert_eq!(kept(40 << 10, DataType::Float), (true, true));
    assert_eq!(kept(44 << 10, DataType::Float), (false, false));
}

#[test]
fn tensors_between_kernels_are_in_the_workspace() {
    // The sums of rows, and their maximum over the first dimension.
    let graph = graph(
        &[WHOLE, ROWS_BETWEEN, (&[1, 1], false)],
        vec![reduction(1, 2, ReductionMode::Add), reduction(2, 3, ReductionMode::Max)],
    );
    let program = generate(&graph).unwrap();
    assert_eq!((memory(&program, 0), memory(&program, 1)), (vec![1, 2], vec![2, 3]));
    assert_eq!(program.kernels.iter().map(|kernel| kernel.nodes.clone()).collect::<Vec<_>>(), [[0], [1]]);
    assert_eq!((program.placed.virtuals().places.len(), program.placed.virtuals().size), (1, ALIGNMENT));
}

#[test]
fn unread_results_are_outputs_with_a_place_in_the_workspace() {
    // Only this kernel reads tensor 2, and nothing reads tensor 3.
    let nodes = vec![pointwise(PointwiseMode::Exp, 1, None, 2), pointwise(PointwiseMode::Neg, 2, None, 3)];
    let program = generate(&graph(&[WHOLE, BETWEEN, BETWEEN], nodes)).unwrap();
    assert_eq!((program.kernels.len(), memory(&program, 0)), (1, vec![1, 3]));
    assert_eq!(program.placed.virtuals().places.iter().map(|place| place.uid).collect::<Vec<_>>(), [3]);
}

#[test]
fn statistics_of_another_rank_go_through_memory() {
    let operation = RmsNorm {
        x: 1,
        scale: 2,
        epsilon: 3,
        y: 4,
        bias: None,
        inv_rms: Some(5),
        forward_phase: NormFwdPhase::Training,
    };
    let operations = vec![Operation::from(operation), pointwise(PointwiseMode::Mul, 4, Some(5), 6)];
    let tensors = |rows| [WHOLE, (&[1, 64][..], false), (&[1][..], false), BETWEEN, (rows, true), WHOLE];
    let same_rank = generate(&graph(&tensors(&[8, 1]), operations.clone())).unwrap();
    assert_eq!((same_rank.kernels.len(), memory(&same_rank, 0)), (1, vec![1, 3, 2, 6]));
    // A one-dimensional tensor is broadcast along the last dimension, whose size differs.
    let refusal = generate(&graph(&tensors(&[8]), operations)).unwrap_err();
    assert!(refusal.starts_with("node 1") && refusal.contains("do not spread"), "{refusal}");
}

#[test]
fn gradients_are_two_kernels_and_a_third_without_saved_statistics() {
    let backward = |mean: Option<i64>| {
        Operation::from(LayernormBackward {
            dy: 1,
            x: 2,
            scale: 3,
            mean,
            inv_variance: mean.map(|_| 5),
            epsilon: Some(6),
            dx: 7,
            dscale: 8,
            dbias: 9,
            normalized_dim_count: 1,
        })
    };
    let (places, rows): (&[i64], &[i64]) = (&[1, 64], &[8, 1]);
    let tensors = [
        WHOLE,
        WHOLE,
        (places, false),
        (rows, false),
        (rows, false),
        (&[1][..], false),
        WHOLE,
        (places, false),
        (places, false),
    ];
    let program = generate(&graph(&tensors, vec![backward(Some(4))])).unwrap();
    assert_eq!((memory(&program, 0), memory(&program, 1)), (vec![2, 1, 5, 4, 3, 7], vec![2, 1, 5, 4, 8, 9]));
    assert!(program.kernels.iter().all(|kernel| kernel.nodes == [0]));
    // Mean and inverse have new uids, and places in the workspace.
    let program = generate(&graph(&tensors, vec![backward(None)])).unwrap();
    let (mean, inverse) = (0, 12);
    assert_eq!(program.kernels.len(), 3);
    let mut first = memory(&program, 0);
    first.sort_unstable();
    assert_eq!(first, [mean, 2, 6, inverse]);
    assert_eq!(memory(&program, 1), [2, 1, inverse, mean, 3, 7]);
    assert_eq!(memory(&program, 2), [2, 1, inverse, mean, 8, 9]);
    assert_eq!((program.placed.virtuals().places.len(), program.placed.virtuals().size), (2, 2 * ALIGNMENT));
}

#[test]
fn long_chains_are_split_at_the_tensor_limit() {
    let mut tensors = vec![WHOLE];
    let mut operations = Vec::new();
    for uid in 1..=200 {
        tensors.push(if uid == 200 { WHOLE } else { BETWEEN });
        operations.push(pointwise(PointwiseMode::SigmoidFwd, uid, None, uid + 1));
    }
    let program = generate(&graph(&tensors, operations)).unwrap();
    assert_eq!(program.kernels.len(), 4);
    for kernel in &program.kernels {
        assert_eq!(kernel.arguments.len(), 2);
    }
}

#[test]
fn the_first_unsupported_node_is_named() {
    let mut small = softmax();
    small.tensors[0].data_type = DataType::Fp8E8m0;
    let mut integer = softmax();
    integer.nodes[0].compute_type = DataType::Int32;
    let mut large = softmax();
    large.tensors[0].strides[0] = 1 << 40;
    for (graph, expected) in [
        (small, "data type is fp8_e8m0"),
        (integer, "compute type is int32"),
        (large, "expected at most 2147483647"),
    ] {
        let refusal = generate(&graph).unwrap_err();
        assert!(refusal.starts_with("node 0 \"n\"") && refusal.contains(expected), "{refusal}");
    }
}

/// A 3x3 convolution of 1 with 2 into 3.
fn convolution(padding: i64) -> ConvolutionForward {
    ConvolutionForward {
        pre_padding: vec![padding; 2],
        post_padding: vec![padding; 2],
        ..ConvolutionForward::new(1, 2, 3, 2)
    }
}

const X: (&[i64], bool) = (&[2, 4, 6, 8], false);
const W: (&[i64], bool) = (&[8, 4, 3, 3], false);
const CONVOLVED: (&[i64], bool) = (&[2, 8, 6, 8], true);

#[test]
fn operations_after_a_convolution_are_fused_to_it() {
    let mut graph = graph(
        &[X, W, CONVOLVED, (&[1, 8, 1, 1], false), CONVOLVED, (&[2, 8, 6, 8], false)],
        vec![
            convolution(1).into(),
            pointwise(PointwiseMode::Add, 3, Some(4), 5),
            pointwise(PointwiseMode::ReluFwd, 5, None, 6),
        ],
    );
    for uid in [1, 2, 4, 6] {
        graph.tensors[uid - 1].data_type = DataType::Half;
    }
    let program = generate(&graph).unwrap();
    assert_eq!((program.kernels.len(), program.placed.virtuals().size), (1, 0));
    assert_eq!(memory(&program, 0), [1, 2, 4, 6]);
    let kernel = &program.kernels[0];
    // One element per thread, accumulated in float until the end.
    assert_eq!((kernel.block, kernel.grid), (256, 3));
    let call = "const float v0 = kernel_0_v0(a0, a1, o2, o3, o4, o5);";
    assert_eq!(kernel.text.matches(call).count(), 1, "{}", kernel.text);
    assert!(kernel.text.contains("const float v2 = v0 + v1;"), "{}", kernel.text);
}

#[test]
fn depthwise_convolutions_with_channels_last_are_made_in_strips() {
    const IMAGE: &[i64] = &[4, 48, 32, 40];
    let of = |strides: [i64; 4]| {
        let mut graph = graph(
            &[(IMAGE, false), (&[48, 1, 3, 3], false), (IMAGE, true), (IMAGE, false)],
            vec![convolution(1).into(), pointwise(PointwiseMode::ReluFwd, 3, None, 4)],
        );
        for uid in [1, 3, 4] {
            graph.tensors[uid - 1].strides = strides.to_vec();
        }
        generate(&graph).unwrap()
    };
    let program = of([48 * 32 * 40, 1, 48 * 40, 48]);
    let [kernel] = program.kernels.as_slice() else { panic!("{} kernels", program.kernels.len()) };
    // Five elements for each thread, and the filters of 24 channels in shared memory, in pitches of 9.
    assert_eq!((kernel.block, kernel.grid), (192, 4 * 48 * 32 * 40 / 5 / 192));
    assert!(kernel.text.contains("__shared__ float staged_v0[216];"), "{}", kernel.text);
    assert!(kernel.text.contains("kernel_0_v0(g0, a0, staged_v0, o"), "{}", kernel.text);
    // Channels apart: an element for each thread.
    let program = of([48 * 32 * 40, 32 * 40, 40, 1]);
    assert_eq!(program.kernels[0].grid, 4 * 48 * 32 * 40 / 256);
    assert!(!program.kernels[0].text.contains("staged"));
}

#[test]
fn a_batchnorm_with_given_statistics_joins_the_kernel_before_it() {
    const CHANNELS: (&[i64], bool) = (&[1, 8, 1, 1], false);
    let normalization = BatchnormInference { x: 3, mean: 4, inv_variance: 5, scale: 6, bias: 7, y: 8 };
    let operations =
        vec![convolution(1).into(), normalization.into(), pointwise(PointwiseMode::ReluFwd, 8, None, 9)];
    let tensors = [X, W, CONVOLVED, CHANNELS, CHANNELS, CHANNELS, CHANNELS, CONVOLVED, (CONVOLVED.0, false)];
    let program = generate(&graph(&tensors, operations)).unwrap();
    assert_eq!((program.kernels.len(), program.placed.virtuals().size), (1, 0));
    assert_eq!(memory(&program, 0), [1, 2, 4, 5, 6, 7, 9]);
    let text = &program.kernels[0].text;
    assert!(text.contains("= (v0 - v1) * v2 * v3 + v4;"), "{text}");
}

#[test]
fn gathered_values_are_computed_once() {
    // A maximum per channel in the same kernel would compute the convolution twice.
    let statistics = vec![convolution(1).into(), reduction(3, 4, ReductionMode::Max)];
    let program = generate(&graph(&[X, W, CONVOLVED, (&[1, 8, 1, 1], false)], statistics)).unwrap();
    assert_eq!((memory(&program, 0), memory(&program, 1)), (vec![1, 2, 3], vec![3, 4]));
    // The input of a convolution must be complete.
    let twice = vec![pointwise(PointwiseMode::Exp, 4, None, 1), convolution(1).into()];
    let program = generate(&graph(
        &[(&[2, 8, 6, 8], true), (&[8, 8, 3, 3], false), (&[2, 8, 6, 8], false), (&[2, 8, 6, 8], false)],
        twice,
    ))
    .unwrap();
    assert_eq!((memory(&program, 0), memory(&program, 1)), (vec![4, 1], vec![1, 2, 3]));
}

#[test]
fn windows_are_refused_by_extent_and_type() {
    let tensors = [X, W, (&[2, 8, 6, 8], false)];
    let convolved = |change: &dyn Fn(&mut Graph)| {
        let mut graph = graph(&tensors, vec![convolution(1).into()]);
        change(&mut graph);
        generate(&graph).unwrap_err()
    };
    let by_value = |graph: &mut Graph| {
        graph.tensors[0].dims = vec![1; 4];
        graph.tensors[0].strides = vec![1; 4];
        graph.tensors[0].value = Some(TensorValue::Float32(2.0));
        graph.tensors[1].dims[1] = 1;
        (graph.tensors[2].dims, graph.tensors[2].strides) = (vec![1, 8, 1, 1], vec![8, 1, 1, 1]);
    };
    let far = |graph: &mut Graph| {
        let Operation::ConvolutionForward(node) = &mut graph.nodes[0].operation else { return };
        (node.pre_padding[0], node.stride[0]) = (1 << 40, 1 << 40);
        graph.tensors[2].dims[2] = 2;
    };
    for (refusal, expected) in [
        (convolved(&|graph| graph.tensors[1].data_type = DataType::Int8), "w: data type is int8"),
        (convolved(&by_value), "x: is passed by value"),
        (convolved(&far), "pre_padding[0]: windows reach over 1099511627782 elements"),
    ] {
        assert!(refusal.starts_with("node 0 \"n\"") && refusal.contains(expected), "{refusal}");
    }
    // A window that is outside a small image except for one element.
    let pooling = ResampleForward {
        x: 1,
        y: 2,
        index: None,
        pre_padding: vec![1 << 13; 2],
        post_padding: vec![1 << 13; 2],
        stride: vec![1; 2],
        window: vec![1 << 13; 2],
        resample_mode: ResampleMode::Maxpool,
        padding_mode: PaddingMode::ZeroPad,
        generate_index: None,
    };
    let side = (1 << 13) + 6 + 1;
    let refusal =
        generate(&graph(&[(&[1, 1, 6, 6], false), (&[1, 1, side, side], false)], vec![pooling.into()]))
            .unwrap_err();
    assert!(refusal.contains("window: is [8192, 8192], expected at most 16777216 positions"), "{refusal}");
}

#[test]
fn workgroups_share_rows_that_are_few_and_long() {
    let program = generate(&softmax_of(2, 1 << 20)).unwrap();
    // The maximum and the sum, each of parts and then combined, and the quotients.
    let grids: Vec<u32> = program.kernels.iter().map(|kernel| kernel.grid).collect();
    assert_eq!(grids.len(), 5, "{grids:?}");
    assert!(grids[0] >= 256 && grids[2] >= 256 && grids[4] >= 256, "{grids:?}");
    assert!(program.placed.virtuals().size > 0);
    let text = program.source(HIP);
    assert!(!text.contains("atomic"));
    // Otherwise one kernel with a workgroup per row.
    let alone =
        generate_with(&softmax_of(2, 1 << 20), Options { shares_rows: false, ..Options::default() }).unwrap();
    let grids: Vec<u32> = alone.kernels.iter().map(|kernel| kernel.grid).collect();
    assert_eq!((grids, alone.placed.virtuals().size), (vec![2], 0));
    // Threads share a row alike, however many there are.
    let block = |rows| {
        let options = Options { batch_invariant: true, ..Options::default() };
        let program = generate_with(&softmax_of(rows, 4096), options).unwrap();
        (program.kernels.len(), program.kernels[0].block)
    };
    assert_eq!([block(1), block(7)], [block(4096); 2]);
    assert_ne!(generate(&softmax_of(1, 4096)).unwrap().kernels[0].block, block(1).1);
}
