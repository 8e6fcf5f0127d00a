//! How fast the kernels of CPU_ENGINE are, beside what this machine's processor can do at most.
//!
//! `cargo run --release -p hipdnn-cpu-plugin --example kernel_speed [part of a name]`. Each row is the best of many runs, on as many
//! threads as the engine takes (`HIPDNN_CPU_THREADS` limits them). The peak is that of one thread's fused multiplications and additions,
//! measured in the same run; a convolution on two threads can reach 200 % of it.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first failure")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use hipdnn_cpu_plugin::fusion::node::plan_node;
use hipdnn_cpu_plugin::plugin::planner;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
    Layernorm, LayernormBackward, Matmul, Pointwise, Reduction, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, Graph, Node, NormFwdPhase, Operation, PointwiseMode, ReductionMode, Tensor,
};

/// Time for one row of the table.
const PATIENCE: Duration = Duration::from_millis(300);

/// A convolution of square images.
struct Layer {
    name: &'static str,
    batch: i64,
    channels: i64,
    size: i64,
    rows: i64,
    window: i64,
    stride: i64,
    groups: i64,
    channels_last: bool,
    data_type: DataType,
}

const fn layer(
    name: &'static str,
    [batch, channels, size, rows, window, stride]: [i64; 6],
    groups: i64,
    channels_last: bool,
) -> Layer {
    let data_type = DataType::Float;
    Layer { name, batch, channels, size, rows, window, stride, groups, channels_last, data_type }
}

const fn stored(layer: Layer, data_type: DataType) -> Layer {
    Layer { data_type, ..layer }
}

const LAYERS: [Layer; 21] = [
    layer("digits 1", [32, 1, 8, 16, 3, 1], 1, false),
    layer("digits 2", [32, 16, 8, 32, 3, 2], 1, false),
    layer("digits classifier", [32, 512, 1, 10, 1, 1], 1, false),
    layer("56x56 64 3x3", [1, 64, 56, 64, 3, 1], 1, false),
    layer("56x56 64 1x1", [1, 64, 56, 256, 1, 1], 1, false),
    layer("28x28 128 3x3", [1, 128, 28, 128, 3, 1], 1, false),
    layer("28x28 128 3x3 NHWC", [1, 128, 28, 128, 3, 1], 1, true),
    stored(layer("28x28 128 3x3 double", [1, 128, 28, 128, 3, 1], 1, false), DataType::Double),
    stored(layer("28x28 128 3x3 half", [1, 128, 28, 128, 3, 1], 1, false), DataType::Half),
    stored(layer("28x28 128 3x3 bfloat16", [1, 128, 28, 128, 3, 1], 1, false), DataType::Bfloat16),
    layer("28x28 512 1x1", [1, 512, 28, 128, 1, 1], 1, false),
    layer("14x14 256 3x3", [1, 256, 14, 256, 3, 1], 1, false),
    layer("7x7 512 3x3", [1, 512, 7, 512, 3, 1], 1, false),
    layer("224x224 3 7x7/2", [1, 3, 224, 64, 7, 2], 1, false),
    layer("112x112 64 depthwise", [1, 64, 112, 64, 3, 1], 64, false),
    layer("112x112 96 depthwise/2", [1, 96, 112, 96, 3, 2], 96, false),
    layer("14x14 576 depthwise", [1, 576, 14, 576, 3, 1], 576, false),
    layer("7x7 960 depthwise", [1, 960, 7, 960, 3, 1], 960, false),
    layer("14x14 576 depthwise 5x5", [1, 576, 14, 576, 5, 1], 576, false),
    stored(layer("14x14 576 depthwise half", [1, 576, 14, 576, 3, 1], 576, false), DataType::Half),
    layer("14x14 576 depthwise NHWC", [1, 576, 14, 576, 3, 1], 576, true),
];

fn strides(dims: &[i64; 4], channels_last: bool) -> [i64; 4] {
    let [_, c, h, w] = *dims;
    if channels_last { [c * h * w, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }
}

fn tensor(uid: i64, dims: [i64; 4], channels_last: bool, data_type: DataType) -> Tensor {
    Tensor::new(uid, data_type, &dims, &strides(&dims, channels_last))
}

/// Elements with numbers of either sign.
fn bytes(data_type: DataType, elements: usize) -> Vec<u8> {
    let number = |i: usize| (i % 17) as f32 / 8.0 - 1.0;
    let numbers = (0..elements).map(number);
    match data_type {
        DataType::Double => numbers.flat_map(|n| f64::from(n).to_ne_bytes()).collect(),
        DataType::Half => numbers.flat_map(|n| half::f16::from_f32(n).to_ne_bytes()).collect(),
        DataType::Bfloat16 => numbers.flat_map(|n| half::bf16::from_f32(n).to_ne_bytes()).collect(),
        _ => numbers.flat_map(f32::to_ne_bytes).collect(),
    }
}

/// Seconds that the best run of an operation takes.
fn time(tensors: Vec<Tensor>, operation: Operation) -> f64 {
    let order = operation.tensors();
    let double = tensors.iter().any(|tensor| tensor.data_type == DataType::Double);
    let compute_type = if double { DataType::Double } else { DataType::Float };
    let mut memory: Vec<(i64, Vec<u8>)> = tensors
        .iter()
        .map(|t| (t.uid, bytes(t.data_type, t.dims.iter().product::<i64>() as usize)))
        .collect();
    let graph = Graph { tensors, ..Graph::default() };
    let node = Node { name: String::new(), compute_type, operation };
    let kernel = plan_node(&graph, &node).unwrap();
    let pointers: Vec<*mut u8> = order
        .iter()
        .map(|uid| memory.iter_mut().find(|(own, _)| own == uid).unwrap().1.as_mut_ptr())
        .collect();
    let mut scratch = vec![0_u8; kernel.scratch_size() + 64];
    let aligned = scratch.as_ptr().align_offset(64);
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        // SAFETY: every tensor has its memory, and the scratch memory is as large as the kernel asked for.
        unsafe { kernel.run(&pointers, scratch.as_mut_ptr().add(aligned)) };
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}

fn convolution(layer: &Layer, peak: f64) {
    let pad = layer.window / 2;
    let out = (layer.size + 2 * pad - layer.window) / layer.stride + 1;
    let tensors = || {
        vec![
            tensor(
                1,
                [layer.batch, layer.channels, layer.size, layer.size],
                layer.channels_last,
                layer.data_type,
            ),
            tensor(
                2,
                [layer.rows, layer.channels / layer.groups, layer.window, layer.window],
                layer.channels_last,
                layer.data_type,
            ),
            tensor(3, [layer.batch, layer.rows, out, out], layer.channels_last, layer.data_type),
        ]
    };
    let flops = 2.0
        * (layer.batch * layer.rows * out * out) as f64
        * (layer.channels / layer.groups * layer.window * layer.window) as f64;
    let (pre_padding, post_padding) = (vec![pad; 2], vec![pad; 2]);
    let (stride, dilation, conv_mode) = (vec![layer.stride; 2], vec![1; 2], ConvMode::CrossCorrelation);
    let operations: [(&str, Operation); 3] = [
        (
            "forward",
            ConvolutionForward {
                x: 1,
                w: 2,
                y: 3,
                pre_padding: pre_padding.clone(),
                post_padding: post_padding.clone(),
                stride: stride.clone(),
                dilation: dilation.clone(),
                conv_mode,
            }
            .into(),
        ),
        (
            "data",
            ConvolutionBackwardData {
                dy: 3,
                w: 2,
                dx: 1,
                pre_padding: pre_padding.clone(),
                post_padding: post_padding.clone(),
                stride: stride.clone(),
                dilation: dilation.clone(),
                conv_mode,
            }
            .into(),
        ),
        (
            "filter",
            ConvolutionBackwardFilter {
                x: 1,
                dy: 3,
                dw: 2,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            }
            .into(),
        ),
    ];
    for (direction, operation) in operations {
        let seconds = time(tensors(), operation);
        let rate = flops / seconds / 1e9;
        println!(
            "{:<22} {direction:<8} {:>9.1} µs {rate:>8.1} GFLOP/s {:>6.1} % of one thread's peak",
            layer.name,
            seconds * 1e6,
            100.0 * rate / peak
        );
    }
}

fn bandwidth_row(name: &str, elements: i64, passes: f64, tensors: Vec<Tensor>, operation: Operation) {
    let seconds = time(tensors, operation);
    let bytes = 4.0 * passes * elements as f64;
    println!(
        "{name:<31} {:>9.1} µs {:>8.1} GB/s of inputs and results",
        seconds * 1e6,
        bytes / seconds / 1e9
    );
}

fn elementwise(batch: i64, channels: i64, size: i64, channels_last: bool) {
    let dims = [batch, channels, size, size];
    let elements = dims.iter().product();
    let name = |what: &str| {
        format!("{what} {batch}x{channels}x{size}x{size}{}", if channels_last { " NHWC" } else { "" })
    };
    let image = |uid| tensor(uid, dims, channels_last, DataType::Float);
    let parameter = |uid| tensor(uid, [1, channels, 1, 1], false, DataType::Float);
    let statistics =
        || vec![image(1), image(2), image(3), parameter(4), parameter(5), parameter(6), parameter(7)];
    let training = Batchnorm { mean: Some(6), inv_variance: Some(7), ..Batchnorm::new(1, 4, 5, 8, 2) };
    let mut with_epsilon = statistics();
    with_epsilon.push(Tensor::new(8, DataType::Float, &[1], &[1]));
    bandwidth_row(&name("training"), elements, 2.0, with_epsilon, training.into());
    let backward = BatchnormBackward {
        dy: 1,
        x: 2,
        scale: 4,
        dx: 3,
        dscale: 5,
        dbias: 6,
        mean: Some(7),
        inv_variance: Some(4),
        peer_stats: vec![],
    };
    bandwidth_row(&name("backward"), elements, 3.0, statistics(), backward.into());
    for (mode, in_1, passes) in [
        (PointwiseMode::ReluFwd, None, 2.0),
        (PointwiseMode::ReluBwd, Some(2), 3.0),
        (PointwiseMode::Add, Some(4), 2.0),
        (PointwiseMode::SigmoidFwd, None, 2.0),
    ] {
        let pointwise = Pointwise::new(mode, 1, in_1, 3);
        bandwidth_row(&name(mode.name()), elements, passes, statistics(), pointwise.into());
    }
}

/// Layer normalization of `rows` rows, and its gradients.
fn layer_normalization(rows: i64, len: i64, data_type: DataType) {
    let tensor = |uid, dims: [i64; 2]| Tensor::new(uid, data_type, &dims, &[dims[1], 1]);
    let statistic = |uid| Tensor::new(uid, DataType::Float, &[rows, 1], &[1, 1]);
    let mut tensors: Vec<Tensor> = (1..=3).map(|uid| tensor(uid, [rows, len])).collect();
    tensors.extend((4..=7).map(|uid| tensor(uid, [1, len])));
    tensors.extend((8..=9).map(statistic));
    tensors.push(Tensor::new(10, DataType::Float, &[1], &[1]));
    let name = |what: &str| format!("{what} {rows}x{len} {}", data_type.name());
    let size = data_type.size().unwrap() as f64 / 4.0;
    let forward = Layernorm {
        x: 1,
        scale: 4,
        bias: 5,
        epsilon: 10,
        y: 2,
        mean: Some(8),
        inv_variance: Some(9),
        forward_phase: NormFwdPhase::Training,
        normalized_dim_count: 1,
    };
    bandwidth_row(&name("layernorm"), rows * len, 2.0 * size, tensors.clone(), forward.into());
    let backward = LayernormBackward {
        dy: 1,
        x: 2,
        scale: 4,
        mean: Some(8),
        inv_variance: Some(9),
        epsilon: None,
        dx: 3,
        dscale: 6,
        dbias: 7,
        normalized_dim_count: 1,
    };
    bandwidth_row(&name("backward"), rows * len, 3.0 * size, tensors, backward.into());
}

/// Reductions of a matrix along its rows and along its columns.
fn reductions(rows: i64, columns: i64, data_type: DataType) {
    let size = data_type.size().unwrap() as f64 / 4.0;
    for (kept, along) in [([rows, 1], "along rows"), ([1, columns], "along columns"), ([1, 1], "of all")] {
        for mode in [ReductionMode::Add, ReductionMode::Max] {
            let tensors = vec![
                Tensor::new(1, data_type, &[rows, columns], &[columns, 1]),
                Tensor::new(2, DataType::Float, &kept, &[kept[1], 1]),
            ];
            let name = format!("{} {along} {rows}x{columns} {}", mode.name(), data_type.name());
            let operation = Reduction { in_: 1, out: 2, mode, is_deterministic: false };
            bandwidth_row(&name, rows * columns, size, tensors, operation.into());
        }
    }
}

/// Seconds that the best run of a whole graph takes, whose tensors are bound unless they are virtual.
fn time_graph(tensors: Vec<Tensor>, operations: Vec<Operation>, engine: usize) -> f64 {
    let mut memory: Vec<(i64, Vec<u8>)> = tensors
        .iter()
        .filter(|tensor| !tensor.is_virtual)
        .map(|t| (t.uid, bytes(t.data_type, t.dims.iter().product::<i64>() as usize)))
        .collect();
    let double = tensors.iter().any(|tensor| tensor.data_type == DataType::Double);
    let compute_type = if double { DataType::Double } else { DataType::Float };
    let nodes = operations.into_iter().map(|operation| Node { name: String::new(), compute_type, operation });
    let graph = Graph { tensors, nodes: nodes.collect(), ..Graph::default() };
    let plan = planner(engine).plan(&graph).unwrap();
    let buffers: Vec<hipdnnPluginDeviceBuffer_t> = memory
        .iter_mut()
        .map(|(uid, bytes)| hipdnnPluginDeviceBuffer_t { uid: *uid, ptr: bytes.as_mut_ptr().cast() })
        .collect();
    let mut workspace = vec![0_u8; plan.workspace_size()];
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        // SAFETY: every tensor has its memory, and the workspace is as large as the plan asked for.
        unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}

fn on_each_element(operation: PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Operation {
    Pointwise::new(operation, in_0, in_1, out_0).into()
}

/// A convolution, then a bias, a residual and RELU, beside the convolution alone.
fn fused_convolution(layer: &Layer) {
    let pad = layer.window / 2;
    let out = (layer.size + 2 * pad - layer.window) / layer.stride + 1;
    let x = [layer.batch, layer.channels, layer.size, layer.size];
    let y = [layer.batch, layer.rows, out, out];
    let image = |uid, dims, is_virtual| {
        let tensor = tensor(uid, dims, layer.channels_last, layer.data_type);
        Tensor { is_virtual, ..tensor }
    };
    let w = tensor(
        2,
        [layer.rows, layer.channels / layer.groups, layer.window, layer.window],
        layer.channels_last,
        layer.data_type,
    );
    let convolution = |y| {
        Operation::from(ConvolutionForward {
            x: 1,
            w: 2,
            y,
            pre_padding: vec![pad; 2],
            post_padding: vec![pad; 2],
            stride: vec![layer.stride; 2],
            dilation: vec![1; 2],
            conv_mode: ConvMode::CrossCorrelation,
        })
    };
    let alone = time_graph(vec![image(1, x, false), w.clone(), image(3, y, false)], vec![convolution(3)], 0);
    let tensors = vec![
        image(1, x, false),
        w,
        image(3, y, true),
        tensor(4, [1, layer.rows, 1, 1], false, layer.data_type),
        image(5, y, true),
        image(6, y, false),
        image(7, y, true),
        image(8, y, false),
    ];
    let operations = vec![
        convolution(3),
        on_each_element(PointwiseMode::Add, 3, Some(4), 5),
        on_each_element(PointwiseMode::Add, 5, Some(6), 7),
        on_each_element(PointwiseMode::ReluFwd, 7, None, 8),
    ];
    let fused = time_graph(tensors, operations, 0);
    println!(
        "{:<22} + bias + residual + RELU {:>9.1} µs, {:.2} times the convolution alone",
        layer.name,
        fused * 1e6,
        fused / alone
    );
}

/// Eight operations on each element of 16 MiB, beside a copy of as much.
fn chain() {
    const ELEMENTS: i64 = 4 << 20;
    let dims = [4, 64, 128, 128];
    let modes = [
        (PointwiseMode::Mul, true),
        (PointwiseMode::Add, true),
        (PointwiseMode::ReluFwd, false),
        (PointwiseMode::Mul, true),
        (PointwiseMode::Sub, true),
        (PointwiseMode::Abs, false),
        (PointwiseMode::Max, true),
        (PointwiseMode::Add, true),
    ];
    let mut tensors =
        vec![tensor(1, dims, false, DataType::Float), tensor(2, [1, 64, 1, 1], false, DataType::Float)];
    let mut operations = Vec::new();
    for (step, (mode, two)) in modes.into_iter().enumerate() {
        let (from, to) = (if step == 0 { 1 } else { 2 + step as i64 }, 3 + step as i64);
        let out = tensor(to, dims, false, DataType::Float);
        tensors.push(Tensor { is_virtual: step + 1 < modes.len(), ..out });
        operations.push(on_each_element(mode, from, two.then_some(2), to));
    }
    let seconds = time_graph(tensors, operations, 0);
    let copy = copy_rate();
    let rate = 8.0 * ELEMENTS as f64 / seconds / 1e9;
    println!(
        "8 operations on 16 MiB          {:>9.1} µs {rate:>8.1} GB/s of inputs and results, {:.0} % of the {copy:.1} GB/s of a copy",
        seconds * 1e6,
        100.0 * rate / copy
    );
}

/// Softmax of rows, as five operations.
fn softmax(rows: i64, len: i64) {
    let whole = |uid, is_virtual| {
        let tensor = Tensor::new(uid, DataType::Float, &[rows, len], &[len, 1]);
        Tensor { is_virtual, ..tensor }
    };
    let one = |uid| Tensor { is_virtual: true, ..Tensor::new(uid, DataType::Float, &[rows, 1], &[1, 1]) };
    let reduce = |mode, in_, out| Operation::from(Reduction { in_, out, mode, is_deterministic: false });
    let tensors = vec![whole(1, false), one(2), whole(3, true), whole(4, true), one(5), whole(6, false)];
    let operations = vec![
        reduce(ReductionMode::Max, 1, 2),
        on_each_element(PointwiseMode::Sub, 1, Some(2), 3),
        on_each_element(PointwiseMode::Exp, 3, None, 4),
        reduce(ReductionMode::Add, 4, 5),
        on_each_element(PointwiseMode::Div, 4, Some(5), 6),
    ];
    let seconds = time_graph(tensors, operations, 0);
    println!(
        "softmax {rows} rows of {len:<12} {:>9.1} µs {:>8.1} GB/s of inputs and results",
        seconds * 1e6,
        8.0 * (rows * len) as f64 / seconds / 1e9
    );
}

/// Functions of each number of 512 rows of 3072.
fn functions() {
    use PointwiseMode as M;
    let dims = [1, 1, 512, 3072];
    let elements: i64 = dims.iter().product();
    for mode in [
        M::GeluFwd,
        M::GeluBwd,
        M::GeluApproxTanhFwd,
        M::Erf,
        M::Exp,
        M::TanhFwd,
        M::SigmoidFwd,
        M::SwishFwd,
        M::SwishBwd,
        M::EluFwd,
        M::SoftplusFwd,
        M::Log,
        M::Sqrt,
    ] {
        let operands = if mode.operands() == 2 { 2 } else { 1 };
        let tensors = (1..4).map(|uid| tensor(uid, dims, false, DataType::Float)).collect();
        let operation = on_each_element(mode, 1, (operands == 2).then_some(2), 3);
        bandwidth_row(
            &format!("function {}", mode.name()),
            elements,
            1.0 + operands as f64,
            tensors,
            operation,
        );
    }
}

/// GB/s that a copy of 16 MiB reads and writes on as many threads as there are processors.
fn copy_rate() -> f64 {
    const BYTES: usize = 16 << 20;
    let from = vec![1_u8; BYTES];
    let mut to = vec![2_u8; BYTES];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    best_rate(|| {
        std::thread::scope(|scope| {
            let parts = from.chunks(BYTES.div_ceil(threads)).zip(to.chunks_mut(BYTES.div_ceil(threads)));
            parts.for_each(|(from, to)| drop(scope.spawn(|| to.copy_from_slice(from))));
        });
        2.0 * BYTES as f64
    })
}

/// GFLOP/s of one thread that does nothing but fused multiplications and additions of vectors.
fn peak() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions.
            return best_rate(|| unsafe { fused_512() });
        }
        if is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the instructions.
            return best_rate(|| unsafe { fused_256() });
        }
    }
    best_rate(fused_plain)
}

/// The same of several threads together.
fn peak_of(threads: usize) -> f64 {
    let (mut best, begin) = (0.0_f64, Instant::now());
    while begin.elapsed() < PATIENCE {
        let rates = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(peak)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        best = best.max(rates);
    }
    best
}

/// The best of many runs of a function that says how many operations it did.
fn best_rate(mut run: impl FnMut() -> f64) -> f64 {
    let mut best = 0.0_f64;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        let operations = run();
        best = best.max(operations / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

const ROUNDS: usize = 20_000;

macro_rules! fused {
    ($name:ident, $features:literal, $lanes:literal, $splat:ident, $fma:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $name() -> f64 {
            use std::arch::x86_64::{$fma, $splat};
            let mut sums = [$splat(0.5); 12];
            let factor = black_box($splat(0.999));
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = $fma(*sum, factor, factor);
                }
            }
            black_box(sums);
            (2 * $lanes * 12 * ROUNDS) as f64
        }
    };
}

fused!(fused_512, "avx512f", 16, _mm512_set1_ps, _mm512_fmadd_ps);
fused!(fused_256, "avx,fma", 8, _mm256_set1_ps, _mm256_fmadd_ps);

fn fused_plain() -> f64 {
    let mut sums = [[0.5_f32; 4]; 12];
    let factor = black_box(0.999_f32);
    for _ in 0..ROUNDS {
        for sum in sums.iter_mut().flatten() {
            *sum = *sum * factor + factor;
        }
    }
    black_box(sums);
    (2 * 4 * 12 * ROUNDS) as f64
}

/// A product of matrices: how many, rows, columns and terms, and whether the right factor's columns are far apart.
struct Product {
    name: &'static str,
    size: [i64; 4],
    transposed: bool,
    data_type: DataType,
}

const fn product(name: &'static str, size: [i64; 4], transposed: bool, data_type: DataType) -> Product {
    Product { name, size, transposed, data_type }
}

const PRODUCTS: [Product; 17] = [
    product("product 1024x3072x768", [1, 1024, 3072, 768], false, DataType::Float),
    product("product 2048 cubed", [1, 2048, 2048, 2048], false, DataType::Float),
    product("BERT 128 projection", [1, 128, 768, 768], false, DataType::Float),
    product("BERT 128 packed q, k, v", [1, 128, 2304, 768], false, DataType::Float),
    product("BERT 128 up", [1, 128, 3072, 768], false, DataType::Float),
    product("BERT 128 down", [1, 128, 768, 3072], false, DataType::Float),
    product("BERT 512 projection", [1, 512, 768, 768], false, DataType::Float),
    product("BERT 512 packed q, k, v", [1, 512, 2304, 768], false, DataType::Float),
    product("BERT 512 up", [1, 512, 3072, 768], false, DataType::Float),
    product("BERT 512 down", [1, 512, 768, 3072], false, DataType::Float),
    product("BERT 512 up half", [1, 512, 3072, 768], false, DataType::Half),
    product("BERT 512 up bfloat16", [1, 512, 3072, 768], false, DataType::Bfloat16),
    product("product 1024 transposed", [1, 1024, 3072, 768], true, DataType::Float),
    product("scores 12 of 512", [12, 512, 512, 64], true, DataType::Float),
    product("values 12 of 512", [12, 512, 64, 512], false, DataType::Float),
    product("row 3072x768", [1, 1, 3072, 768], false, DataType::Float),
    product("row 3072x768 transposed", [1, 1, 3072, 768], true, DataType::Float),
];

fn matrix_product(product: &Product, peak: f64) {
    let [batch, m, n, k] = product.size;
    let plain = |uid, [rows, columns]: [i64; 2]| {
        Tensor::new(uid, product.data_type, &[batch, rows, columns], &[rows * columns, columns, 1])
    };
    let mut b = plain(2, [k, n]);
    if product.transposed {
        b.strides = vec![k * n, 1, k];
    }
    let tensors = vec![plain(1, [m, k]), b, plain(3, [m, n])];
    let seconds = time(tensors, Matmul { a: 1, b: 2, c: 3 }.into());
    let rate = 2.0 * (batch * m * n * k) as f64 / seconds / 1e9;
    let bytes = (batch * (m * k + k * n + m * n)) as f64 * product.data_type.size().unwrap() as f64;
    println!(
        "{:<31} {:>9.1} µs {rate:>8.1} GFLOP/s {:>6.1} % of the threads' peak, {:>6.1} GB/s",
        product.name,
        seconds * 1e6,
        100.0 * rate / peak,
        bytes / seconds / 1e9
    );
}

/// A product, a bias of its columns and GELU, beside the product alone.
fn fused_product(product: &Product) {
    let [_, m, n, k] = product.size;
    let matrix = |uid, [rows, columns]: [i64; 2], is_virtual| {
        let plain = Tensor::new(uid, product.data_type, &[rows, columns], &[columns, 1]);
        Tensor { is_virtual, ..plain }
    };
    let factors = || vec![matrix(1, [m, k], false), matrix(2, [k, n], false)];
    let multiply = |c| Operation::from(Matmul { a: 1, b: 2, c });
    let mut tensors = factors();
    tensors.push(matrix(3, [m, n], false));
    let alone = time_graph(tensors, vec![multiply(3)], 0);
    let mut tensors = factors();
    tensors.push(matrix(3, [m, n], true));
    tensors.push(matrix(4, [1, n], false));
    tensors.push(matrix(5, [m, n], true));
    tensors.push(matrix(6, [m, n], false));
    let bias = on_each_element(PointwiseMode::Add, 3, Some(4), 5);
    let gelu = on_each_element(PointwiseMode::GeluFwd, 5, None, 6);
    let fused = time_graph(tensors, vec![multiply(3), bias, gelu], 0);
    println!(
        "{:<22} + bias + GELU {:>9.1} µs, {:.2} times the product alone",
        product.name,
        fused * 1e6,
        fused / alone
    );
}

/// Attention of 12 heads of 64 numbers.
fn attention(queries: i64, causal: bool, data_type: DataType, peak: f64, wanted: &str) {
    const HEADS: i64 = 12;
    const DEPTH: i64 = 64;
    let kind = if causal { "causal attention" } else { "attention" };
    let name = format!("{kind} {queries} {}", data_type.name());
    if !name.contains(wanted) {
        return;
    }
    let dims = [1, HEADS, queries, DEPTH];
    let rows =
        |uid| Tensor::new(uid, data_type, &dims, &[HEADS * queries * DEPTH, queries * DEPTH, DEPTH, 1]);
    let attention = Sdpa { causal_mask: causal, attn_scale_value: Some(0.125), ..Sdpa::new(1, 2, 3, 4) };
    let seconds = time((1..5).map(rows).collect(), attention.into());
    let seen = if causal { queries * (queries + 1) / 2 } else { queries * queries };
    let rate = 4.0 * (HEADS * seen * DEPTH) as f64 / seconds / 1e9;
    println!(
        "{name:<31} {:>9.1} µs {rate:>8.1} GFLOP/s {:>6.1} % of the threads' peak",
        seconds * 1e6,
        100.0 * rate / peak
    );
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let peak = peak();
    println!("peak of one thread {peak:.1} GFLOP/s");
    for layer in LAYERS.iter().filter(|layer| layer.name.contains(&wanted)) {
        convolution(layer, peak);
    }
    for layer in LAYERS.iter().filter(|layer| layer.groups == 1 && layer.name.contains(&wanted)) {
        fused_convolution(layer);
    }
    let threads = std::env::var("HIPDNN_CPU_THREADS").ok().and_then(|text| text.parse().ok());
    let threads = threads.or(std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let all = peak_of(threads);
    println!("peak of {threads} threads {all:.1} GFLOP/s");
    for product in PRODUCTS.iter().filter(|product| product.name.contains(&wanted)) {
        matrix_product(product, all);
    }
    for product in
        PRODUCTS.iter().filter(|product| product.name.contains(&wanted) && product.name.contains("BERT"))
    {
        fused_product(product);
    }
    for queries in [128, 512, 1024, 2048, 4096] {
        for causal in [false, true] {
            attention(queries, causal, DataType::Float, all, &wanted);
        }
    }
    attention(512, false, DataType::Half, all, &wanted);
    attention(512, false, DataType::Bfloat16, all, &wanted);
    if "chain".contains(&wanted) {
        chain();
    }
    if "softmax".contains(&wanted) {
        softmax(12 * 128, 128);
        softmax(12 * 512, 512);
        softmax(1024, 4096);
    }
    if "functions".contains(&wanted) {
        functions();
    }
    if "elements".contains(&wanted) {
        elementwise(32, 16, 8, false);
        elementwise(32, 32, 4, false);
        elementwise(16, 64, 56, false);
        elementwise(16, 64, 56, true);
    }
    if "rows".contains(&wanted) {
        for (rows, len) in [(128, 768), (512, 768), (8192, 768), (64, 50_000)] {
            layer_normalization(rows, len, DataType::Float);
        }
        layer_normalization(512, 768, DataType::Half);
        reductions(6144, 512, DataType::Float);
        reductions(6144, 512, DataType::Half);
        layer_normalization(512, 768, DataType::Bfloat16);
    }
}
