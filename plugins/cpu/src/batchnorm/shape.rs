//! The tensors of a batch normalization, and the loops over them.

use crate::batchnorm::channel;
use crate::batchnorm::channel::Memory;
use crate::batchnorm::parameters::Role;
use crate::layout::MAX_RANK;
use crate::pointwise::elements::BlockEpilogue;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::loop_nest::LoopNest;
use crate::threading::partition::Threads;

/// The input of a RELU, with the strides of dy.
#[derive(Clone, Copy)]
pub(crate) struct ReluInput {
    /// Its slot.
    pub(crate) slot: usize,
}

/// The epilogue.
#[derive(Default)]
pub(crate) struct PlaneEpilogue {
    /// The slot of the residual.
    pub(crate) added: Option<usize>,
    /// Whether RELU follows.
    pub(crate) relu: bool,
    /// Any other epilogue.
    pub(crate) block_epilogue: Option<Box<dyn BlockEpilogue>>,
}

/// The three operands (dy or residual, x, result), and the loops over them.
pub(crate) struct Shape<T> {
    pub(crate) isa: Isa,
    pub(crate) threads: Threads,
    pub(crate) channels: usize,
    /// Strides of channels.
    pub(crate) channel_strides: [usize; 3],
    /// Strides of the innermost loop.
    pub(crate) inner_strides: [usize; 3],
    /// Elements of a channel.
    pub(crate) elements: f64,
    pub(crate) memory: [Memory<T>; 3],
    /// The loops over one channel's elements.
    pub(crate) nest: LoopNest<3>,
    /// The dimensions of the result.
    pub(crate) dims: Vec<usize>,
    pub(crate) epilogue: PlaneEpilogue,
}

impl<T: Float> Shape<T> {
    /// How many elements are processed at once.
    pub(crate) fn chunk(&self) -> usize {
        if self.memory.iter().all(|memory| memory.direct) { usize::MAX } else { channel::BUFFER }
    }

    /// Runs the epilogue on a channel's results.
    ///
    /// # Safety
    /// The tensors are those of a run, and have the channel, which no other thread has.
    #[inline(always)]
    pub(crate) unsafe fn run_block_epilogue(&self, tensors: &[*mut u8], channel: usize) {
        let Some(block_epilogue) = &self.epilogue.block_epilogue else { return };
        let (mut origin, mut size) = ([0; MAX_RANK], [1; MAX_RANK]);
        size[..self.dims.len()].copy_from_slice(&self.dims);
        (origin[1], size[1]) = (channel, 1);
        // SAFETY: the box is the channel, whose elements this function requires.
        unsafe { block_epilogue.run_on_box(tensors, &origin, &size) };
    }

    /// Estimated nanoseconds on one thread, without the epilogue, on which no order of sums may depend.
    pub(crate) fn work_of_sums(&self, role: Role) -> f64 {
        let passes = match role {
            Role::Inference => 1.0,
            Role::Training => 2.0,
            Role::Backward { saved: true } => 2.5,
            Role::Backward { saved: false } => 4.0,
        };
        let element = if self.chunk() == usize::MAX { 0.2 } else { 1.5 };
        self.elements * self.channels as f64 * passes * element
    }

    /// Estimated nanoseconds on one thread.
    pub(crate) fn work(&self, role: Role) -> f64 {
        let after = self.epilogue.block_epilogue.as_ref().map_or(0.0, |block_epilogue| block_epilogue.time());
        self.work_of_sums(role) + self.elements * self.channels as f64 * after
    }
}
