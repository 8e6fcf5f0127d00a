//! Scalars of an attention.

use crate::kernel::Refusal;
use crate::problem::batchnorm::Scalar;
use crate::reference::memory::Single;

pub(crate) fn single(argument: &str, scalar: Option<&Scalar>) -> Result<Option<Single<f64>>, Refusal> {
    scalar.map(|scalar| Single::of(argument, scalar)).transpose()
}

/// A factor, 1 where there is none.
///
/// # Safety
/// As for [`Memory::bind`](crate::reference::memory::Memory::bind).
pub(crate) unsafe fn factor(single: Option<&Single<f64>>, tensors: &[*mut u8]) -> f64 {
    // SAFETY: the function called requires what this one requires.
    single.map_or(1.0, |single| unsafe { single.get(tensors) })
}
