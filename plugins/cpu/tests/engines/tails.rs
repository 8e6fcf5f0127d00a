//! Pointwise nodes behind every kind of node: a plan that fuses them has the bits of one that does not.
//!
//! Each graph is planned twice: with its intermediate tensors in memory, where every node is a step of its
//! own, and with virtual ones.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormInference, BatchnormInferenceVariance, BlockScaleDequantize, ConvolutionBackwardData,
    ConvolutionForward, Layernorm, Matmul, Pointwise, Reduction, ResampleForward, RmsNorm, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, NormFwdPhase, PaddingMode, PointwiseMode as M, ReductionMode, ResampleMode,
    TensorValue,
};

use super::common::{Case, Random, cases, channels_last, fill, packed, tensor};
use super::integers::{BYTES, fill_bytes, node};
use super::quantized::NO_FRACTION;
use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::{Algorithm, Settings};
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_cpu_plugin::threading::partition::Threads;
use hipdnn_plugin_planner::prepare::prepare;

/// A graph, the result of its first node, and what follows.
struct Tail {
    case: Case,
    /// The tensors so far; the last one is read next.
    values: Vec<i64>,
    dims: Vec<i64>,
    compute: DataType,
    strides: Vec<i64>,
}

/// Every kind of first node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Anchor {
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
}

const ANCHORS: [Anchor; 15] = [
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
    fn of(anchor: Anchor, random: &mut Random) -> Self {
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
        };
        let strides = case.graph.tensor(y).unwrap().strides.clone();
        let compute = if case.graph.tensor(y).unwrap().data_type == DataType::Int32 {
            DataType::Float
        } else {
            compute
        };
        Self { case, values: vec![y], dims, compute, strides }
    }

    fn last(&self) -> i64 {
        self.values[self.values.len() - 1]
    }

    /// Adds a node that reads the last result.
    fn push(&mut self, of: DataType, operation: impl FnOnce(i64, i64) -> Pointwise) {
        let out = self.case.tensor_with(of, &self.dims, &self.strides);
        let operation = operation(self.last(), out);
        node(&mut self.case, self.compute, operation);
        self.values.push(out);
    }

    /// A constant, or a tensor of this value.
    fn number(&mut self, random: &mut Random, value: f32) -> i64 {
        if random.chance(50) {
            return self.case.value(DataType::Float, TensorValue::Float32(value));
        }
        let uid = self.case.tensor(DataType::Float, &vec![1; self.dims.len()]);
        self.case.memory(uid).fill(|| f64::from(value));
        uid
    }

    /// An operand that spreads to the result.
    fn operand(&mut self, random: &mut Random) -> i64 {
        let mut dims = self.dims.clone();
        match random.int(0, 4) {
            0 | 1 => {
                let value = random.one_of(&[0.0, 1.0, -1.0, 0.3, 7.3, 1e-3, NO_FRACTION, -NO_FRACTION]);
                return self.number(random, value);
            }
            2 | 3 => dims.iter_mut().enumerate().filter(|(at, _)| *at != 1).for_each(|(_, dim)| *dim = 1),
            _ => {}
        }
        let uid = self.case.tensor(DataType::Float, &dims);
        self.case.memory(uid).fill(|| random.real(-3.0, 3.0));
        uid
    }

    /// Adds a random node.
    fn grow(&mut self, random: &mut Random) {
        let wide = if self.compute == DataType::Double { DataType::Double } else { DataType::Float };
        let of = if random.chance(15) { random.one_of(&[DataType::Half, DataType::Bfloat16]) } else { wide };
        match random.int(0, 9) {
            0..=6 => {
                let mode =
                    random.one_of(&[M::Mul, M::Mul, M::Add, M::Add, M::Sub, M::Sub, M::Max, M::Min, M::Div]);
                let other = match random.chance(10) {
                    true => random.one_of(&self.values),
                    false => self.operand(random),
                };
                let first = random.chance(75);
                self.push(of, |last, out| match first {
                    true => Pointwise::new(mode, last, Some(other), out),
                    false => Pointwise::new(mode, other, Some(last), out),
                });
            }
            7 => {
                let (upper, slope) =
                    (random.one_of(&[None, None, Some(6.0)]), random.one_of(&[None, Some(0.1)]));
                let lower = random.one_of(&[None, None, Some(-0.5)]);
                self.push(of, |last, out| Pointwise {
                    relu_upper_clip: upper,
                    relu_lower_clip_slope: slope,
                    relu_lower_clip: lower,
                    ..Pointwise::new(M::ReluFwd, last, None, out)
                });
            }
            _ => {
                let modes = [
                    M::SigmoidFwd,
                    M::TanhFwd,
                    M::GeluFwd,
                    M::SwishFwd,
                    M::Abs,
                    M::Neg,
                    M::Floor,
                    M::Identity,
                ];
                let mode = random.one_of(&modes);
                self.push(of, |last, out| Pointwise::new(mode, last, None, out));
            }
        }
    }

    /// Adds and subtracts a number that leaves no fraction.
    fn round(&mut self, random: &mut Random) {
        let number = self.number(random, NO_FRACTION);
        self.push(DataType::Float, |last, out| Pointwise::new(M::Add, last, Some(number), out));
        self.push(DataType::Float, |last, out| Pointwise::new(M::Sub, last, Some(number), out));
    }

    /// The values of the last result with intermediate tensors in memory, and with virtual ones.
    fn results(&self, isa: Isa, settings: Settings) -> [Vec<f64>; 2] {
        let between = &self.values[..self.values.len() - 1];
        let mut joined = self.case.clone();
        joined.memory.retain(|memory| !between.contains(&memory.tensor.uid));
        for tensor in joined.graph.tensors.iter_mut().filter(|tensor| between.contains(&tensor.uid)) {
            tensor.is_virtual = true;
        }
        [self.case.clone(), joined].map(|mut case| {
            let plan =
                Plan::in_parts(&prepare(&case.graph).unwrap(), |prepared| parts_at(prepared, isa, settings));
            case.execute(&plan.unwrap());
            case.values(self.last())
        })
    }

    /// Checks that both plans give the same bits.
    fn check(&self, random: &mut Random, what: &str) -> Vec<f64> {
        let threads = Threads { most: random.int(1, 2) as usize, deterministic: true, ..Threads::default() };
        let settings = Settings {
            threads,
            convolution: if random.chance(50) {
                Algorithm::Automatic
            } else {
                random.one_of(&Algorithm::VALUES)
            },
            ..Settings::default()
        };
        let mut last = Vec::new();
        for isa in Isa::available() {
            let [apart, joined] = self.results(*isa, settings);
            // The sign of a zero may differ.
            let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
            if let Some(at) = apart.iter().zip(&joined).position(differs) {
                panic!(
                    "{what} at {isa:?} with {settings:?}: element {at} is {}, node by node {}\n{:#?}",
                    joined[at], apart[at], self.case.graph
                );
            }
            last = joined;
        }
        last
    }
}

#[test]
fn fused_tails_have_the_bits_of_single_nodes() {
    use Anchor::{BackwardData, Bytes, Convolution, Depthwise, Matmul};
    for anchor in [Convolution, Depthwise, BackwardData, Matmul, Bytes] {
        for seed in 0..cases(700) {
            let random = &mut Random(seed + 1000 * anchor as u64);
            let mut tail = Tail::of(anchor, random);
            for _ in 0..random.int(1, 7) {
                tail.grow(random);
            }
            tail.check(random, &format!("{anchor:?}, seed {seed}"));
        }
    }
}

#[test]
fn rounding_behind_any_node_leaves_no_fraction() {
    for anchor in ANCHORS {
        for seed in 0..cases(200) {
            let random = &mut Random(seed + 7000 * anchor as u64);
            let mut tail = Tail::of(anchor, random);
            if tail.compute == DataType::Double {
                continue;
            }
            let factor = tail.number(random, 7.3);
            tail.push(DataType::Float, |last, out| Pointwise::new(M::Mul, last, Some(factor), out));
            if random.chance(50) {
                tail.grow(random);
            }
            tail.round(random);
            let values = tail.check(random, &format!("{anchor:?}, seed {seed}"));
            // A sum with a number below -2²² has half integers.
            let fraction = values.iter().find(|value| value.abs() < 4e6 && value.fract() != 0.0);
            assert_eq!(fraction, None, "{anchor:?}, seed {seed}: {:#?}", tail.case.graph);
        }
    }
}
