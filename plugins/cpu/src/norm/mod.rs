//! Layer normalization, RMS normalization, and their gradients.
//!
//! A row is read in place if it is contiguous in the compute type, else copied from any strides and dtype.
//! Later passes find it in the L1 cache. Each worker has its own rows.
//!
//! Sums of up to some thousand values use the compute type, sums of these double precision. If a sum
//! overflows the compute type, the row is summed again in double precision.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod loops;
pub(crate) mod rows;
pub(crate) mod statistics;
#[cfg(test)]
mod tests;

use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Kernel, Refusal, boxed};
use crate::norm::rows::Fused;
use crate::problem::normalization::Normalization;
use crate::simd::isa::Isa;
use crate::simd::stored::Stored;
use crate::simd::vector::Float;
use crate::threading::partition::Threads;

/// Plans a normalization with prologue and epilogue for an instruction set; a prologue has `x` and `y` in one
/// tensor.
pub(crate) fn plan(
    normalization: &Normalization,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    fused: Fused,
) -> Result<Box<dyn Kernel>, Refusal> {
    with_compute!(compute, T => plan_in::<T>(normalization, isa, threads, fused))
}

fn plan_in<T: Float + Stored>(
    normalization: &Normalization,
    isa: Isa,
    threads: Threads,
    fused: Fused,
) -> Result<Box<dyn Kernel>, Refusal> {
    match normalization {
        Normalization::Forward(problem) => {
            boxed(|| forward::Forward::<T>::plan(problem, isa, threads, fused))
        }
        Normalization::Backward(_) if fused.prologue.is_some() || fused.epilogue.is_some() => {
            Err("gradients have no epilogue".to_owned())
        }
        Normalization::Backward(problem) => boxed(|| backward::Backward::<T>::plan(problem, isa, threads)),
    }
}
