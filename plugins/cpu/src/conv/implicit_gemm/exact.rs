//! Recomputes columns at the padding without its zeros.

use crate::conv::geometry::Block;
use crate::conv::implicit_gemm::kernel::{ImplicitGemm, Planned};
use crate::conv::nan::compute_column_again;
use crate::gemm::tile::Tile;
use crate::simd::vector::Float;

impl<T: Float> ImplicitGemm<T> {
    /// Recomputes a tile's columns that meet the padding, skipping it, because zero times infinity is NaN.
    ///
    /// # Safety
    /// As [`Context::run`](crate::gemm::context::Context::run).
    pub(crate) unsafe fn multiply_exactly(
        &self,
        planned: &Planned,
        tile: &Tile<'_, T>,
        block: &Block,
        (from, end): (usize, usize),
        rows: usize,
    ) {
        let taps = &planned.part.taps;
        self.geometry.runs(block, from, end, |run| {
            for i in 0..run.len {
                let at = [run.at[0], run.at[1], run.at[2] + i];
                let meets = |tap: usize| self.geometry.meets(at, taps[tap].0);
                // SAFETY: this function requires the weights, the planes and the tile.
                unsafe { compute_column_again(tile, rows, run.column - from + i, taps.len(), meets) };
            }
        });
    }
}
