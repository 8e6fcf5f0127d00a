//! A rotation of pairs whose two results overwrite its two operands.

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};

use crate::fusion::graph::parts_at;
use crate::plan::steps::Plan;
use crate::prepare::prepare;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random};

const DIMS: [i64; 3] = [2, 9, 7];
/// In memory.
const X: [i64; 2] = [1, 2];
const COS: i64 = 3;
const SIN: i64 = 4;
const Y: [i64; 2] = [5, 6];
/// Virtual.
const PRODUCTS: [i64; 4] = [10, 11, 12, 13];

fn array(uid: i64) -> Array {
    Array::packed(uid, DataType::Float, &DIMS)
}

/// x₀ cos - x₁ sin and x₁ cos + x₀ sin; both operands are read before either result is written.
fn rotation() -> Graph {
    let binary = |mode, x, y, to| -> Operation { Pointwise::new(mode, x, Some(y), to).into() };
    let [a, b, c, d] = PRODUCTS;
    let operations = [
        binary(PointwiseMode::Mul, X[0], COS, a),
        binary(PointwiseMode::Mul, X[1], COS, b),
        binary(PointwiseMode::Mul, X[1], SIN, c),
        binary(PointwiseMode::Mul, X[0], SIN, d),
        binary(PointwiseMode::Sub, a, c, Y[0]),
        binary(PointwiseMode::Add, b, d, Y[1]),
    ];
    let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
    let in_memory = [X[0], X[1], COS, SIN, Y[0], Y[1]].map(|uid| array(uid).tensor);
    let between = PRODUCTS.map(|uid| Tensor { is_virtual: true, ..array(uid).tensor });
    Graph {
        tensors: in_memory.into_iter().chain(between).collect(),
        nodes: operations.map(node).to_vec(),
        ..Graph::default()
    }
}

#[test]
fn operands_are_read_before_results_overwrite_them() {
    let graph = rotation();
    for isa in Isa::available() {
        let mut random = Random::new(5);
        let mut arrays = [X[0], X[1], COS, SIN].map(|uid| array(uid).filled(|| random.whole()));
        let [first, second, cos, sin] = [0, 1, 2, 3].map(|at: usize| arrays[at].values());
        let plan = Plan::in_parts(&prepare(&graph).unwrap(), |prepared| {
            parts_at(prepared, *isa, Settings::default())
        })
        .unwrap();
        let [x0, x1, c, s] = arrays.each_mut().map(|array| array.first().cast());
        let bound = [(X[0], x0), (X[1], x1), (COS, c), (SIN, s), (Y[0], x0), (Y[1], x1)];
        let buffers = bound.map(|(uid, ptr)| hipdnnPluginDeviceBuffer_t { uid, ptr });
        let mut workspace = vec![0xFF_u8; plan.workspace_size()];
        // SAFETY: each array covers the tensors bound to it, each result has the layout of the operand whose
        // array it shares, and the workspace has the size that the plan reports.
        unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
        for at in 0..first.len() {
            assert_eq!(arrays[0].values()[at], first[at] * cos[at] - second[at] * sin[at], "{isa:?}");
            assert_eq!(arrays[1].values()[at], second[at] * cos[at] + first[at] * sin[at], "{isa:?}");
        }
    }
}
