//! Graphs with fused nodes, against the same nodes one by one.

mod normalization;
use super::{FAST, REFERENCE, both};
use crate::engines::common::{Case, Random, channels_last, packed};
use crate::engines::in_place;
use crate::engines::limits::assert_engines_agree;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{BatchnormInference, ConvolutionForward, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode, ReductionMode, TensorValue};

fn pointwise(operation: PointwiseMode, inputs: &[i64], out_0: i64) -> Pointwise {
    Pointwise {
        in_2: inputs.get(2).copied(),
        ..Pointwise::new(operation, inputs[0], inputs.get(1).copied(), out_0)
    }
}

/// Modes that neither amplify differences nor have discontinuities.
const MODES: [PointwiseMode; 12] = [
    PointwiseMode::Add,
    PointwiseMode::Sub,
    PointwiseMode::Mul,
    PointwiseMode::Max,
    PointwiseMode::Min,
    PointwiseMode::ReluFwd,
    PointwiseMode::SigmoidFwd,
    PointwiseMode::TanhFwd,
    PointwiseMode::Neg,
    PointwiseMode::Abs,
    PointwiseMode::GeluFwd,
    PointwiseMode::SwishFwd,
];

/// A tensor of the shape, or one that is broadcast to it.
fn operand(random: &mut Random, case: &mut Case, dims: &[i64], data_type: DataType) -> i64 {
    let shape: Vec<i64> = match random.int(0, 3) {
        0 => dims.iter().enumerate().map(|(axis, dim)| if axis == 1 { *dim } else { 1 }).collect(),
        1 => vec![dims[dims.len() - 1]],
        _ => dims.to_vec(),
    };
    let strides = if shape.len() > 2 && random.chance(50) { channels_last(&shape) } else { packed(&shape) };
    let uid = case.tensor_with(data_type, &shape, &strides);
    case.memory(uid).fill(|| random.real(-1.0, 1.0));
    uid
}

/// A graph of a convolution, a batch normalization or nothing, and element-wise operations on existing
/// tensors, some of which are read more than once, and some are not virtual.
fn random_graph(seed: u64) -> Case {
    let random = &mut Random(seed);
    let mut case = Case::new();
    let double = random.chance(10);
    let number = if double { DataType::Double } else { DataType::Float };
    case.graph.compute_type = number;
    let mut dims = vec![random.int(1, 3), random.int(1, 20), random.int(1, 12), random.int(1, 40)];
    let layout = random.chance(50);
    let strides = |dims: &[i64]| if layout { channels_last(dims) } else { packed(dims) };
    let mut written = Vec::new();
    let mut there = Vec::new();
    match random.int(0, 1) {
        0 => {
            let channels = random.int(1, 9);
            let window = random.one_of(&[1, 3]);
            let x = [dims[0], channels, dims[2], dims[3]];
            let x = case.tensor_with(number, &x, &strides(&x));
            let w = case.tensor(number, &[dims[1], channels, window, window]);
            for uid in [x, w] {
                case.memory(uid).fill(|| random.real(-1.0, 1.0));
            }
            let step = random.int(1, 2);
            dims[2] = (dims[2] - 1) / step + 1;
            dims[3] = (dims[3] - 1) / step + 1;
            let stored = if random.chance(20) { DataType::Half } else { number };
            let y = case.virtual_tensor(stored, &dims, &strides(&dims));
            case.node(ConvolutionForward {
                x,
                w,
                y,
                pre_padding: vec![window / 2; 2],
                post_padding: vec![window / 2; 2],
                stride: vec![step; 2],
                dilation: vec![1; 2],
                conv_mode: ConvMode::CrossCorrelation,
            });
            there.push(y);
        }
        _ => {
            let x = case.tensor_with(number, &dims, &strides(&dims));
            case.memory(x).fill(|| random.real(-1.0, 1.0));
            there.push(x);
        }
    }
    for _ in 0..random.int(1, 14) {
        let last = *there.last().unwrap();
        let virtual_tensor = random.chance(85);
        let data_type = if random.chance(15) { DataType::Half } else { number };
        let out = if virtual_tensor {
            case.virtual_tensor(data_type, &dims, &strides(&dims))
        } else {
            let out = case.tensor_with(data_type, &dims, &strides(&dims));
            written.push(out);
            out
        };
        if random.chance(15) {
            let parameter = [1, dims[1], 1, 1];
            let [mean, inv_variance, scale, bias] = [0; 4].map(|_| {
                let uid = case.tensor(number, &parameter);
                case.memory(uid).fill(|| random.real(-1.0, 1.0));
                uid
            });
            case.node(BatchnormInference { x: last, mean, inv_variance, scale, bias, y: out });
        } else {
            let mode = random.one_of(&MODES);
            // Mostly the last result, so that there are chains.
            let mut inputs = vec![if random.chance(80) { last } else { random.one_of(&there) }];
            if mode.operands() == 2 {
                let second = match random.int(0, 2) {
                    0 => random.one_of(&there),
                    1 => last,
                    _ => operand(random, &mut case, &dims, number),
                };
                inputs.insert(random.int(0, 1) as usize, second);
            }
            case.node(pointwise(mode, &inputs, out));
        }
        there.push(out);
    }
    // The last result is not virtual, so that there is an output.
    let last = *there.last().unwrap();
    if !written.contains(&last) {
        let out = case.tensor_with(DataType::Float, &dims, &strides(&dims));
        case.node(pointwise(PointwiseMode::Identity, &[last], out));
    }
    case
}

#[test]
fn fused_nodes() {
    let mut smaller = 0;
    for seed in 0..600 {
        let case = random_graph(seed);
        in_place::check(&case, &mut Random(seed), &format!("fused, seed {seed}"));
        let (fast, reference) = both(&case);
        assert_engines_agree(&format!("fused, seed {seed}"), &fast, &reference);
        let workspace = |engine| planner(engine).plan(&case.graph).unwrap().workspace_size();
        smaller += usize::from(workspace(FAST) < workspace(REFERENCE));
    }
    assert!(smaller > 150, "tensors in between take no memory in {smaller} graphs of 600");
}

fn reduction(mode: ReductionMode, in_: i64, out: i64) -> Reduction {
    Reduction { in_, out, mode, is_deterministic: false }
}

/// Softmax along the last dimensions, as five nodes.
fn softmax(random: &mut Random, dims: &[i64], reduced: &[bool], data_type: DataType) -> Case {
    let mut case = Case::new();
    let last = random.chance(50) && dims.len() > 2;
    let strides = if last { channels_last(dims) } else { packed(dims) };
    let rows: Vec<i64> = dims.iter().zip(reduced).map(|(dim, one)| if *one { 1 } else { *dim }).collect();
    let x = case.tensor_with(data_type, dims, &strides);
    case.memory(x).fill(|| random.real(-8.0, 8.0));
    let [largest, sum] = [0; 2].map(|_| case.virtual_tensor(DataType::Float, &rows, &packed(&rows)));
    let [below, powers] = [0; 2].map(|_| case.virtual_tensor(DataType::Float, dims, &packed(dims)));
    let y = case.tensor_with(data_type, dims, &strides);
    case.node(reduction(ReductionMode::Max, x, largest));
    case.node(pointwise(PointwiseMode::Sub, &[x, largest], below));
    case.node(pointwise(PointwiseMode::Exp, &[below], powers));
    case.node(reduction(ReductionMode::Add, powers, sum));
    case.node(pointwise(PointwiseMode::Div, &[powers, sum], y));
    case
}

#[test]
fn softmax_is_one_step() {
    for seed in 0..60 {
        let random = &mut Random(seed);
        let rank = random.int(2, 4) as usize;
        let dims: Vec<i64> = (0..rank).map(|_| random.int(2, 40)).collect();
        let along = random.int(1, rank as i64 - 1) as usize;
        let reduced: Vec<bool> = (0..rank).map(|axis| axis >= rank - along).collect();
        let data_type = random.one_of(&[DataType::Float, DataType::Half, DataType::Bfloat16]);
        let case = softmax(random, &dims, &reduced, data_type);
        let (fast, reference) = both(&case);
        assert_engines_agree(&format!("softmax, seed {seed}"), &fast, &reference);
        // A few rows of values per thread, and none of the intermediate tensors.
        let plan = planner(FAST).plan(&case.graph).unwrap();
        let row: i64 = dims.iter().zip(&reduced).map(|(dim, one)| if *one { *dim } else { 1 }).product();
        let most = 64 + 64 * (row as usize + 16) * 4 * 16;
        assert!(plan.workspace_size() <= most, "{} bytes for rows of {row}", plan.workspace_size());
    }
}

/// (x - mean) / sqrt(variance + epsilon), with functions of one value per row in between.
#[test]
fn a_norm_of_single_operations() {
    for seed in 0..40 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let dims = [random.int(1, 9), random.int(1, 5), random.int(2, 300)];
        let rows = [dims[0], dims[1], 1];
        let x = case.tensor(DataType::Float, &dims);
        let [scale, bias] = [0; 2].map(|_| case.tensor(DataType::Float, &[1, 1, dims[2]]));
        for uid in [x, scale, bias] {
            case.memory(uid).fill(|| random.real(-2.0, 2.0));
        }
        let epsilon = case.value(DataType::Float, TensorValue::Float32(1e-3));
        let [mean, variance, larger, inv] =
            [0; 4].map(|_| case.virtual_tensor(DataType::Float, &rows, &packed(&rows)));
        let [away, square, normal, scaled] =
            [0; 4].map(|_| case.virtual_tensor(DataType::Float, &dims, &packed(&dims)));
        let y = case.tensor(DataType::Float, &dims);
        case.node(reduction(ReductionMode::Avg, x, mean));
        case.node(pointwise(PointwiseMode::Sub, &[x, mean], away));
        case.node(pointwise(PointwiseMode::Mul, &[away, away], square));
        case.node(reduction(ReductionMode::Avg, square, variance));
        case.node(pointwise(PointwiseMode::Add, &[variance, epsilon], larger));
        case.node(pointwise(PointwiseMode::Rsqrt, &[larger], inv));
        case.node(pointwise(PointwiseMode::Mul, &[away, inv], normal));
        case.node(pointwise(PointwiseMode::Mul, &[normal, scale], scaled));
        case.node(pointwise(PointwiseMode::Add, &[scaled, bias], y));
        let (fast, reference) = both(&case);
        assert_engines_agree(&format!("norm, seed {seed}"), &fast, &reference);
        let workspace = |engine| planner(engine).plan(&case.graph).unwrap().workspace_size();
        assert!(dims[0] * dims[1] < 30 || workspace(FAST) < workspace(REFERENCE));
    }
}

const REDUCTIONS: [ReductionMode; 9] = [
    ReductionMode::Add,
    ReductionMode::Mul,
    ReductionMode::Min,
    ReductionMode::Max,
    ReductionMode::Amax,
    ReductionMode::Avg,
    ReductionMode::Norm1,
    ReductionMode::Norm2,
    ReductionMode::MulNoZeros,
];

/// Element-wise operations and reductions of their results in any valid order, with NaN and infinities.
#[test]
fn reductions_among_elementwise_operations() {
    let mut smaller = 0;
    for seed in 0..200 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let double = random.chance(20);
        let number = if double { DataType::Double } else { DataType::Float };
        case.graph.compute_type = number;
        let rank = random.int(2, 4) as usize;
        let dims: Vec<i64> = (0..rank).map(|_| random.int(1, 12)).collect();
        let reduced: Vec<bool> = (0..rank).map(|axis| dims[axis] > 1 && random.chance(50)).collect();
        if !reduced.contains(&true) {
            continue;
        }
        let rows: Vec<i64> =
            dims.iter().zip(&reduced).map(|(dim, one)| if *one { 1 } else { *dim }).collect();
        let layout = random.chance(50) && rank > 2;
        let strides = |dims: &[i64]| if layout { channels_last(dims) } else { packed(dims) };
        let x = case.tensor_with(number, &dims, &strides(&dims));
        case.memory(x).fill(|| match random.int(0, 60) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => 0.0,
            _ => random.real(-1.5, 1.5),
        });
        let mut whole = vec![x];
        let mut ones: Vec<i64> = Vec::new();
        for _ in 0..random.int(2, 10) {
            let last = *whole.last().unwrap();
            let of_rows = random.chance(35);
            let shape = if of_rows { rows.clone() } else { dims.clone() };
            let out = if random.chance(85) {
                case.virtual_tensor(number, &shape, &strides(&shape))
            } else {
                case.tensor_with(number, &shape, &strides(&shape))
            };
            if of_rows {
                if ones.is_empty() || random.chance(70) {
                    case.node(reduction(random.one_of(&REDUCTIONS), last, out));
                } else {
                    let inputs = [random.one_of(&ones), random.one_of(&ones)];
                    case.node(pointwise(PointwiseMode::Max, &inputs, out));
                }
                ones.push(out);
            } else {
                let mode = random.one_of(&MODES);
                let mut inputs = vec![last];
                if mode.operands() == 2 {
                    let second = if !ones.is_empty() && random.chance(60) {
                        random.one_of(&ones)
                    } else {
                        random.one_of(&whole)
                    };
                    inputs.insert(random.int(0, 1) as usize, second);
                }
                // An operation on row values alone would have another shape.
                if inputs.iter().all(|input| ones.contains(input)) {
                    inputs[0] = last;
                }
                case.node(pointwise(mode, &inputs, out));
                whole.push(out);
            }
        }
        let out = case.tensor_with(number, &dims, &strides(&dims));
        case.node(pointwise(PointwiseMode::Identity, &[*whole.last().unwrap()], out));
        let (fast, reference) = both(&case);
        assert_engines_agree(&format!("rows, seed {seed}"), &fast, &reference);
        let workspace = |engine| planner(engine).plan(&case.graph).unwrap().workspace_size();
        smaller += usize::from(workspace(FAST) == 0 || workspace(FAST) < workspace(REFERENCE));
    }
    assert!(smaller > 20, "tensors in between take no memory in {smaller} graphs");
}
