//! Kernels of parts of a convolution, which run one after the other on tensors that begin elsewhere.

use crate::conv::problem::Problem;
use crate::kernel::{Choice, Facts, Kernel, MAX_TENSORS, Refusal};

/// Plans any convolution.
pub(crate) type Plan = fn(&Problem<'_>) -> Result<Box<dyn Kernel>, Refusal>;

/// The kernels. All report what the first one does.
pub(crate) struct Shifted {
    pub(crate) kernels: Vec<Box<dyn Kernel>>,
    /// For each run: the kernel, and what is added to each pointer in bytes.
    pub(crate) runs: Vec<(usize, [usize; MAX_TENSORS])>,
    /// Which parts of the convolution they compute, for descriptions; empty for the whole.
    pub(crate) parts: String,
}

/// The tensors of a run.
fn shifted<'p>(
    offsets: &[usize; MAX_TENSORS],
    tensors: &[*mut u8],
    pointers: &'p mut [*mut u8; MAX_TENSORS],
) -> &'p [*mut u8] {
    let pointers = &mut pointers[..tensors.len()];
    for ((pointer, tensor), offset) in pointers.iter_mut().zip(tensors).zip(offsets) {
        *pointer = tensor.wrapping_add(*offset);
    }
    pointers
}

impl Kernel for Shifted {
    fn scratch_size(&self) -> usize {
        self.kernels.iter().map(|kernel| kernel.scratch_size()).max().unwrap_or(0)
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        let mut pointers = [std::ptr::null_mut(); MAX_TENSORS];
        self.runs.iter().try_for_each(|(kernel, offsets)| {
            // SAFETY: this function requires the tensors, which contain those of each run.
            unsafe { self.kernels[*kernel].check(shifted(offsets, tensors, &mut pointers)) }
        })
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let mut pointers = [std::ptr::null_mut(); MAX_TENSORS];
        for (kernel, offsets) in &self.runs {
            // SAFETY: this function requires the tensors, which contain those of each run, and the scratch memory, which suffices for
            // each kernel.
            unsafe { self.kernels[*kernel].run(shifted(offsets, tensors, &mut pointers), scratch) };
        }
    }

    fn facts(&self) -> Facts {
        let facts = self.kernels[0].facts();
        match self.parts.as_str() {
            "" => facts,
            parts => Facts { tile: format!("{}, {parts}", facts.tile), ..facts },
        }
    }

    fn choices(&self) -> Vec<&Choice> {
        self.kernels[0].choices()
    }
}
