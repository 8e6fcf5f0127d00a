//! Graphs of many nodes: with virtual tensors in a shared workspace they match their nodes one by one.

use hipdnn_cpu_plugin::plan::planner::{Planner, planner};
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
    Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode, TensorValue};

use super::common::{Case, Memory, Random, channels_last};

/// Gives every virtual tensor its own memory and runs each node in its own graph.
fn one_by_one(case: &Case, planner: Planner) -> Case {
    let mut all = case.clone();
    for tensor in &mut all.graph.tensors {
        if tensor.is_virtual {
            tensor.is_virtual = false;
            all.memory.push(Memory::new(tensor, 0));
        }
    }
    let nodes = std::mem::take(&mut all.graph.nodes);
    for node in &nodes {
        all.graph.nodes = vec![node.clone()];
        all.run(planner);
    }
    all.graph.nodes = nodes;
    all
}

/// Compares all tensors visible to the caller, bit for bit.
fn assert_same_as_one_by_one(case: &Case, name: &str) {
    for engine in 0..2 {
        let expected = one_by_one(case, planner(engine));
        let mut whole = case.clone();
        let plan = planner(engine).plan(&whole.graph).unwrap();
        // Twice with the same plan: the first run leaves nothing behind.
        whole.execute(&plan);
        whole.execute(&plan);
        for memory in &case.memory {
            let uid = memory.tensor.uid;
            let bits = |case: &Case| case.values(uid).into_iter().map(f64::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(&whole), bits(&expected), "{name}, engine {engine}, tensor {uid}");
        }
    }
}

/// Forward and backward of convolution, batch normalization and sigmoid in one graph.
pub fn training_step(storage: DataType) -> Case {
    let mut random = Random(11);
    let mut case = Case::new();
    let (x_dims, w_dims, y_dims) = ([3, 4, 7, 6], [6, 2, 3, 3], [3, 6, 4, 3]);
    let parameter = [1, 6, 1, 1];
    let [x, dx] = [0; 2].map(|_| case.tensor_with(storage, &x_dims, &channels_last(&x_dims)));
    let [w, dw] = [0; 2].map(|_| case.tensor(storage, &w_dims));
    let [y, dy] = [0; 2].map(|_| case.tensor(storage, &y_dims));
    let [scale, bias, dscale, dbias] = [0; 4].map(|_| case.tensor(DataType::Float, &parameter));
    let epsilon = case.value(DataType::Double, TensorValue::Float64(1e-3));
    let strides = channels_last(&y_dims);
    let [made, normal, dnormal, dmade] =
        [0; 4].map(|_| case.virtual_tensor(DataType::Float, &y_dims, &strides));
    let [mean, inv_variance] =
        [0; 2].map(|_| case.virtual_tensor(DataType::Float, &parameter, &[6, 1, 1, 1]));
    let (pre_padding, post_padding, stride, dilation) = (vec![1, 0], vec![1, 1], vec![2, 2], vec![1, 1]);
    let conv_mode = ConvMode::CrossCorrelation;
    for uid in [x, w, dy, scale, bias] {
        case.memory(uid).fill(|| random.real(-1.0, 1.0));
    }
    case.node(ConvolutionForward {
        x,
        w,
        y: made,
        pre_padding: pre_padding.clone(),
        post_padding: post_padding.clone(),
        stride: stride.clone(),
        dilation: dilation.clone(),
        conv_mode,
    });
    case.node(Batchnorm {
        mean: Some(mean),
        inv_variance: Some(inv_variance),
        ..Batchnorm::new(made, scale, bias, epsilon, normal)
    });
    case.node(Pointwise::new(PointwiseMode::SigmoidFwd, normal, None, y));
    case.node(Pointwise::new(PointwiseMode::SigmoidBwd, dy, Some(normal), dnormal));
    case.node(BatchnormBackward {
        dy: dnormal,
        x: made,
        scale,
        dx: dmade,
        dscale,
        dbias,
        mean: Some(mean),
        inv_variance: Some(inv_variance),
        peer_stats: vec![],
    });
    case.node(ConvolutionBackwardData {
        dy: dmade,
        w,
        dx,
        pre_padding: pre_padding.clone(),
        post_padding: post_padding.clone(),
        stride: stride.clone(),
        dilation: dilation.clone(),
        conv_mode,
    });
    case.node(ConvolutionBackwardFilter {
        x,
        dy: dmade,
        dw,
        pre_padding,
        post_padding,
        stride,
        dilation,
        conv_mode,
    });
    case
}

#[test]
fn a_training_step() {
    for storage in [DataType::Float, DataType::Half, DataType::Double] {
        assert_same_as_one_by_one(&training_step(storage), "training step");
    }
}

/// Pointwise operations on earlier tensors, most of them virtual and of all sizes.
#[test]
fn random_pointwise_graphs() {
    let modes = [
        PointwiseMode::Add,
        PointwiseMode::Mul,
        PointwiseMode::Max,
        PointwiseMode::TanhFwd,
        PointwiseMode::ReluFwd,
        PointwiseMode::Neg,
    ];
    let types = [DataType::Float, DataType::Half, DataType::Double];
    for seed in 0..60 {
        let random = &mut Random(20_000 + seed);
        let mut case = Case::new();
        // Longer tensors can be computed from shorter ones of one element, not the other way round.
        let lengths = [1, 50];
        let mut made: Vec<(i64, i64)> = Vec::new();
        for length in lengths {
            let uid = case.tensor(DataType::Float, &[length]);
            case.memory(uid).fill(|| random.real(-2.0, 2.0));
            made.push((uid, length));
        }
        for _ in 0..random.int(1, 25) {
            let mode = random.one_of(&modes);
            let (in_0, first) = random.one_of(&made);
            let (in_1, second) = random.one_of(&made);
            let unary = mode.operands() == 1;
            let length = if unary { first } else { first.max(second) };
            let (data_type, step) = (random.one_of(&types), random.int(1, 3));
            let uid = if random.chance(75) {
                case.virtual_tensor(data_type, &[length], &[step])
            } else {
                case.tensor_with(data_type, &[length], &[step])
            };
            case.node(Pointwise::new(mode, in_0, (!unary).then_some(in_1), uid));
            made.push((uid, length));
        }
        assert_same_as_one_by_one(&case, &format!("seed {seed}"));
    }
}

/// One plan, many threads, each with its own tensors.
#[test]
fn threads_share_a_plan() {
    let mut case = Case::new();
    let x = case.tensor(DataType::Float, &[2, 8, 9, 9]);
    let w = case.tensor(DataType::Float, &[8, 8, 3, 3]);
    let made = case.virtual_tensor(DataType::Float, &[2, 8, 9, 9], &[648, 81, 9, 1]);
    let y = case.tensor(DataType::Float, &[2, 8, 9, 9]);
    case.node(ConvolutionForward {
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        ..ConvolutionForward::new(x, w, made, 2)
    });
    case.node(Pointwise::new(PointwiseMode::ReluFwd, made, None, y));
    for engine in 0..2 {
        let plan = planner(engine).plan(&case.graph).unwrap();
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (plan, case) = (&plan, &case);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..10 {
                        let mut own = case.clone();
                        for uid in [x, w] {
                            own.memory(uid).fill(|| random.int(-3, 3) as f64);
                        }
                        let expected = one_by_one(&own, planner(1)).values(y);
                        own.execute(plan);
                        assert_eq!(own.values(y), expected);
                    }
                });
            }
        });
    }
}
