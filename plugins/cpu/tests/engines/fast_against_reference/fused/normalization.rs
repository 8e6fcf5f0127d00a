//! Operations fused with a normalization.

use super::*;
use crate::engines::common::{Case, Random, channels_last, packed};
use crate::engines::fast_against_reference::{FAST, REFERENCE, both};
use crate::engines::limits::assert_engines_agree;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{Batchnorm, BatchnormInferenceVariance, Layernorm, RmsNorm};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, PointwiseMode, TensorValue};

/// Adds an operation that often precedes or follows a normalization.
fn around_a_normalization(
    random: &mut Random,
    case: &mut Case,
    (from, to): (i64, i64),
    dims: &[i64],
    data_type: DataType,
) {
    let mode = random.one_of(&[PointwiseMode::Add, PointwiseMode::ReluFwd, PointwiseMode::GeluFwd]);
    let mut inputs = vec![from];
    if mode == PointwiseMode::Add {
        inputs.insert(random.int(0, 1) as usize, operand(random, case, dims, data_type));
    }
    case.node(pointwise(mode, &inputs, to));
}

/// A normalization of any kind and its element-wise epilogue, with residuals and values per channel.
#[test]
fn epilogues_of_a_normalization() {
    let mut smaller = 0;
    for seed in 0..240 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let dims = match random.int(0, 2) {
            0 => vec![random.int(1, 4), random.int(1, 40), random.int(1, 9), random.int(1, 9)],
            // Rows longer than a block of the epilogue, and many short ones.
            1 => vec![2, 3, random.int(1, 40), random.int(40, 60)],
            _ => vec![random.int(2, 3), random.int(1, 5), 7, random.int(600, 1500)],
        };
        let layout = random.chance(40);
        let strides = |dims: &[i64]| if layout { channels_last(dims) } else { packed(dims) };
        let data_type = if random.chance(20) { DataType::Bfloat16 } else { DataType::Float };
        let x = case.tensor_with(data_type, &dims, &strides(&dims));
        case.memory(x).fill(|| random.real(-2.0, 2.0));
        let y = case.virtual_tensor(data_type, &dims, &strides(&dims));
        let epsilon = case.value(DataType::Float, TensorValue::Float32(1e-2));
        let mut written = Vec::new();
        let kind = random.int(0, 3);
        let shape = if kind < 2 { vec![1, dims[1], 1, 1] } else { vec![1, 1, 1, dims[3]] };
        let [scale, bias, mean, variance] = [0; 4].map(|_| {
            let uid = case.tensor(DataType::Float, &shape);
            case.memory(uid).fill(|| random.real(0.5, 1.5));
            uid
        });
        match kind {
            0 => case.node(BatchnormInferenceVariance { x, mean, variance, scale, bias, epsilon, y }),
            1 => {
                let kept = random.chance(50).then(|| [0; 2].map(|_| case.tensor(DataType::Float, &shape)));
                written.extend(kept.into_iter().flatten());
                let (mean, inv_variance) = (kept.map(|kept| kept[0]), kept.map(|kept| kept[1]));
                case.node(Batchnorm { mean, inv_variance, ..Batchnorm::new(x, scale, bias, epsilon, y) });
            }
            2 => {
                let rows = [dims[0], dims[1], dims[2], 1];
                let kept = random.chance(50).then(|| [0; 2].map(|_| case.tensor(DataType::Float, &rows)));
                written.extend(kept.into_iter().flatten());
                case.node(Layernorm {
                    x,
                    scale,
                    bias,
                    epsilon,
                    y,
                    mean: kept.map(|kept| kept[0]),
                    inv_variance: kept.map(|kept| kept[1]),
                    forward_phase: NormFwdPhase::Training,
                    normalized_dim_count: 1,
                });
            }
            _ => {
                let forward_phase = NormFwdPhase::Inference;
                let bias = random.chance(50).then_some(bias);
                case.node(RmsNorm { x, scale, epsilon, y, bias, inv_rms: None, forward_phase });
            }
        }
        let mut last = y;
        for left in (0..random.int(1, 3)).rev() {
            let out = if left > 0 {
                case.virtual_tensor(DataType::Float, &dims, &strides(&dims))
            } else {
                let out = case.tensor_with(data_type, &dims, &strides(&dims));
                written.push(out);
                out
            };
            around_a_normalization(random, &mut case, (last, out), &dims, data_type);
            last = out;
        }
        let (fast, reference) = both(&case);
        assert_engines_agree(&format!("normalization, seed {seed}"), &fast, &reference);
        let workspace = |engine| planner(engine).plan(&case.graph).unwrap().workspace_size();
        smaller += usize::from(workspace(FAST) < workspace(REFERENCE));
    }
    assert!(smaller > 120, "tensors in between take no memory in {smaller} graphs of 240");
}

/// Element-wise operations whose result only a layernorm or RMSNorm reads, and possibly one after it.
#[test]
fn prologues_of_a_normalization() {
    let (mut without, mut candidates) = (0, 0);
    for seed in 0..160 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let dims = match random.int(0, 2) {
            0 => vec![random.int(1, 4), random.int(1, 40), random.int(1, 90)],
            // Rows longer than a block of the prologue, and many short ones.
            1 => vec![2, 3, random.int(3000, 6000)],
            _ => vec![random.int(2, 30), random.int(20, 90), random.int(1, 9)],
        };
        let strides = if random.chance(20) { channels_last(&dims) } else { packed(&dims) };
        let data_type = random.one_of(&[DataType::Float, DataType::Float, DataType::Bfloat16]);
        let x = case.tensor_with(data_type, &dims, &strides);
        case.memory(x).fill(|| match random.int(0, 5000) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            _ => random.real(-2.0, 2.0),
        });
        let mut last = x;
        for _ in 0..random.int(1, 3) {
            let out = case.virtual_tensor(data_type, &dims, &strides);
            around_a_normalization(random, &mut case, (last, out), &dims, data_type);
            last = out;
        }
        // Sometimes another node also reads the normalization's input.
        let shared = random.chance(15);
        let row = [1, 1, dims[2]];
        let scale = case.tensor(DataType::Float, &row);
        let bias = case.tensor(DataType::Float, &row);
        for uid in [scale, bias] {
            case.memory(uid).fill(|| random.real(0.5, 1.5));
        }
        let epsilon = case.value(DataType::Float, TensorValue::Float32(1e-2));
        let followed = random.chance(50);
        let y = if followed {
            case.virtual_tensor(data_type, &dims, &strides)
        } else {
            case.tensor_with(data_type, &dims, &strides)
        };
        let mut written = Vec::new();
        if random.chance(50) {
            let kept = random
                .chance(50)
                .then(|| [0; 2].map(|_| case.tensor(DataType::Float, &[dims[0], dims[1], 1])));
            written.extend(kept.into_iter().flatten());
            case.node(Layernorm {
                x: last,
                scale,
                bias,
                epsilon,
                y,
                mean: kept.map(|kept| kept[0]),
                inv_variance: kept.map(|kept| kept[1]),
                forward_phase: NormFwdPhase::Training,
                normalized_dim_count: 1,
            });
        } else {
            let forward_phase = NormFwdPhase::Inference;
            case.node(RmsNorm { x: last, scale, epsilon, y, bias: None, inv_rms: None, forward_phase });
        }
        written.push(if followed {
            let out = case.tensor_with(data_type, &dims, &strides);
            let other = operand(random, &mut case, &dims, data_type);
            case.node(pointwise(PointwiseMode::Mul, &[y, other], out));
            out
        } else {
            y
        });
        if shared {
            let out = case.tensor_with(data_type, &dims, &strides);
            case.node(pointwise(PointwiseMode::Abs, &[last], out));
            written.push(out);
        }
        let (fast, reference) = both(&case);
        assert_engines_agree(&format!("before, seed {seed}"), &fast, &reference);
        // Rows of contiguous floats need only the result's memory.
        if data_type == DataType::Float && strides == packed(&dims) && !shared {
            candidates += 1;
            without += usize::from(planner(FAST).plan(&case.graph).unwrap().workspace_size() == 0);
        }
    }
    assert!(candidates > 40);
    assert_eq!(without, candidates, "tensors in between take memory");
}
