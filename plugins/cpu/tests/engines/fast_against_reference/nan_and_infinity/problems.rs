//! One problem of every operation.

use crate::engines::common::{Case, Random, fill, tensor};
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance, BlockScaleDequantize,
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Layernorm, LayernormBackward,
    Matmul, MoeGroupedMatmul, MoeGroupedMatmulBackward, Pointwise, Reduction, ResampleBackward,
    ResampleForward, RmsNorm, RmsNormBackward, Sdpa, SdpaBackward,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, MoeGroupedMatmulMode, NormFwdPhase, Operation, PaddingMode, PointwiseMode,
    ReductionMode, ResampleMode,
};

/// A graph whose tensors have one dtype.
pub(crate) struct Problem {
    pub(crate) case: Case,
    pub(crate) random: Random,
    pub(crate) of: DataType,
    /// Operands that no other operation makes infinite, and whose infinities the engines treat differently.
    pub(crate) inverses: Vec<i64>,
    /// Whether an infinity may be NaN.
    pub(crate) mixed: bool,
}

impl Problem {
    /// An inverse standard deviation saved by the forward pass.
    pub(crate) fn inverse(&mut self, dims: &[i64]) -> i64 {
        let uid = self.given(dims, 0.5, 1.5);
        self.inverses.push(uid);
        uid
    }

    pub(crate) fn given(&mut self, dims: &[i64], low: f64, high: f64) -> i64 {
        let uid = self.result(dims);
        fill(&mut self.random, &mut self.case, uid, low, high);
        uid
    }

    pub(crate) fn result(&mut self, dims: &[i64]) -> i64 {
        tensor(&mut self.random, &mut self.case, self.of, dims)
    }

    /// A virtual tensor in the layout of another.
    pub(crate) fn between(&mut self, like: i64) -> i64 {
        let of = self.case.graph.tensor(like).unwrap().clone();
        self.case.virtual_tensor(of.data_type, &of.dims, &of.strides)
    }

    pub(crate) fn integers(&mut self, dims: &[i64], values: &[f64]) -> i64 {
        let uid = self.case.tensor(DataType::Int32, dims);
        self.case.fill(uid, values);
        uid
    }

    pub(crate) fn node(&mut self, operation: impl Into<Operation>) {
        self.case.node(operation);
    }
}

/// A convolution in each direction, with these groups, channels of x and y per group, and this stride.
pub(crate) fn convolution(p: &mut Problem, direction: usize, groups: i64, [c, k]: [i64; 2], step: i64) {
    let window = p.random.one_of(&[1, 3]);
    let sizes = [(6, 19), (7, 8)];
    let (height, width) = p.random.one_of(&sizes);
    let padding = window / 2;
    let of = |size: i64| (size + 2 * padding - window) / step + 1;
    let x = p.given(&[2, groups * c, height, width], -1.0, 1.0);
    let w = p.given(&[groups * k, c, window, window], -1.0, 1.0);
    let y = p.given(&[2, groups * k, of(height), of(width)], -1.0, 1.0);
    let (pre_padding, post_padding) = (vec![padding; 2], vec![padding; 2]);
    let (stride, dilation, conv_mode) = (vec![step; 2], vec![1; 2], ConvMode::CrossCorrelation);
    match direction {
        0 => p.node(ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode }),
        1 => {
            p.node(ConvolutionBackwardData {
                dy: y,
                w,
                dx: x,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
        }
        _ => {
            p.node(ConvolutionBackwardFilter {
                x,
                dy: y,
                dw: w,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
        }
    }
}

/// Makes the last node's output virtual, and adds a bias along a dimension and an activation.
pub(crate) fn ending(p: &mut Problem, axis: usize) {
    let made = p.case.graph.nodes.last().unwrap().operation.outputs()[0];
    p.case.memory.retain(|memory| memory.tensor.uid != made);
    p.case
        .graph
        .tensors
        .iter_mut()
        .filter(|tensor| tensor.uid == made)
        .for_each(|made| made.is_virtual = true);
    let dims = p.case.graph.tensor(made).unwrap().dims.clone();
    let mut of_axis = vec![1; dims.len()];
    of_axis[axis] = dims[axis];
    let bias = p.given(&of_axis, -1.0, 1.0);
    let summed = p.between(made);
    let y = p.result(&dims);
    p.node(Pointwise::new(PointwiseMode::Add, made, Some(bias), summed));
    let mode = p.random.one_of(&[
        PointwiseMode::ReluFwd,
        PointwiseMode::GeluFwd,
        PointwiseMode::SwishFwd,
        PointwiseMode::TanhFwd,
        PointwiseMode::EluFwd,
    ]);
    p.node(Pointwise::new(mode, summed, None, y));
}

pub(crate) fn matmul(p: &mut Problem, [m, n, k]: [i64; 3]) {
    let a = p.given(&[2, m, k], -1.0, 1.0);
    let b = p.given(&[2, k, n], -1.0, 1.0);
    let c = p.result(&[2, m, n]);
    p.node(Matmul { a, b, c });
}

pub(crate) const IMAGES: [i64; 4] = [3, 5, 2, 9];

pub(crate) const CHANNELS: [i64; 4] = [1, 5, 1, 1];

pub(crate) fn batchnorm_inference(p: &mut Problem, with_variance: bool) {
    let x = p.given(&IMAGES, -2.0, 2.0);
    let [mean, spread, scale, bias] = [(); 4].map(|()| p.given(&CHANNELS, 0.5, 1.5));
    let y = p.result(&IMAGES);
    if with_variance {
        let epsilon = p.given(&[1], 0.01, 0.02);
        p.node(BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, y, epsilon });
    } else {
        p.node(BatchnormInference { x, mean, inv_variance: spread, scale, bias, y });
    }
}

pub(crate) fn batchnorm_training(p: &mut Problem) {
    let x = p.given(&IMAGES, -2.0, 2.0);
    let [scale, bias, prev_mean, prev_variance] = [(); 4].map(|()| p.given(&CHANNELS, 0.5, 1.5));
    let [epsilon, momentum] = [(); 2].map(|()| p.given(&[1], 0.1, 0.2));
    let y = p.result(&IMAGES);
    let [mean, inv_variance, next_mean, next_variance] = [(); 4].map(|()| Some(p.result(&CHANNELS)));
    p.node(Batchnorm {
        x,
        scale,
        bias,
        epsilon,
        y,
        prev_running_mean: Some(prev_mean),
        prev_running_variance: Some(prev_variance),
        momentum: Some(momentum),
        mean,
        inv_variance,
        next_running_mean: next_mean,
        next_running_variance: next_variance,
        peer_stats: vec![],
    });
}

pub(crate) fn batchnorm_backward(p: &mut Problem, saved: bool) {
    let [dy, x] = [(); 2].map(|()| p.given(&IMAGES, -2.0, 2.0));
    let scale = p.given(&CHANNELS, 0.5, 1.5);
    let mean = saved.then(|| p.given(&CHANNELS, 0.5, 1.5));
    let inv_variance = saved.then(|| p.inverse(&CHANNELS));
    let dx = p.result(&IMAGES);
    let [dscale, dbias] = [(); 2].map(|()| p.result(&CHANNELS));
    p.node(BatchnormBackward { dy, x, scale, dx, dscale, dbias, mean, inv_variance, peer_stats: vec![] });
}

pub(crate) const ROWS: [i64; 3] = [3, 2, 37];

pub(crate) const PLACES: [i64; 3] = [1, 1, 37];

pub(crate) const STATISTICS: [i64; 3] = [3, 2, 1];

pub(crate) fn layernorm(p: &mut Problem) {
    let x = p.given(&ROWS, -2.0, 2.0);
    let [scale, bias] = [(); 2].map(|()| p.given(&PLACES, 0.5, 1.5));
    let epsilon = p.given(&[1], 0.01, 0.02);
    let y = p.result(&ROWS);
    let [mean, inv_variance] = [(); 2].map(|()| Some(p.result(&STATISTICS)));
    let (forward_phase, normalized_dim_count) = (NormFwdPhase::Training, 1);
    p.node(Layernorm { x, scale, bias, epsilon, y, mean, inv_variance, forward_phase, normalized_dim_count });
}

pub(crate) fn layernorm_backward(p: &mut Problem, saved: bool) {
    let [dy, x] = [(); 2].map(|()| p.given(&ROWS, -2.0, 2.0));
    let scale = p.given(&PLACES, 0.5, 1.5);
    let mean = saved.then(|| p.given(&STATISTICS, 0.5, 1.5));
    let inv_variance = saved.then(|| p.inverse(&STATISTICS));
    let epsilon = (!saved).then(|| p.given(&[1], 0.01, 0.02));
    let dx = p.result(&ROWS);
    let [dscale, dbias] = [(); 2].map(|()| p.result(&PLACES));
    let normalized_dim_count = 1;
    p.node(LayernormBackward {
        dy,
        x,
        scale,
        mean,
        inv_variance,
        epsilon,
        dx,
        dscale,
        dbias,
        normalized_dim_count,
    });
}

pub(crate) fn rms_norm(p: &mut Problem) {
    let x = p.given(&ROWS, -2.0, 2.0);
    let [scale, bias] = [(); 2].map(|()| p.given(&PLACES, 0.5, 1.5));
    let epsilon = p.given(&[1], 0.01, 0.02);
    let (y, inv_rms) = (p.result(&ROWS), Some(p.result(&STATISTICS)));
    let forward_phase = NormFwdPhase::Training;
    p.node(RmsNorm { x, scale, epsilon, y, bias: Some(bias), inv_rms, forward_phase });
}

pub(crate) fn rms_norm_backward(p: &mut Problem) {
    let [dy, x] = [(); 2].map(|()| p.given(&ROWS, -2.0, 2.0));
    let scale = p.given(&PLACES, 0.5, 1.5);
    let inv_rms = Some(p.inverse(&STATISTICS));
    let dx = p.result(&ROWS);
    let [dscale, dbias] = [(); 2].map(|()| p.result(&PLACES));
    p.node(RmsNormBackward { dy, x, scale, inv_rms, dx, dscale, dbias: Some(dbias) });
}

pub(crate) fn reduction(p: &mut Problem, mode: ReductionMode) {
    let dims = [4, 3, 21];
    let kept = p.random.one_of(&[[4, 3, 1], [1, 3, 21], [4, 1, 1], [1, 1, 1]]);
    let in_ = p.given(&dims, 0.5, 1.5);
    let out = p.result(&kept);
    p.node(Reduction { in_, out, mode, is_deterministic: false });
}

pub(crate) fn resample(p: &mut Problem, resample_mode: ResampleMode, padding_mode: PaddingMode) {
    let (step, window) = (p.random.int(1, 2), p.random.int(2, 3));
    let of = |size: i64| (size + 2 - window) / step + 1;
    let x = p.given(&[2, 5, 5, 19], -1.0, 1.0);
    let dims = [2, 5, of(5), of(19)];
    let y = p.result(&dims);
    let maximum = resample_mode == ResampleMode::Maxpool;
    let index = (maximum && p.random.chance(50)).then(|| p.case.tensor(DataType::Int32, &dims));
    let generate_index = Some(index.is_some());
    let (pre_padding, post_padding) = (vec![1; 2], vec![1; 2]);
    let (stride, window) = (vec![step; 2], vec![window; 2]);
    p.node(ResampleForward {
        x,
        y,
        index,
        pre_padding,
        post_padding,
        stride,
        window,
        resample_mode,
        padding_mode,
        generate_index,
    });
}

pub(crate) fn resample_backward(p: &mut Problem, resample_mode: ResampleMode, padding_mode: PaddingMode) {
    let dx = p.result(&[2, 5, 5, 19]);
    let dims = [2, 5, 6, 20];
    let dy = p.given(&dims, -1.0, 1.0);
    let index = (resample_mode == ResampleMode::Maxpool).then(|| {
        let places: Vec<f64> = (0..2 * 5 * 6 * 20).map(|_| p.random.int(-1, 94) as f64).collect();
        p.integers(&dims, &places)
    });
    let (pre_padding, post_padding) = (vec![1; 2], vec![1; 2]);
    let (stride, window) = (vec![1; 2], vec![2; 2]);
    p.node(ResampleBackward {
        dy,
        dx,
        index,
        pre_padding,
        post_padding,
        stride,
        window,
        resample_mode,
        padding_mode,
    });
}

pub(crate) fn softmax(p: &mut Problem) {
    let x = p.given(&ROWS, -2.0, 2.0);
    let y = p.result(&ROWS);
    let rows = p.case.virtual_tensor(p.of, &STATISTICS, &[2, 1, 1]);
    let sum = p.between(rows);
    let [below, powers] = [(); 2].map(|()| p.between(y));
    let reduction = |in_, out, mode| Reduction { in_, out, mode, is_deterministic: false };
    p.node(reduction(x, rows, ReductionMode::Max));
    p.node(Pointwise::new(PointwiseMode::Sub, x, Some(rows), below));
    p.node(Pointwise::new(PointwiseMode::Exp, below, None, powers));
    p.node(reduction(powers, sum, ReductionMode::Add));
    p.node(Pointwise::new(PointwiseMode::Div, powers, Some(sum), y));
}

/// Attention; its gradients read the tensors that would be its results.
pub(crate) fn attention(p: &mut Problem, gradients: bool, causal_mask: bool, with_mask: bool) {
    let (queries, keys) = ([1, 2, 5, 8], [1, 2, 19, 8]);
    let q = p.given(&queries, -1.0, 1.0);
    let [k, v] = [(); 2].map(|()| p.given(&keys, -1.0, 1.0));
    let o = if gradients { p.given(&queries, -1.0, 1.0) } else { p.result(&queries) };
    let mut node = Sdpa::new(q, k, v, o);
    node.causal_mask = causal_mask;
    node.attn_mask = with_mask.then(|| p.given(&[1, 1, 5, 19], -1.0, 1.0));
    p.mixed = gradients;
    if !gradients {
        node.stats = Some(p.result(&[1, 2, 5, 1]));
        return p.node(node);
    }
    let stats = p.given(&[1, 2, 5, 1], 2.0, 3.0);
    let d_o = p.given(&queries, -1.0, 1.0);
    let dq = p.result(&queries);
    let [dk, dv] = [(); 2].map(|()| p.result(&keys));
    p.node(SdpaBackward::of(&node, [d_o, stats], [dq, dk, dv]));
}

pub(crate) fn mixture(p: &mut Problem) {
    let token = p.given(&[1, 7, 3], -1.0, 1.0);
    let weight = p.given(&[2, 3, 5], -1.0, 1.0);
    let first_token_offset = p.integers(&[4, 1, 1], &[1.0, 3.0, 3.0, 6.0]);
    let output = p.result(&[1, 7, 5]);
    let mode = MoeGroupedMatmulMode::None;
    let (token_index, token_ks, top_k) = (None, None, 0);
    p.node(MoeGroupedMatmul {
        token,
        weight,
        first_token_offset,
        token_index,
        token_ks,
        output,
        mode,
        top_k,
    });
}

pub(crate) fn mixture_backward(p: &mut Problem) {
    let token = p.given(&[1, 7, 3], -1.0, 1.0);
    let doutput = p.given(&[1, 7, 5], -1.0, 1.0);
    let first_token_offset = p.integers(&[4, 1, 1], &[1.0, 3.0, 3.0, 6.0]);
    let dweight = p.result(&[2, 3, 5]);
    p.node(MoeGroupedMatmulBackward { doutput, token, first_token_offset, dweight });
}

pub(crate) fn dequantize(p: &mut Problem) {
    let x = p.given(&[2, 3, 16], -1.0, 1.0);
    let scale = p.given(&[2, 3, 4], 0.5, 1.5);
    let y = p.result(&[2, 3, 16]);
    p.node(BlockScaleDequantize { x, scale, y, block_size: vec![4], is_negative_scale: false });
}

pub(crate) fn pointwise(p: &mut Problem, mode: PointwiseMode) {
    let dims = [3, 2, 19];
    let inputs: Vec<i64> = (0..mode.operands())
        .map(|_| {
            let shape = p.random.one_of(&[dims, dims, [1, 2, 1], [1, 1, 19]]);
            p.given(&shape, 0.5, 1.5)
        })
        .collect();
    let out_0 = p.result(&dims);
    let axis = (mode == PointwiseMode::GenIndex).then_some(1);
    let in_2 = inputs.get(2).copied();
    p.node(Pointwise { in_2, axis, ..Pointwise::new(mode, inputs[0], inputs.get(1).copied(), out_0) });
}

pub(crate) type Build = Box<dyn Fn(&mut Problem)>;
