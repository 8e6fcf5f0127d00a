//! The data of a convolution by Winograd's algorithm, planned once.

use crate::conv::epilogue::{ChannelEpilogue, TileEpilogue};
use crate::conv::geometry::{Block, Geometry};
use crate::conv::operands::{Fill, Operands};
use crate::conv::winograd::filter::{Pack, Weight};
use crate::conv::winograd::transform::{MAX_SIDE, Tile};
use crate::gemm::context::Context;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::threading::partition::Workers;

pub(crate) type Write<T> = unsafe fn(&Winograd<T>, &Block, (usize, usize), (usize, *const T), *mut u8);

/// A planned convolution by Winograd's algorithm.
pub(crate) struct Winograd<T: 'static> {
    pub(crate) operands: Operands,
    pub(crate) isa: Isa,
    pub(crate) kernel: Context<T>,
    /// Offset of each tap in the filter, row by row.
    pub(crate) window: [usize; 9],
    /// The tile.
    pub(crate) tile: Tile,
    /// Blocks of tiles.
    pub(crate) geometry: Geometry,
    /// Their planes: a column for each input element of a row, one row of tiles per tile stride.
    pub(crate) planes: Geometry,
    /// Offset in the planes of each row of a tile.
    pub(crate) rows: [usize; MAX_SIDE],
    /// Whether input and output are prefetched.
    pub(crate) prefetches: bool,
    /// Panels of output channels in a group, and chunks of panels for the workers.
    pub(crate) panels: usize,
    pub(crate) chunks: usize,
    /// Panels that are multiplied at one position before moving to the next.
    pub(crate) together: usize,
    pub(crate) workers: Workers,
    pub(crate) pack_workers: Workers,
    pub(crate) fill: Fill<T>,
    pub(crate) fill_size: usize,
    pub(crate) pack: Pack<T>,
    pub(crate) weight: Weight<T>,
    pub(crate) write: Write<T>,
    pub(crate) write_size: usize,
    pub(crate) channel_epilogue: ChannelEpilogue,
    pub(crate) tile_epilogue: Option<TileEpilogue>,
    pub(crate) prepacked: Prepacked<T>,
}

/// One worker's memory: planes, transformed inputs, accumulators of some panels, and outputs of one panel.
#[derive(Clone, Copy)]
pub(crate) struct WorkerMemory<T> {
    pub(crate) planes: *mut T,
    pub(crate) inputs: *mut T,
    pub(crate) sums: *mut T,
    pub(crate) outputs: *mut T,
}
