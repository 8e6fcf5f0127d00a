//! The geometry of implicit GEMM: where each tap finds its inputs without im2col.
//!
//! The input is copied into planes in which a tap is a constant offset: output `o` and tap `q` meet at
//! position `o + q`, so the outputs of an image read one contiguous run per tap, and GEMM reads the plane in
//! place. Because of the padding, rows of a plane are a little longer than rows of the output; results in the
//! extra columns are dropped. With a stride there is one plane per remainder modulo the stride. If that
//! wastes too much (filters nearly as large as the image), each tap gets its own plane with exactly the
//! output's columns, which is im2col.

use crate::simd::array::Each;
use std::collections::HashMap;
use std::ops::Range;

/// The sliding windows: output `o` and tap `t` meet input element `o * stride + taps[t]`.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    /// Number of images.
    pub(crate) batch: usize,
    /// Spatial dimensions of the output; leading ones are 1.
    pub(crate) output: [usize; 3],
    /// Spatial dimensions of the input.
    pub(crate) input: [usize; 3],
    /// Stride of the convolution.
    pub(crate) stride: [usize; 3],
    /// Position of each tap, padding included.
    pub(crate) taps: Vec<[isize; 3]>,
}

impl Windows {
    /// Whether taps meet each element between outputs along every dimension, so that planes of a stride of 1 are no larger.
    pub(crate) fn meet_all_elements(&self) -> bool {
        let meets = |i: usize, rest: isize| {
            self.taps.iter().any(|tap| tap[i].rem_euclid(self.stride[i] as isize) == rest)
        };
        (0..3).all(|i| (0..self.stride[i] as isize).all(|rest| meets(i, rest)))
    }
}

/// Strides of a tensor, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Strides {
    /// Of images.
    pub(crate) batch: usize,
    /// Of channels.
    pub(crate) channel: usize,
    /// Of the spatial dimensions.
    pub(crate) spatial: [usize; 3],
}

impl Strides {
    /// Whether images of this size are dense, the last dimension fastest.
    pub(crate) fn are_flat(&self, size: [usize; 3]) -> bool {
        (0..3).all(|i| size[i] == 1 || self.spatial[i] == size[i + 1..].iter().product::<usize>())
    }

    /// Offset of an element of channel 0.
    pub(crate) fn offset(&self, image: usize, at: [usize; 3]) -> usize {
        image * self.batch + at[0] * self.spatial[0] + at[1] * self.spatial[1] + at[2] * self.spatial[2]
    }
}

/// A part of the output: some images, and a box in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first image.
    pub(crate) image: usize,
    /// Number of images.
    pub(crate) images: usize,
    /// The first output element of the box.
    pub(crate) origin: [usize; 3],
    /// The size of the box.
    pub(crate) size: [usize; 3],
}

impl Block {
    /// Number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.images * self.size.iter().product::<usize>()
    }
}

/// Outputs that are contiguous in the columns and along the last spatial dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The first column.
    pub(crate) column: usize,
    /// Number of columns.
    pub(crate) len: usize,
    /// The image.
    pub(crate) image: usize,
    /// The output element of the first column.
    pub(crate) at: [usize; 3],
}

/// Planes and columns, planned once for all blocks.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) windows: Windows,
    /// Input element at position 0 of each plane, for a block that begins at output 0.
    pub(crate) starts: Vec<[isize; 3]>,
    /// Offset of each tap from the beginning of a channel's planes.
    pub(crate) tap_offsets: Vec<usize>,
    /// Images of the largest block, and the size of its box.
    pub(crate) block: (usize, [usize; 3]),
    /// By how many positions a box is wider than its outputs.
    pub(crate) span: [usize; 3],
    /// The smallest tap, in units of the stride.
    pub(crate) first: [isize; 3],
    /// Strides of the columns: along the three dimensions, and of images.
    pub(crate) plane_strides: [usize; 4],
    /// Elements of one plane.
    pub(crate) plane: usize,
    /// Whether some output meets a tap in the padding.
    pub(crate) padded: bool,
}

/// How far some outputs reach with a stride.
fn spread(size: [usize; 3], stride: [usize; 3]) -> [usize; 3] {
    [0, 1, 2].each(|i| (size[i] - 1) * stride[i] + 1)
}

/// `ceil(a / b)` for positive b.
pub(crate) fn div_ceil(a: isize, b: isize) -> isize {
    -(-a).div_euclid(b)
}

impl Geometry {
    /// Plans the planes for blocks of at most `images` images and boxes of at most `size`; columns are rounded
    /// up to multiples of `round`. With `unrolled`, each tap gets its own plane.
    pub(crate) fn new(
        windows: &Windows,
        unrolled: bool,
        images: usize,
        size: [usize; 3],
        round: usize,
    ) -> Self {
        let stride = windows.stride.map(|s| s as isize);
        let mut starts: Vec<[isize; 3]> = Vec::new();
        let mut known = HashMap::new();
        let mut tap_planes = Vec::with_capacity(windows.taps.len());
        let mut steps = Vec::with_capacity(windows.taps.len());
        // Positions are counted from element 0, or from the first tap if that makes the box narrower.
        let from = [0, 1, 2].each(|i| {
            let taps = || windows.taps.iter().map(|tap| tap[i]);
            let (low, high) = (taps().min().unwrap_or(0), taps().max().unwrap_or(0));
            let wider = high.div_euclid(stride[i]) - low.div_euclid(stride[i]) > (high - low) / stride[i];
            if wider { low } else { 0 }
        });
        for tap in &windows.taps {
            let mut start = *tap;
            let mut q = [0; 3];
            if !unrolled {
                for i in 0..3 {
                    q[i] = (tap[i] - from[i]).div_euclid(stride[i]);
                    start[i] = (tap[i] - from[i]).rem_euclid(stride[i]) + from[i];
                }
            }
            let next = starts.len();
            let plane = if unrolled { next } else { *known.entry(start).or_insert(next) };
            if plane == next {
                starts.push(start);
            }
            tap_planes.push(plane);
            steps.push(q);
        }
        let mut first = [0; 3];
        let mut span = [0; 3];
        let mut row = [0; 3];
        for i in 0..3 {
            let low = steps.iter().map(|q| q[i]).min().unwrap_or(0);
            let high = steps.iter().map(|q| q[i]).max().unwrap_or(0);
            first[i] = low;
            span[i] = (high - low) as usize;
            // Padding at the end of a row can serve as padding at the start of the next.
            let mut shared = 0;
            if size[i] == windows.output[i] {
                let before = (-low).max(0);
                let end = windows.output[i] as isize + high;
                let ends = starts.iter().map(|s| div_ceil(windows.input[i] as isize - s[i], stride[i]));
                let after = ends.map(|e| (end - e).max(0)).min().unwrap_or(0);
                shared = before.min(after) as usize;
            }
            row[i] = (size[i] + span[i] - shared.min(span[i])).max(size[i]);
        }
        let plane_strides = [row[1] * row[2], row[2], 1, row[0] * row[1] * row[2]];
        let offset =
            |q: &[isize; 3]| -> usize { (0..3).map(|i| (q[i] - first[i]) as usize * plane_strides[i]).sum() };
        let reach = |images: usize, size: [usize; 3]| {
            (images - 1) * plane_strides[3]
                + (0..3).map(|i| (size[i] - 1) * plane_strides[i]).sum::<usize>()
                + 1
        };
        let columns = reach(images, size).next_multiple_of(round);
        let farthest = steps.iter().map(offset).max().unwrap_or(0);
        let filled = reach(images, [0, 1, 2].each(|i| size[i] + span[i]));
        let plane = (farthest + columns).max(filled);
        let tap_offsets = steps.iter().zip(&tap_planes).map(|(q, p)| p * plane + offset(q)).collect();
        let padded = windows.taps.iter().any(|tap| {
            (0..3).any(|i| {
                tap[i] < 0
                    || (windows.output[i] as isize - 1) * stride[i] + tap[i] >= windows.input[i] as isize
            })
        });
        Self {
            windows: windows.clone(),
            starts,
            tap_offsets,
            block: (images, size),
            span,
            first,
            plane_strides,
            plane,
            padded,
        }
    }

    /// Whether some output meets a tap in the padding.
    pub(crate) fn is_padded(&self) -> bool {
        self.padded
    }

    /// Elements of one channel's planes.
    pub(crate) fn channel(&self) -> usize {
        self.plane * self.starts.len()
    }

    /// Offset of each tap from the beginning of a channel's planes.
    pub(crate) fn taps(&self) -> &[usize] {
        &self.tap_offsets
    }

    /// Strides of the columns: along the three dimensions, and of images.
    pub(crate) fn plane_strides(&self) -> [usize; 4] {
        self.plane_strides
    }

    /// The range of taps that some outputs of a row may meet inside the input; the others are in the padding.
    pub(crate) fn met(&self, depth: usize, row: usize, columns: Range<usize>) -> (usize, usize) {
        let outputs = [depth..depth + 1, row..row + 1, columns];
        let inside = |tap: &[isize; 3]| {
            outputs.iter().enumerate().all(|(i, outputs)| {
                let at = |output: usize| (output * self.windows.stride[i]) as isize + tap[i];
                at(outputs.end - 1) >= 0 && at(outputs.start) < self.windows.input[i] as isize
            })
        };
        let taps = &self.windows.taps;
        let first = taps.iter().position(inside).unwrap_or(0);
        (first, taps.iter().rposition(inside).map_or(first, |last| last + 1))
    }

    /// Whether the outputs of each block are contiguous within an image.
    pub(crate) fn is_flat(&self) -> bool {
        let (images, size) = self.block;
        let [_, rows, columns] = self.windows.output;
        let line = size[0] == 1 && size[1] == 1;
        images == 1 && (size[2] == columns || line) && (size[1] == rows || size[0] == 1)
    }

    /// Smaller blocks, with the same planes for all taps; `None` if they need more vectors of `lanes` outputs.
    pub(crate) fn halved(&self, lanes: usize) -> Option<Self> {
        let vectors = |geometry: &Self| {
            let blocks = 0..geometry.blocks();
            blocks.map(|index| geometry.block(index).outputs().div_ceil(lanes)).sum::<usize>()
        };
        let (mut images, mut size) = self.block;
        if images > 1 {
            images = images.div_ceil(2);
        } else {
            let side = size.iter_mut().find(|side| **side > 1)?;
            *side = side.div_ceil(2);
        }
        let smaller = Self::new(&self.windows, false, images, size, 1);
        (vectors(&smaller) * 8 <= vectors(self) * 9).then_some(smaller)
    }

    /// The planes of the same inputs for a stride of 1, where the stride is one of outputs.
    pub(crate) fn unstrided(&self) -> Self {
        let Windows { output, stride, .. } = &self.windows;
        let (images, size) = self.block;
        let windows = Windows { output: spread(*output, *stride), stride: [1; 3], ..self.windows.clone() };
        Self::new(&windows, false, images, spread(size, *stride), 1)
    }

    /// A block of this geometry in the [`Self::unstrided`] one.
    pub(crate) fn unstrided_block(&self, block: &Block) -> Block {
        let stride = self.windows.stride;
        let origin = [0, 1, 2].each(|i| block.origin[i] * stride[i]);
        Block { origin, size: spread(block.size, stride), ..*block }
    }

    /// Columns of the largest block.
    pub(crate) fn largest(&self) -> usize {
        let (images, size) = self.block;
        self.columns(&Block { image: 0, images, origin: [0; 3], size })
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.counts().iter().product()
    }

    pub(crate) fn counts(&self) -> [usize; 4] {
        let (images, size) = self.block;
        let boxes = [0, 1, 2].each(|i| self.windows.output[i].div_ceil(size[i]));
        [self.windows.batch.div_ceil(images), boxes[0], boxes[1], boxes[2]]
    }

    /// The block with this index.
    pub(crate) fn block(&self, index: usize) -> Block {
        let (images, size) = self.block;
        let counts = self.counts();
        let mut rest = index;
        let mut origin = [0; 3];
        for i in (0..3).rev() {
            origin[i] = rest % counts[i + 1] * size[i];
            rest /= counts[i + 1];
        }
        let image = rest * images;
        Block {
            image,
            images: images.min(self.windows.batch - image),
            origin,
            size: [0, 1, 2].each(|i| size[i].min(self.windows.output[i] - origin[i])),
        }
    }

    /// Columns of a block, up to its last output.
    pub(crate) fn columns(&self, block: &Block) -> usize {
        (block.images - 1) * self.plane_strides[3]
            + (0..3).map(|i| (block.size[i] - 1) * self.plane_strides[i]).sum::<usize>()
            + 1
    }

    /// Calls `each` with the runs of outputs among the columns `from..to`.
    #[inline(always)]
    pub(crate) fn runs(&self, block: &Block, from: usize, to: usize, mut each: impl FnMut(Columns)) {
        let [depth, row, _, image] = self.plane_strides;
        let mut column = from;
        let mut n = from / image;
        let mut rest = from % image;
        let mut at = [0; 3];
        at[0] = rest / depth;
        rest %= depth;
        at[1] = rest / row;
        at[2] = rest % row;
        while column < to && n < block.images {
            if at[0] < block.size[0] && at[1] < block.size[1] && at[2] < block.size[2] {
                each(Columns {
                    column,
                    len: (block.size[2] - at[2]).min(to - column),
                    image: block.image + n,
                    at: [0, 1, 2].each(|i| block.origin[i] + at[i]),
                });
            }
            column += row - at[2];
            at[2] = 0;
            at[1] += 1;
            if at[1] * row >= depth {
                at[1] = 0;
                at[0] += 1;
                if at[0] * depth >= image {
                    at[0] = 0;
                    n += 1;
                }
            }
        }
    }

    /// The part of the input that a block reads, for prefetching; `None` if channels overlap.
    pub(crate) fn input(&self, block: &Block, strides: &Strides) -> Option<Input> {
        let Windows { input, stride, taps, .. } = &self.windows;
        let ends = [0, 1, 2].each(|i| {
            let taps_of_axis = taps.iter().map(|tap| tap[i]);
            let (low, high) = (taps_of_axis.clone().min().unwrap_or(0), taps_of_axis.max().unwrap_or(0));
            let inside = |at: isize| at.clamp(0, input[i] as isize - 1) as usize;
            let first = (block.origin[i] * stride[i]) as isize;
            let last = ((block.origin[i] + block.size[i] - 1) * stride[i]) as isize;
            (inside(first + low), inside(last + high), high - low)
        });
        // Whether the block skips input rows.
        let skips_rows = stride[1] as isize > ends[1].2 + 1 && block.size[1] > 1;
        let rows = if skips_rows { (block.size[1], stride[1] * strides.spatial[1]) } else { (1, 0) };
        let reach = |i: usize| (ends[i].1 - ends[i].0) * strides.spatial[i];
        let down = if skips_rows { ends[1].2 as usize * strides.spatial[1] } else { reach(1) };
        let len = 1 + reach(0) + down + reach(2);
        let first = strides.offset(block.image, ends.map(|(low, _, _)| low));
        let images = (block.images, strides.batch);
        (strides.channel >= len).then_some(Input { first, images, rows, len })
    }

    /// Whether an output meets a tap inside the input.
    pub(crate) fn meets(&self, output: [usize; 3], tap: usize) -> bool {
        (0..3).all(|i| {
            let at = (output[i] * self.windows.stride[i]) as isize + self.windows.taps[tap][i];
            (0..self.windows.input[i] as isize).contains(&at)
        })
    }
}

/// The part of the input that a block reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Input {
    /// Offset of its first element in the tensor.
    pub(crate) first: usize,
    /// Runs of elements in a channel and their strides: over images, and over rows if rows are skipped.
    pub(crate) images: (usize, usize),
    pub(crate) rows: (usize, usize),
    /// Elements from the first to the last of a run.
    pub(crate) len: usize,
}
