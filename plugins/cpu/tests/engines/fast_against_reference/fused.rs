//! Graphs whose nodes are computed together, against the same nodes one by one.

use hipdnn_cpu_plugin::plugin::planner;
use hipdnn_plugin_sdk::graph::operation::{BatchnormInference, ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode};

use super::super::common::{Case, Random, channels_last, packed};
use super::{FAST, REFERENCE, both, compare};

fn pointwise(operation: PointwiseMode, inputs: &[i64], out_0: i64) -> Pointwise {
    Pointwise {
        in_0: inputs[0],
        out_0,
        in_1: inputs.get(1).copied(),
        in_2: inputs.get(2).copied(),
        axis: None,
        operation,
        relu_lower_clip: None,
        relu_upper_clip: None,
        relu_lower_clip_slope: None,
        swish_beta: None,
        elu_alpha: None,
        softplus_beta: None,
    }
}

/// Modes that neither amplify a difference nor make a step of it.
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

/// A tensor of the shape, or one that repeats along it.
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

/// A graph of a convolution, a batch normalization or nothing, and operations on each element of what is there, in which
/// some tensors are read more than once, and some are the caller's.
fn random_graph(seed: u64) -> (Case, Vec<i64>) {
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
            // Mostly what was computed last, so that there are chains.
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
    // The last result is the caller's, so that something is.
    let last = *there.last().unwrap();
    if !written.contains(&last) {
        let out = case.tensor_with(DataType::Float, &dims, &strides(&dims));
        case.node(pointwise(PointwiseMode::Identity, &[last], out));
        written.push(out);
    }
    (case, written)
}

#[test]
fn nodes_that_are_computed_together() {
    let mut smaller = 0;
    for seed in 0..600 {
        let (case, written) = random_graph(seed);
        let (fast, reference) = both(&case);
        for uid in written {
            // Half precision in between moves a value by up to a unit of it, which the products behind may enlarge.
            let half = case.graph.tensors.iter().any(|tensor| tensor.data_type == DataType::Half);
            let values = reference.values(uid);
            let bound = |at: usize| (values[at].abs() + 1.0) * if half { 2e-2 } else { 1e-4 };
            compare(seed, "fused", &fast, &reference, uid, bound);
        }
        let workspace = |engine| planner(engine).plan(&case.graph).unwrap().workspace_size();
        smaller += usize::from(workspace(FAST) < workspace(REFERENCE));
    }
    assert!(smaller > 150, "tensors in between take no memory in {smaller} graphs of 600");
}
