//! The nodes of a part while it grows.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::{Operation, PointwiseMode};

use crate::dtype::element::Compute;
use crate::fusion::uses::Uses;
use crate::pointwise::chain::{Chain, Value};
use crate::prepare::Prepared;

/// Nodes that one kernel may compute.
#[derive(Clone)]
pub(crate) struct Fusion<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) uses: &'a Uses<'a>,
    pub(crate) compute: Compute,
    /// Whether integers use double precision; single-precision nodes then round their operands and results.
    pub(crate) integers: bool,
    /// The shape of all results except those with one value per row.
    pub(crate) dims: Vec<i64>,
    /// The dimensions of a row, if there are rows.
    pub(crate) reduced: Option<Vec<bool>>,
    /// The producer, unless all nodes are element-wise.
    pub(crate) producer: Option<usize>,
    /// The nodes, in order.
    pub(crate) members: Vec<usize>,
    pub(crate) chain: Chain,
    /// The tensors that the chain reads, by slot; the producer's slots come later.
    pub(crate) reads: Vec<i64>,
    /// The results of the members, by uid.
    pub(crate) values: HashMap<i64, Value>,
    /// The largest state that can be a part, with and without reductions.
    pub(crate) largest: Option<Candidate>,
    pub(crate) without_reductions: Option<Candidate>,
}

impl Fusion<'_> {
    /// Another node of the graph with its epilogue, and the epilogue's result; `None` if no node can join it.
    pub(crate) fn following(&self, index: usize, taken: &[bool]) -> Option<(Self, i64)> {
        let mut after = Self::begin(self.prepared, self.uses, index, taken, true)?;
        let largest = after.largest?;
        after.truncate_to(largest);
        Some((after, largest.result))
    }
}

/// A state in which only the last member's result is needed outside the fusion.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) members: usize,
    pub(crate) steps: usize,
    pub(crate) inputs: usize,
    pub(crate) result: i64,
}

/// The tensor that a node writes and from which a chain can continue.
pub(crate) fn result(operation: &Operation) -> Option<i64> {
    match operation {
        Operation::Pointwise(pointwise) => Some(pointwise.out_0),
        Operation::BatchnormInference(batchnorm) => Some(batchnorm.y),
        Operation::ConvolutionForward(convolution) => Some(convolution.y),
        Operation::Matmul(matmul) => Some(matmul.c),
        Operation::BatchnormInferenceVariance(batchnorm) => Some(batchnorm.y),
        Operation::Batchnorm(batchnorm) => Some(batchnorm.y),
        Operation::Layernorm(norm) => Some(norm.y),
        Operation::RmsNorm(norm) => Some(norm.y),
        Operation::Reduction(reduction) => Some(reduction.out),
        _ => None,
    }
}

/// The operation with another result.
pub(crate) fn with_result(operation: &Operation, uid: i64) -> Option<Operation> {
    let mut operation = operation.clone();
    match &mut operation {
        Operation::ConvolutionForward(convolution) => convolution.y = uid,
        Operation::Matmul(matmul) => matmul.c = uid,
        Operation::BatchnormInference(batchnorm) => batchnorm.y = uid,
        Operation::BatchnormInferenceVariance(batchnorm) => batchnorm.y = uid,
        Operation::Batchnorm(batchnorm) => batchnorm.y = uid,
        Operation::Layernorm(norm) => norm.y = uid,
        Operation::RmsNorm(norm) => norm.y = uid,
        _ => return None,
    }
    Some(operation)
}

/// Whether a chain can contain a node.
pub(crate) fn is_chainable(operation: &Operation) -> bool {
    match operation {
        Operation::Pointwise(pointwise) => pointwise.operation != PointwiseMode::GenIndex,
        Operation::BatchnormInference(_) | Operation::Reduction(_) => true,
        _ => false,
    }
}

/// The index of a uid in a list; it is appended if missing.
pub(crate) fn slot_of(uids: &mut Vec<i64>, uid: i64) -> usize {
    uids.iter().position(|known| *known == uid).unwrap_or_else(|| {
        uids.push(uid);
        uids.len() - 1
    })
}

/// Slots from this number on are the chain's, until the count of the producer's is known.
pub(crate) const CHAIN_SLOTS: usize = 1 << 16;
