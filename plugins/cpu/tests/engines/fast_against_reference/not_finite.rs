//! NaN and infinities in each operand of every operation: where the reference has a NaN, an infinity or a number, so has the
//! other engine.

use hipdnn_cpu_plugin::plan::Plan;
use hipdnn_cpu_plugin::plugin::planner;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance, BlockScaleDequantize,
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Layernorm, LayernormBackward,
    Matmul, MoeGroupedMatmul, MoeGroupedMatmulBackward, Pointwise, Reduction, ResampleBackward,
    ResampleForward, RmsNorm, RmsNormBackward, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, MoeGroupedMatmulMode, NormFwdPhase, Operation, PaddingMode, PointwiseMode,
    ReductionMode, ResampleMode,
};

use super::{FAST, FLOATS, REFERENCE, roundoff};
use crate::common::{Case, Random, fill, tensor};
use crate::reference_attention::gradients_of;

/// A graph whose tensors are of one type.
struct Problem {
    case: Case,
    random: Random,
    of: DataType,
    /// Operands that no other operation makes infinite, and whose infinities the engines treat each in its own way.
    inverses: Vec<i64>,
    /// Whether an infinity may be NaN.
    mixed: bool,
}

impl Problem {
    /// An inverse of a root that the forward direction saved.
    fn inverse(&mut self, dims: &[i64]) -> i64 {
        let uid = self.given(dims, 0.5, 1.5);
        self.inverses.push(uid);
        uid
    }

    fn given(&mut self, dims: &[i64], low: f64, high: f64) -> i64 {
        let uid = self.result(dims);
        fill(&mut self.random, &mut self.case, uid, low, high);
        uid
    }

    fn result(&mut self, dims: &[i64]) -> i64 {
        tensor(&mut self.random, &mut self.case, self.of, dims)
    }

    /// A tensor without memory, in the layout of another.
    fn between(&mut self, like: i64) -> i64 {
        let of = self.case.graph.tensor(like).unwrap().clone();
        self.case.virtual_tensor(of.data_type, &of.dims, &of.strides)
    }

    fn integers(&mut self, dims: &[i64], values: &[f64]) -> i64 {
        let uid = self.case.tensor(DataType::Int32, dims);
        self.case.fill(uid, values);
        uid
    }

    fn node(&mut self, operation: impl Into<Operation>) {
        self.case.node(operation);
    }
}

/// A convolution in each direction, with these groups and channels of x and y in each, and this step.
fn convolution(p: &mut Problem, direction: usize, groups: i64, [c, k]: [i64; 2], step: i64) {
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

/// Makes what the last node writes a tensor without memory, and adds a bias along a dimension and an activation.
fn ending(p: &mut Problem, axis: usize) {
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

fn matmul(p: &mut Problem, [m, n, k]: [i64; 3]) {
    let a = p.given(&[2, m, k], -1.0, 1.0);
    let b = p.given(&[2, k, n], -1.0, 1.0);
    let c = p.result(&[2, m, n]);
    p.node(Matmul { a, b, c });
}

const IMAGES: [i64; 4] = [3, 5, 2, 9];
const CHANNELS: [i64; 4] = [1, 5, 1, 1];

fn batchnorm_inference(p: &mut Problem, with_variance: bool) {
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

fn batchnorm_training(p: &mut Problem) {
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

fn batchnorm_backward(p: &mut Problem, saved: bool) {
    let [dy, x] = [(); 2].map(|()| p.given(&IMAGES, -2.0, 2.0));
    let scale = p.given(&CHANNELS, 0.5, 1.5);
    let mean = saved.then(|| p.given(&CHANNELS, 0.5, 1.5));
    let inv_variance = saved.then(|| p.inverse(&CHANNELS));
    let dx = p.result(&IMAGES);
    let [dscale, dbias] = [(); 2].map(|()| p.result(&CHANNELS));
    p.node(BatchnormBackward { dy, x, scale, dx, dscale, dbias, mean, inv_variance, peer_stats: vec![] });
}

const ROWS: [i64; 3] = [3, 2, 37];
const PLACES: [i64; 3] = [1, 1, 37];
const STATISTICS: [i64; 3] = [3, 2, 1];

fn layernorm(p: &mut Problem) {
    let x = p.given(&ROWS, -2.0, 2.0);
    let [scale, bias] = [(); 2].map(|()| p.given(&PLACES, 0.5, 1.5));
    let epsilon = p.given(&[1], 0.01, 0.02);
    let y = p.result(&ROWS);
    let [mean, inv_variance] = [(); 2].map(|()| Some(p.result(&STATISTICS)));
    let (forward_phase, normalized_dim_count) = (NormFwdPhase::Training, 1);
    p.node(Layernorm { x, scale, bias, epsilon, y, mean, inv_variance, forward_phase, normalized_dim_count });
}

fn layernorm_backward(p: &mut Problem, saved: bool) {
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

fn rms_norm(p: &mut Problem) {
    let x = p.given(&ROWS, -2.0, 2.0);
    let [scale, bias] = [(); 2].map(|()| p.given(&PLACES, 0.5, 1.5));
    let epsilon = p.given(&[1], 0.01, 0.02);
    let (y, inv_rms) = (p.result(&ROWS), Some(p.result(&STATISTICS)));
    let forward_phase = NormFwdPhase::Training;
    p.node(RmsNorm { x, scale, epsilon, y, bias: Some(bias), inv_rms, forward_phase });
}

fn rms_norm_backward(p: &mut Problem) {
    let [dy, x] = [(); 2].map(|()| p.given(&ROWS, -2.0, 2.0));
    let scale = p.given(&PLACES, 0.5, 1.5);
    let inv_rms = Some(p.inverse(&STATISTICS));
    let dx = p.result(&ROWS);
    let [dscale, dbias] = [(); 2].map(|()| p.result(&PLACES));
    p.node(RmsNormBackward { dy, x, scale, inv_rms, dx, dscale, dbias: Some(dbias) });
}

fn reduction(p: &mut Problem, mode: ReductionMode) {
    let dims = [4, 3, 21];
    let kept = p.random.one_of(&[[4, 3, 1], [1, 3, 21], [4, 1, 1], [1, 1, 1]]);
    let in_ = p.given(&dims, 0.5, 1.5);
    let out = p.result(&kept);
    p.node(Reduction { in_, out, mode, is_deterministic: false });
}

fn resample(p: &mut Problem, resample_mode: ResampleMode, padding_mode: PaddingMode) {
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

fn resample_backward(p: &mut Problem, resample_mode: ResampleMode, padding_mode: PaddingMode) {
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

fn softmax(p: &mut Problem) {
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

/// Attention; its gradients read what would be the results.
fn attention(p: &mut Problem, gradients: bool, causal_mask: bool, with_mask: bool) {
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
    p.node(gradients_of(&node, [d_o, stats, dq, dk, dv]));
}

fn mixture(p: &mut Problem) {
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

fn mixture_backward(p: &mut Problem) {
    let token = p.given(&[1, 7, 3], -1.0, 1.0);
    let doutput = p.given(&[1, 7, 5], -1.0, 1.0);
    let first_token_offset = p.integers(&[4, 1, 1], &[1.0, 3.0, 3.0, 6.0]);
    let dweight = p.result(&[2, 3, 5]);
    p.node(MoeGroupedMatmulBackward { doutput, token, first_token_offset, dweight });
}

fn dequantize(p: &mut Problem) {
    let x = p.given(&[2, 3, 16], -1.0, 1.0);
    let scale = p.given(&[2, 3, 4], 0.5, 1.5);
    let y = p.result(&[2, 3, 16]);
    p.node(BlockScaleDequantize { x, scale, y, block_size: vec![4], is_negative_scale: false });
}

fn pointwise(p: &mut Problem, mode: PointwiseMode) {
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

type Build = Box<dyn Fn(&mut Problem)>;

/// Every operation that takes floating point numbers and does not refuse what is not finite.
fn operations() -> Vec<(String, Build)> {
    let mut all: Vec<(String, Build)> = Vec::new();
    let mut add = |name: &str, build: Build| all.push((name.to_owned(), build));
    let channels: [(i64, [i64; 2]); 4] = [(1, [3, 5]), (1, [9, 2]), (2, [2, 3]), (5, [1, 1])];
    for (direction, name) in ["convolution", "data gradient", "filter gradient"].iter().enumerate() {
        for (groups, c) in channels {
            for step in [1, 2] {
                add(name, Box::new(move |p| convolution(p, direction, groups, c, step)));
            }
        }
    }
    for (groups, c) in channels {
        add(
            "convolution and what follows",
            Box::new(move |p| {
                convolution(p, 0, groups, c, 1);
                ending(p, 1);
            }),
        );
    }
    for sizes in [[1, 19, 12], [9, 18, 11], [5, 1, 21], [3, 40, 2]] {
        add("matmul", Box::new(move |p| matmul(p, sizes)));
        add(
            "matmul and what follows",
            Box::new(move |p| {
                matmul(p, sizes);
                ending(p, 2);
            }),
        );
    }
    for flag in [false, true] {
        add("batchnorm inference", Box::new(move |p| batchnorm_inference(p, flag)));
        add("batchnorm backward", Box::new(move |p| batchnorm_backward(p, flag)));
        add("layernorm backward", Box::new(move |p| layernorm_backward(p, flag)));
        for masked in [false, true] {
            add("attention", Box::new(move |p| attention(p, false, flag, masked)));
            add("gradients of attention", Box::new(move |p| attention(p, true, flag, masked)));
        }
    }
    add("batchnorm training", Box::new(batchnorm_training));
    add("layernorm", Box::new(layernorm));
    add("RMSNorm", Box::new(rms_norm));
    add("RMSNorm backward", Box::new(rms_norm_backward));
    add("softmax", Box::new(softmax));
    add("mixture of experts", Box::new(mixture));
    add("gradient of a mixture of experts", Box::new(mixture_backward));
    add("block scale dequantize", Box::new(dequantize));
    for mode in ReductionMode::ALL.iter().copied().filter(|mode| *mode != ReductionMode::NotSet) {
        add(mode.name(), Box::new(move |p| reduction(p, mode)));
    }
    for mode in
        [ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding, ResampleMode::AvgpoolExcludePadding]
    {
        for padding in PaddingMode::ALL.iter().copied() {
            add("pooling", Box::new(move |p| resample(p, mode, padding)));
            add("gradient of pooling", Box::new(move |p| resample_backward(p, mode, padding)));
        }
    }
    for mode in PointwiseMode::ALL.iter().copied().filter(|mode| *mode != PointwiseMode::Unset) {
        add(mode.name(), Box::new(move |p| pointwise(p, mode)));
    }
    all
}

/// Where two numbers are not the same kind of thing, or far from each other.
fn differ(fast: f64, reference: f64, of: DataType, mixed: bool) -> bool {
    if mixed && !fast.is_finite() && !reference.is_finite() {
        return false;
    }
    if fast.is_finite() && reference.is_finite() {
        return (fast - reference).abs() > 64.0 * roundoff(of).0.max(1e-6) * (1.0 + reference.abs());
    }
    !(fast == reference || (fast.is_nan() && reference.is_nan()))
}

/// Runs both engines; gives the first result that differs.
fn difference(what: &str, case: &Case, (of, mixed): (DataType, bool), plans: &[Plan; 2]) -> Option<String> {
    let [fast, reference] = [FAST, REFERENCE].map(|engine| {
        let mut case = case.clone();
        case.execute(&plans[engine]);
        case
    });
    let written: Vec<i64> = case.graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect();
    for memory in fast.memory.iter().filter(|memory| written.contains(&memory.tensor.uid)) {
        let uid = memory.tensor.uid;
        for (at, (fast, expected)) in memory.values().into_iter().zip(reference.values(uid)).enumerate() {
            if differ(fast, expected, of, mixed) {
                let tensors: Vec<_> =
                    case.graph.tensors.iter().map(|t| (t.uid, &t.dims, &t.strides)).collect();
                let nodes = &case.graph.nodes;
                return Some(format!(
                    "{what}: tensor {uid} element {at} is {fast}, expected {expected}\n{nodes:?}\n{tensors:?}\n"
                ));
            }
        }
    }
    None
}

#[test]
fn numbers_that_are_not_finite_go_where_they_go_in_the_reference() {
    const STRANGE: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    // One of each operation with each type, so that one cause does not hide another.
    let mut differences = Vec::new();
    for (number, (name, build)) in (40_000_u64..).step_by(100).zip(operations()) {
        for (seed, of) in (number..).zip(FLOATS.into_iter().cycle().take(6)) {
            let mut problem =
                Problem { case: Case::new(), random: Random(seed), of, inverses: vec![], mixed: false };
            problem.case.graph.compute_type = if of == DataType::Double { of } else { DataType::Float };
            build(&mut problem);
            let Problem { case, mut random, inverses, mixed, .. } = problem;
            let plans = [FAST, REFERENCE].map(|engine| planner(engine).plan(&case.graph).unwrap());
            let read: Vec<i64> = case.graph.nodes.iter().flat_map(|node| node.operation.inputs()).collect();
            let inputs: Vec<i64> = case
                .memory
                .iter()
                .map(|memory| &memory.tensor)
                .filter(|tensor| tensor.data_type == of && read.contains(&tensor.uid))
                .map(|tensor| tensor.uid)
                .collect();
            let mut spoil = |case: &mut Case, uid: i64, strange: f64| {
                let mut values = case.values(uid);
                let place = random.int(0, values.len() as i64 - 1) as usize;
                values[place] = strange;
                case.fill(uid, &values);
                place
            };
            let mut found = Vec::new();
            for uid in &inputs {
                for strange in STRANGE.into_iter().filter(|n| n.is_nan() || !inverses.contains(uid)) {
                    let mut case = case.clone();
                    let place = spoil(&mut case, *uid, strange);
                    let what = format!("{name}, seed {seed}, {strange} at {place} of tensor {uid}");
                    found.extend(difference(&what, &case, (of, mixed), &plans));
                }
            }
            // Several at once, which may meet.
            let mut case = case.clone();
            let not_inverses = inputs.iter().filter(|uid| !inverses.contains(uid));
            for (uid, strange) in not_inverses.zip(STRANGE.into_iter().cycle().skip(1)) {
                spoil(&mut case, *uid, strange);
                spoil(&mut case, *uid, -strange);
            }
            found.extend(difference(
                &format!("{name}, seed {seed}, all tensors"),
                &case,
                (of, mixed),
                &plans,
            ));
            differences.extend(found.into_iter().next());
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
