//! Builder for nodes that replace a node of the graph.

use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, Operation, PointwiseMode, ReductionMode, Tensor, TensorValue,
};

/// A sequence of nodes under construction.
pub struct Spelling<'a> {
    /// The graph, to which intermediate tensors are added.
    pub graph: &'a mut Graph,
    /// The type of intermediate tensors.
    pub(crate) data_type: DataType,
    pub(crate) operations: Vec<Operation>,
}

impl Spelling<'_> {
    fn tensor(&mut self, dims: &[i64]) -> Tensor {
        Tensor::packed(unused(self.graph), self.data_type, dims)
    }

    pub(crate) fn between(&mut self, dims: &[i64]) -> i64 {
        let tensor = Tensor { is_virtual: true, ..self.tensor(dims) };
        let uid = tensor.uid;
        self.graph.tensors.push(tensor);
        uid
    }

    /// A constant in the graph.
    pub fn number(&mut self, value: f64) -> i64 {
        let mut tensor = self.tensor(&[1]);
        (tensor.data_type, tensor.value) = (DataType::Double, Some(TensorValue::Float64(value)));
        let uid = tensor.uid;
        self.graph.tensors.push(tensor);
        uid
    }

    /// The means of a tensor along the dimensions in which `dims` is 1.
    pub fn average(&mut self, in_: i64, dims: &[i64]) -> i64 {
        let out = self.between(dims);
        let node = Reduction { in_, out, mode: ReductionMode::Avg, is_deterministic: true };
        self.operations.push(node.into());
        out
    }

    /// A pointwise operation on one or two tensors, whose output has these dims.
    pub fn pointwise(&mut self, mode: PointwiseMode, in_0: i64, in_1: Option<i64>, dims: &[i64]) -> i64 {
        let out = self.between(dims);
        self.pointwise_into(mode, in_0, in_1, out);
        out
    }

    /// The same into an existing tensor.
    pub fn pointwise_into(&mut self, mode: PointwiseMode, in_0: i64, in_1: Option<i64>, out: i64) {
        self.operations.push(Pointwise::new(mode, in_0, in_1, out).into());
    }

    /// The means and variances of a tensor along the dimensions in which `rows` is 1, and the deviations from
    /// the means.
    pub fn moments(&mut self, x: i64, dims: &[i64], rows: &[i64]) -> [i64; 3] {
        let mean = self.average(x, rows);
        let centered = self.pointwise(PointwiseMode::Sub, x, Some(mean), dims);
        let square = self.pointwise(PointwiseMode::Mul, centered, Some(centered), dims);
        [mean, self.average(square, rows), centered]
    }

    /// 1/√(variance + ε)
    pub fn inverse(&mut self, variance: i64, epsilon: i64, rows: &[i64]) -> i64 {
        let spread = self.pointwise(PointwiseMode::Add, variance, Some(epsilon), rows);
        self.pointwise(PointwiseMode::Rsqrt, spread, None, rows)
    }
}

/// The smallest uid that no tensor uses.
pub fn unused(graph: &Graph) -> i64 {
    let mut uids: Vec<i64> = graph.tensors.iter().map(|tensor| tensor.uid).filter(|uid| *uid >= 0).collect();
    uids.sort_unstable();
    // There are more candidates than tensors, so one is unused.
    uids.iter()
        .zip(0..)
        .find(|(uid, number)| **uid != *number)
        .map_or(uids.len() as i64, |(_, number)| number)
}
