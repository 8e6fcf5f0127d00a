//! A direct convolution with every decision made, and what it is computed with.

use std::ops::Range;

use crate::conv::cost::Cost;
use crate::conv::direct::tile::TileKernel;
use crate::conv::epilogue::{ChannelEpilogue, TileEpilogue};
use crate::conv::geometry::{Block, Geometry};
use crate::conv::operands::{Fill, Operands, SubProblem};
use crate::gemm::pack::Pack;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::threading::partition::Workers;

/// Writes numbers to elements of another type that are some elements apart.
pub(crate) type Write<T> = unsafe fn(from: *const T, to: *mut u8, stride: usize, len: usize);

/// What sums are made in.
pub(crate) trait Accumulator: Copy + Send + Sync + 'static {
    const ZERO: Self;
    /// The sum of both.
    fn plus(self, other: Self) -> Self;
    /// What RELU makes of it.
    fn relu(self) -> Self;
}

/// Computes what is NaN because of the padding again: of some outputs of a block, the weights of a panel, the columns and the sums.
pub(crate) type Correct<T> = unsafe fn(&Direct<T>, (&Block, Range<usize>), *const T, *const T, *mut T);

/// How a convolution is computed.
pub(crate) struct Scheme<T: 'static> {
    pub(crate) kernel: TileKernel<T>,
    /// Channels of the input in what a tile multiplies.
    pub(crate) terms: usize,
    /// Whether the input is as the tiles read it.
    pub(crate) is_readable: bool,
    pub(crate) fill: Fill<T>,
    pub(crate) input_size: usize,
    pub(crate) pack: Pack<T>,
    pub(crate) weights_size: usize,
    /// Writes sums as elements of another type.
    pub(crate) write: Option<Write<T>>,
    pub(crate) output_size: usize,
    pub(crate) correct: Option<Correct<T>>,
    /// What is computed of the sums before they are written; none where there is nothing or something else.
    pub(crate) channel_epilogue: Option<ChannelEpilogue>,
    /// Nanoseconds that a term takes, and a number that is copied.
    pub(crate) cost: Cost,
}

/// The convolution with every decision made.
pub(crate) struct Direct<T: 'static> {
    pub(crate) operands: Operands,
    pub(crate) part: SubProblem,
    pub(crate) isa: Isa,
    pub(crate) kernel: TileKernel<T>,
    /// The blocks, and the planes unless the input is read where it is.
    pub(crate) geometry: Geometry,
    pub(crate) in_place: bool,
    /// Whether memory is prefetched before it is needed.
    pub(crate) prefetches: bool,
    /// Channels of a group in what tiles multiply, and how many of them are one word.
    pub(crate) words: usize,
    pub(crate) terms: usize,
    /// Distance of taps and channels in what is read, and of neighbours: along the three dimensions and from image to image.
    pub(crate) taps: Vec<usize>,
    pub(crate) channel_stride: usize,
    pub(crate) stride: [usize; 4],
    /// Panels of channels in a group, and in how many pieces they are dealt out.
    pub(crate) panels: usize,
    pub(crate) pieces: usize,
    pub(crate) workers: Workers,
    pub(crate) pack_workers: Workers,
    pub(crate) fill: Fill<T>,
    pub(crate) input_size: usize,
    pub(crate) pack: Pack<T>,
    pub(crate) weights_size: usize,
    pub(crate) write: Option<Write<T>>,
    pub(crate) output_size: usize,
    pub(crate) correct: Option<Correct<T>>,
    pub(crate) channel_epilogue: ChannelEpilogue,
    pub(crate) tile_epilogue: Option<TileEpilogue>,
    /// Numbers in a worker's planes and sums, and in the packed weights.
    pub(crate) planes: usize,
    pub(crate) sums: usize,
    pub(crate) weights: usize,
    pub(crate) prepacked: Prepacked<T>,
    /// Nanoseconds that one thread is guessed to take.
    pub(crate) time: f64,
}
