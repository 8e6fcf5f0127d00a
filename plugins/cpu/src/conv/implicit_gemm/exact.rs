//! Tiles with NaN, whose columns beside the padding are computed again without the zeros that stand for it.

use crate::conv::geometry::Block;
use crate::conv::implicit_gemm::kernel::{ImplicitGemm, Planned};
use crate::conv::implicit_gemm::tile::GemmTile;
use crate::simd::real::{Float, all_finite};

/// Whether a tile of so many rows and columns has NaN among its numbers.
///
/// # Safety
/// It has them, its rows `row_stride` numbers apart.
pub(crate) unsafe fn has_nan<T: Float>(
    tile: *const T,
    (rows, row_stride): (usize, usize),
    columns: usize,
) -> bool {
    let mut found = false;
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: the caller promises the tile.
            let number = unsafe { tile.add(row * row_stride + column).read_unaligned() };
            found |= number.partial_cmp(&number).is_none();
        }
    }
    found
}

/// Whether the weights of a tile's rows are finite; a packed panel has `height` rows.
///
/// # Safety
/// There are so many rows.
pub(crate) unsafe fn are_finite<T: Float>(product: &GemmTile<'_, T>, rows: usize, height: usize) -> bool {
    let row = product.channels * product.taps.len();
    // SAFETY: the caller promises the rows.
    unsafe {
        match product.stride {
            Some(stride) => (0..rows).all(|r| all_finite(product.a.add(r * stride), row)),
            None => all_finite(product.a, row * height),
        }
    }
}

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
                // SAFETY: the caller promises weights, planes and the tile.
                unsafe { product.column_again(rows, run.column - from + i, taps.len(), meets) };
            }
        });
    }
}
