//! Attention with online softmax: scores are computed block by block of keys and never stored as a whole.
//!
//! For each block of keys a GEMM computes the scores of a panel of queries ([`forward`]), with a row per key
//! and a column per query: keys are read in place, and maxima and sums need no reduction across a vector.
//! Then come bias and mask ([`scores`]), the exponentials relative to the largest score so far, which also
//! rescale earlier results ([`softmax`]), dropout ([`dropout`]), and a second GEMM that applies these weights
//! to the values ([`gemm`]). If weights are rounded to 8 bits ([`scales`]), all blocks of keys are computed
//! twice, first for the sums of their weights. The gradients recompute the scores ([`backward`]).

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod backward;
pub(crate) mod dropout;
pub(crate) mod forward;
pub(crate) mod forward_epilogue;
pub(crate) mod gemm;
pub(crate) mod panel;
pub(crate) mod rows;
pub(crate) mod scales;
pub(crate) mod scores;
pub(crate) mod shared;
pub(crate) mod slopes;
pub(crate) mod softmax;
#[cfg(test)]
mod tests;

use hipdnn_plugin_planner::in_own_frame;

use crate::attention::backward::Backward;
use crate::attention::forward::Forward;
use crate::attention::softmax::work;
use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Kernel, Refusal, boxed};
use crate::problem::attention::{Attention, AttentionGradients};
use crate::simd::isa::Isa;
use crate::threading::partition::Threads;

/// Plans forward attention for an instruction set.
pub(crate) fn plan(
    attention: &Attention,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    refuse(attention)?;
    // A query's bits do not depend on those it is computed with.
    let parts = threads.workers(work::<f32>(&attention.shape, isa), usize::MAX).count();
    let grouped = in_own_frame(|| attention.grouped(parts).map(Box::new));
    // Dot products add in another order: heads that are queries of another head do not decide on them.
    let is_single = attention.shape.queries == 1 && !threads.batch_invariant;
    let attention = grouped.as_deref().unwrap_or(attention);
    with_compute!(compute, T => boxed(|| Forward::<T>::plan(attention, isa, threads, is_single)))
}

/// Plans backward attention for an instruction set.
pub(crate) fn plan_gradients(
    gradients: &AttentionGradients,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    with_compute!(compute, T => boxed(|| Backward::<T>::plan(gradients, isa, threads)))
}

/// Refuses what only the reference computes.
fn refuse(attention: &Attention) -> Result<(), Refusal> {
    let asked = [
        (attention.block_mask.is_some(), "block_mask"),
        (attention.rng_dump.is_some(), "rng_dump"),
        // The largest score of a row may be the sink's, which is not a probability.
        (attention.amax_s.is_some() && attention.sink.is_some(), "amax_s beside sink_token"),
    ];
    if let Some((_, name)) = asked.iter().find(|(asked, _)| *asked) {
        return Err(format!("{name}: given, expected none"));
    }
    Ok(())
}
