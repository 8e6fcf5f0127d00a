//! Copies the input of a tile into GEMM order (im2col).

use std::ops::Range;

use crate::conv::im2col::problem::Im2col;
use crate::gemm::im2col::Strip;
use crate::gemm::kernel::MicroKernel;
use crate::simd::vector::{Float, Vector, VectorTask};

/// How many channels' rows are copied together if the filter has several taps.
const CHANNELS: usize = 16;

/// Copies the inputs of a tile's columns: a row of whole vectors per channel and tap. Columns after the last
/// hold other inputs or zeros.
pub(crate) struct Im2colTile<'a, T: 'static> {
    pub(crate) tiled: &'a Im2col<T>,
    pub(crate) columns: &'a Range<usize>,
    /// The first element of the first image and channel.
    pub(crate) from: *const T,
    /// The destination.
    pub(crate) to: *mut T,
}

impl<T: Float> VectorTask<T> for Im2colTile<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let Self { tiled, columns, from, to } = self;
        let strides = tiled.operands.input.strides;
        let width = columns.len().next_multiple_of(V::LANES);
        let taps = tiled.taps.len();
        if columns.len() < width {
            for row in 0..tiled.depth {
                // SAFETY: the tile has the row, of whole vectors.
                unsafe { V::zero().store(to.add((row + 1) * width - V::LANES)) };
            }
        }
        // The rows of some channels stay in the L1 cache until all taps have copied from them.
        let all = tiled.operands.channels;
        let together = if taps == 1 { all } else { CHANNELS };
        for first in (0..all).step_by(together) {
            let channels = together.min(all - first);
            let from = from.wrapping_add(first * strides.channel);
            let to = to.wrapping_add(first * taps * width);
            let mut next = columns.start;
            while next < columns.end {
                let run = tiled.run_at(columns, next);
                next += run.len;
                let vectors = run.len.div_ceil(V::LANES);
                for (tap, [row, column]) in tiled.taps.iter().enumerate() {
                    let line = (run.line * tiled.stride[0]) as isize + row;
                    let is_inside = line >= 0 && line < tiled.input[0] as isize;
                    let line = if is_inside { line as usize * strides.spatial[1] } else { 0 };
                    let strip = Strip {
                        line: from.wrapping_add(run.image * strides.batch + line),
                        len: if is_inside { tiled.input[1] } else { 0 },
                        stride: tiled.stride[1],
                        first: (run.at * tiled.stride[1]) as isize + column,
                        from_stride: strides.channel,
                        to: to.wrapping_add(tap * width + run.column),
                        to_stride: taps * width,
                        channels,
                        vectors,
                        rest: V::LANES.min(width - run.column - (vectors - 1) * V::LANES),
                    };
                    // SAFETY: the input has the channels' lines. Runs are written in whole vectors, beyond
                    // their end but inside their row; the next run is written afterwards.
                    unsafe { V::pack_im2col(&strip) };
                }
            }
        }
    }
}
