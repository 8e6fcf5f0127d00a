//! Recomputes columns at the padding without its zeros.

use std::ops::Range;

use crate::conv::im2col::problem::Im2col;
use crate::conv::nan::compute_column_again;
use crate::gemm::tile::Tile;
use crate::simd::vector::Float;

impl<T: Float> Im2col<T> {
    /// Recomputes a tile's columns that meet the padding, skipping it, because zero times infinity is NaN.
    ///
    /// # Safety
    /// As [`Context::run`](crate::gemm::context::Context::run).
    pub(crate) unsafe fn multiply_exactly(&self, tile: &Tile<'_, T>, columns: &Range<usize>, rows: usize) {
        let meets = |output: [usize; 2], tap: &[isize; 2]| {
            (0..2).all(|i| {
                let at = (output[i] * self.stride[i]) as isize + tap[i];
                (0..self.input[i] as isize).contains(&at)
            })
        };
        self.runs(columns, |run| {
            for (column, at) in (run.column..run.column + run.len).zip(run.at..) {
                let meets = |tap: usize| meets([run.line, at], &self.taps[tap]);
                // SAFETY: this function requires the weights, the columns and the tile.
                unsafe { compute_column_again(tile, rows, column, self.taps.len(), meets) };
            }
        });
    }
}
