//! The tiles of a block, and the products of one or two of them.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::conv::direct::choice::MAX_TILES;
use crate::conv::direct::problem::Direct;
use crate::conv::direct::tile::MAX_PIXELS;
use crate::conv::geometry::Block;
use crate::gemm::accumulator::Accumulator;
use crate::gemm::prefetch::TilePrefetch;
use crate::gemm::tile::{NextTiles, RegisterEpilogue, Tile};

/// The outputs of a tile.
#[derive(Clone, Copy)]
pub(crate) struct At {
    /// Offset of each output from the block's first one.
    pub(super) pixels: [usize; MAX_PIXELS],
    /// The stride between outputs, if two tiles can be computed at once.
    pub(super) stride: Option<usize>,
    /// The range of taps that the outputs meet.
    pub(super) taps: (usize, usize),
    /// The number of outputs, the image and the place of the first one, and whether all are in its line.
    pub(super) count: usize,
    pub(super) first: (usize, [usize; 3]),
    pub(super) is_line: bool,
    /// How many tiles follow that meet the same taps, with a constant stride of inputs: all, and those in its line.
    pub(crate) follow: [usize; 2],
    /// That stride, in elements.
    pub(crate) step: usize,
}

/// Where the sums of a tile begin and where they go, both with a stride of rows.
pub(super) struct Accumulators<'a, T> {
    /// Null for zeros.
    pub(super) from: (*const T, usize),
    pub(super) to: (*mut T, usize),
    pub(super) epilogue: RegisterEpilogue<'a, T>,
    /// The tiles that follow.
    pub(super) next: NextTiles,
}

impl<T> Accumulators<'_, T> {
    /// Accumulators that stay in memory, begun with `first` unless earlier words began them.
    pub(super) fn kept(to: *mut T, width: usize, first: *const T, is_begun: bool) -> Self {
        let from = if is_begun { (to.cast_const(), width) } else { (first, 0) };
        Self { from, to: (to, width), epilogue: RegisterEpilogue::NONE, next: NextTiles::NONE }
    }
}

impl At {
    /// No outputs yet.
    const NOWHERE: Self = Self {
        pixels: [0; MAX_PIXELS],
        stride: None,
        taps: (usize::MAX, 0),
        count: 0,
        first: (0, [0; 3]),
        is_line: true,
        follow: [0; 2],
        step: 0,
    };

    /// The stride of inputs to a tile behind this one, and whether that is in its line, if the tiles differ in nothing else.
    fn precedes(&self, behind: &Self) -> Option<(usize, bool)> {
        let step = behind.pixels[0].wrapping_sub(self.pixels[0]);
        let are_alike = self.count == behind.count
            && self.taps == behind.taps
            && self
                .pixels
                .iter()
                .zip(&behind.pixels)
                .all(|(pixel, later)| later.wrapping_sub(*pixel) == step);
        let (image, [z, y, _]) = self.first;
        let is_line = self.is_line
            && behind.is_line
            && (image, [z, y]) == (behind.first.0, [behind.first.1[0], behind.first.1[1]]);
        are_alike.then_some((step, is_line))
    }
}

impl<T: Accumulator> Direct<T> {
    /// Writes the tiles of a block, and returns them.
    pub(crate) fn tiles<'t>(&self, block: &Block, tiles: &'t mut [MaybeUninit<At>; MAX_TILES]) -> &'t [At] {
        let mut count = 0;
        self.for_each_tile(block, |at| {
            tiles[count].write(at);
            count += 1;
        });
        // SAFETY: so many tiles were written.
        let tiles = unsafe { std::slice::from_raw_parts_mut(tiles.as_mut_ptr().cast::<At>(), count) };
        for index in (1..count).rev() {
            let behind = tiles[index];
            let at = &mut tiles[index - 1];
            let Some((step, is_line)) = at.precedes(&behind) else { continue };
            let follow = if behind.follow[0] == 0 || behind.step == step { behind.follow } else { [0; 2] };
            at.step = step;
            at.follow = [follow[0] + 1, if is_line { follow[1] + 1 } else { 0 }];
        }
        tiles
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
                            let [z, y, x] = block.origin;
                            match pixel {
                                0 => at.first = (block.image + n, [z + d, y + h, x + w]),
                                _ => at.is_line = false,
                            }
                        }
                        // Slots beyond the last output repeat it.
                        at.pixels[pixel..].fill(line + w * column);
                        at.taps = (at.taps.0.min(of_tile.0), at.taps.1.max(of_tile.1));
                        pixel += 1;
                        at.count = pixel;
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

    /// Adds the products of some words, which may be none, to the sums of a tile, or of two.
    ///
    /// # Safety
    /// The panel's weights and the columns have the words, and `sums` has the tiles.
    #[inline(always)]
    pub(super) unsafe fn add(
        &self,
        (at, behind): (&At, Option<&At>),
        words: Range<usize>,
        weights: *const T,
        columns: *const T,
        sums: Accumulators<'_, T>,
        tile_prefetch: Option<&mut TilePrefetch>,
    ) {
        let (taps, width) = (self.taps.len(), self.scheme.kernel.width);
        let (begin, end) =
            behind.map_or(at.taps, |behind| (at.taps.0.min(behind.taps.0), at.taps.1.max(behind.taps.1)));
        // All words of a run of taps are adjacent, but only all of them.
        let run = if words.len() == self.words { self.run } else { 1 };
        let (offsets, begin, end) = match run {
            1 => (&self.taps, begin, end),
            run => (&self.runs, begin / run, end.div_ceil(run)),
        };
        let (b_stride, tap_stride) =
            if self.scheme.channels_last { (width, run * self.words * width) } else { (taps * width, 0) };
        let of_both = [at.pixels, behind.map_or(at.pixels, |behind| behind.pixels)];
        let mut tile = Tile {
            a: columns.wrapping_add(words.start * self.channel_stride),
            a_stride: self.channel_stride,
            rows: of_both.as_flattened(),
            taps: &offsets[begin..end],
            depth: run * words.len(),
            b: weights.wrapping_add(self.weight(words.start, begin * run)),
            b_stride,
            tap_stride,
            prefetches: behind.is_some(),
            tile_prefetch,
            from: sums.from.0,
            from_stride: sums.from.1,
            epilogue: sums.epilogue,
            to: sums.to.0,
            to_stride: sums.to.1,
            next: sums.next,
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
