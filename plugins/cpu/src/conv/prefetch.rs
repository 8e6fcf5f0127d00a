//! Prefetches a convolution's next operands.
//!
//! A block's input is short runs, one per channel and often per page, which hardware prefetchers do not
//! follow.

use crate::conv::geometry::{Block, Geometry, Strides};
use crate::conv::operands::{OperandView, Operands};
use crate::gemm::prefetch::{CacheLines, TilePrefetch};
use crate::simd::CACHE_LINE;
use crate::threading::partition::Workers;

/// Bytes of an image and its result above which they are probably not in cache. Prefetching data that is
/// already in cache costs up to 2 % of the time. Tests have small images.
const FAR: usize = if cfg!(test) { 2 << 10 } else { 4 << 20 };

/// Whether input and output are so large that prefetching pays.
pub(crate) fn pays(operands: &Operands) -> bool {
    bytes(operands) >= FAR as f64
}

/// Bytes of an image and its result above which several threads prefetch: others wrote what they read.
const SHARED: usize = if cfg!(test) { 1 << 10 } else { 128 << 10 };

/// Whether threads share operands that are worth prefetching.
pub(crate) fn is_shared(operands: &Operands, workers: Workers) -> bool {
    workers.count() > 1 && bytes(operands) >= SHARED as f64
}

/// Bytes of input and output.
pub(crate) fn bytes(operands: &Operands) -> f64 {
    let Operands { windows, groups, channels, rows, input, output, .. } = operands;
    let bytes = |view: &OperandView, channels: usize, size: [usize; 3]| {
        let size = size.iter().map(|side| *side as f64).product::<f64>() * (groups * channels) as f64;
        size * view.data_type.size().unwrap_or(1) as f64 * windows.batch as f64
    };
    bytes(input, *channels, windows.input) + bytes(output, *rows, windows.output)
}

/// The cache lines of a block, divided among the tiles that prefetch them while they multiply.
#[derive(Clone, Copy)]
pub(crate) struct BlockPrefetch {
    /// The first line of the first channel.
    first: *const u8,
    /// Runs of lines in a channel, as in `Input`, with strides in bytes.
    images: (usize, usize),
    rows: (usize, usize),
    lines: usize,
    /// Channels, and their stride in bytes.
    channels: (usize, usize),
}

impl BlockPrefetch {
    /// The input of a block, given the first element of the tensor or group, and the size of an element;
    /// `None` if a channel's elements are scattered.
    pub(crate) fn of(
        geometry: &Geometry,
        block: &Block,
        strides: &Strides,
        channels: usize,
        (from, size): (*const u8, usize),
    ) -> Option<Self> {
        let input = geometry.input(block, strides)?;
        Some(Self {
            first: from.wrapping_add(input.first * size),
            images: (input.images.0, input.images.1 * size),
            rows: (input.rows.0, input.rows.1 * size),
            // One more line, because the first element may be anywhere in its line.
            lines: 1 + (input.len * size).div_ceil(CACHE_LINE),
            channels: (channels, strides.channel * size),
        })
    }

    /// The input of the block with this index, counted across all groups; `None` after the last. `size` is
    /// that of an element in bytes.
    pub(crate) fn of_number(
        geometry: &Geometry,
        operands: &Operands,
        tensors: &[*mut u8],
        size: usize,
        index: usize,
    ) -> Option<Self> {
        let (group, block) = (index / geometry.blocks(), index % geometry.blocks());
        let Operands { groups, channels, input, .. } = operands;
        if group >= *groups {
            return None;
        }
        let from = operands.input_of(tensors, group, size).cast_const();
        Self::of(geometry, &geometry.block(block), &input.strides, *channels, (from, size))
    }

    /// What tile `tile` of `tiles` prefetches while it multiplies.
    pub(crate) fn for_tile(&self, tile: usize, tiles: usize) -> TilePrefetch {
        TilePrefetch::of(
            [self.share(tile, tiles), CacheLines::NONE, CacheLines::NONE],
            self.channels.0,
            [1; 2],
        )
    }

    /// The lines that tile `tile` of `tiles` prefetches.
    pub(crate) fn share(&self, tile: usize, tiles: usize) -> CacheLines {
        let (channels, channel_stride) = self.channels;
        let of_image = self.rows.0 * self.lines;
        let blocks = self.images.0 * of_image;
        let parts = (tiles / blocks).clamp(1, channels.max(1));
        let (block, part) = (tile % blocks, tile / blocks);
        if part >= parts {
            return CacheLines::NONE;
        }
        let range = channels * part / parts..channels * (part + 1) / parts;
        let (image, rest) = (block / of_image, block % of_image);
        let (row, line) = (rest / self.lines, rest % self.lines);
        let offset =
            image * self.images.1 + row * self.rows.1 + line * CACHE_LINE + range.start * channel_stride;
        let first = self.first.wrapping_add(offset);
        CacheLines::single(first, range.len(), channel_stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::geometry::Windows;
    use std::collections::HashSet;

    fn windows(window: isize, stride: usize, size: usize) -> Windows {
        let pad = window / 2;
        let taps = (0..window * window).map(|tap| [0, tap / window - pad, tap % window - pad]).collect();
        let output = [1, size.div_ceil(stride), size.div_ceil(stride)];
        Windows { batch: 4, output, input: [1, size, size], stride: [1, stride, stride], taps }
    }

    #[test]
    fn tiles_prefetch_everything_that_the_next_block_reads() {
        for (window, stride, size) in [(1, 1, 14), (1, 2, 28), (3, 1, 14), (3, 2, 14), (7, 2, 20)] {
            for (images, rows) in [(2, usize::MAX), (1, 3)] {
                let windows = windows(window, stride, size);
                let box_ = [1, rows.min(windows.output[1]), windows.output[2]];
                let geometry = Geometry::new(&windows, false, images, box_, 1);
                let strides = Strides { batch: 5 * size * size, channel: size * size, spatial: [0, size, 1] };
                for block in (0..geometry.blocks()).map(|index| geometry.block(index)) {
                    let from = (std::ptr::without_provenance(4096 - 4), 4);
                    let next = BlockPrefetch::of(&geometry, &block, &strides, 5, from).unwrap();
                    let mut requested = HashSet::new();
                    for mut tile_prefetch in (0..1000).map(|tile| next.for_tile(tile, 1000)) {
                        let lines = (0..tile_prefetch.now.channels)
                            .map(|channel| channel * tile_prefetch.now.channel_stride);
                        let first = tile_prefetch.now.first;
                        requested.extend(lines.map(|offset| first.wrapping_add(offset).addr() / CACHE_LINE));
                        (0..5).for_each(|_| tile_prefetch.prefetch());
                        assert_eq!(tile_prefetch.now.channels, 0);
                    }
                    let mut wanted = HashSet::new();
                    for (n, h, w, tap) in (0..block.images)
                        .flat_map(|n| (0..block.size[1]).map(move |h| (n, h)))
                        .flat_map(|(n, h)| (0..block.size[2]).map(move |w| (n, h, w)))
                        .flat_map(|(n, h, w)| windows.taps.iter().map(move |tap| (n, h, w, tap)))
                    {
                        let at =
                            [(1, h), (2, w)].map(|(i, o)| ((block.origin[i] + o) * stride) as isize + tap[i]);
                        if at.iter().all(|at| (0..size as isize).contains(at)) {
                            let [h, w] = at.map(|at| at as usize);
                            let element = strides.offset(block.image + n, [0, h, w]);
                            wanted.extend(
                                (0..5).map(|c| (4096 - 4 + 4 * (element + c * size * size)) / CACHE_LINE),
                            );
                        }
                    }
                    assert!(wanted.is_subset(&requested), "{window} {stride} {size} {block:?}");
                    assert!(requested.len() <= 3 * wanted.len() + 20, "{} {}", requested.len(), wanted.len());
                }
            }
        }
    }

    #[test]
    fn contiguous_channels_are_not_prefetched() {
        let windows = windows(3, 1, 8);
        let geometry = Geometry::new(&windows, false, 1, windows.output, 1);
        let strides = Strides { batch: 512, channel: 1, spatial: [0, 64, 8] };
        assert!(
            BlockPrefetch::of(&geometry, &geometry.block(0), &strides, 8, (std::ptr::null(), 4)).is_none()
        );
    }
}
