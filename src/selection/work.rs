//! How much a graph computes and moves, for estimates of its time.

use hipdnn_plugin_sdk::graph::{Graph, Operation, Tensor};

/// The operations of a graph, and the bytes of its tensors in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Multiplications and additions, each counted.
    pub operations: f64,
    /// Bytes that are read or written.
    pub bytes: f64,
    /// The bytes of an element of the largest tensor in memory; 1 if smaller.
    pub element: usize,
}

impl Work {
    /// The work of a graph.
    pub fn of(graph: &Graph) -> Self {
        let operations = graph.nodes.iter().map(|node| operations(graph, &node.operation)).sum();
        let stored = || graph.tensors.iter().filter(|tensor| !tensor.is_virtual && tensor.value.is_none());
        let bytes = stored().map(|tensor| volume(tensor) * size_of(tensor) as f64).sum();
        let element = stored().max_by(|a, b| volume(a).total_cmp(&volume(b))).map_or(1, size_of);
        Self { operations, bytes, element }
    }
}

/// The bytes of an element. Elements below a byte count as one.
fn size_of(tensor: &Tensor) -> usize {
    tensor.data_type.size().unwrap_or(1)
}

fn volume(tensor: &Tensor) -> f64 {
    tensor.dims.iter().map(|dim| (*dim).max(0) as f64).product()
}

fn operations(graph: &Graph, operation: &Operation) -> f64 {
    let size = |uid: i64| graph.tensor(uid).map_or(0.0, volume);
    let last =
        |uid: i64| graph.tensor(uid).and_then(|tensor| tensor.dims.last()).map_or(0.0, |dim| *dim as f64);
    // A result of a convolution is a sum of as many products as a filter has elements.
    let products = |y: i64, w: i64| {
        let filter = graph.tensor(w).and_then(|w| w.dims.get(1..)).unwrap_or(&[]);
        2.0 * size(y) * filter.iter().map(|dim| *dim as f64).product::<f64>()
    };
    match operation {
        Operation::Matmul(matmul) => 2.0 * size(matmul.c) * last(matmul.a),
        Operation::ConvolutionForward(convolution) => products(convolution.y, convolution.w),
        Operation::ConvolutionBackwardData(convolution) => products(convolution.dy, convolution.w),
        Operation::ConvolutionBackwardFilter(convolution) => products(convolution.dy, convolution.dw),
        Operation::MoeGroupedMatmul(matmul) => 2.0 * size(matmul.output) * last(matmul.token),
        Operation::Sdpa(sdpa) => {
            let keys = graph.tensor(sdpa.k).and_then(|k| k.dims.get(2)).map_or(0.0, |dim| *dim as f64);
            2.0 * keys * (size(sdpa.q) + size(sdpa.o))
        }
        Operation::SdpaBackward(sdpa) => {
            let keys = graph.tensor(sdpa.k).and_then(|k| k.dims.get(2)).map_or(0.0, |dim| *dim as f64);
            5.0 * keys * (size(sdpa.q) + size(sdpa.do_))
        }
        // The others are bound by memory: a few operations for each element of the largest tensor.
        _ => 4.0 * graph.tensors.iter().map(volume).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
    use hipdnn_plugin_sdk::graph::{DataType, Node, PointwiseMode};

    use super::*;

    #[test]
    fn products_and_stored_bytes_are_counted() {
        let tensor = |uid, dims: &[i64]| Tensor::new(uid, DataType::Float, dims, &[1; 2]);
        let tensors = vec![tensor(1, &[8, 16]), tensor(2, &[16, 4]), tensor(3, &[8, 4]), tensor(4, &[8, 4])];
        let mut graph = Graph { tensors, ..Graph::default() };
        graph.tensors[2].is_virtual = true;
        graph.nodes.push(Node::single(Matmul { a: 1, b: 2, c: 3 }));
        let matmul = Work::of(&graph);
        assert_eq!(matmul, Work { operations: 1024.0, bytes: (128.0 + 64.0 + 32.0) * 4.0, element: 4 });
        graph.nodes.push(Node::single(Pointwise::new(PointwiseMode::Exp, 3, None, 4)));
        assert!(Work::of(&graph).operations > matmul.operations);
    }
}
