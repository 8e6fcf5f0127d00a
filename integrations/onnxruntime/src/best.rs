//! Which of NVIDIA's engines is the best for a graph, as far as the graph alone tells.

use hipdnn::EngineInfo;
use hipdnn::graph::{DataType, Graph, Operation};
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
        if graph.suits_generated_kernels() || is_small_depthwise(graph) {
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

/// Whether a graph is a depthwise convolution in 16 bits with a small filter and channels first, alone or with pointwise operations. cuDNN
/// compiles one for each within 150 to 250 ms, one at a time (12 in EfficientNet). Its kernel is faster by at most the time of the second one
/// that adds bias and activation (benches/results/depthwise_gpu.csv).
fn is_small_depthwise(graph: &Graph) -> bool {
    const MOST_TAPS: i64 = 25;
    let mut others = graph.nodes.iter().filter(|node| !matches!(node.operation, Operation::Pointwise(_)));
    let (Some(node), None) = (others.next(), others.next()) else { return false };
    let Operation::ConvolutionForward(of) = &node.operation else { return false };
    graph.depthwise(of).is_some_and(|(x, taps)| {
        let is_16_bit = matches!(x.data_type, DataType::Half | DataType::Bfloat16);
        is_16_bit && x.strides.get(1) != Some(&1) && taps <= MOST_TAPS
    })
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::operation::{ConvolutionForward, Matmul, Pointwise};
    use hipdnn::graph::{Node, PointwiseMode, Tensor};

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
    fn small_depthwise_convolutions_are_for_generated_kernels() {
        let best = |data_type: DataType, channels_of_filter: i64, window: i64, strides: [i64; 4]| {
            let conv = ConvolutionForward {
                pre_padding: vec![window / 2; 2],
                post_padding: vec![window / 2; 2],
                ..ConvolutionForward::new(1, 2, 3, 2)
            };
            let swish = Pointwise::new(PointwiseMode::SwishFwd, 3, None, 4);
            let nodes = vec![Node::single(conv), Node::single(swish)];
            let image = |uid| Tensor::new(uid, data_type, &[2, 4, 8, 8], &strides);
            let filter = [4, channels_of_filter, window, window];
            let w = Tensor::packed(2, data_type, &filter);
            Best::of(&Graph { nodes, tensors: vec![image(1), w, image(3), image(4)], ..Graph::default() })
        };
        let (first, last) = ([256, 64, 8, 1], [256, 1, 32, 4]);
        assert_eq!(best(DataType::Half, 1, 3, first), Best::Generated);
        assert_eq!(best(DataType::Bfloat16, 1, 5, first), Best::Generated);
        // cuDNN's kernels are faster with large filters, and with channels last.
        assert_eq!(best(DataType::Half, 1, 7, first), Best::Unknown);
        assert_eq!(best(DataType::Half, 1, 3, last), Best::Unknown);
        assert_eq!(best(DataType::Half, 4, 3, first), Best::Unknown);
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
