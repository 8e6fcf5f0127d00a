//! Tiles with NaN, whose columns beside the padding are computed again without the zeros that stand for it.

use crate::conv::geometry::Block;
use crate::conv::implicit_gemm::kernel::{ImplicitGemm, Planned};
use crate::conv::implicit_gemm::tile::GemmTile;
use crate::simd::vector::Float;

impl<T: Float> ImplicitGemm<T> {
    /// The columns of a tile that meet the padding, but without the products with it, which are not zero times infinity.
    ///
    /// # Safety
    /// As [`GemmTileKernel::run`](crate::conv::implicit_gemm::tile::ProductKernel::run).
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
