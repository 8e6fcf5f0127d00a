//! Graphs built in Rust.

use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor, TensorValue};

use crate::error::Result;
use crate::{Handle, OperationGraph};

/// A builder of a graph. Tensors are identified by the uids that it returns; nodes are added in an order in which every
/// tensor is written before it is read.
///
/// ```
/// use hipdnn::graph::{ConvMode, DataType, operation::ConvolutionForward};
/// use hipdnn::{Backend, GraphBuilder, Handle};
///
/// # fn main() -> hipdnn::Result<()> {
/// let handle = Handle::new(&Backend::open(None)?)?;
/// let mut graph = GraphBuilder::new("conv", DataType::Float);
/// let (x, w) = (graph.tensor(&[1, 3, 8, 8]), graph.tensor(&[4, 3, 3, 3]));
/// let y = graph.tensor(&[1, 4, 8, 8]);
/// graph.node("conv", ConvolutionForward {
///     x, w, y,
///     pre_padding: vec![1, 1], post_padding: vec![1, 1], stride: vec![1, 1], dilation: vec![1, 1],
///     conv_mode: ConvMode::CrossCorrelation,
/// });
/// for verdict in graph.build(&handle)?.explain(&handle)? {
///     println!("{}: {}", verdict.engine.name, verdict.reason.as_deref().unwrap_or("applies"));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    /// A graph without nodes, with tensors of this type, that computes in single precision.
    pub fn new(name: &str, io_type: DataType) -> Self {
        let graph = Graph {
            name: name.to_owned(),
            io_type,
            compute_type: DataType::Float,
            intermediate_type: DataType::Float,
            ..Graph::default()
        };
        Self { graph }
    }

    /// The type that nodes compute in.
    #[must_use]
    pub fn compute_type(mut self, data_type: DataType) -> Self {
        self.graph.compute_type = data_type;
        self
    }

    /// The type of virtual tensors.
    #[must_use]
    pub fn intermediate_type(mut self, data_type: DataType) -> Self {
        self.graph.intermediate_type = data_type;
        self
    }

    /// Adds a tensor in the caller's memory, densely packed with the last dimension innermost.
    pub fn tensor(&mut self, dims: &[i64]) -> i64 {
        let tensor = Tensor::packed(0, self.graph.io_type, dims);
        self.add(tensor)
    }

    /// Adds a virtual tensor, which exists only between nodes.
    pub fn virtual_tensor(&mut self, dims: &[i64]) -> i64 {
        let tensor = Tensor::packed(0, self.graph.intermediate_type, dims);
        self.add(Tensor { is_virtual: true, ..tensor })
    }

    /// Adds a number as part of the graph, with the rank of the tensors that it is used with.
    pub fn number(&mut self, value: f32, rank: usize) -> i64 {
        let dims = vec![1; rank];
        let tensor = Tensor::new(0, DataType::Float, &dims, &dims);
        self.add(Tensor { value: Some(TensorValue::Float32(value)), ..tensor })
    }

    /// Adds any tensor. Its uid is replaced by the returned one.
    pub fn add(&mut self, tensor: Tensor) -> i64 {
        let uid = i64::try_from(self.graph.tensors.len()).unwrap_or(i64::MAX).saturating_add(1);
        self.graph.tensors.push(Tensor { uid, ..tensor });
        uid
    }

    /// Adds a node.
    pub fn node(&mut self, name: &str, operation: impl Into<Operation>) {
        let (name, operation) = (name.to_owned(), operation.into());
        self.graph.nodes.push(Node { name, compute_type: DataType::Unset, operation });
    }

    /// Passes the graph to the library, which checks it.
    pub fn build(&self, handle: &Handle) -> Result<OperationGraph> {
        OperationGraph::from_graph(handle, &self.graph)
    }
}

/// A builder that continues an existing graph, keeping its uids.
impl From<Graph> for GraphBuilder {
    fn from(graph: Graph) -> Self {
        Self { graph }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_packed_and_numbered() {
        let mut graph = GraphBuilder::new("g", DataType::Half);
        assert_eq!((graph.tensor(&[2, 3, 4]), graph.virtual_tensor(&[5]), graph.number(0.5, 2)), (1, 2, 3));
        let tensors = &graph.graph.tensors;
        assert_eq!(tensors[0].strides, [12, 4, 1]);
        assert_eq!((tensors[0].data_type, tensors[1].data_type), (DataType::Half, DataType::Float));
        assert!(tensors[1].is_virtual && tensors[2].value == Some(TensorValue::Float32(0.5)));
    }
}
