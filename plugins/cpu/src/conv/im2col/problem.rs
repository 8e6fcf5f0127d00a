//! The data of a convolution by im2col: what is planned once and read by its loops.

use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::operands::{Operands, Pack};
use crate::gemm::context::Context;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::threading::partition::Workers;

/// A convolution by im2col with every decision made.
pub(crate) struct Im2col<T: 'static> {
    pub(crate) operands: Operands,
    pub(crate) isa: Isa,
    pub(crate) kernel: Context<T>,
    /// Rows of an image and their length, of the input and of the output; a single row if the filter is 1 × 1.
    pub(crate) input: [usize; 2],
    pub(crate) output: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// The position of each tap: row and column.
    pub(crate) taps: Vec<[isize; 2]>,
    /// The smallest and the largest tap position.
    pub(crate) reach: [(isize, isize); 2],
    pub(crate) is_padded: bool,
    /// Whether the columns of an image are contiguous in memory.
    pub(crate) is_flat: bool,
    /// Whether packed weights are checked for NaN and infinity. That costs more than checking a few results,
    /// unless the packed weights are kept.
    pub(crate) knows_weights: bool,
    /// Terms of a sum: input channels times taps.
    pub(crate) depth: usize,
    /// Tiles of all images, and of a block.
    pub(crate) tiles: usize,
    pub(crate) block: usize,
    /// Panels of output channels in a group, and chunks into which they are divided for the workers.
    pub(crate) panels: usize,
    pub(crate) chunks: usize,
    pub(crate) workers: Workers,
    pub(crate) pack_workers: Workers,
    pub(crate) pack: Pack<T>,
    pub(crate) channel_epilogue: ChannelEpilogue,
    /// Row stride of weights that are read in place; others are packed.
    pub(crate) weights_stride: Option<usize>,
    /// Whether input and output are prefetched.
    pub(crate) prefetches: bool,
    /// Packed weights, if weights are constant.
    pub(crate) prepacked: Prepacked<T>,
    pub(crate) areas: ScratchLayout,
}

/// Outputs of a tile that are contiguous in a row of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LineRun {
    /// The first one's column in the tile.
    pub(crate) column: usize,
    pub(crate) len: usize,
    pub(crate) image: usize,
    /// The first one's row and column in the image.
    pub(crate) line: usize,
    pub(crate) at: usize,
}

/// Elements of the parts of the scratch memory: packed weights, and for each worker a block's tiles, a tile of
/// results, and a tile of residuals.
pub(crate) struct ScratchLayout {
    pub(crate) weights: usize,
    pub(crate) columns: usize,
    pub(crate) tile: usize,
}
