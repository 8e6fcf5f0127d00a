use hipdnn_plugin_sdk::graph::operation::{
    BatchnormInference, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Matmul,
    Pointwise, Reduction, ResampleForward, Sdpa, SdpaBackward,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, Graph, Node, Operation, PaddingMode, PointwiseMode, ReductionMode, ResampleMode,
    Tensor,
};

use super::*;

/// A graph of dense tensors 1, 2, 3 and so on; those of `between` are virtual.
fn graph(dims: &[&[i64]], between: &[i64], operations: Vec<Operation>) -> Graph {
    let tensors = dims.iter().zip(1..).map(|(dims, uid)| {
        let strides: Vec<i64> = (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect();
        Tensor { is_virtual: between.contains(&uid), ..Tensor::new(uid, DataType::Half, dims, &strides) }
    });
    let node = |operation| Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
    Graph {
        tensors: tensors.collect(),
        nodes: operations.into_iter().map(node).collect(),
        ..Graph::default()
    }
}

fn on(graph: &Graph, architecture: &str) -> Program {
    generate_with(graph, Options::default().on(architecture)).unwrap()
}

#[test]
fn products_are_one_kernel_with_the_devices_matrix_instruction() {
    let product = graph(
        &[&[3, 200, 96], &[3, 96, 160], &[3, 200, 160], &[3, 200, 160]],
        &[],
        vec![Matmul { a: 1, b: 2, c: 3 }.into(), Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4).into()],
    );
    for (architecture, instruction, language) in [
        ("gfx1100", "wmma_f32_16x16x16_f16_w32(", HIP),
        ("gfx1201", "wmma_f32_16x16x16_f16_w32_gfx12(", HIP),
        ("gfx942:sramecc+", "mfma_f32_16x16x16f16(", HIP),
        ("gfx1030", "multiply_plain<f16,", HIP),
        ("sm_90", "mma_f16(", CUDA),
    ] {
        let program = on(&product, architecture);
        assert_eq!(program.kernels.len(), 2);
        let source = program.source(language);
        assert!(source.contains(instruction), "{architecture}");
        // The definitions of both generators are there, apart from each other.
        assert!(source.contains("namespace tiled") && source.contains(PRELUDE));
        assert!(program.kernels[0].is_tiled && !program.kernels[1].is_tiled);
        assert_eq!(program.kernels[0].nodes, [0]);
    }
}

/// The nodes of each kernel.
fn nodes(program: &Program) -> Vec<&[usize]> {
    program.kernels.iter().map(|kernel| kernel.nodes.as_slice()).collect()
}

#[test]
fn what_follows_a_product_is_its_epilogue() {
    let (result, bias): (&[i64], &[i64]) = (&[2, 40, 32], &[1, 1, 32]);
    let dims = [&[2, 40, 24], &[2, 24, 32], result, bias, result, result, &[1], &[2, 40, 1]];
    let chain: Vec<Operation> = vec![
        Matmul { a: 1, b: 2, c: 3 }.into(),
        Pointwise::new(PointwiseMode::Add, 4, Some(3), 5).into(),
        Pointwise::new(PointwiseMode::Mul, 5, Some(7), 6).into(),
    ];
    let mut fused = graph(&dims, &[3, 5], chain.clone());
    fused.tensors[6] = Tensor { is_runtime_pass_by_value: true, ..fused.tensors[6].clone() };
    for (architecture, language) in [("gfx1100", HIP), ("gfx942", HIP), ("gfx1030", HIP), ("sm_90", CUDA)] {
        let program = on(&fused, architecture);
        assert_eq!(nodes(&program), [[0, 1, 2]], "{architecture}");
        let uids: Vec<i64> = program.kernels[0].arguments.iter().map(kernel::Argument::uid).collect();
        assert_eq!(uids, [1, 2, 4, 7, 6]);
        let number = kernel::Argument::Number { uid: 7, data_type: DataType::Half };
        assert_eq!(program.kernels[0].arguments[3], number);
        assert_eq!(program.placed.virtuals().size, 0);
        assert!(!program.source(language).contains(PRELUDE));
        // Also where the bits of an item depend on it alone.
        let options = Options { batch_invariant: true, ..Options::default() }.on(architecture);
        assert_eq!(nodes(&generate_with(&fused, options).unwrap()), [[0, 1, 2]]);
    }
    // The program wants the product, or what is between, too.
    let mut seen = fused.clone();
    seen.tensors[4].is_virtual = false;
    assert_eq!(nodes(&on(&seen, "gfx1100")), [[0, 1, 2]]);
    seen.tensors[2].is_virtual = false;
    assert_eq!(nodes(&on(&seen, "gfx1100")), [&[0][..], &[1, 2]]);
    // A reduction needs all of a row.
    let sum = Reduction { in_: 5, out: 8, mode: ReductionMode::Add, is_deterministic: false };
    let reduced = graph(&dims, &[3, 5], [&chain[..2], &[sum.into()]].concat());
    assert_eq!(nodes(&on(&reduced, "gfx1100")), [&[0][..], &[1, 2]]);
    // A workgroup's part of long dot products has no epilogue, the kernel that adds the parts has it.
    let dims: [&[i64]; 5] = [&[16, 8192], &[8192, 512], &[16, 512], &[1, 512], &[16, 512]];
    let long = [chain[0].clone(), Pointwise::new(PointwiseMode::Add, 3, Some(4), 5).into()];
    let program = on(&graph(&dims, &[3], long.to_vec()), "gfx1100");
    let uids = |place: usize| program.kernels[place].arguments.iter().map(kernel::Argument::uid);
    assert_eq!(uids(1).skip(1).collect::<Vec<_>>(), [4, 5]);
    assert!(!uids(0).any(|uid| [3, 4, 5].contains(&uid)));
    // With many results the epilogue would take longer than another kernel.
    let dims: [&[i64]; 5] = [&[1024, 64], &[64, 1024], &[1024, 1024], &[1, 1024], &[1024, 1024]];
    assert_eq!(nodes(&on(&graph(&dims, &[3], long.to_vec()), "sm_90")), [[0], [1]]);
}

/// Functions are approximated differently in kernels of their own.
#[test]
fn the_number_of_rows_does_not_decide_on_epilogues_where_bits_must_not_depend_on_it() {
    let operations: Vec<Operation> =
        vec![Matmul { a: 1, b: 2, c: 3 }.into(), Pointwise::new(PointwiseMode::GeluFwd, 3, None, 4).into()];
    let options = || Options { batch_invariant: true, ..Options::default() }.on("sm_90");
    for (columns, kernels) in [(4096, 1), (8192, 2)] {
        for (batch, rows) in [(1, 1), (1, 64), (1, 65), (1, 4096), (3, 40)] {
            let (result, right): (&[i64], &[i64]) = (&[batch, rows, columns], &[batch, 64, columns]);
            let dims = [&[batch, rows, 64], right, result, result];
            let program = generate_with(&graph(&dims, &[3], operations.clone()), options()).unwrap();
            assert_eq!(program.kernels.len(), kernels, "{batch} {rows} {columns}");
        }
    }
}

#[test]
fn what_follows_a_convolution_is_its_epilogue() {
    let forward = ConvolutionForward {
        pre_padding: vec![0, 1],
        post_padding: vec![0, 1],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    let image: &[i64] = &[2, 24, 9, 7];
    let channels: &[i64] = &[1, 24, 1, 1];
    let dims = [&[2, 16, 9, 7], &[24, 16, 1, 3], image, channels, channels, channels, channels, image, image];
    let normalized = BatchnormInference { x: 3, mean: 4, inv_variance: 5, scale: 6, bias: 7, y: 8 };
    let relu = |from, to| Pointwise::new(PointwiseMode::ReluFwd, from, None, to).into();
    let chain = graph(&dims, &[3, 8], vec![forward.clone().into(), normalized.into(), relu(8, 9)]);
    for architecture in ["gfx906", "gfx90a", "gfx1100", "gfx1201", "sm_80"] {
        let program = on(&chain, architecture);
        assert_eq!(nodes(&program), [[0, 1, 2]], "{architecture}");
        assert!(program.kernels[0].is_tiled);
        assert_eq!(program.placed.virtuals().size, 0);
    }
    // Pooling reads other elements, too.
    let pooling = ResampleForward {
        x: 3,
        y: 4,
        index: None,
        pre_padding: vec![0; 2],
        post_padding: vec![0; 2],
        stride: vec![1; 2],
        window: vec![3, 1],
        resample_mode: ResampleMode::Maxpool,
        padding_mode: PaddingMode::NegInfPad,
        generate_index: None,
    };
    let dims = [dims[0], dims[1], image, &[2, 24, 7, 7]];
    let pooled = on(&graph(&dims, &[3], vec![forward.into(), pooling.into()]), "gfx1100");
    assert_eq!(nodes(&pooled), [[0], [1]]);
}

#[test]
fn attention_is_one_kernel_and_refuses_what_it_does_not_compute() {
    let dims: [&[i64]; 4] = [&[2, 4, 64, 32], &[2, 2, 80, 32], &[2, 2, 80, 32], &[2, 4, 64, 32]];
    let attention = graph(&dims, &[], vec![Sdpa::new(1, 2, 3, 4).into()]);
    for architecture in ["gfx906", "gfx90a", "gfx1100", "gfx1200", "sm_80"] {
        let program = on(&attention, architecture);
        assert_eq!(program.kernels.len(), 1);
        assert_eq!(program.placed.virtuals().size, 0);
    }
    let mut other = attention.clone();
    other.nodes[0].compute_type = DataType::Double;
    assert!(generate(&other).unwrap_err().contains("compute type is double"));
    let mut other = attention;
    other.tensors[1].data_type = DataType::Float;
    assert!(generate(&other).unwrap_err().contains("q, k and v are f16, f32 and f16"));
}

#[test]
fn workgroups_share_the_keys_of_few_queries() {
    let (q, k, rows): (&[i64], &[i64], &[i64]) = (&[1, 8, 1, 64], &[1, 2, 8192, 64], &[1, 8, 1, 1]);
    let node = Sdpa { stats: Some(5), generate_stats: Some(true), ..Sdpa::new(1, 2, 3, 4) };
    let mut decoding = graph(&[q, k, k, q, rows], &[], vec![node.into()]);
    decoding.tensors[4].data_type = DataType::Float;
    for architecture in ["gfx906", "gfx942", "gfx1100", "gfx1200", "sm_80", "sm_90"] {
        let program = on(&decoding, architecture);
        let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["tiles_0", "tiles_0_sum"], "{architecture}");
        let uids = |place: usize| program.kernels[place].arguments.iter().map(kernel::Argument::uid);
        // The output, maxima and sums of parts take the places of the output and the statistics.
        let between: Vec<i64> = uids(0).skip(3).collect();
        assert_eq!((uids(0).take(3).collect::<Vec<_>>(), between.len()), (vec![1, 2, 3], 3));
        assert_eq!(uids(1).collect::<Vec<_>>(), [between.as_slice(), &[4, 5]].concat());
        assert!(program.placed.virtuals().size >= 2 * 4 * 8 * (64 + 2), "{architecture}");
        let options = Options { batch_invariant: true, ..Options::default() }.on(architecture);
        assert_eq!(generate_with(&decoding, options).unwrap().kernels.len(), 1);
    }
}

#[test]
fn gradients_of_attention_are_a_kernel_each_behind_the_row_sums() {
    let (q, k, rows): (&[i64], &[i64], &[i64]) = (&[2, 4, 64, 32], &[2, 2, 80, 32], &[2, 4, 64, 1]);
    let dims = [q, k, k, q, q, rows, q, k, k];
    let new = SdpaBackward::new([1, 2, 3, 4, 5, 6], [7, 8, 9]);
    let backward = SdpaBackward { causal_mask: true, ..new };
    let gradients = graph(&dims, &[], vec![backward.into()]);
    for architecture in ["gfx906", "gfx90a", "gfx942", "gfx1100", "gfx1200", "sm_80", "sm_90"] {
        let program = on(&gradients, architecture);
        let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["tiles_0_sums", "tiles_0_1", "tiles_0_2", "tiles_0_3"], "{architecture}");
        // A float for each row of dO · o.
        assert_eq!(program.placed.virtuals().size, 4 * 2 * 4 * 64, "{architecture}");
    }
}

#[test]
fn a_scale_passed_at_execution_is_read_in_its_own_type() {
    let dims: [&[i64]; 5] = [&[1, 1, 8, 16], &[1, 1, 8, 16], &[1, 1, 8, 16], &[1, 1, 8, 16], &[1]];
    let mut attention = graph(&dims, &[], vec![Sdpa { scale: Some(5), ..Sdpa::new(1, 2, 3, 4) }.into()]);
    attention.tensors[4].is_runtime_pass_by_value = true;
    attention.tensors[4].data_type = DataType::Float;
    let program = on(&attention, "gfx1100");
    let number = kernel::Argument::Number { uid: 5, data_type: DataType::Float };
    assert_eq!(program.kernels[0].arguments.last(), Some(&number));
}

#[test]
fn gradients_of_convolutions_are_kernels() {
    let backward = ConvolutionBackwardData {
        dy: 1,
        w: 2,
        dx: 3,
        pre_padding: vec![1; 2],
        post_padding: vec![1; 2],
        stride: vec![2; 2],
        dilation: vec![1; 2],
        conv_mode: ConvMode::CrossCorrelation,
    };
    let dims: [&[i64]; 3] = [&[2, 16, 8, 8], &[16, 24, 3, 3], &[2, 24, 16, 16]];
    let program = on(&graph(&dims, &[], vec![backward.into()]), "gfx1100");
    assert_eq!(program.kernels.len(), 1);
    assert!(program.kernels[0].is_tiled);
    let uids: Vec<i64> = program.kernels[0].arguments.iter().map(kernel::Argument::uid).collect();
    assert_eq!(uids, [2, 1, 3]);
}

/// Few results of long dot products: a kernel leaves sums of parts in the workspace, and a second one adds them.
#[test]
fn workgroups_share_long_dot_products() {
    let filter = ConvolutionBackwardFilter {
        x: 1,
        dy: 2,
        dw: 3,
        pre_padding: vec![1; 2],
        post_padding: vec![1; 2],
        stride: vec![1; 2],
        dilation: vec![1; 2],
        conv_mode: ConvMode::CrossCorrelation,
    };
    let gradient = graph(&[&[32, 16, 40, 40], &[32, 24, 40, 40], &[24, 16, 3, 3]], &[], vec![filter.into()]);
    let rows =
        |m: i64| graph(&[&[m, 8192], &[8192, 512], &[m, 512]], &[], vec![Matmul { a: 1, b: 2, c: 3 }.into()]);
    let product = rows(16);
    let convolution = ConvolutionForward {
        pre_padding: vec![1; 2],
        post_padding: vec![1; 2],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    let images = |count: i64| {
        let dims: [&[i64]; 3] = [&[count, 256, 14, 14], &[256, 256, 3, 3], &[count, 256, 14, 14]];
        graph(&dims, &[], vec![convolution.clone().into()])
    };
    for architecture in ["gfx1100", "gfx90a", "gfx1030", "sm_75", "sm_90"] {
        for whole in [&gradient, &product] {
            let program = on(whole, architecture);
            let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            assert_eq!(names, ["tiles_0", "tiles_0_sum"], "{architecture}");
            assert!(program.kernels.iter().all(|kernel| kernel.is_tiled && kernel.nodes == [0]));
            let [first, second] = [0, 1].map(|place: usize| &program.kernels[place].arguments);
            assert_eq!(first.last().map(kernel::Argument::uid), second.first().map(kernel::Argument::uid));
            assert_eq!(second.last().map(kernel::Argument::uid), Some(3));
            let size = program.placed.virtuals().size;
            let result: i64 = whole.tensors[2].dims.iter().product();
            assert!(size >= 2 * 4 * result as usize && size <= 32 << 20, "{architecture}: {size}");
        }
        // The parts are the same for any number of rows or images where these must not know of each other, by several workgroups or by one.
        let options = || Options { batch_invariant: true, ..Options::default() }.on(architecture);
        let alike = |whole: &Graph| {
            let kernels = generate_with(whole, options()).unwrap().kernels;
            (kernels.len(), kernels[0].numerics.parts)
        };
        for [few, many] in [[product.clone(), rows(1 << 16)], [images(1), images(256)]] {
            let (count, parts) = alike(&few);
            assert!(count == 2 && parts > Some(1), "{architecture}: {count} {parts:?}");
            assert_eq!(alike(&many), (1, parts), "{architecture}");
        }
        assert_eq!(generate_with(&gradient, options()).unwrap().kernels.len(), 2);
    }
}
