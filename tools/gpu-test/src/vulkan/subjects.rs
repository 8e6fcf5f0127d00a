//! The graphs that `gpu-test --vulkan-bench` measures.

use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Layernorm, Matmul, Pointwise,
    Reduction, Sdpa, SdpaBackward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, NormFwdPhase, PointwiseMode, ReductionMode};

use crate::case::{Case, Order};

const FIRST: Order = Order::ChannelsFirst;

/// A graph that is measured.
pub struct Subject {
    /// The graph.
    pub case: Case,
    /// The library that is compared.
    pub peer: &'static str,
    /// Operations, or bytes, of an execution.
    pub work: f64,
    /// Of work in a second.
    pub unit: &'static str,
    /// The tensor that is compared.
    pub result: i64,
}

/// All graphs.
pub fn subjects() -> Vec<Subject> {
    let mut all = Vec::new();
    for data_type in [DataType::Half, DataType::Bfloat16] {
        all.extend([1024, 2048, 4096, 8192].map(|size| product(data_type, [size; 3])));
    }
    all.extend([2048, 4096].map(|size| product(DataType::Int8, [size; 3])));
    all.extend([2048, 4096].map(|size| product(DataType::Float, [size; 3])));
    // Of one image or sentence: ViT-S, BERT, ConvNeXt-T, and the last layer of MobileNet.
    all.extend(SMALL.map(|sizes| product(DataType::Float, sizes)));
    for (c, k, size, filter) in [
        (64, 64, 56, 3),
        (128, 128, 28, 3),
        (256, 256, 14, 3),
        (512, 512, 7, 3),
        (256, 64, 56, 1),
        (512, 2048, 7, 1),
    ] {
        all.extend(["forward", "data", "filter"].map(|what| convolution(what, [c, k, size, filter])));
    }
    for data_type in [DataType::Half, DataType::Bfloat16] {
        for (length, depth) in [(1024, 64), (4096, 64), (8192, 64), (1024, 128), (4096, 128), (8192, 128)] {
            all.extend([false, true].map(|backward| attention(data_type, length, depth, backward)));
        }
    }
    all.push(pointwise("copy", DataType::Half, PointwiseMode::Identity));
    for data_type in [DataType::Half, DataType::Bfloat16, DataType::Float] {
        all.push(pointwise("gelu", data_type, PointwiseMode::GeluFwd));
        all.push(pointwise("gelu by tanh", data_type, PointwiseMode::GeluApproxTanhFwd));
        all.push(pointwise("swish", data_type, PointwiseMode::SwishFwd));
        all.push(chain(data_type));
        all.extend([1024, 8192].map(|width| layernorm(data_type, width)));
        all.extend([1024, 8192].map(|width| softmax(data_type, width)));
    }
    all
}

/// Rows, columns and length of dot products.
const SMALL: [[i64; 3]; 14] = [
    [197, 1152, 384],
    [197, 384, 384],
    [197, 1536, 384],
    [197, 384, 1536],
    [128, 768, 768],
    [128, 3072, 768],
    [128, 768, 3072],
    [3136, 384, 96],
    [784, 192, 768],
    [49, 3072, 768],
    [49, 768, 3072],
    [49, 960, 160],
    [16, 768, 768],
    [1, 1000, 1280],
];

fn product(data_type: DataType, [m, n, k]: [i64; 3]) -> Subject {
    let name = if [m, k] == [n; 2] { n.to_string() } else { format!("{m} x {n} x {k}") };
    let mut case = Case::new(format!("matmul {} {name}", data_type.name()));
    let of_c = if data_type == DataType::Int8 { DataType::Int32 } else { data_type };
    let a = case.output(data_type, &[m, k], FIRST);
    let b = case.output(data_type, &[k, n], FIRST);
    let c = case.output(of_c, &[m, n], FIRST);
    if data_type == DataType::Int8 {
        case.graph.compute_type = DataType::Int32;
    }
    case.node(Matmul { a, b, c });
    Subject { case, peer: "CUBLASLT_ENGINE", work: 2.0 * (m * n * k) as f64, unit: "TFLOP/s", result: c }
}

/// A convolution of 32 images, with channels last.
fn convolution(what: &str, [c, k, size, filter]: [i64; 4]) -> Subject {
    let mut case =
        Case::new(format!("convolution {what} half 32x{c}x{size}x{size} {k}x{c}x{filter}x{filter}"));
    let order = Order::ChannelsLast;
    let dims = [[32, c, size, size], [k, c, filter, filter], [32, k, size, size]];
    let [x, w, y] = dims.map(|dims| case.output(DataType::Half, &dims, order));
    let (pre_padding, post_padding) = (vec![filter / 2; 2], vec![filter / 2; 2]);
    let (stride, dilation, conv_mode) = (vec![1; 2], vec![1; 2], ConvMode::CrossCorrelation);
    let result = match what {
        "forward" => {
            case.node(ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode });
            y
        }
        "data" => {
            let (dy, dx) = (y, x);
            case.node(ConvolutionBackwardData {
                dy,
                w,
                dx,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
            dx
        }
        _ => {
            let (dy, dw) = (y, w);
            case.node(ConvolutionBackwardFilter {
                x,
                dy,
                dw,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
            dw
        }
    };
    let work = 2.0 * (32 * size * size * k * c * filter * filter) as f64;
    Subject { case, peer: "CUDNN_ENGINE", work, unit: "TFLOP/s", result }
}

/// Causal attention of 16 heads and 16384 tokens.
fn attention(data_type: DataType, length: i64, depth: i64, backward: bool) -> Subject {
    let direction = if backward { "backward" } else { "forward" };
    let mut case =
        Case::new(format!("attention {direction} {} {length} x {depth}; causal", data_type.name()));
    let batch = 16384 / length;
    let dims = [batch, 16, length, depth];
    let [q, k, v, o] = [(); 4].map(|()| case.output(data_type, &dims, FIRST));
    let attn_scale_value = Some(1.0 / (depth as f32).sqrt());
    let result = if backward {
        let do_ = case.output(data_type, &dims, FIRST);
        let stats = case.output(DataType::Float, &[batch, 16, length, 1], FIRST);
        let [dq, dk, dv] = [(); 3].map(|()| case.output(data_type, &dims, FIRST));
        let node = SdpaBackward {
            causal_mask: true,
            attn_scale_value,
            ..SdpaBackward::new([q, k, v, o, do_, stats], [dq, dk, dv])
        };
        case.node(node);
        dq
    } else {
        case.node(Sdpa { causal_mask: true, attn_scale_value, ..Sdpa::new(q, k, v, o) });
        o
    };
    let products = if backward { 5.0 } else { 2.0 };
    let work = products * (batch * 16 * length * length * depth) as f64;
    Subject { case, peer: "CUDNN_ENGINE", work, unit: "TFLOP/s", result }
}

/// A graph that reads and writes so many tensors of 128 M elements (64 M of float), beside the same generator through NVRTC.
fn bound_by_memory(case: Case, data_type: DataType, tensors: i64, result: i64) -> Subject {
    let bytes = tensors * elements(data_type) * data_type.size().unwrap_or(0) as i64;
    Subject { case, peer: "NVRTC_ENGINE", work: bytes as f64, unit: "TB/s", result }
}

fn elements(data_type: DataType) -> i64 {
    if data_type == DataType::Float { 64 << 20 } else { 128 << 20 }
}

fn pointwise(name: &str, data_type: DataType, mode: PointwiseMode) -> Subject {
    let mut case = Case::new(format!("{name} {} {}M", data_type.name(), elements(data_type) >> 20));
    let dims = [64, elements(data_type) / 64];
    let [x, y] = [(); 2].map(|()| case.output(data_type, &dims, FIRST));
    case.node(Pointwise::new(mode, x, None, y));
    bound_by_memory(case, data_type, 2, y)
}

/// relu(x · scale + bias) + z, with a scale and a bias of each column.
fn chain(data_type: DataType) -> Subject {
    let mut case = Case::new(format!("chain of four {} {}M", data_type.name(), elements(data_type) >> 20));
    let dims = [elements(data_type) / 1024, 1024];
    let [x, z, y] = [(); 3].map(|()| case.output(data_type, &dims, FIRST));
    let [scale, bias] = [(); 2].map(|()| case.output(data_type, &[1, 1024], FIRST));
    let [scaled, moved, kept] = [(); 3].map(|()| case.between(DataType::Float, &dims, FIRST));
    case.node(Pointwise::new(PointwiseMode::Mul, x, Some(scale), scaled));
    case.node(Pointwise::new(PointwiseMode::Add, scaled, Some(bias), moved));
    case.node(Pointwise::new(PointwiseMode::ReluFwd, moved, None, kept));
    case.node(Pointwise::new(PointwiseMode::Add, kept, Some(z), y));
    bound_by_memory(case, data_type, 3, y)
}

fn layernorm(data_type: DataType, width: i64) -> Subject {
    let mut case =
        Case::new(format!("layernorm {} {}M x {width}", data_type.name(), elements(data_type) >> 20));
    let dims = [elements(data_type) / width, width];
    let [x, y] = [(); 2].map(|()| case.output(data_type, &dims, FIRST));
    let [scale, bias] = [(); 2].map(|()| case.output(data_type, &[1, width], FIRST));
    let epsilon = case.value(1e-5);
    case.node(Layernorm {
        x,
        scale,
        bias,
        epsilon,
        y,
        mean: None,
        inv_variance: None,
        forward_phase: NormFwdPhase::Inference,
        normalized_dim_count: 1,
    });
    bound_by_memory(case, data_type, 2, y)
}

fn softmax(data_type: DataType, width: i64) -> Subject {
    let mut case =
        Case::new(format!("softmax {} {}M x {width}", data_type.name(), elements(data_type) >> 20));
    let dims = [elements(data_type) / width, width];
    let [x, y] = [(); 2].map(|()| case.output(data_type, &dims, FIRST));
    let [most, sum] = [(); 2].map(|()| case.between(DataType::Float, &[dims[0], 1], FIRST));
    let [below, powers] = [(); 2].map(|()| case.between(DataType::Float, &dims, FIRST));
    let reduction = |in_, out, mode| Reduction { in_, out, mode, is_deterministic: false };
    case.node(reduction(x, most, ReductionMode::Max));
    case.node(Pointwise::new(PointwiseMode::Sub, x, Some(most), below));
    case.node(Pointwise::new(PointwiseMode::Exp, below, None, powers));
    case.node(reduction(powers, sum, ReductionMode::Add));
    case.node(Pointwise::new(PointwiseMode::Div, powers, Some(sum), y));
    bound_by_memory(case, data_type, 2, y)
}
