//! Layer normalization, normalization by the root of the mean square, and their gradients.
//!
//! A row is taken as numbers of the compute type that lie side by side: in place where it is that already, else copied
//! together, whatever its strides and type. Its passes then find it in the first caches. Each thread has rows of its own.
//!
//! Sums of up to some thousand numbers are in the compute type, sums of these in double precision. Where a sum leaves the range
//! of the compute type, the row is summed once more in double precision.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod loops;
pub(crate) mod statistics;

#[cfg(test)]
mod tests;

use crate::dtype::element::{Compute, Element};
use crate::kernel::{Kernel, Refusal};
use crate::pointwise::elements::BlockEpilogue;
use crate::problem::normalization::{Normalization, Spread};
use crate::reference::float_element;
use crate::simd::isa::Isa;
use crate::simd::real::{Float, Stored};
use crate::threading::partition::Threads;

/// Operations on each element that are computed with a normalization, of some rows at a time.
#[derive(Default)]
pub(crate) struct Fused {
    /// What makes the rows: writes them where the result goes, from where they are read.
    pub(crate) prologue: Option<Box<dyn BlockEpilogue>>,
    /// What is computed of the result.
    pub(crate) epilogue: Option<Box<dyn BlockEpilogue>>,
}

/// Plans a normalization for a level of the processor, with what is around it; its `x` and `y` are one tensor where something is
/// before it.
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

/// A tensor with one number for each row.
struct Each<T> {
    slot: usize,
    element: Element<T>,
}

impl<T: Float> Each<T> {
    fn of(spread: &Spread) -> Result<Self, Refusal> {
        Ok(Self { slot: spread.slot, element: float_element("statistics", spread.data_type)? })
    }

    fn optional(spread: Option<&Spread>) -> Result<Option<Self>, Refusal> {
        spread.map(Self::of).transpose()
    }

    /// # Safety
    /// The tensors are those of the kernel, `at` is the offset of an element.
    unsafe fn get(&self, tensors: &[*mut u8], at: usize) -> T {
        // SAFETY: the caller promises the element.
        unsafe { self.element.load(tensors[self.slot], at) }
    }

    /// # Safety
    /// As [`Each::get`], and the tensor is one that the kernel writes.
    unsafe fn set(&self, tensors: &[*mut u8], at: usize, number: T) {
        // SAFETY: the caller promises the element.
        unsafe { self.element.store(tensors[self.slot], at, number) };
    }
}

/// Strides of a tensor along the leading dimensions, and none where it is absent.
fn leading_strides(spread: Option<&Spread>, leading: usize) -> &[usize] {
    const NONE: [usize; crate::layout::MAX_RANK] = [0; crate::layout::MAX_RANK];
    spread.map_or(&NONE[..leading], |spread| &spread.strides[..leading])
}

/// Nanoseconds that one thread takes for an element of a pass.
fn per_element(direct: bool) -> f64 {
    if direct { 0.1 } else { 0.6 }
}
