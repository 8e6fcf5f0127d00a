//! Memory-bound operations, and attention.

use crate::rates::*;
use crate::timing::*;
use crate::*;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, Layernorm, LayernormBackward, Pointwise, Reduction, Sdpa,
};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, Operation, PointwiseMode, ReductionMode, Tensor};

pub(crate) fn bandwidth_row(
    name: &str,
    elements: i64,
    passes: f64,
    tensors: Vec<Tensor>,
    operation: Operation,
) {
    let seconds = time(tensors, operation);
    let bytes = 4.0 * passes * elements as f64;
    println!(
        "{name:<31} {:>9.1} µs {:>8.1} GB/s of inputs and results",
        seconds * 1e6,
        bytes / seconds / 1e9
    );
}

pub(crate) fn elementwise(batch: i64, channels: i64, size: i64, channels_last: bool) {
    let dims = [batch, channels, size, size];
    let elements = dims.iter().product();
    let name = |what: &str| {
        format!("{what} {batch}x{channels}x{size}x{size}{}", if channels_last { " NHWC" } else { "" })
    };
    let image = |uid| tensor(uid, dims, channels_last, DataType::Float);
    let parameter = |uid| tensor(uid, [1, channels, 1, 1], false, DataType::Float);
    let statistics =
        || vec![image(1), image(2), image(3), parameter(4), parameter(5), parameter(6), parameter(7)];
    let training = Batchnorm { mean: Some(6), inv_variance: Some(7), ..Batchnorm::new(1, 4, 5, 8, 2) };
    let mut with_epsilon = statistics();
    with_epsilon.push(Tensor::new(8, DataType::Float, &[1], &[1]));
    bandwidth_row(&name("training"), elements, 2.0, with_epsilon, training.into());
    let backward = BatchnormBackward {
        dy: 1,
        x: 2,
        scale: 4,
        dx: 3,
        dscale: 5,
        dbias: 6,
        mean: Some(7),
        inv_variance: Some(4),
        peer_stats: vec![],
    };
    bandwidth_row(&name("backward"), elements, 3.0, statistics(), backward.into());
    for (mode, in_1, passes) in [
        (PointwiseMode::ReluFwd, None, 2.0),
        (PointwiseMode::ReluBwd, Some(2), 3.0),
        (PointwiseMode::Add, Some(4), 2.0),
        (PointwiseMode::SigmoidFwd, None, 2.0),
    ] {
        let pointwise = Pointwise::new(mode, 1, in_1, 3);
        bandwidth_row(&name(mode.name()), elements, passes, statistics(), pointwise.into());
    }
}

/// Layer normalization of `rows` rows, and its gradients.
pub(crate) fn layer_normalization(rows: i64, len: i64, data_type: DataType) {
    let tensor = |uid, dims: [i64; 2]| Tensor::new(uid, data_type, &dims, &[dims[1], 1]);
    let statistic = |uid| Tensor::new(uid, DataType::Float, &[rows, 1], &[1, 1]);
    let mut tensors: Vec<Tensor> = (1..=3).map(|uid| tensor(uid, [rows, len])).collect();
    tensors.extend((4..=7).map(|uid| tensor(uid, [1, len])));
    tensors.extend((8..=9).map(statistic));
    tensors.push(Tensor::new(10, DataType::Float, &[1], &[1]));
    let name = |what: &str| format!("{what} {rows}x{len} {}", data_type.name());
    let size = data_type.size().unwrap() as f64 / 4.0;
    let forward = Layernorm {
        x: 1,
        scale: 4,
        bias: 5,
        epsilon: 10,
        y: 2,
        mean: Some(8),
        inv_variance: Some(9),
        forward_phase: NormFwdPhase::Training,
        normalized_dim_count: 1,
    };
    bandwidth_row(&name("layernorm"), rows * len, 2.0 * size, tensors.clone(), forward.into());
    let backward = LayernormBackward {
        dy: 1,
        x: 2,
        scale: 4,
        mean: Some(8),
        inv_variance: Some(9),
        epsilon: None,
        dx: 3,
        dscale: 6,
        dbias: 7,
        normalized_dim_count: 1,
    };
    bandwidth_row(&name("backward"), rows * len, 3.0 * size, tensors, backward.into());
}

/// Reductions of a matrix along its rows and along its columns.
pub(crate) fn reductions(rows: i64, columns: i64, data_type: DataType) {
    let size = data_type.size().unwrap() as f64 / 4.0;
    for (kept, along) in [([rows, 1], "along rows"), ([1, columns], "along columns"), ([1, 1], "of all")] {
        for mode in [ReductionMode::Add, ReductionMode::Max] {
            let tensors = vec![
                Tensor::new(1, data_type, &[rows, columns], &[columns, 1]),
                Tensor::new(2, DataType::Float, &kept, &[kept[1], 1]),
            ];
            let name = format!("{} {along} {rows}x{columns} {}", mode.name(), data_type.name());
            let operation = Reduction { in_: 1, out: 2, mode, is_deterministic: false };
            bandwidth_row(&name, rows * columns, size, tensors, operation.into());
        }
    }
}

/// Eight operations on each element of 16 MiB, compared with a copy of the same size.
pub(crate) fn chain() {
    const ELEMENTS: i64 = 4 << 20;
    let dims = [4, 64, 128, 128];
    let modes = [
        (PointwiseMode::Mul, true),
        (PointwiseMode::Add, true),
        (PointwiseMode::ReluFwd, false),
        (PointwiseMode::Mul, true),
        (PointwiseMode::Sub, true),
        (PointwiseMode::Abs, false),
        (PointwiseMode::Max, true),
        (PointwiseMode::Add, true),
    ];
    let mut tensors =
        vec![tensor(1, dims, false, DataType::Float), tensor(2, [1, 64, 1, 1], false, DataType::Float)];
    let mut operations = Vec::new();
    for (step, (mode, two)) in modes.into_iter().enumerate() {
        let (from, to) = (if step == 0 { 1 } else { 2 + step as i64 }, 3 + step as i64);
        let out = tensor(to, dims, false, DataType::Float);
        tensors.push(Tensor { is_virtual: step + 1 < modes.len(), ..out });
        operations.push(on_each_element(mode, from, two.then_some(2), to));
    }
    let seconds = time_graph(tensors, operations, 0);
    let copy = copy_rate();
    let rate = 8.0 * ELEMENTS as f64 / seconds / 1e9;
    println!(
        "8 operations on 16 MiB          {:>9.1} µs {rate:>8.1} GB/s of inputs and results, {:.0} % of the {copy:.1} GB/s of a copy",
        seconds * 1e6,
        100.0 * rate / copy
    );
}

/// Softmax of rows, as five operations.
pub(crate) fn softmax(rows: i64, len: i64) {
    let whole = |uid, is_virtual| {
        let tensor = Tensor::new(uid, DataType::Float, &[rows, len], &[len, 1]);
        Tensor { is_virtual, ..tensor }
    };
    let one = |uid| Tensor { is_virtual: true, ..Tensor::new(uid, DataType::Float, &[rows, 1], &[1, 1]) };
    let reduce = |mode, in_, out| Operation::from(Reduction { in_, out, mode, is_deterministic: false });
    let tensors = vec![whole(1, false), one(2), whole(3, true), whole(4, true), one(5), whole(6, false)];
    let operations = vec![
        reduce(ReductionMode::Max, 1, 2),
        on_each_element(PointwiseMode::Sub, 1, Some(2), 3),
        on_each_element(PointwiseMode::Exp, 3, None, 4),
        reduce(ReductionMode::Add, 4, 5),
        on_each_element(PointwiseMode::Div, 4, Some(5), 6),
    ];
    let seconds = time_graph(tensors, operations, 0);
    println!(
        "softmax {rows} rows of {len:<12} {:>9.1} µs {:>8.1} GB/s of inputs and results",
        seconds * 1e6,
        8.0 * (rows * len) as f64 / seconds / 1e9
    );
}

/// Functions of each element of 512 rows of 3072.
pub(crate) fn functions() {
    use PointwiseMode as M;
    let dims = [1, 1, 512, 3072];
    let elements: i64 = dims.iter().product();
    for mode in [
        M::GeluFwd,
        M::GeluBwd,
        M::GeluApproxTanhFwd,
        M::Erf,
        M::Exp,
        M::TanhFwd,
        M::SigmoidFwd,
        M::SwishFwd,
        M::SwishBwd,
        M::EluFwd,
        M::SoftplusFwd,
        M::Log,
        M::Sqrt,
    ] {
        let operands = if mode.operands() == 2 { 2 } else { 1 };
        let tensors = (1..4).map(|uid| tensor(uid, dims, false, DataType::Float)).collect();
        let operation = on_each_element(mode, 1, (operands == 2).then_some(2), 3);
        bandwidth_row(
            &format!("function {}", mode.name()),
            elements,
            1.0 + operands as f64,
            tensors,
            operation,
        );
    }
}

/// Attention with 12 heads of size 64.
pub(crate) fn attention(queries: i64, causal: bool, data_type: DataType, peak: f64, wanted: &str) {
    const HEADS: i64 = 12;
    const DEPTH: i64 = 64;
    let kind = if causal { "causal attention" } else { "attention" };
    let name = format!("{kind} {queries} {}", data_type.name());
    if !name.contains(wanted) {
        return;
    }
    let dims = [1, HEADS, queries, DEPTH];
    let rows =
        |uid| Tensor::new(uid, data_type, &dims, &[HEADS * queries * DEPTH, queries * DEPTH, DEPTH, 1]);
    let attention = Sdpa { causal_mask: causal, attn_scale_value: Some(0.125), ..Sdpa::new(1, 2, 3, 4) };
    let seconds = time((1..5).map(rows).collect(), attention.into());
    let seen = if causal { queries * (queries + 1) / 2 } else { queries * queries };
    let rate = 4.0 * (HEADS * seen * DEPTH) as f64 / seconds / 1e9;
    println!(
        "{name:<31} {:>9.1} µs {rate:>8.1} GFLOP/s {:>6.1} % of the threads' peak",
        seconds * 1e6,
        100.0 * rate / peak
    );
}
