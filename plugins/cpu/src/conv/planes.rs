//! Copies between tensors and the planes and tiles that implicit GEMM reads and writes.

use crate::conv::geometry::{Block, Geometry, Strides, div_ceil};
use crate::gemm::pairs::{PairElement, word};
use crate::simd::stored::Stored;
use crate::simd::vector::Float;
use crate::tensor::row_converter::{load_run, store_run};

/// Runs shorter than this are copied channel by channel.
pub(crate) const SHORT: usize = 4;

/// Reads a run of `len` elements of each of some channels, given the strides of elements and of channels, into runs
/// with stride `plane_stride`.
///
/// # Safety
/// The elements are readable, and the runs are writable.
#[inline(always)]
pub(crate) unsafe fn copy_runs<S: Stored, T: Float>(
    from: *const S,
    (stride, channel): (usize, usize),
    to: *mut T,
    plane_strides: usize,
    (len, channels): (usize, usize),
) {
    // SAFETY: all runs are valid, as this function requires.
    unsafe {
        if len < SHORT {
            for i in 0..len {
                for c in 0..channels {
                    to.add(i + c * plane_strides)
                        .write(from.add(i * stride + c * channel).read_unaligned().value());
                }
            }
        } else {
            for c in 0..channels {
                load_run::<S, T>(from.add(c * channel).cast(), stride, to.add(c * plane_strides), len);
            }
        }
    }
}

/// Accumulators of some channels, one row of the tile each.
pub(crate) struct TileSums<T> {
    /// The range of the tile's columns in the block.
    pub(crate) columns: (usize, usize),
    /// The first sum of the first channel.
    pub(crate) from: *const T,
    /// Stride of channels.
    pub(crate) row: usize,
    /// Number of channels.
    pub(crate) rows: usize,
}

/// Writes rows of a tile to the output: one channel each, the runs of outputs among the tile's columns.
///
/// # Safety
/// The tile is readable; `to_channel` is the first element of the first row's channel in a tensor with these strides and the
/// output's dimensions.
#[inline(always)]
pub(crate) unsafe fn store_tile<S: Stored, T: Float>(
    geometry: &Geometry,
    block: &Block,
    sums: &TileSums<T>,
    to_channel: *mut u8,
    strides: &Strides,
) {
    let TileSums { columns: (from, to), from: tile, row, rows } = *sums;
    let to_channel = to_channel.cast::<S>();
    geometry.runs(block, from, to, |run| {
        let target = strides.offset(run.image, run.at);
        let column = run.column - from;
        // SAFETY: the elements are inside the tensor, the values inside the tile.
        unsafe {
            if strides.channel == 1 {
                for i in 0..run.len {
                    let at = to_channel.add(target + i * strides.spatial[2]);
                    for r in 0..rows {
                        at.add(r).write_unaligned(S::nearest(tile.add(r * row + column + i).read()));
                    }
                }
            } else {
                for r in 0..rows {
                    store_run::<S, T>(
                        tile.add(r * row + column),
                        to_channel.add(target + r * strides.channel).cast(),
                        strides.spatial[2],
                        run.len,
                    );
                }
            }
        }
    });
}

impl Geometry {
    /// Copies a block's input, `channels` channels from `from`, into planes, channel by channel.
    ///
    /// # Safety
    /// `from` is the first element of the first channel in a tensor with these strides and the input's
    /// dimensions; `planes` is writable for `channels * self.channel()` values.
    pub(crate) unsafe fn fill<S: Stored, T: Float>(
        &self,
        block: &Block,
        from: *const u8,
        strides: &Strides,
        channels: usize,
        planes: *mut T,
    ) {
        let from = from.cast::<S>();
        // SAFETY: the planes have room for all channels; the runs are inside the tensor and the planes.
        unsafe {
            planes.write_bytes(0, channels * self.channel());
            self.input_runs(block, strides, |source, target, stride, len| {
                let (from, to) = (from.add(source), planes.add(target));
                copy_runs(from, (stride, strides.channel), to, self.channel(), (len, channels));
            });
        }
    }

    /// The same from a tensor with its channels last, into planes with their channels last.
    ///
    /// # Safety
    /// As [`Geometry::fill`], with a stride of channels of 1.
    pub(crate) unsafe fn fill_channels_last<S: Stored, T: Float>(
        &self,
        block: &Block,
        from: *const u8,
        strides: &Strides,
        channels: usize,
        planes: *mut T,
    ) {
        let from = from.cast::<S>();
        // SAFETY: the planes have room for all channels; the runs are inside the tensor and the planes.
        unsafe {
            planes.write_bytes(0, channels * self.channel());
            self.input_runs(block, strides, |source, target, stride, len| {
                let (from, to) = (from.add(source), planes.add(target * channels));
                if stride == channels {
                    load_run::<S, T>(from.cast(), 1, to, len * channels);
                } else {
                    for i in 0..len {
                        load_run::<S, T>(from.add(i * stride).cast(), 1, to.add(i * channels), channels);
                    }
                }
            });
        }
    }

    /// The same with pairs of channels packed into words, the first in the lower half; a missing second
    /// channel is zero.
    ///
    /// # Safety
    /// As [`Geometry::fill`], with half as many planes as there are channels, rounded up.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other processors have no instructions for pairs")
    )]
    pub(crate) unsafe fn fill_pairs<S: PairElement>(
        &self,
        block: &Block,
        from: *const u8,
        strides: &Strides,
        channels: usize,
        planes: *mut u32,
    ) {
        let from = from.cast::<S>();
        // SAFETY: the planes have room for all channels; the runs are inside the tensor and the planes.
        unsafe {
            planes.write_bytes(0, channels.div_ceil(2) * self.channel());
            self.input_runs(block, strides, |source, target, stride, len| {
                for pair in 0..channels.div_ceil(2) {
                    let first = from.add(source + 2 * pair * strides.channel);
                    let to = planes.add(target + pair * self.channel());
                    if 2 * pair + 1 < channels {
                        for i in 0..len {
                            let at = first.add(i * stride);
                            let both = (at.read_unaligned(), at.add(strides.channel).read_unaligned());
                            to.add(i).write(word(both.0.bits(), both.1.bits()));
                        }
                    } else {
                        for i in 0..len {
                            to.add(i).write(word(first.add(i * stride).read_unaligned().bits(), 0));
                        }
                    }
                }
            });
        }
    }

    /// Calls `each` with the runs of a block's input along the last spatial dimension: offset of the first
    /// element in channel 0, offset in the planes of a channel, stride in the tensor, and length.
    #[inline(always)]
    pub(crate) fn input_runs(
        &self,
        block: &Block,
        strides: &Strides,
        mut each: impl FnMut(usize, usize, usize, usize),
    ) {
        let stride = self.windows.stride;
        for (index, start) in self.starts.iter().enumerate() {
            let mut low = [0; 3];
            let mut high = [0; 3];
            for i in 0..3 {
                // Positions of the box that are inside the input.
                let base = block.origin[i] as isize + self.first[i];
                let size = (block.size[i] + self.span[i]) as isize;
                let begin = div_ceil(-start[i], stride[i] as isize) - base;
                let end = div_ceil(self.windows.input[i] as isize - start[i], stride[i] as isize) - base;
                low[i] = begin.clamp(0, size) as usize;
                high[i] = end.clamp(low[i] as isize, size) as usize;
            }
            if (0..3).any(|i| low[i] == high[i]) {
                continue;
            }
            let input = |i: usize, position: usize| {
                ((block.origin[i] as isize + self.first[i] + position as isize) * stride[i] as isize
                    + start[i]) as usize
            };
            let len = high[2] - low[2];
            let stride = strides.spatial[2] * stride[2];
            for n in 0..block.images {
                for d in low[0]..high[0] {
                    for h in low[1]..high[1] {
                        let at = [input(0, d), input(1, h), input(2, low[2])];
                        let source = strides.offset(block.image + n, at);
                        let target = index * self.plane
                            + n * self.plane_strides[3]
                            + d * self.plane_strides[0]
                            + h * self.plane_strides[1]
                            + low[2];
                        each(source, target, stride, len);
                    }
                }
            }
        }
    }

    /// Copies a block of the output's shape, `channels` channels from `from`, into rows of `row` values in the
    /// order of the columns, with zeros between the runs of outputs.
    ///
    /// # Safety
    /// `from` is the first element of the first channel in a tensor with these strides and the output's
    /// dimensions; `rows` is writable for `channels * row` values, and `row` is at least the block's columns.
    pub(crate) unsafe fn spread<S: Stored, T: Float>(
        &self,
        block: &Block,
        from: *const u8,
        strides: &Strides,
        channels: usize,
        rows: *mut T,
        row: usize,
    ) {
        let from = from.cast::<S>();
        // SAFETY: `rows` has `row` values for each channel.
        unsafe { rows.write_bytes(0, channels * row) };
        self.runs(block, 0, self.columns(block), |run| {
            let source = strides.offset(run.image, run.at);
            // SAFETY: the elements are inside the tensor, the values inside the row.
            unsafe {
                let from = from.add(source);
                let to = rows.add(run.column);
                copy_runs(from, (strides.spatial[2], strides.channel), to, row, (run.len, channels));
            }
        });
    }
}
