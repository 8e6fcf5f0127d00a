//! Which of NVIDIA's engines is the best for a graph, as far as the graph alone tells.

use hipdnn::EngineInfo;
use hipdnn::graph::{Graph, Operation};
use hipdnn_plugin_sdk::engine_kind::{EngineDevice, EngineKind, Implementation};

use crate::lowering::calls;

/// An engine's kind does not tell it from cuDNN.
const CUBLASLT: &str = "CUBLASLT_ENGINE";

/// An engine that answers at once whether it computes a graph, while cuDNN must compile a kernel to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// Generated kernels, which are as fast as memory.
    Generated,
    /// cuBLASLt, if it computes all of the graph: it multiplies as fast as cuDNN or faster (benches/results/nvidia_h200.csv).
    Products,
    /// Not known.
    Unknown,
}

impl Best {
    /// For a graph.
    pub fn of(graph: &Graph) -> Self {
        if graph.suits_generated_kernels() {
            return Self::Generated;
        }
        let is_product = |operation: &Operation| match operation {
            Operation::Matmul(of) => Some([of.a, of.b, of.c].map(|uid| graph.tensor(uid))),
            _ => None,
        };
        let mut products = graph.nodes.iter().filter_map(|node| is_product(&node.operation));
        match (products.next(), products.next()) {
            (Some([Some(a), Some(b), Some(c)]), None)
                if calls([a, b, c].map(|of| (of.dims.as_slice(), of.strides.as_slice()))) == 1 =>
            {
                Self::Products
            }
            _ => Self::Unknown,
        }
    }

    /// Whether it is this engine.
    pub fn is(self, engine: &EngineInfo) -> bool {
        const GENERATED: EngineKind =
            EngineKind { device: EngineDevice::Nvidia, implementation: Implementation::Generated };
        match self {
            Self::Generated => engine.of == GENERATED,
            Self::Products => engine.name == CUBLASLT,
            Self::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::operation::{Matmul, Pointwise};
    use hipdnn::graph::{DataType, Node, PointwiseMode, Tensor};

    use super::*;

    #[test]
    fn products_in_one_call_are_for_cublaslt() {
        let graph = |operations: Vec<Operation>, strides: [i64; 4]| {
            let tensor = |uid| Tensor::new(uid, DataType::Half, &[2, 3, 4, 4], &strides);
            Graph {
                nodes: operations.into_iter().map(Node::single).collect(),
                tensors: (1..6).map(tensor).collect(),
                ..Graph::default()
            }
        };
        let product = || Operation::from(Matmul { a: 1, b: 2, c: 3 });
        let add = || Pointwise::new(PointwiseMode::Add, 3, Some(4), 5).into();
        let packed = [48, 16, 4, 1];
        assert_eq!(Best::of(&graph(vec![add()], packed)), Best::Generated);
        assert_eq!(Best::of(&graph(vec![product()], packed)), Best::Products);
        assert_eq!(Best::of(&graph(vec![product(), add()], packed)), Best::Products);
        // Heads beside each other need several calls.
        assert_eq!(Best::of(&graph(vec![product(), add()], [48, 4, 12, 1])), Best::Unknown);
        assert_eq!(Best::of(&graph(vec![product(), product()], packed)), Best::Unknown);
    }

    #[test]
    fn engines_are_known_by_what_they_tell() {
        let engine = |name: &str| EngineInfo {
            name: name.to_owned(),
            id: 1,
            plugin: String::new(),
            version: String::new(),
            kind: String::new(),
            of: EngineKind::by_name(name),
        };
        let names = ["NVRTC_ENGINE", "CUBLASLT_ENGINE", "CUDNN_ENGINE", "HIPRTC_ENGINE", "VULKAN_ENGINE"];
        let found = |best: Best| names.iter().position(|name| best.is(&engine(name)));
        let all = [Best::Generated, Best::Products, Best::Unknown].map(found);
        assert_eq!(all, [Some(0), Some(1), None]);
    }
}
