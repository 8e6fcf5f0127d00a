//! Chains of training: a batch normalization with the statistics of x followed by an activation, and the
//! gradient of a batch normalization followed by an activation whose input is recomputed.

use std::ffi::{c_uint, c_void};

use hipdnn_plugin_planner::prepare::{CheckedNode, Prepared, Readers};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::batchnorm::Batchnorm;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::{Graph, Operation};

use super::{Chain, Fusion, Link, bits, next};
use crate::handle::Ready;
use crate::miopen::{
    ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_X, ACTIVATION_Y, BATCHNORM_BIAS, BATCHNORM_DBIAS,
    BATCHNORM_DSCALE, BATCHNORM_DX, BATCHNORM_DY, BATCHNORM_RUNNING_MEAN, BATCHNORM_RUNNING_VARIANCE,
    BATCHNORM_SAVED_INVERSE, BATCHNORM_SAVED_MEAN, BATCHNORM_SCALE, BATCHNORM_X, miopenTensorArgument_t,
};
use crate::operand::{ImageLayout, Shape, strides};
use crate::solution::argument;
use crate::step::Tensors;
use crate::step::activation::{ActivationDesign, Function};
use crate::step::batchnorm::{BatchnormDesign, Training};
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;

/// The statistics of a batch normalization in training. Slots are indices among the chain's tensors.
#[derive(Clone, Copy)]
pub(super) struct Statistics {
    training: Training,
    /// Bytes of one statistic.
    size: usize,
}

impl Statistics {
    /// The statistics that MIOpen always writes, with the slots of those that the graph has.
    fn kept(&self) -> [(c_uint, Option<usize>); 4] {
        let running = self.training.running.map(|running| running.next);
        [
            (BATCHNORM_SAVED_MEAN, self.training.mean),
            (BATCHNORM_SAVED_INVERSE, self.training.inv_variance),
            (BATCHNORM_RUNNING_MEAN, running.map(|[mean, _]| mean)),
            (BATCHNORM_RUNNING_VARIANCE, running.map(|[_, variance]| variance)),
        ]
    }

    /// Bytes of workspace for the statistics that the graph does not have.
    pub(super) fn workspace_size(&self) -> usize {
        self.kept().iter().filter(|(_, slot)| slot.is_none()).count() * self.size.next_multiple_of(ALIGNMENT)
    }

    /// Copies running statistics to where MIOpen updates them. Returns ε and the weight of the new value, 0
    /// if there is none.
    ///
    /// # Safety
    /// The tensors are those of the chain.
    pub(super) unsafe fn begin(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
    ) -> Result<(f64, f64), PluginError> {
        let momentum = match &self.training.running {
            // SAFETY: the tensors are those of the chain, as this function requires.
            Some(running) => unsafe { running.begin(ready, tensors, self.size) }?.1,
            None => 0.0,
        };
        // SAFETY: the tensors are those of the chain, as this function requires, so that a bound ε is in host memory of its type.
        Ok((unsafe { self.training.epsilon.read(tensors) }, momentum))
    }

    /// The statistics as arguments of a run; those that the graph does not have go to the workspace.
    pub(super) fn arguments(
        &self,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> [miopenTensorArgument_t; 4] {
        let mut rest = workspace;
        self.kept().map(|(id, slot)| match slot {
            Some(slot) => argument(id, tensors.at(slot)),
            None => {
                let own = rest;
                rest = rest.wrapping_byte_add(self.size.next_multiple_of(ALIGNMENT));
                argument(id, own)
            }
        })
    }
}

/// Whether MIOpen's kernels for these chains support this shape of x: images with channels first.
fn is_plain(graph: &Graph, x: i64, shape: &Shape) -> bool {
    let dims: Vec<usize> = shape.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or_default()).collect();
    let expected = strides(&dims, ImageLayout::ChannelsFirst);
    dims.len() == 4
        && graph.tensor(x).is_some_and(|x| x.dims.len() <= 4)
        && shape
            .strides
            .iter()
            .zip(expected)
            .all(|(stride, expected)| usize::try_from(*stride) == Ok(expected))
}

/// The batch normalization at an index of the graph.
fn batchnorm(prepared: &Prepared, place: usize) -> Option<(&Operation, &Batchnorm)> {
    let CheckedNode { node, problem, .. } = prepared.node(place)?;
    let Problem::Batchnorm(batchnorm) = problem else { return None };
    Some((&node.operation, batchnorm))
}

/// The chain of a batch normalization in training followed by an activation.
pub(super) fn forward(prepared: &Prepared, first: usize, readers: &Readers) -> Option<Fusion> {
    let graph = &prepared.graph;
    let (operation, batchnorm) = batchnorm(prepared, first)?;
    let Operation::Batchnorm(node) = operation else { return None };
    let design = BatchnormDesign::of(graph, operation, batchnorm).ok()?;
    let training = design.training()?;
    if !is_plain(graph, node.x, &design.shape) {
        return None;
    }
    let last = next(graph, node.y, readers)?;
    let Problem::Pointwise(activation) = prepared.problems.get(last)? else { return None };
    ActivationDesign::of(activation).ok()?;
    if activation.inputs.len() != 1 {
        return None;
    }
    let function = Function::of(activation.mode, &activation.activation).ok()?;
    let base = operation.tensors().len();
    let arguments = vec![
        (BATCHNORM_X, training.x),
        (BATCHNORM_SCALE, training.scale),
        (BATCHNORM_BIAS, training.bias),
        (ACTIVATION_Y, base + activation.output.slot),
    ];
    let links =
        vec![Link::Training(training.running.is_some()), Link::Activation(function.mode, bits(&function))];
    Some(Fusion {
        nodes: vec![first, last],
        chain: Chain { links, shape: design.shape },
        arguments,
        spread: None,
        statistics: Some(Statistics { training, size: design.channels as usize * size_of::<f32>() }),
    })
}

/// The chain of a batch normalization with saved statistics, the gradient of an activation of its output, and
/// its own gradient.
pub(super) fn gradient(prepared: &Prepared, first: usize, readers: &Readers) -> Option<Fusion> {
    let graph = &prepared.graph;
    let (operation, own) = batchnorm(prepared, first)?;
    let Operation::BatchnormInference(forward) = operation else { return None };
    let design = BatchnormDesign::of(graph, operation, own).ok()?;
    let inference = design.inference()?;
    let to_activation = operation.tensors().len();
    let middle = next(graph, forward.y, readers)?;
    let operation = &graph.nodes.get(middle)?.operation;
    let Operation::Pointwise(through) = operation else { return None };
    let Problem::Pointwise(activation) = prepared.problems.get(middle)? else { return None };
    ActivationDesign::of(activation).ok()?;
    let [dy, _] = activation.inputs.as_slice() else { return None };
    if through.in_1 != Some(forward.y) || through.in_0 == forward.y {
        return None;
    }
    let function = Function::of(activation.mode, &activation.activation).ok()?;
    // The activation's output is not available.
    if function.gradient_needs_result() {
        return None;
    }
    let to_gradient = to_activation + operation.tensors().len();
    let last = next(graph, through.out_0, readers)?;
    let (operation, own) = batchnorm(prepared, last)?;
    let Operation::BatchnormBackward(node) = operation else { return None };
    let same = (node.dy, node.x, node.scale) == (through.out_0, forward.x, forward.scale)
        && (node.mean, node.inv_variance) == (Some(forward.mean), Some(forward.inv_variance));
    let backward = BatchnormDesign::of(graph, operation, own).ok()?;
    let slots = backward.backward()?;
    if !same || slots.saved.is_none() || !is_plain(graph, node.x, &backward.shape) {
        return None;
    }
    // MIOpen requires the activation's input and output as arguments, even though it recomputes the former
    // and does not need the latter.
    let arguments = vec![
        (BATCHNORM_X, inference.x),
        (BATCHNORM_SCALE, inference.scale),
        (BATCHNORM_BIAS, inference.bias),
        (BATCHNORM_SAVED_MEAN, inference.mean),
        (BATCHNORM_SAVED_INVERSE, inference.spread),
        (BATCHNORM_DSCALE, to_gradient + slots.dscale),
        (BATCHNORM_DBIAS, to_gradient + slots.dbias),
        (BATCHNORM_DY, to_activation + dy.operand.slot),
        (BATCHNORM_DX, to_gradient + slots.dx),
        (ACTIVATION_X, inference.x),
        (ACTIVATION_Y, inference.x),
        (ACTIVATION_DY, to_activation + dy.operand.slot),
        (ACTIVATION_DX, to_gradient + slots.dx),
    ];
    let links = vec![Link::BatchnormGradient, Link::ActivationGradient(function.mode, bits(&function))];
    Some(Fusion {
        nodes: vec![first, middle, last],
        chain: Chain { links, shape: backward.shape },
        arguments,
        spread: None,
        statistics: None,
    })
}

#[cfg(test)]
mod tests;
