use hipdnn_kernels::Scalar;
use hipdnn_kernels::target::{CooperativeShape, VulkanDevice};
use hipdnn_plugin_sdk::graph::operation::{
    BatchnormBackward, BlockScaleDequantize, BlockScaleQuantize, ConvolutionForward, Matmul,
    MoeGroupedMatmul, Pointwise, Reduction, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, MoeGroupedMatmulMode, Node, Operation, PointwiseMode, ReductionMode, Tensor,
};

use super::*;

const OPTIONS: Options = Options { has_doubles: false, batch_invariant: false };

fn graph(tensors: &[(i64, &[i64])], operations: Vec<Operation>) -> Graph {
    let tensor = |(uid, dims): &(i64, &[i64])| Tensor {
        is_virtual: *uid < 0,
        ..Tensor::packed(*uid, DataType::Float, dims)
    };
    let node = |operation| Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
    Graph {
        tensors: tensors.iter().map(tensor).collect(),
        nodes: operations.into_iter().map(node).collect(),
        ..Graph::default()
    }
}

fn lowered(graph: &Graph) -> Result<Program, Refusal> {
    let name = "a device".to_owned();
    let device =
        VulkanDevice { name, subgroup: 32, shared: 32 << 10, threads: 1024, units: 0, shapes: Vec::new() };
    lower(graph, &device.into(), OPTIONS)
}

#[test]
fn a_chain_with_a_reduction_is_one_kernel_without_memory_between() {
    let graph = graph(
        &[(1, &[4, 64]), (2, &[1, 64]), (-3, &[4, 64]), (-4, &[4, 1]), (5, &[4, 64])],
        vec![
            Pointwise::new(PointwiseMode::Mul, 1, Some(2), -3).into(),
            Reduction { in_: -3, out: -4, mode: ReductionMode::Max, is_deterministic: false }.into(),
            Pointwise::new(PointwiseMode::Sub, -3, Some(-4), 5).into(),
        ],
    );
    let program = lowered(&graph).unwrap();
    let [kernel] = program.kernels.as_slice() else { panic!("{} kernels", program.kernels.len()) };
    assert_eq!(kernel.nodes, [0, 1, 2]);
    assert_eq!(kernel.arguments, [Argument::Memory(1), Argument::Memory(2), Argument::Memory(5)]);
}

#[test]
fn what_follows_a_product_is_its_epilogue_where_it_alone_sees_each_element_in_its_place() {
    let product = || Matmul { a: 1, b: 2, c: -3 }.into();
    let tensors: [(i64, &[i64]); 7] =
        [(1, &[2, 4]), (2, &[4, 4]), (-3, &[2, 4]), (4, &[1, 4]), (-5, &[2, 4]), (6, &[2, 4]), (7, &[2, 1])];
    let bias = || Pointwise::new(PointwiseMode::Add, -3, Some(4), -5).into();
    let relu = |from| Pointwise::new(PointwiseMode::ReluFwd, from, None, 6).into();
    let nodes = |program: &Program| -> Vec<Vec<usize>> {
        program.kernels.iter().map(|kernel| kernel.nodes.clone()).collect()
    };
    let mut fused = graph(&tensors, vec![product(), bias(), relu(-5)]);
    let program = lowered(&fused).unwrap();
    assert_eq!(nodes(&program), [[0, 1, 2]]);
    let of = |uids: [i64; 4]| uids.map(Argument::Memory);
    assert_eq!(program.kernels[0].arguments, of([1, 2, 4, 6]));
    // The product is an output itself.
    fused.tensors[2].is_virtual = false;
    assert_eq!(nodes(&lowered(&fused).unwrap()), [vec![0], vec![1, 2]]);
    // A reduction needs all of a row.
    let sum = Reduction { in_: -5, out: 7, mode: ReductionMode::Add, is_deterministic: false };
    let reduced = graph(&tensors, vec![product(), bias(), sum.into()]);
    assert_eq!(nodes(&lowered(&reduced).unwrap()), [vec![0], vec![1, 2]]);
    // Another product reads it, too.
    let mut again = graph(&tensors, vec![product(), relu(-3), Matmul { a: -3, b: 2, c: 8 }.into()]);
    again.tensors.push(Tensor::packed(8, DataType::Float, &[2, 4]));
    assert_eq!(nodes(&lowered(&again).unwrap()), [[0], [1], [2]]);
    // What stands between reads another tensor, and a later product the result.
    let other = Pointwise::new(PointwiseMode::ReluFwd, -5, None, 6).into();
    let mut between = graph(&tensors, vec![product(), other, Matmul { a: -3, b: 2, c: 8 }.into()]);
    between.tensors[4] = Tensor::packed(-5, DataType::Float, &[2, 4]);
    between.tensors.push(Tensor::packed(8, DataType::Float, &[2, 4]));
    assert_eq!(nodes(&lowered(&between).unwrap()), [[0], [1], [2]]);
}

#[test]
fn products_and_convolutions_use_the_device_matrices() {
    let convolution = ConvolutionForward {
        pre_padding: vec![1; 2],
        post_padding: vec![1; 2],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    let mut product =
        graph(&[(1, &[64, 64]), (2, &[64, 64]), (3, &[64, 64])], vec![Matmul { a: 1, b: 2, c: 3 }.into()]);
    let mut image =
        graph(&[(1, &[1, 16, 8, 8]), (2, &[16, 16, 3, 3]), (3, &[1, 16, 8, 8])], vec![convolution.into()]);
    for graph in [&mut product, &mut image] {
        graph.tensors.iter_mut().for_each(|tensor| tensor.data_type = DataType::Half);
        for has_matrices in [false, true] {
            let shape = CooperativeShape {
                m: 16,
                n: 16,
                k: 16,
                operand: Scalar::F16,
                sum: Scalar::F32,
                fragments: None,
            };
            let shapes = if has_matrices { vec![shape] } else { Vec::new() };
            let name = "a device".to_owned();
            let device =
                VulkanDevice { name, subgroup: 32, shared: 48 << 10, threads: 1024, units: 0, shapes };
            let program = lower(graph, &device.into(), OPTIONS).unwrap();
            let shapes: Vec<_> =
                program.kernels.iter().flat_map(|kernel| &kernel.written.kernel.shapes).collect();
            assert!(!shapes.is_empty());
            assert!(shapes.iter().all(|shape| shape.is_matrix() == has_matrices), "{shapes:?}");
        }
    }
}

#[test]
fn gradients_of_batchnorm_are_expanded() {
    let image: &[i64] = &[2, 3, 4, 4];
    let channel: &[i64] = &[1, 3, 1, 1];
    let mut graph =
        graph(&[(1, image), (2, image), (3, channel), (4, image), (5, channel), (6, channel)], Vec::new());
    let gradient = BatchnormBackward {
        dy: 1,
        x: 2,
        scale: 3,
        dx: 4,
        dscale: 5,
        dbias: 6,
        mean: None,
        inv_variance: None,
        peer_stats: Vec::new(),
    };
    graph.nodes.push(Node {
        name: "b".to_owned(),
        compute_type: DataType::Float,
        operation: gradient.into(),
    });
    let program = lowered(&graph).unwrap();
    let written: Vec<i64> =
        program.kernels.iter().flat_map(|kernel| kernel.arguments.iter().map(Argument::uid)).collect();
    assert!([4, 5, 6].iter().all(|uid| written.contains(uid)));
    assert!(program.kernels.iter().all(|kernel| kernel.nodes == [0]));
}

#[test]
fn attention_is_a_kernel_of_its_own_between_others() {
    let dims: &[i64] = &[2, 4, 16, 8];
    let mut graph = graph(
        &[(1, dims), (2, dims), (3, dims), (-4, dims), (5, dims)],
        vec![Sdpa::new(1, 2, 3, -4).into(), Pointwise::new(PointwiseMode::ReluFwd, -4, None, 5).into()],
    );
    let program = lowered(&graph).unwrap();
    let nodes: Vec<&[usize]> = program.kernels.iter().map(|kernel| kernel.nodes.as_slice()).collect();
    assert_eq!(nodes, [[0], [1]]);
    graph.nodes[0].compute_type = DataType::Double;
    let refusal = lowered(&graph).unwrap_err();
    assert!(refusal.contains("compute type is double, which the device lacks"), "{refusal}");
    graph.nodes[0].compute_type = DataType::Float;
    graph.tensors[0].data_type = DataType::Double;
    let refusal = lowered(&graph).unwrap_err();
    assert!(refusal.contains("compute type is float, expected double as q is double"), "{refusal}");
}

#[test]
fn blocks_are_quantized_where_they_share_no_byte() {
    let quantized = |block_size, y: DataType| {
        let operation = BlockScaleQuantize { x: 1, y: 2, scale: 3, block_size, axis: None, transpose: false };
        let scales = (40 + i64::from(block_size) - 1) / i64::from(block_size);
        let mut graph = graph(&[(1, &[3, 40]), (2, &[3, 40]), (3, &[3, scales])], vec![operation.into()]);
        graph.tensors[1].data_type = y;
        graph.tensors[2].data_type = DataType::Fp8E8m0;
        lowered(&graph)
    };
    let program = quantized(16, DataType::Fp4E2m1).unwrap();
    assert_eq!(program.kernels.len(), 1);
    assert!(quantized(5, DataType::Fp8E4m3).is_ok());
    let refusal = quantized(5, DataType::Fp4E2m1).unwrap_err();
    assert!(refusal.contains("expected blocks that share no byte of fp4_e2m1"), "{refusal}");
    let refusal = quantized(16, DataType::Half).unwrap_err();
    assert!(refusal.contains("y: data type is half"), "{refusal}");
}

#[test]
fn the_way_back_from_blocks_goes_on_in_its_kernel() {
    let back = BlockScaleDequantize { x: 1, scale: 2, y: -3, block_size: vec![16], is_negative_scale: false };
    let relu = Pointwise::new(PointwiseMode::ReluFwd, -3, None, 4);
    let mut graph =
        graph(&[(1, &[3, 40]), (2, &[3, 3]), (-3, &[3, 40]), (4, &[3, 40])], vec![back.into(), relu.into()]);
    graph.tensors[0].data_type = DataType::Fp6E3m2;
    graph.tensors[1].data_type = DataType::Fp8E8m0;
    let program = lowered(&graph).unwrap();
    let [kernel] = program.kernels.as_slice() else { panic!("{} kernels", program.kernels.len()) };
    assert_eq!(kernel.nodes, [0, 1]);
}

#[test]
fn a_mixture_of_experts_finds_its_rows_first() {
    let mixture = MoeGroupedMatmul {
        token: 1,
        weight: 2,
        first_token_offset: 3,
        token_index: None,
        token_ks: None,
        output: 4,
        mode: MoeGroupedMatmulMode::None,
        top_k: 0,
    };
    let mut graph =
        graph(&[(1, &[1, 9, 5]), (2, &[2, 5, 7]), (3, &[2]), (4, &[1, 9, 7])], vec![mixture.into()]);
    graph.tensors[2].data_type = DataType::Int32;
    let program = lowered(&graph).unwrap();
    let nodes: Vec<&[usize]> = program.kernels.iter().map(|kernel| kernel.nodes.as_slice()).collect();
    assert_eq!(nodes, [[0], [0]]);
    let routes = program.kernels[0].arguments.last().map(Argument::uid);
    assert!(routes.is_some_and(|uid| program.kernels[1].arguments.contains(&Argument::Memory(uid))));
    graph.nodes[0].compute_type = DataType::Int32;
    let refusal = lowered(&graph).unwrap_err();
    assert!(refusal.contains("compute type is int32"), "{refusal}");
}

#[test]
fn doubles_are_refused_where_the_device_has_none() {
    let mut graph =
        graph(&[(1, &[4]), (2, &[4])], vec![Pointwise::new(PointwiseMode::Abs, 1, None, 2).into()]);
    graph.nodes[0].compute_type = DataType::Double;
    let refusal = lowered(&graph).unwrap_err();
    assert!(refusal.contains("compute type is double, which the device lacks"), "{refusal}");
}
