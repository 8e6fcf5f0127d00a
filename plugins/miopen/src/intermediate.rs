//! Data types of the tensors between nodes.
//!
//! Authors of graphs of `half` tensors often use `float` in between. MIOpen's operations have one type for
//! all their tensors, so intermediate tensors must be `half`, too. Inside a fused kernel they are in
//! registers, and their type does not matter; a plan that stores them in memory would round more than the
//! graph asks for.

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, Tensor};

/// Gives virtual `float` tensors the narrower type of the tensors that they are computed from. The graph is
/// prepared. Returns the tensors that were changed.
pub fn narrow(graph: &mut Graph) -> Vec<i64> {
    let mut narrowed = Vec::new();
    for place in 0..graph.nodes.len() {
        let Some((output, data_type)) =
            graph.nodes.get(place).and_then(|node| smaller(graph, &node.operation))
        else {
            continue;
        };
        if let Some(tensor) = graph.tensors.iter_mut().find(|tensor| tensor.uid == output) {
            tensor.data_type = data_type;
            narrowed.push(output);
        }
    }
    narrowed
}

/// The output of an operation, and a narrower type for it.
fn smaller(graph: &Graph, operation: &Operation) -> Option<(i64, DataType)> {
    let (inputs, output): (Vec<i64>, i64) = match operation {
        Operation::ConvolutionForward(node) => (vec![node.x], node.y),
        Operation::ConvolutionBackwardData(node) => (vec![node.dy], node.dx),
        Operation::ConvolutionBackwardFilter(node) => (vec![node.dy], node.dw),
        Operation::Batchnorm(node) => (vec![node.x], node.y),
        Operation::BatchnormInference(node) => (vec![node.x], node.y),
        Operation::BatchnormInferenceVariance(node) => (vec![node.x], node.y),
        Operation::BatchnormBackward(node) => (vec![node.dy], node.dx),
        Operation::ResampleForward(node) => (vec![node.x], node.y),
        Operation::ResampleBackward(node) => (vec![node.dy], node.dx),
        Operation::Reduction(node) => (vec![node.in_], node.out),
        Operation::Layernorm(node) => (vec![node.x], node.y),
        Operation::RmsNorm(node) => (vec![node.x], node.y),
        Operation::LayernormBackward(node) => (vec![node.dy], node.dx),
        Operation::RmsNormBackward(node) => (vec![node.dy], node.dx),
        Operation::Pointwise(node) => (operation.inputs(), node.out_0),
        // MIOpen computes no others.
        _ => return None,
    };
    let result =
        graph.tensor(output).filter(|tensor| tensor.is_virtual && tensor.data_type == DataType::Float)?;
    let in_memory = |tensor: &&Tensor| tensor.value.is_none() && !tensor.is_runtime_pass_by_value;
    // A broadcast operand only counts if none has the output's size.
    let mut inputs: Vec<&Tensor> =
        inputs.iter().filter_map(|uid| graph.tensor(*uid)).filter(in_memory).collect();
    inputs.sort_by_key(|tensor| tensor.dims != result.dims);
    let data_type = inputs.first()?.data_type;
    matches!(data_type, DataType::Half | DataType::Bfloat16).then_some((output, data_type))
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
    use hipdnn_plugin_sdk::graph::{Node, PointwiseMode, ReductionMode};

    use super::*;

    fn graph(input: DataType, bias: DataType) -> Graph {
        let dims = [2_i64, 3];
        let mut tensors = vec![
            Tensor::new(1, input, &dims, &[3, 1]),
            Tensor::new(2, bias, &[1, 3], &[3, 1]),
            Tensor::new(3, DataType::Float, &dims, &[3, 1]),
            Tensor::new(4, DataType::Float, &dims, &[3, 1]),
            Tensor::new(5, DataType::Float, &[2, 1], &[1, 1]),
        ];
        tensors[2].is_virtual = true;
        tensors[3].is_virtual = true;
        let operations: [Operation; 3] = [
            Pointwise::new(PointwiseMode::Add, 2, Some(1), 3).into(),
            Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4).into(),
            Reduction { in_: 4, out: 5, mode: ReductionMode::Add, is_deterministic: false }.into(),
        ];
        Graph { tensors, nodes: operations.map(Node::single).into(), ..Graph::default() }
    }

    #[test]
    fn tensors_between_half_ones_become_half() {
        for (input, bias) in [
            (DataType::Half, DataType::Half),
            (DataType::Bfloat16, DataType::Bfloat16),
            (DataType::Half, DataType::Float),
        ] {
            let mut graph = graph(input, bias);
            assert_eq!(narrow(&mut graph), [3, 4]);
            // The graph's output keeps its type.
            let types: Vec<DataType> = graph.tensors.iter().skip(2).map(|tensor| tensor.data_type).collect();
            assert_eq!(types, [input, input, DataType::Float]);
        }
        let mut float = graph(DataType::Float, DataType::Half);
        let before = float.clone();
        assert!(narrow(&mut float).is_empty());
        assert_eq!(float, before);
    }
}
