//! NaN that padding may have caused: columns at the padding are computed again without its zeros.

use crate::conv::geometry::Block;
use crate::conv::implicit_gemm::kernel::{ImplicitGemm, Planned};
use crate::conv::implicit_gemm::tile::GemmTile;
use crate::simd::vector::Float;

impl<T: Float> ImplicitGemm<T> {
    /// Computes the columns of a tile that meet the padding without their products with it, because zero times
    /// infinity is NaN.
    ///
    /// # Safety
    /// As [`GemmTileKernel::run`](crate::conv::implicit_gemm::tile::GemmTileKernel::run).
    pub(crate) unsafe fn multiply_exactly(
        &self,
        planned: &Planned,
        product: &GemmTile<'_, T>,
        block: &Block,
        (from, end): (usize, usize),
        rows: usize,
    ) {
        let taps = &planned.part.taps;
        self.geometry.runs(block, from, end, |run| {
            for i in 0..run.len {
                let at = [run.at[0], run.at[1], run.at[2] + i];
                let meets = |tap: usize| self.geometry.meets(at, taps[tap].0);
                let rows = (rows, self.kernel.rows);
                // SAFETY: the weights, planes and the tile are valid, as this function requires.
                unsafe { product.column_again(rows, run.column - from + i, taps.len(), meets) };
            }
        });
    }
}
