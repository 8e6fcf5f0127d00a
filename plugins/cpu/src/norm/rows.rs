//! Common parts of the normalization kernels: tensors with one value per row, and fused operations.

use crate::dtype::element::Element;
use crate::kernel::Refusal;
use crate::pointwise::elements::BlockEpilogue;
use crate::problem::normalization::Spread;
use crate::simd::vector::Float;
use crate::tensor::view::float_element;

/// Operations that are fused with a normalization, computed on some rows at a time.
#[derive(Default)]
pub(crate) struct Fused {
    /// Computes the normalization's input into the memory of its result.
    pub(crate) prologue: Option<Box<dyn BlockEpilogue>>,
    /// Computed on the result.
    pub(crate) epilogue: Option<Box<dyn BlockEpilogue>>,
}

/// A tensor with one value per row.
pub(crate) struct Each<T> {
    pub(crate) slot: usize,
    pub(crate) element: Element<T>,
}

impl<T: Float> Each<T> {
    pub(crate) fn of(spread: &Spread) -> Result<Self, Refusal> {
        Ok(Self { slot: spread.slot, element: float_element("statistics", spread.data_type)? })
    }

    pub(crate) fn optional(spread: Option<&Spread>) -> Result<Option<Self>, Refusal> {
        spread.map(Self::of).transpose()
    }

    /// # Safety
    /// The tensors are those of the kernel, and `at` is the offset of an element.
    pub(crate) unsafe fn get(&self, tensors: &[*mut u8], at: usize) -> T {
        // SAFETY: the element is valid, as this function requires.
        unsafe { self.element.load(tensors[self.slot], at) }
    }

    /// # Safety
    /// As [`Each::get`], and the kernel writes the tensor.
    pub(crate) unsafe fn set(&self, tensors: &[*mut u8], at: usize, number: T) {
        // SAFETY: the element is valid, as this function requires.
        unsafe { self.element.store(tensors[self.slot], at, number) };
    }
}

/// Strides of a tensor along the leading dimensions; zeros if it is absent.
pub(crate) fn leading_strides(spread: Option<&Spread>, leading: usize) -> &[usize] {
    const NONE: [usize; crate::layout::MAX_RANK] = [0; crate::layout::MAX_RANK];
    spread.map_or(&NONE[..leading], |spread| &spread.strides[..leading])
}

/// Estimated nanoseconds per element of a pass, on one thread.
pub(crate) fn per_element(direct: bool) -> f64 {
    if direct { 0.1 } else { 0.6 }
}
