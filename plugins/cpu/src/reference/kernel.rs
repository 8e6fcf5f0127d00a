//! The reference's kernels: safe code over views of tensors.

use crate::kernel::{Facts, Kernel, Refusal};
use crate::tensor::view::Pointers;

/// A [`Kernel`] in safe code.
pub(crate) trait Reference: Send + Sync {
    /// Doubles of scratch memory.
    fn scratch(&self) -> usize {
        0
    }

    /// [`Kernel::check`].
    fn check_values(&self, _tensors: Pointers<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// [`Kernel::run`]; the scratch memory is zeroed.
    fn compute(&self, tensors: Pointers<'_>, scratch: &mut [f64]);
}

impl<K: Reference> Kernel for K {
    fn facts(&self) -> Facts {
        Facts::reference()
    }

    fn scratch_size(&self) -> usize {
        self.scratch().saturating_mul(size_of::<f64>())
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: this function requires the tensors of the kernel.
        self.check_values(unsafe { Pointers::new(tensors) })
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let len = self.scratch();
        let scratch = if len == 0 {
            &mut []
        } else {
            // SAFETY: this function requires aligned scratch memory of `scratch_size` bytes; zeros are doubles.
            unsafe {
                scratch.write_bytes(0, self.scratch_size());
                std::slice::from_raw_parts_mut(scratch.cast(), len)
            }
        };
        // SAFETY: this function requires the tensors of the kernel.
        self.compute(unsafe { Pointers::new(tensors) }, scratch);
    }
}
