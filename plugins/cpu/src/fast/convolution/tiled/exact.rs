//! Tiles with NaN, computed again without the zeros that stand for the padding.

use std::ops::Range;

use super::super::super::real::FastReal;
use super::super::tile::Product;
use super::Tiled;

impl<T: FastReal> Tiled<T> {
    /// A tile again, but without the products with padding, which is not zero times infinity.
    ///
    /// # Safety
    /// As [`ProductKernel::run`](super::super::tile::ProductKernel::run).
    pub(super) unsafe fn multiply_exactly(
        &self,
        product: &Product<'_, T>,
        columns: &Range<usize>,
        rows: usize,
    ) {
        let meets = |output: [usize; 2], tap: &[isize; 2]| {
            (0..2).all(|i| {
                let at = (output[i] * self.step[i]) as isize + tap[i];
                (0..self.input[i] as isize).contains(&at)
            })
        };
        self.runs(columns, |run| {
            for (column, at) in (run.column..run.column + run.len).zip(run.at..) {
                for row in 0..rows {
                    let mut sum = T::ZERO;
                    for term in 0..self.depth {
                        if meets([run.line, at], &self.taps[term % self.taps.len()]) {
                            // SAFETY: the caller promises weights and columns.
                            let (a, b) = unsafe {
                                let a = product.weight(self.kernel.rows, row, term, 0);
                                (a, product.b.add(term * product.pitch + column).read())
                            };
                            sum = sum + a * b;
                        }
                    }
                    // SAFETY: the caller promises the tile, and what is added.
                    unsafe {
                        let sum = product.ended(sum, row, column);
                        product.tile.add(row * product.row + column).write_unaligned(sum);
                    }
                }
            }
        });
    }
}
