//! Graphs with random damage: accepted graphs run inside their tensors, and nothing panics.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInferenceVariance, BlockScaleDequantize, BlockScaleQuantize,
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Layernorm, LayernormBackward,
    Matmul, Pointwise, Reduction, ResampleBackward, ResampleForward, RmsNorm, RmsNormBackward, Value,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, DataType, Graph, NormFwdPhase, Operation, PaddingMode, PointwiseMode, ReductionMode,
    ResampleMode, Tensor, TensorValue,
};

use super::common::{Case, Memory, Random, cases, channels_last};

fn pointwise(operation: PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Pointwise {
    Pointwise { relu_upper_clip: Some(6.0), ..Pointwise::new(operation, in_0, in_1, out_0) }
}

/// The number of kinds of graphs.
const KINDS: usize = 18;

/// A valid graph of the given kind.
fn sound(kind: usize) -> Graph {
    let mut case = Case::new();
    case.graph.io_type = DataType::Float;
    case.graph.intermediate_type = DataType::Float;
    let float = DataType::Float;
    let x = case.tensor_with(float, &[2, 4, 5, 3], &channels_last(&[2, 4, 5, 3]));
    let w = case.tensor(float, &[6, 2, 3, 1]);
    let y = case.tensor(float, &[2, 6, 3, 2]);
    let (pre_padding, post_padding) = (vec![1, 0], vec![2, 1]);
    let (stride, dilation, conv_mode) = (vec![2, 2], vec![1, 1], ConvMode::Convolution);
    let parameters = [0; 6].map(|_| case.tensor(float, &[1, 4, 1, 1]));
    let [scale, bias, mean, variance, other_mean, other_variance] = parameters;
    let z = case.tensor(DataType::Half, &[2, 4, 5, 3]);
    let epsilon = case.value(float, TensorValue::Float32(1e-3));
    let between = case.virtual_tensor(float, &[2, 6, 3, 2], &[36, 6, 2, 1]);
    match kind {
        0 => {
            case.node(ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode })
        }
        1 => case.node(ConvolutionBackwardData {
            dy: y,
            w,
            dx: x,
            pre_padding,
            post_padding,
            stride,
            dilation,
            conv_mode,
        }),
        2 => case.node(ConvolutionBackwardFilter {
            x,
            dy: y,
            dw: w,
            pre_padding,
            post_padding,
            stride,
            dilation,
            conv_mode,
        }),
        3 => case.node(BatchnormInferenceVariance { x, mean, variance, scale, bias, y: z, epsilon }),
        4 => case.node(Batchnorm {
            prev_running_mean: Some(mean),
            prev_running_variance: Some(variance),
            next_running_mean: Some(other_mean),
            next_running_variance: Some(other_variance),
            ..Batchnorm::new(x, scale, bias, epsilon, z)
        }),
        5 => case.node(BatchnormBackward {
            dy: z,
            x: z,
            scale,
            dx: x,
            dscale: other_mean,
            dbias: other_variance,
            mean: Some(mean),
            inv_variance: Some(variance),
            peer_stats: vec![],
        }),
        6 => case.node(pointwise(PointwiseMode::Mul, x, Some(scale), z)),
        8 => {
            let [a, b] = [[2, 4, 5, 3], [1, 2, 3, 6]].map(|dims| case.tensor(float, &dims));
            let c = case.tensor(DataType::Bfloat16, &[2, 4, 5, 6]);
            case.node(Matmul { a, b, c });
        }
        9 => {
            let out = case.tensor(DataType::Double, &[2, 1, 5, 1]);
            case.node(Reduction { in_: x, out, mode: ReductionMode::Norm2, is_deterministic: false });
        }
        12 | 13 => {
            let scale = case.tensor(float, &[5, 3]);
            let [dscale, dbias] = [0; 2].map(|_| case.tensor(float, &[1, 1, 5, 3]));
            let [mean, inverse] = [0; 2].map(|_| case.tensor(float, &[2, 4, 1]));
            if kind == 12 {
                case.node(Layernorm {
                    x,
                    scale,
                    bias: dbias,
                    epsilon,
                    y: z,
                    mean: Some(mean),
                    inv_variance: Some(inverse),
                    forward_phase: NormFwdPhase::Training,
                    normalized_dim_count: 2,
                });
            } else {
                case.node(LayernormBackward {
                    dy: z,
                    x: z,
                    scale,
                    mean: None,
                    inv_variance: None,
                    epsilon: Some(epsilon),
                    dx: x,
                    dscale,
                    dbias,
                    normalized_dim_count: 2,
                });
            }
        }
        16 => {
            let y = case.tensor(DataType::Fp6E2m3, &[2, 4, 3, 5]);
            let scale = case.tensor(DataType::Fp8E8m0, &[2, 4, 3, 3]);
            let axis = Some(2);
            case.node(BlockScaleQuantize { x, y, scale, block_size: 2, axis, transpose: true });
        }
        17 => {
            let small = case.tensor(DataType::Fp4E2m1, &[2, 4, 5, 3]);
            let scale = case.tensor(DataType::Fp8E4m3, &[2, 4, 3, 2]);
            let block_size = vec![2, 2];
            let is_negative_scale = false;
            case.node(BlockScaleDequantize { x: small, scale, y: z, block_size, is_negative_scale });
        }
        14 | 15 => {
            let [scale, dscale, dbias] = [0; 3].map(|_| case.tensor(float, &[1, 1, 5, 3]));
            let inverse = case.tensor(float, &[2, 4]);
            if kind == 14 {
                case.node(RmsNorm {
                    x,
                    scale,
                    epsilon,
                    y: z,
                    bias: Some(dbias),
                    inv_rms: Some(inverse),
                    forward_phase: NormFwdPhase::Inference,
                });
            } else {
                case.node(RmsNormBackward {
                    dy: z,
                    x: z,
                    scale,
                    inv_rms: Some(inverse),
                    dx: x,
                    dscale,
                    dbias: Some(dbias),
                });
            }
        }
        10 | 11 => {
            let pooled = case.tensor(float, &[2, 4, 3, 2]);
            let index = case.tensor(DataType::Int32, &[2, 4, 3, 2]);
            let window = vec![2, 1];
            if kind == 10 {
                case.node(ResampleForward {
                    x,
                    y: pooled,
                    index: Some(index),
                    pre_padding,
                    post_padding: vec![1, 0],
                    stride,
                    window,
                    resample_mode: ResampleMode::Maxpool,
                    padding_mode: PaddingMode::ZeroPad,
                    generate_index: Some(true),
                });
            } else {
                case.node(ResampleBackward {
                    dy: pooled,
                    dx: z,
                    index: None,
                    pre_padding,
                    post_padding: vec![1, 0],
                    stride,
                    window,
                    resample_mode: ResampleMode::AvgpoolExcludePadding,
                    padding_mode: PaddingMode::NotSet,
                });
            }
        }
        _ => {
            let y_of = ConvolutionForward {
                x,
                w,
                y: between,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            };
            case.node(y_of);
            case.node(pointwise(PointwiseMode::ReluFwd, between, None, y));
        }
    }
    case.graph
}

const NUMBERS: [i64; 14] = [-1, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 48, 1 << 40, i64::MAX];

/// Changes one thing.
pub fn damage(random: &mut Random, graph: &mut Graph) {
    let number = random.one_of(&NUMBERS);
    let tensors = graph.tensors.len() as i64;
    let some_tensor = random.int(0, tensors - 1) as usize;
    let tensor: &mut Tensor = &mut graph.tensors[some_tensor];
    let axis = random.int(0, 4) as usize;
    match random.int(0, 12) {
        0 | 1 => {
            if let Some(dim) = tensor.dims.get_mut(axis) {
                *dim = number;
            }
        }
        2 | 3 => {
            if let Some(stride) = tensor.strides.get_mut(axis) {
                *stride = number;
            }
        }
        4 => {
            tensor.dims.pop();
            tensor.strides.pop();
        }
        5 => {
            tensor.dims.push(1);
            tensor.strides.push(number);
        }
        6 => tensor.data_type = random.one_of(DataType::ALL),
        7 => tensor.is_virtual = !tensor.is_virtual,
        8 => tensor.value = Some(TensorValue::Int64(number)),
        9 => tensor.uid = number,
        10 => graph.compute_type = random.one_of(DataType::ALL),
        _ => {
            let some_node = random.int(0, graph.nodes.len() as i64 - 1) as usize;
            let operation = &mut graph.nodes[some_node].operation;
            let mut values = operation.values();
            let place = random.int(0, values.len() as i64 - 1) as usize;
            match &mut values[place] {
                Value::Uid(uid) => *uid = random.chance(80).then(|| random.int(0, tensors + 1)),
                Value::Uids(uids) => uids.push(random.int(0, tensors + 1)),
                Value::Int32s(ints) => match ints.get_mut(axis) {
                    Some(int) => *int = number as i32,
                    None => ints.push(number as i32),
                },
                Value::Int32(int) => *int = random.chance(80).then_some(number as i32),
                Value::Flag(flag) => *flag = Some(random.chance(50)),
                Value::Ints(ints) => match ints.get_mut(axis) {
                    Some(int) => *int = number,
                    None => ints.push(number),
                },
                Value::Int(int) => *int = random.chance(80).then_some(number),
                Value::Float(float) => *float = random.chance(80).then_some(number as f32),
                Value::Enum(wire) => *wire = random.int(0, 50) as u8,
                _ => {}
            }
            // Values that do not fit their field change nothing.
            if let Ok(changed) = (operation.spec().from_values)(values) {
                *operation = changed;
            }
        }
    }
}

/// Whether a run takes only milliseconds and megabytes.
pub fn small(graph: &Graph) -> bool {
    graph.tensors.iter().all(|tensor| {
        let product = tensor.dims.iter().try_fold(1_i64, |n, dim| n.checked_mul(*dim));
        let reach = tensor
            .dims
            .iter()
            .zip(&tensor.strides)
            .try_fold(1_i64, |n, (dim, stride)| n.checked_add((dim - 1).checked_mul(*stride)?));
        product.is_some_and(|n| n <= 10_000) && reach.is_some_and(|n| n <= 100_000)
    })
}

#[test]
fn damage_is_refused_or_harmless() {
    for kind in 0..KINDS {
        planner(1).plan(&sound(kind)).unwrap_or_else(|refusal| panic!("kind {kind}: {refusal}"));
    }
    let (mut refused, mut ran) = (0, 0);
    let count = cases(30_000);
    for seed in 0..count {
        let random = &mut Random(seed);
        let mut graph = sound(random.int(0, KINDS as i64 - 1) as usize);
        for _ in 0..random.int(0, 3) {
            damage(random, &mut graph);
        }
        for engine in 0..2 {
            let plan = match planner(engine).plan(&graph) {
                Ok(plan) => plan,
                Err(refusal) => {
                    assert!(!refusal.is_empty());
                    refused += 1;
                    continue;
                }
            };
            if !small(&graph) {
                continue;
            }
            let prepared = hipdnn_plugin_planner::prepare::prepare(&graph).unwrap().graph;
            let memory = plan.bound().iter().map(|uid| {
                let mut memory = Memory::new(prepared.tensor(*uid).unwrap(), 0);
                memory.fill(|| random.real(-3.0, 3.0));
                memory
            });
            let memory = memory.collect();
            let mut case = Case { graph: prepared, memory };
            case.execute(&plan);
            ran += 1;
        }
    }
    assert!(refused > count * 2 / 3 && ran > count * 5 / 6, "{refused} refused, {ran} ran");
}

/// An operation with one tensor for all operands is refused by name, as is one that no engine here supports.
#[test]
fn operations_are_refused_by_name() {
    let mut refused = 0;
    for spec in Operation::SPECS {
        let values = spec.fields.iter().map(|field| {
            use hipdnn_plugin_sdk::graph::operation::FieldKind as Kind;
            match field.kind {
                Kind::Input { .. } | Kind::Output { .. } => Value::Uid(Some(1)),
                Kind::Inputs | Kind::Outputs => Value::Uids(vec![1]),
                Kind::Ints => Value::Ints(vec![1]),
                Kind::Int32s => Value::Int32s(vec![1]),
                Kind::Int { .. } => Value::Int(Some(1)),
                Kind::Int32 { .. } => Value::Int32(Some(1)),
                Kind::Float => Value::Float(Some(1.0)),
                Kind::Flag { .. } => Value::Flag(Some(true)),
                Kind::Enum(_) => Value::Enum(1),
                Kind::Text => Value::Text(String::new()),
                Kind::Bytes => Value::Bytes(vec![]),
            }
        });
        let Ok(operation) = (spec.from_values)(values.collect()) else { continue };
        let mut case = Case::new();
        case.tensor(DataType::Float, &[1, 1, 1]);
        case.node(operation);
        for engine in 0..2 {
            let refusal = planner(engine).plan(&case.graph).err().expect("one tensor is all operands");
            assert!(refusal.contains(spec.name), "{refusal}");
            refused += 1;
        }
    }
    assert_eq!(refused, 2 * Operation::SPECS.len());
}
