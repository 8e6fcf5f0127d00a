//! NaN that padding may have caused: columns at the padding are computed again without its zeros.

use std::ops::Range;

use crate::conv::im2col::problem::Im2col;
use crate::conv::implicit_gemm::tile::GemmTile;
use crate::simd::vector::Float;

impl<T: Float> Im2col<T> {
    /// Computes the columns of a tile that meet the padding without their products with it, because zero times
    /// infinity is NaN.
    ///
    /// # Safety
    /// As [`GemmTileKernel::run`](crate::conv::implicit_gemm::tile::GemmTileKernel::run).
    pub(crate) unsafe fn multiply_exactly(
        &self,
        product: &GemmTile<'_, T>,
        columns: &Range<usize>,
        rows: usize,
    ) {
        let meets = |output: [usize; 2], tap: &[isize; 2]| {
            (0..2).all(|i| {
                let at = (output[i] * self.stride[i]) as isize + tap[i];
                (0..self.input[i] as isize).contains(&at)
            })
        };
        self.runs(columns, |run| {
            for (column, at) in (run.column..run.column + run.len).zip(run.at..) {
                let meets = |tap: usize| meets([run.line, at], &self.taps[tap]);
                let rows = (rows, self.kernel.rows);
                // SAFETY: the weights, columns and the tile are valid, as this function requires.
                unsafe { product.column_again(rows, column, self.taps.len(), meets) };
            }
        });
    }
}
