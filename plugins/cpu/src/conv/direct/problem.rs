//! The data of a direct convolution, planned once.

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

/// Rounds accumulators to elements of another dtype with this stride.
pub(crate) type Write<T> = unsafe fn(from: *const T, to: *mut u8, stride: usize, len: usize);

/// Recomputes NaN caused by padding: for some outputs of a block, with one panel's weights, the columns and
/// the accumulators.
pub(crate) type Correct<T> = unsafe fn(&Direct<T>, (&Block, Range<usize>), *const T, *const T, *mut T);

/// How operands are packed and which micro-kernel runs: for values of the compute type or 16-bit pairs.
pub(crate) struct Scheme<T: 'static> {
    pub(crate) kernel: TileKernel<T>,
    /// Input channels per packed word.
    pub(crate) terms: usize,
    /// Whether the channels of a tap are adjacent in planes and packed weights, instead of the taps of a channel.
    pub(crate) channels_last: bool,
    /// Whether the micro-kernel can read the input in place.
    pub(crate) is_readable: bool,
    pub(crate) fill: Fill<T>,
    pub(crate) input_size: usize,
    pub(crate) pack: Pack<T>,
    pub(crate) weights_size: usize,
    /// Rounds accumulators to another dtype.
    pub(crate) write: Option<Write<T>>,
    pub(crate) output_size: usize,
    pub(crate) correct: Option<Correct<T>>,
    /// Whether all of some packed weights are finite: then products with the padding are zeros.
    pub(crate) are_finite: unsafe fn(*const T, usize) -> bool,
    /// The epilogue applied before stores; `None` without an epilogue, or with a [`TileEpilogue`].
    pub(crate) channel_epilogue: Option<ChannelEpilogue>,
    /// The epilogue applied in registers, from which a channels-last output is written.
    pub(crate) in_registers: Option<ChannelEpilogue>,
    /// Cost of a term, and of a copied element.
    pub(crate) cost: Cost,
}

/// A planned direct convolution.
pub(crate) struct Direct<T: 'static> {
    pub(crate) operands: Operands,
    pub(crate) part: SubProblem,
    pub(crate) isa: Isa,
    pub(crate) scheme: Scheme<T>,
    /// The blocks, and the planes unless the input is read in place.
    pub(crate) geometry: Geometry,
    pub(crate) in_place: bool,
    /// The geometry of the planes: for a stride of 1 if they have their channels last.
    pub(crate) filled: Geometry,
    /// Taps that are adjacent in what is read, as are then the terms of all of them; and the first tap of each such run.
    pub(crate) run: usize,
    pub(crate) runs: Vec<usize>,
    /// Whether input and output are prefetched.
    pub(crate) prefetches: bool,
    /// Packed words per tap: input channels of a group divided by the channels of a word.
    pub(crate) words: usize,
    /// Offsets of the taps, and strides of channels, of the three dimensions and of images, in what is read.
    pub(crate) taps: Vec<usize>,
    pub(crate) channel_stride: usize,
    pub(crate) stride: [usize; 4],
    /// Panels of output channels in a group, and chunks of panels for the workers.
    pub(crate) panels: usize,
    pub(crate) chunks: usize,
    pub(crate) workers: Workers,
    pub(crate) pack_workers: Workers,
    pub(crate) tile_epilogue: Option<TileEpilogue>,
    /// Elements of a worker's planes, of its accumulators, and of the packed weights.
    pub(crate) planes: usize,
    pub(crate) sums: usize,
    pub(crate) weights: usize,
    pub(crate) prepacked: Prepacked<T>,
}
