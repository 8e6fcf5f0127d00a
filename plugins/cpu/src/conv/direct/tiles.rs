//! The tiles of a block, and the products of one or two of them.

use std::ops::Range;

use crate::conv::direct::choice::MAX_TILES;
use crate::conv::direct::problem::Direct;
use crate::conv::direct::tile::MAX_PIXELS;
use crate::conv::geometry::Block;
use crate::gemm::accumulator::Accumulator;
use crate::gemm::prefetch::TilePrefetch;
use crate::gemm::tile::Tile;

/// The outputs of a tile.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// Offset of each output from the block's first one.
    pub(super) pixels: [usize; MAX_PIXELS],
    /// The stride between outputs, if two tiles can be computed at once.
    pub(super) stride: Option<usize>,
    /// The range of taps that the outputs meet.
    pub(super) taps: (usize, usize),
}

impl At {
    /// No outputs yet.
    const NOWHERE: Self = Self { pixels: [0; MAX_PIXELS], stride: None, taps: (usize::MAX, 0) };
}

impl<T: Accumulator> Direct<T> {
    /// The tiles of a block, and their number.
    pub(super) fn tiles(&self, block: &Block) -> ([At; MAX_TILES], usize) {
        let (mut tiles, mut count) = ([At::NOWHERE; MAX_TILES], 0);
        self.for_each_tile(block, |at| {
            tiles[count] = at;
            count += 1;
        });
        (tiles, count)
    }

    /// Calls `f` with each of a block's tiles.
    pub(super) fn for_each_tile(&self, block: &Block, mut f: impl FnMut(At)) {
        let mut at = At::NOWHERE;
        let (size, pixels) = (block.size, self.scheme.kernel.pixels);
        let [depth, row, column, image] = self.stride;
        let mut pixel = 0;
        for n in 0..block.images {
            for d in 0..size[0] {
                for h in 0..size[1] {
                    let met = |columns: Range<usize>| {
                        if self.in_place || !self.geometry.is_padded() {
                            return (0, self.taps.len());
                        }
                        let columns = block.origin[2] + columns.start..block.origin[2] + columns.end;
                        self.geometry.met(block.origin[0] + d, block.origin[1] + h, columns)
                    };
                    let line = n * image + d * depth + h * row;
                    let mut of_tile = (0, 0);
                    for w in 0..size[2] {
                        if pixel == 0 || w == 0 {
                            of_tile = met(w..size[2].min(w + pixels - pixel));
                        }
                        // Slots beyond the last output repeat it.
                        at.pixels[pixel..].fill(line + w * column);
                        at.taps = (at.taps.0.min(of_tile.0), at.taps.1.max(of_tile.1));
                        pixel += 1;
                        if pixel == pixels {
                            f(At { stride: self.scheme.kernel.stride(&at.pixels), ..at });
                            (at, pixel) = (At::NOWHERE, 0);
                        }
                    }
                }
            }
        }
        if pixel > 0 {
            f(At { stride: self.scheme.kernel.stride(&at.pixels), ..at });
        }
    }

    /// Adds the products of some words to the sums of a tile, or of two; the first words begin them.
    ///
    /// # Safety
    /// The panel's weights and the columns have the words, and there are sums for the tiles.
    #[inline(always)]
    pub(super) unsafe fn add(
        &self,
        (at, behind): (At, Option<At>),
        words: Range<usize>,
        weights: *const T,
        columns: *const T,
        to: *mut T,
        tile_prefetch: Option<&mut TilePrefetch>,
    ) {
        let (taps, width) = (self.taps.len(), self.scheme.kernel.width);
        let (begin, end) =
            behind.map_or(at.taps, |behind| (at.taps.0.min(behind.taps.0), at.taps.1.max(behind.taps.1)));
        let of_both = [at.pixels, behind.map_or(at.pixels, |behind| behind.pixels)];
        let mut tile = Tile {
            a: columns.wrapping_add(words.start * self.channel_stride),
            a_stride: self.channel_stride,
            rows: of_both.as_flattened(),
            taps: &self.taps[begin..end],
            depth: words.len(),
            b: weights.wrapping_add((words.start * taps + begin) * width),
            b_stride: taps * width,
            prefetches: behind.is_some(),
            tile_prefetch,
            from: if words.start > 0 { to } else { std::ptr::null_mut() },
            from_stride: width,
            to,
            to_stride: width,
            ..Tile::EMPTY
        };
        // SAFETY: this function requires the words and the sums.
        unsafe {
            match at.stride.filter(|_| behind.is_some()) {
                Some(stride) => self.scheme.kernel.run_two(&mut tile, stride),
                None => self.scheme.kernel.run(&mut tile),
            }
        }
    }
}
