//! The gradient of a RELU as a part of the gradient of the batch normalization before it.

use hipdnn_plugin_sdk::graph::{Operation, PointwiseMode};

use crate::batchnorm::plan_gated;
use crate::dtype::element::Compute;
use crate::fusion::state::slot_of;
use crate::fusion::uses::Uses;
use crate::kernel::Part;
use crate::prepare::Prepared;
use crate::problem::batchnorm::Batchnorm;
use crate::problem::pointwise::Activation;
use crate::problem::{Problem, pointers};
use crate::simd::isa::Isa;
use crate::threading::partition::Threads;

/// The part of a gradient of a RELU and of the gradient of a batch normalization that alone reads it; none where the node is
/// something else or there is no kernel for both.
pub(crate) fn part(
    prepared: &Prepared,
    uses: &Uses<'_>,
    index: usize,
    isa: Isa,
    threads: Threads,
) -> Option<Part> {
    let graph = &prepared.graph;
    let node = graph.nodes.get(index)?;
    let Operation::Pointwise(operation) = &node.operation else { return None };
    let virtual_tensor = uses.tensors.get(&operation.out_0)?;
    let [reader] = uses.readers(operation.out_0) else { return None };
    let follower = graph.nodes.get(*reader)?;
    let Operation::BatchnormBackward(gradients) = &follower.operation else { return None };
    let compute = Compute::of(follower.compute_type).ok()?;
    if operation.operation != PointwiseMode::ReluBwd
        || !virtual_tensor.is_virtual
        || gradients.dy != operation.out_0
        || Compute::of(node.compute_type).ok()? != compute
    {
        return None;
    }
    let Problem::Pointwise(relu) = prepared.problems.get(index)? else { return None };
    let [dy, input] = relu.inputs.as_slice() else { return None };
    let spreads = [dy, input].into_iter().any(|read| read.operand.layout.dims() != relu.output.layout.dims());
    let Activation { lower_clip, upper_clip, lower_clip_slope, .. } = relu.activation;
    let is_plain = lower_clip == 0.0 && lower_clip_slope == 0.0 && upper_clip.is_none();
    if spreads || !is_plain || relu.output.data_type != dy.operand.data_type {
        return None;
    }
    let mut gradients = gradients.clone();
    gradients.dy = operation.in_0;
    // What the batch normalization reads besides is not the RELU's result.
    let together = Operation::BatchnormBackward(gradients);
    if together.inputs().contains(&operation.out_0) {
        return None;
    }
    let Problem::Batchnorm(batchnorm) = Problem::of(graph, &together).ok()? else { return None };
    let Batchnorm::Backward(batchnorm) = *batchnorm else { return None };
    let mut tensors = pointers(graph, &together);
    let gate = operation.in_1?;
    let slot = slot_of(&mut tensors, gate);
    let kernel = plan_gated(&batchnorm, &uses.operand(gate, slot)?, compute, isa, threads).ok()?;
    Some(Part { node: *reader, members: vec![index, *reader], tensors, kernel })
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{BatchnormBackward, Pointwise as PointwiseOperation};
    use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};

    use super::*;
    use crate::fusion::graph::parts_at;
    use crate::prepare::prepare;
    use crate::settings::Settings;
    use crate::testing::packed;

    const DY: i64 = 1;
    const INPUT: i64 = 2;
    const BETWEEN: i64 = 3;
    const X: i64 = 4;
    const DX: i64 = 5;
    const PARAMETERS: std::ops::Range<i64> = 6..9;
    const OTHER: i64 = 9;

    /// A RELU's gradient, and that of the batch normalization before it.
    fn graph() -> Graph {
        let tensor = |uid: i64, dims: &[i64]| packed(uid, DataType::Float, dims);
        let image = |uid: i64| tensor(uid, &[2, 3, 4, 4]);
        let mut tensors = vec![image(DY), image(INPUT), image(X), image(DX), image(OTHER)];
        tensors.push(Tensor { is_virtual: true, ..image(BETWEEN) });
        tensors.extend(PARAMETERS.map(|uid| tensor(uid, &[1, 3, 1, 1])));
        let [scale, dscale, dbias] = [0, 1, 2].map(|i| PARAMETERS.start + i);
        let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
        let gradients = BatchnormBackward {
            dy: BETWEEN,
            x: X,
            scale,
            dx: DX,
            dscale,
            dbias,
            mean: None,
            inv_variance: None,
            peer_stats: vec![],
        };
        let relu = PointwiseOperation::new(PointwiseMode::ReluBwd, DY, Some(INPUT), BETWEEN);
        Graph { tensors, nodes: vec![node(relu.into()), node(gradients.into())], ..Graph::default() }
    }

    fn parts_of(graph: &Graph) -> usize {
        parts_at(&prepare(graph).unwrap(), Isa::detect(), Settings::default()).unwrap().len()
    }

    fn relu(graph: &mut Graph) -> &mut PointwiseOperation {
        match &mut graph.nodes[0].operation {
            Operation::Pointwise(relu) => relu,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_are_one_part() {
        assert_eq!(parts_of(&graph()), 1);
    }

    #[test]
    fn what_is_needed_elsewhere_is_computed_alone() {
        let mut stored = graph();
        stored.tensors.iter_mut().for_each(|tensor| tensor.is_virtual = false);
        assert_eq!(parts_of(&stored), 2);
        let mut read = graph();
        let another = PointwiseOperation::new(PointwiseMode::Neg, BETWEEN, None, OTHER);
        read.nodes.push(Node { operation: another.into(), ..read.nodes[0].clone() });
        assert_eq!(parts_of(&read), 3);
    }

    #[test]
    fn another_function_is_computed_alone() {
        let mut function = graph();
        relu(&mut function).operation = PointwiseMode::TanhBwd;
        assert_eq!(parts_of(&function), 2);
        let mut clipped = graph();
        relu(&mut clipped).relu_upper_clip = Some(6.0);
        assert_eq!(parts_of(&clipped), 2);
        let mut sloped = graph();
        relu(&mut sloped).relu_lower_clip_slope = Some(0.1);
        assert_eq!(parts_of(&sloped), 2);
    }
}
