//! Graphs of one node of every kind that something may follow.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormInference, BatchnormInferenceVariance, BlockScaleDequantize, ConvolutionBackwardData,
    ConvolutionBackwardFilter, ConvolutionForward, Layernorm, Matmul, MoeGroupedMatmul, Pointwise, Reduction,
    ResampleBackward, ResampleForward, RmsNorm, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, MoeGroupedMatmulMode, NormFwdPhase, PaddingMode, PointwiseMode as M, ReductionMode,
    ResampleMode, TensorValue,
};

use super::super::common::{Case, Random, channels_last, fill, packed, tensor};
use super::super::integers::{BYTES, fill_bytes, node};
use super::Tail;

/// Every kind of first node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Convolution,
    Depthwise,
    BackwardData,
    Matmul,
    Bytes,
    DepthwiseBytes,
    Inference,
    Training,
    Layernorm,
    RmsNorm,
    Pooling,
    Reduction,
    Attention,
    Pointwise,
    Dequantize,
    BackwardWeights,
    PoolingBackward,
    Mixture,
}

pub(super) const ANCHORS: [Anchor; 18] = [
    Anchor::Convolution,
    Anchor::Depthwise,
    Anchor::BackwardData,
    Anchor::Matmul,
    Anchor::Bytes,
    Anchor::DepthwiseBytes,
    Anchor::Inference,
    Anchor::Training,
    Anchor::Layernorm,
    Anchor::RmsNorm,
    Anchor::Pooling,
    Anchor::Reduction,
    Anchor::Attention,
    Anchor::Pointwise,
    Anchor::Dequantize,
    Anchor::BackwardWeights,
    Anchor::PoolingBackward,
    Anchor::Mixture,
];

/// A tensor with values from -2 to 2.
fn filled(random: &mut Random, case: &mut Case, of: DataType, dims: &[i64]) -> i64 {
    let uid = tensor(random, case, of, dims);
    fill(random, case, uid, -2.0, 2.0);
    uid
}

/// Adds a convolution of these types; returns its result and that one's dims.
fn convolution(
    random: &mut Random,
    case: &mut Case,
    types: [DataType; 3],
    (groups, c, k): (i64, i64, i64),
    compute: DataType,
) -> (i64, Vec<i64>) {
    let side = random.one_of(&[1, 1, 3, 3, 5]);
    let (step, padding) = (random.one_of(&[1, 1, 2]), random.int(0, side / 2));
    let size = [0, 1].map(|_| random.int(side, 20));
    let output = size.map(|size| (size + 2 * padding - side) / step + 1);
    let batch = random.int(1, 2);
    let x = tensor(random, case, types[0], &[batch, groups * c, size[0], size[1]]);
    let w = tensor(random, case, types[1], &[groups * k, c, side, side]);
    for (uid, of) in [(x, types[0]), (w, types[1])] {
        match BYTES.contains(&of) {
            true => fill_bytes(case, random, uid),
            false => fill(random, case, uid, -2.0, 2.0),
        }
    }
    let dims = vec![batch, groups * k, output[0], output[1]];
    let strides = if random.chance(40) { channels_last(&dims) } else { packed(&dims) };
    let y = case.tensor_with(types[2], &dims, &strides);
    let conv_mode = random.one_of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]);
    let (pre_padding, post_padding) = (vec![padding; 2], vec![padding; 2]);
    let (stride, dilation) = (vec![step; 2], vec![1; 2]);
    let operation = ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode };
    node(case, compute, operation);
    (y, dims)
}

/// One value for each channel.
fn channel(random: &mut Random, case: &mut Case, dims: &[i64], low: f64) -> i64 {
    let mut parameter = vec![1; dims.len()];
    parameter[1] = dims[1];
    let uid = case.tensor(DataType::Float, &parameter);
    case.memory(uid).fill(|| random.real(low, 2.0));
    uid
}

impl Tail {
    /// A graph of one node.
    pub(super) fn of(anchor: Anchor, random: &mut Random) -> Self {
        let mut case = Case::new();
        let compute = if random.chance(15) { DataType::Double } else { DataType::Float };
        let of = match compute {
            DataType::Double => compute,
            _ => random.one_of(&[DataType::Float, DataType::Float, DataType::Half, DataType::Bfloat16]),
        };
        let case_ref = &mut case;
        let channels = (1, random.int(1, 33), random.int(1, 40));
        let depthwise = (random.int(2, 40), 1, random.one_of(&[1, 1, 2]));
        let bytes = [random.one_of(&BYTES), random.one_of(&BYTES), DataType::Int32];
        let general = [random.int(1, 3), random.int(1, 20), random.int(1, 12), random.int(1, 20)].to_vec();
        let (y, dims) = match anchor {
            Anchor::Convolution => convolution(random, case_ref, [of; 3], channels, compute),
            Anchor::Depthwise => convolution(random, case_ref, [of; 3], depthwise, compute),
            Anchor::Bytes if random.chance(50) => {
                let [m, n, k] = [(); 3].map(|()| random.int(1, 60));
                let [a, b] = [(0, [m, k]), (1, [k, n])].map(|(at, dims)| {
                    let uid = tensor(random, case_ref, bytes[at], &dims);
                    fill_bytes(case_ref, random, uid);
                    uid
                });
                let c = case_ref.tensor(DataType::Int32, &[m, n]);
                node(case_ref, DataType::Int32, Matmul { a, b, c });
                (c, vec![m, n])
            }
            Anchor::Bytes => convolution(random, case_ref, bytes, channels, DataType::Int32),
            Anchor::DepthwiseBytes => convolution(random, case_ref, bytes, depthwise, DataType::Int32),
            Anchor::Matmul => {
                let [batch, m, n, k] = [3, 40, 60, 60].map(|most| random.int(1, most));
                let a = filled(random, case_ref, of, &[batch, m, k]);
                let b = filled(random, case_ref, of, &[batch, k, n]);
                let dims = vec![batch, m, n];
                let c = case_ref.tensor(of, &dims);
                node(case_ref, compute, Matmul { a, b, c });
                (c, dims)
            }
            Anchor::BackwardData => {
                let dims = general;
                let k = random.int(1, 20);
                let dy = filled(random, case_ref, of, &[dims[0], k, dims[2], dims[3]]);
                let w = filled(random, case_ref, of, &[k, dims[1], 3, 3]);
                let dx = case_ref.tensor(of, &dims);
                let (pre_padding, post_padding) = (vec![1; 2], vec![1; 2]);
                let (stride, dilation, conv_mode) = (vec![1; 2], vec![1; 2], ConvMode::CrossCorrelation);
                let operation = ConvolutionBackwardData {
                    dy,
                    w,
                    dx,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                };
                node(case_ref, compute, operation);
                (dx, dims)
            }
            Anchor::Inference | Anchor::Training => {
                let x = filled(random, case_ref, of, &general);
                let y = case_ref.tensor(of, &general);
                let [mean, scale, bias] = [(); 3].map(|()| channel(random, case_ref, &general, -2.0));
                let spread = channel(random, case_ref, &general, 0.25);
                let epsilon = case_ref.value(DataType::Float, TensorValue::Float32(1e-3));
                match (anchor, random.chance(50)) {
                    (Anchor::Training, _) => {
                        let operation = Batchnorm { epsilon, ..Batchnorm::new(x, scale, bias, epsilon, y) };
                        node(case_ref, compute, operation);
                    }
                    (_, true) => {
                        let inv_variance = spread;
                        let operation = BatchnormInference { x, mean, inv_variance, scale, bias, y };
                        node(case_ref, compute, operation);
                    }
                    _ => {
                        let variance = spread;
                        let operation =
                            BatchnormInferenceVariance { x, mean, variance, scale, bias, y, epsilon };
                        node(case_ref, compute, operation);
                    }
                }
                (y, general)
            }
            Anchor::Layernorm | Anchor::RmsNorm => {
                let dims = vec![random.int(1, 9), random.int(1, 9), random.int(1, 70)];
                let x = filled(random, case_ref, of, &dims);
                let y = case_ref.tensor(of, &dims);
                let scale = filled(random, case_ref, DataType::Float, &[1, 1, dims[2]]);
                let bias = filled(random, case_ref, DataType::Float, &[1, 1, dims[2]]);
                let epsilon = case_ref.value(DataType::Float, TensorValue::Float32(1e-2));
                if anchor == Anchor::Layernorm {
                    let operation = Layernorm {
                        x,
                        scale,
                        bias,
                        epsilon,
                        y,
                        mean: None,
                        inv_variance: None,
                        forward_phase: NormFwdPhase::Inference,
                        normalized_dim_count: 1,
                    };
                    node(case_ref, compute, operation);
                } else {
                    let forward_phase = NormFwdPhase::Inference;
                    let (bias, inv_rms) = (Some(bias), None);
                    node(case_ref, compute, RmsNorm { x, scale, epsilon, y, bias, inv_rms, forward_phase });
                }
                (y, dims)
            }
            Anchor::Pooling => {
                let x =
                    filled(random, case_ref, of, &[general[0], general[1], 2 * general[2], 2 * general[3]]);
                let y = case_ref.tensor(of, &general);
                let operation = ResampleForward {
                    x,
                    y,
                    index: None,
                    pre_padding: vec![0; 2],
                    post_padding: vec![0; 2],
                    stride: vec![2; 2],
                    window: vec![2; 2],
                    resample_mode: random
                        .one_of(&[ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding]),
                    padding_mode: PaddingMode::ZeroPad,
                    generate_index: Some(false),
                };
                node(case_ref, compute, operation);
                (y, general)
            }
            Anchor::Reduction => {
                let mut dims = general;
                let in_ = filled(random, case_ref, of, &dims);
                dims[random.int(1, 3) as usize] = 1;
                let out = case_ref.tensor(of, &dims);
                let mode = random.one_of(&[ReductionMode::Add, ReductionMode::Max, ReductionMode::Norm2]);
                node(case_ref, compute, Reduction { in_, out, mode, is_deterministic: false });
                (out, dims)
            }
            Anchor::Attention => {
                let dims = vec![random.int(1, 2), random.int(1, 4), random.int(1, 40), random.int(1, 32)];
                let [q, k, v] = [(); 3].map(|()| filled(random, case_ref, of, &dims));
                let o = case_ref.tensor(of, &dims);
                let scale = Some(0.25);
                node(case_ref, compute, Sdpa { attn_scale_value: scale, ..Sdpa::new(q, k, v, o) });
                (o, dims)
            }
            Anchor::Pointwise => {
                let x = filled(random, case_ref, of, &general);
                let y = case_ref.tensor(of, &general);
                let mode = random.one_of(&[M::Identity, M::TanhFwd, M::Exp, M::Neg]);
                node(case_ref, compute, Pointwise::new(mode, x, None, y));
                (y, general)
            }
            Anchor::Dequantize => {
                let dims = vec![random.int(1, 9), 32 * random.int(1, 4)];
                let x = case_ref.tensor(DataType::Fp8E4m3, &dims);
                fill(random, case_ref, x, -2.0, 2.0);
                let scale = case_ref.tensor(DataType::Float, &[dims[0], dims[1] / 32]);
                fill(random, case_ref, scale, 0.5, 2.0);
                let y = case_ref.tensor(DataType::Float, &dims);
                let operation =
                    BlockScaleDequantize { x, scale, y, block_size: vec![32], is_negative_scale: false };
                node(case_ref, DataType::Float, operation);
                (y, dims)
            }
            Anchor::BackwardWeights => {
                let [k, c, height, width] = [0, 1, 2, 3].map(|at| general[at]);
                let [batch, rows, columns] = [(); 3].map(|()| random.int(1, 9));
                let dy = filled(random, case_ref, of, &[batch, k, rows, columns]);
                let x = filled(random, case_ref, of, &[batch, c, rows + height - 1, columns + width - 1]);
                let dw = case_ref.tensor(of, &general);
                let (pre_padding, post_padding) = (vec![0; 2], vec![0; 2]);
                let (stride, dilation, conv_mode) = (vec![1; 2], vec![1; 2], ConvMode::CrossCorrelation);
                let operation = ConvolutionBackwardFilter {
                    x,
                    dy,
                    dw,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                };
                node(case_ref, compute, operation);
                (dw, general)
            }
            Anchor::PoolingBackward => {
                let dims = vec![general[0], general[1], 2 * general[2], 2 * general[3]];
                let dy = filled(random, case_ref, of, &general);
                let dx = case_ref.tensor(of, &dims);
                let operation = ResampleBackward {
                    dy,
                    dx,
                    index: None,
                    pre_padding: vec![0; 2],
                    post_padding: vec![0; 2],
                    stride: vec![2; 2],
                    window: vec![2; 2],
                    resample_mode: ResampleMode::AvgpoolIncludePadding,
                    padding_mode: PaddingMode::ZeroPad,
                };
                node(case_ref, compute, operation);
                (dx, dims)
            }
            Anchor::Mixture => {
                let [experts, tokens, k, n] = [4, 20, 40, 40].map(|most| random.int(1, most));
                let token = filled(random, case_ref, of, &[1, tokens, k]);
                let weight = filled(random, case_ref, of, &[experts, k, n]);
                let first_token_offset = case_ref.tensor(DataType::Int32, &[experts, 1, 1]);
                let first: Vec<f64> = (0..experts).map(|at| (at * tokens / experts) as f64).collect();
                case_ref.fill(first_token_offset, &first);
                let dims = vec![1, tokens, n];
                let output = case_ref.tensor(of, &dims);
                let operation = MoeGroupedMatmul {
                    token,
                    weight,
                    first_token_offset,
                    token_index: None,
                    token_ks: None,
                    output,
                    mode: MoeGroupedMatmulMode::None,
                    top_k: 0,
                };
                node(case_ref, compute, operation);
                (output, dims)
            }
        };
        let strides = case.graph.tensor(y).unwrap().strides.clone();
        let compute = if case.graph.tensor(y).unwrap().data_type == DataType::Int32 {
            DataType::Float
        } else {
            compute
        };
        Self { case, values: vec![y], dims, compute, strides }
    }
}
