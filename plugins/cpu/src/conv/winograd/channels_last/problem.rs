//! The data of a convolution, planned once, and where its tiles are.

use crate::conv::direct::tile::TileKernel;
use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::operands::Operands;
use crate::conv::winograd::filter::{Pack, Weight};
use crate::conv::winograd::transform::{MAX_SIDE, Tile};
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, MAX_LANES};
use crate::tensor::prepacked::Prepacked;
use crate::threading::partition::Workers;

/// The most channels of a panel.
pub(super) const MAX_WIDTH: usize = 2 * MAX_LANES;

/// A planned convolution.
pub(crate) struct ChannelsLast<T: 'static> {
    pub(super) operands: Operands,
    pub(super) isa: Isa,
    pub(super) tile: Tile,
    /// Offset of each tap in the filter, row by row, and the first one's position.
    pub(super) window: [usize; 9],
    pub(super) first: [isize; 3],
    pub(super) kernel: TileKernel<T>,
    /// Tiles of an image along each dimension, of all images, and of a block.
    pub(super) grid: [usize; 3],
    pub(super) tiles: usize,
    pub(super) block: usize,
    /// Panels of output channels in a group, those multiplied together, and chunks of panels for the workers.
    pub(super) panels: usize,
    pub(super) together: usize,
    pub(super) chunks: usize,
    pub(super) workers: Workers,
    pub(super) pack_workers: Workers,
    pub(super) pack: Pack<T>,
    pub(super) weight: Weight<T>,
    pub(super) epilogue: ChannelEpilogue,
    pub(super) prepacked: Prepacked<T>,
}

/// Where a tile is.
pub(super) struct Place {
    pub(super) image: usize,
    /// Depth, row and column, in tiles.
    pub(super) at: [usize; 3],
}

impl<T: Float> ChannelsLast<T> {
    /// Elements of a transformed tile's row: whole vectors.
    pub(super) fn row(&self) -> usize {
        self.operands.channels.next_multiple_of(MAX_LANES)
    }

    /// Stride of positions in the transformed tiles. With a power of 2, elements of a tile would evict each other from the L1
    /// cache.
    pub(super) fn position_stride(&self) -> usize {
        self.block * self.row() + MAX_LANES
    }

    /// Stride of positions in the sums of a panel.
    pub(super) fn sums_stride(&self) -> usize {
        self.block * self.kernel.width + MAX_LANES
    }

    /// Where a tile is.
    pub(super) fn place(&self, tile: usize) -> Place {
        let [depths, rows, columns] = self.grid;
        let (line, column) = (tile / columns, tile % columns);
        let (plane, row) = (line / rows, line % rows);
        Place { image: plane / depths, at: [plane % depths, row, column] }
    }

    /// Moves on to the next tile.
    #[inline(always)]
    pub(super) fn step(&self, place: &mut Place) {
        for i in (0..3).rev() {
            place.at[i] += 1;
            if place.at[i] < self.grid[i] {
                return;
            }
            place.at[i] = 0;
        }
        place.image += 1;
    }

    /// The pixels of a tile: `zeros` in the padding.
    ///
    /// # Safety
    /// The input has the place, and `from` is its first element of some channel.
    #[inline(always)]
    pub(super) unsafe fn pixels(
        &self,
        place: &Place,
        from: *const T,
        zeros: *const T,
    ) -> [[*const T; MAX_SIDE]; MAX_SIDE] {
        let Operands { windows, input, .. } = &self.operands;
        let [_, row_stride, column_stride] = input.strides.spatial;
        let step = self.tile.input_stride();
        let at = |i: usize, step: usize| (place.at[i] * step) as isize + self.first[i];
        let (depth, row, column) = (at(0, 1), at(1, step), at(2, step));
        let is_inside = |i: usize, at: isize| (0..windows.input[i] as isize).contains(&at);
        let mut pixels = [[zeros; MAX_SIDE]; MAX_SIDE];
        if !is_inside(0, depth) {
            return pixels;
        }
        let image = from.wrapping_add(input.strides.offset(place.image, [depth as usize, 0, 0]));
        for (y, line) in pixels.iter_mut().enumerate().take(self.tile.side) {
            let y = row + y as isize;
            if !is_inside(1, y) {
                continue;
            }
            let line_of_image = image.wrapping_add(y as usize * row_stride);
            for (x, pixel) in line.iter_mut().enumerate().take(self.tile.side) {
                let x = column + x as isize;
                if is_inside(2, x) {
                    *pixel = line_of_image.wrapping_add(x as usize * column_stride);
                }
            }
        }
        pixels
    }
}
