//! Common parts of the normalization kernels: tensors with one value per row, and fused operations.

use crate::kernel::Refusal;
use crate::pointwise::elements::BlockEpilogue;
use crate::problem::normalization::Spread;
use crate::simd::vector::Float;
use crate::tensor::view;
use crate::tensor::view::Memory;

/// Operations fused with a normalization, computed on a few rows at a time.
#[derive(Default)]
pub(crate) struct Fused {
    /// Computes the normalization's input into the memory of its result.
    pub(crate) prologue: Option<Box<dyn BlockEpilogue>>,
    /// Computed on the result.
    pub(crate) epilogue: Option<Box<dyn BlockEpilogue>>,
}

/// A tensor with one value per row of x, which has these dimensions.
pub(crate) fn per_row<T: Float>(
    dims: &[usize],
    spread: Option<&Spread>,
) -> Result<Option<Memory<T>>, Refusal> {
    let memory = |spread: &Spread| {
        let of = (spread.slot, spread.data_type);
        Ok(view::Spread::of("statistics", of, dims, spread.strides)?.memory)
    };
    spread.map(memory).transpose()
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
