//! A convolution by im2col with every decision made.

use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::implicit_gemm::tile::GemmTileKernel;
use crate::conv::operands::{Operands, Pack};
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::threading::partition::Workers;

/// The product with every decision made.
pub(crate) struct Im2col<T: 'static> {
    pub(crate) operands: Operands,
    pub(crate) isa: Isa,
    pub(crate) kernel: GemmTileKernel<T>,
    /// Lines of an image and their elements, of the input and of the output; one line where a window is one element.
    pub(crate) input: [usize; 2],
    pub(crate) output: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// The place of each tap, in lines and in elements of a line.
    pub(crate) taps: Vec<[isize; 2]>,
    /// The least and the greatest of these.
    pub(crate) reach: [(isize, isize); 2],
    pub(crate) is_padded: bool,
    /// Whether the columns of an image follow each other in memory.
    pub(crate) is_flat: bool,
    /// Whether it is known of packed weights if they are finite. That takes longer than looking at few results, unless they are kept.
    pub(crate) knows_weights: bool,
    /// Terms of a sum.
    pub(crate) depth: usize,
    /// Tiles of all images, and of a block.
    pub(crate) tiles: usize,
    pub(crate) block: usize,
    /// Panels of rows in a group, and in how many pieces they are dealt out.
    pub(crate) panels: usize,
    pub(crate) pieces: usize,
    pub(crate) workers: Workers,
    pub(crate) pack_workers: Workers,
    pub(crate) pack: Pack<T>,
    pub(crate) channel_epilogue: ChannelEpilogue,
    /// Distance of the rows of weights that are read where they are; others are packed.
    pub(crate) weights_stride: Option<usize>,
    /// Whether memory is prefetched before it is needed.
    pub(crate) prefetches: bool,
    /// Packed weights that stay the same.
    pub(crate) prepacked: Prepacked<T>,
    pub(crate) areas: ScratchLayout,
}

/// Outputs of a tile that follow each other in a line of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LineRun {
    /// The first one's column in the tile.
    pub(crate) column: usize,
    pub(crate) len: usize,
    pub(crate) image: usize,
    /// The first one's line and its place there.
    pub(crate) line: usize,
    pub(crate) at: usize,
}

/// Numbers in the parts of the scratch memory: all packed weights, and for each worker a block's tiles, a tile of
/// results, and one of what is added to them.
pub(crate) struct ScratchLayout {
    pub(crate) weights: usize,
    pub(crate) columns: usize,
    pub(crate) tile: usize,
}
