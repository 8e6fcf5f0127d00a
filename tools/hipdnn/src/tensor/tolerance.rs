//! The tolerance of results against the reference.
//!
//! A result x may differ from the reference r by
//!
//! ```text
//! 2 u max(|x|, |r|) + e A + t
//! ```
//!
//! where u is half a step of the result's type and t its smallest number, so that the two may be neighbours; A is the largest
//! finite magnitude in the reference; and e is the sum, over the nodes that the result depends on, of ε (16 + 2 √k) with ε the
//! half step of the compute type and k the number of terms that the node sums for an element, and of 2 u for each virtual tensor
//! in between, which an engine need not round to, and for each tensor inside attention, which engines round to the type of q for
//! the next matmul. Integers are equal, except where rounding errors decide ([`crate::ties`]).

use std::collections::HashSet;

use crate::data_type::DataType;
use crate::graph::{Graph, Node, Tensor};

/// The tolerance of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the element.
    pub relative: f64,
    /// Relative to the largest element.
    pub of_largest: f64,
    /// Added in any case.
    pub absolute: f64,
}

/// Half a step of a type at 1, and its smallest number above 0.
pub fn steps(data_type: DataType) -> (f64, f64) {
    let power = |exponent: i32| f64::from(exponent).exp2();
    match data_type {
        DataType::Double => (power(-53), 0.0),
        DataType::Float | DataType::Unset => (power(-24), power(-149)),
        DataType::Half => (power(-11), power(-24)),
        DataType::Bfloat16 => (power(-8), power(-133)),
        DataType::Fp8E4m3 => (power(-4), power(-9)),
        DataType::Fp8E4m3Fnuz => (power(-4), power(-10)),
        DataType::Fp8E5m2 => (power(-3), power(-16)),
        DataType::Fp8E5m2Fnuz => (power(-3), power(-17)),
        DataType::Fp6E2m3 => (power(-4), power(-3)),
        DataType::Fp6E3m2 => (power(-3), power(-4)),
        DataType::Fp4E2m1 => (power(-2), power(-1)),
        DataType::Fp8E8m0 => (power(-2), power(-127)),
        DataType::Uint8
        | DataType::Int32
        | DataType::Int8
        | DataType::Int4
        | DataType::Int64
        | DataType::Boolean => (0.0, 0.0),
    }
}

impl Tolerance {
    /// The tolerance of a tensor that a graph writes.
    pub fn of(graph: &Graph, tensor: &Tensor) -> Self {
        if tensor.data_type.is_integer() {
            return Self { relative: 0.0, of_largest: 0.0, absolute: 0.0 };
        }
        let mut of_largest = 0.0;
        let mut seen = HashSet::new();
        let mut open = vec![tensor.uid];
        while let Some(uid) = open.pop() {
            if !seen.insert(uid) {
                continue;
            }
            let Some(written) = graph.tensor(uid) else { continue };
            let Some(node) = graph.producer(uid) else { continue };
            if uid != tensor.uid {
                of_largest += 2.0 * steps(written.data_type).0;
            }
            let step = steps(accumulator(node)).0;
            of_largest += step * (16.0 + 2.0 * terms(graph, node).sqrt());
            of_largest += inside(graph, node, uid);
            open.extend(node.inputs.iter().map(|port| port.uid));
        }
        let (step, smallest) = steps(tensor.data_type);
        Self { relative: 2.0 * step, of_largest, absolute: smallest }
    }

    /// Multiplies the tolerance.
    pub fn times(self, factor: f64) -> Self {
        Self {
            relative: self.relative * factor,
            of_largest: self.of_largest * factor,
            absolute: self.absolute * factor,
        }
    }
}

/// The type in which a node computes: half types in single precision, as nodes without a compute type.
pub fn accumulator(node: &Node) -> DataType {
    if node.compute_type == DataType::Double { DataType::Double } else { DataType::Float }
}

/// The tolerance for rounding tensors inside a node, for one of its outputs.
fn inside(graph: &Graph, node: &Node, written: i64) -> f64 {
    let is_of_rows = ["stats", "max", "sum_exp"].iter().any(|role| node.output(role) == Some(written));
    let rounded = match node.operation.as_str() {
        // The weights.
        "Sdpa" if !is_of_rows => 1.0,
        // The weights and their gradients.
        "SdpaBackward" => 2.0,
        _ => 0.0,
    };
    let q = node.inputs.iter().find(|port| port.role == "q").and_then(|port| graph.tensor(port.uid));
    rounded * q.map_or(0.0, |q| 2.0 * steps(q.data_type).0)
}

/// The most terms that a node sums for an element.
pub fn terms(graph: &Graph, node: &Node) -> f64 {
    let dims = |role: &str| -> Vec<f64> {
        let port = node.inputs.iter().chain(&node.outputs).find(|port| port.role == role);
        let tensor = port.and_then(|port| graph.tensor(port.uid));
        tensor.map_or_else(Vec::new, |tensor| tensor.dims.iter().map(|dim| *dim as f64).collect())
    };
    let count = |role: &str| dims(role).iter().product::<f64>();
    let at = |role: &str, place: usize| dims(role).get(place).copied().unwrap_or(1.0);
    let last = |role: &str, from_end: usize| dims(role).iter().rev().nth(from_end).copied().unwrap_or(1.0);
    let list = |key: &str| -> f64 {
        let values = node.parameter(key).and_then(|value| value.as_array());
        values.map_or(1.0, |values| values.iter().filter_map(|value| value.as_f64()).product())
    };
    let terms = match node.operation.as_str() {
        "ConvolutionFwd" => count("w") / at("w", 0),
        "ConvolutionBwd" => count("w") / at("w", 1),
        "ConvolutionWrw" => count("dy") / at("dy", 1),
        "Matmul" => last("a", 0),
        "Batchnorm" | "BatchnormBackward" => count("x") / at("x", 1),
        "Layernorm" | "LayernormBackward" | "RMSNorm" | "RMSNormBackward" => {
            count("scale").max(count("x") / count("scale").max(1.0))
        }
        "Sdpa" => last("q", 0) + last("k", 1),
        "SdpaBackward" => last("q", 0) + last("k", 1) + last("q", 1),
        "Reduction" => count("in") / count("out").max(1.0),
        "ResampleFwd" | "ResampleBwd" => list("window"),
        "MoeGroupedMatmul" => last("token", 0),
        "MoeGroupedMatmulBwd" => count("token") / last("token", 0),
        _ => 1.0,
    };
    if terms.is_finite() { terms.max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::testing::{convolution, graph, pointwise, tensor};

    #[test]
    fn sums_and_virtual_tensors_widen_it() {
        let tensors = vec![
            tensor(1, "x", &[1, 4, 8, 8], false),
            tensor(2, "w", &[6, 4, 3, 3], false),
            tensor(3, "", &[1, 6, 8, 8], true),
            tensor(4, "y", &[1, 6, 8, 8], false),
        ];
        let nodes = vec![convolution("conv", 1, 2, 3), pointwise("", "relu_fwd", 3, None, 4)];
        let graph = graph("g", tensors, nodes);
        let tolerance = Tolerance::of(&graph, graph.tensor(4).unwrap());
        let half_step = (-24_f64).exp2();
        // 36 terms of the convolution, 1 of the activation, and the rounding of the tensor between them.
        assert_eq!(tolerance.of_largest, half_step * ((16.0 + 12.0) + (16.0 + 2.0) + 2.0));
        assert_eq!(tolerance.relative, 2.0 * half_step);
    }

    #[test]
    fn weights_of_attention_are_rounded_to_the_type_of_the_queries() {
        let of = |data_type: &str| {
            let tensors = (1..=5).map(|uid| {
                let mut tensor = tensor(uid, "", &[1, 2, 9, 16], false);
                tensor["data_type"] = if uid == 5 { "float" } else { data_type }.into();
                tensor
            });
            let sdpa = json!({"type": "SdpaAttributes", "name": "", "compute_data_type": "float",
                "inputs": {"q_tensor_uid": 1, "k_tensor_uid": 2, "v_tensor_uid": 3},
                "outputs": {"o_tensor_uid": 4, "stats_tensor_uid": 5}});
            let graph = graph("g", tensors.collect(), vec![sdpa]);
            [4, 5].map(|uid| Tolerance::of(&graph, graph.tensor(uid).unwrap()).of_largest)
        };
        let sums = (-24_f64).exp2() * (16.0 + 2.0 * 25_f64.sqrt());
        assert_eq!(of("half"), [sums + (-10_f64).exp2(), sums]);
        assert_eq!(of("bfloat16"), [sums + (-7_f64).exp2(), sums]);
    }
}
