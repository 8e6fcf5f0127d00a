//! Fuses the backward pass of a RELU with that of the batch normalization before it.

use hipdnn_plugin_sdk::graph::{Operation, PointwiseMode};

use crate::batchnorm::plan_gated;
use crate::dtype::element::Compute;
use crate::fusion::delayed;
use crate::fusion::state::slot_of;
use crate::fusion::uses::Uses;
use crate::kernel::Part;
use crate::prepare::Prepared;
use crate::problem::batchnorm::Batchnorm;
use crate::problem::pointwise::Activation;
use crate::problem::{Problem, pointers};
use crate::simd::isa::Isa;
use crate::threading::partition::Threads;

/// The part of a RELU's gradient and the batch normalization gradient that alone reads it; `None` for other
/// nodes, or if no kernel computes both.
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
        || delayed::reads(prepared, uses, &[index, *reader])
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
    // The batch normalization must not read the RELU's result as another operand.
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
    Some(Part { node: *reader, members: vec![index, *reader], tensors, kernel, writes_early: false })
}
