//! Layer normalization, normalization by the root of the mean square, and their gradients.
//!
//! A row is taken as numbers of the compute type that lie side by side: in place where it is that already, else
//! copied together, whatever its strides and type. Its passes then find it in the L1 cache. Each thread has rows of
//! its own.
//!
//! Sums of up to some thousand numbers are in the compute type, sums of these in double precision. Where a sum
//! leaves the range of the compute type, the row is summed once more in double precision.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod loops;
pub(crate) mod rows;
pub(crate) mod statistics;
#[cfg(test)]
mod tests;

use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::norm::rows::Fused;
use crate::problem::normalization::Normalization;
use crate::simd::isa::Isa;
use crate::simd::stored::Stored;
use crate::simd::vector::Float;
use crate::threading::partition::Threads;

/// Plans a normalization for an instruction set, with what is around it; its `x` and `y` are one tensor where
/// something is before it.
pub(crate) fn plan(
    normalization: &Normalization,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    fused: Fused,
) -> Result<Box<dyn Kernel>, Refusal> {
    match compute {
        Compute::Single => plan_in::<f32>(normalization, isa, threads, fused),
        Compute::Double => plan_in::<f64>(normalization, isa, threads, fused),
    }
}

fn plan_in<T: Float + Stored>(
    normalization: &Normalization,
    isa: Isa,
    threads: Threads,
    fused: Fused,
) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match normalization {
        Normalization::Forward(problem) => {
            Box::new(forward::Forward::<T>::plan(problem, isa, threads, fused)?)
        }
        Normalization::Backward(_) if fused.prologue.is_some() || fused.epilogue.is_some() => {
            return Err("a gradient, which nothing is computed with".to_owned());
        }
        Normalization::Backward(problem) => Box::new(backward::Backward::<T>::plan(problem, isa, threads)?),
    })
}
