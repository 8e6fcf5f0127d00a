//! What results of attention may differ by, as `hipdnn run --check` derives it.

use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};
use hipdnn_plugin_sdk::json;
use hipdnn_tool::graph::Graph as Described;
use hipdnn_tool::tensor::Tolerance;

use super::Attention;
use crate::scalar::Scalar;

const Q: i64 = 1;
const K: i64 = 2;
const V: i64 = 3;
const O: i64 = 4;
const STATS: i64 = 5;
const D_O: i64 = 6;
const GRADIENTS: [i64; 3] = [7, 8, 9];

fn data_type(scalar: Scalar) -> DataType {
    match scalar {
        Scalar::F16 => DataType::Half,
        Scalar::Bf16 => DataType::Bfloat16,
        Scalar::F64 => DataType::Double,
        Scalar::Fp8E4m3 => DataType::Fp8E4m3,
        Scalar::Fp8E5m2 => DataType::Fp8E5m2,
        _ => DataType::Float,
    }
}

/// The tolerance of a result of an operation on the tensors of an attention.
fn of(a: &Attention, operation: Operation, result: i64) -> Limit {
    let own = data_type(a.q.scalar);
    let [q, k, v, o] = [
        [a.batch, a.heads, a.queries, a.depth],
        [a.batch, a.key_heads, a.keys, a.depth],
        [a.batch, a.value_heads, a.keys, a.value_depth],
        [a.batch, a.heads, a.queries, a.value_depth],
    ]
    .map(|dims| dims.map(|dim| dim as i64));
    let stats = [o[0], o[1], o[2], 1];
    let [dq, dk, dv] = GRADIENTS;
    let all = [
        (Q, own, q),
        (K, own, k),
        (V, own, v),
        (O, data_type(a.o.scalar), o),
        (STATS, DataType::Float, stats),
        (D_O, own, o),
        (dq, DataType::Float, q),
        (dk, DataType::Float, k),
        (dv, DataType::Float, v),
    ];
    let used = operation.tensors();
    let used = all.into_iter().filter(|(uid, ..)| used.contains(uid));
    let compute_type = if own == DataType::Double { own } else { DataType::Float };
    let graph = Graph {
        tensors: used.map(|(uid, of, dims)| Tensor::packed(uid, of, &dims)).collect(),
        nodes: vec![Node { name: String::new(), compute_type, operation }],
        ..Graph::default()
    };
    let graph = Described::from_json(&json::write(&graph)).unwrap();
    let limits = hipdnn_tool::rounding::Limits { steps: None, factor: 1.0 };
    Limit(limits.of(&graph, graph.tensor(result).unwrap()))
}

/// A tolerance.
pub(super) struct Limit(Tolerance);

impl Limit {
    /// That of the result.
    pub(super) fn of_result(a: &Attention) -> Self {
        of(a, Sdpa::new(Q, K, V, O).into(), O)
    }

    /// That of statistics of rows.
    pub(super) fn of_statistics(a: &Attention) -> Self {
        of(a, Sdpa { stats: Some(STATS), ..Sdpa::new(Q, K, V, O) }.into(), STATS)
    }

    /// That of gradients.
    pub(super) fn of_gradients(a: &Attention) -> Self {
        of(a, SdpaBackward::new([Q, K, V, O, D_O, STATS], GRADIENTS).into(), GRADIENTS[0])
    }

    /// Whether two values are as near, beside terms of a magnitude.
    pub(super) fn holds(&self, got: f64, expected: f64, scale: f64) -> bool {
        let Tolerance { relative, of_largest, absolute } = self.0;
        let most = relative * got.abs().max(expected.abs()) + of_largest * scale + absolute;
        got == expected || (got - expected).abs() <= most
    }
}
