//! Whether a tile has NaN, and whether its weights are finite.

use crate::conv::implicit_gemm::tile::GemmTile;
use crate::simd::vector::Float;
use crate::tensor::row_converter::all_finite;

/// Whether a tile of (rows, row stride) and this many columns has NaN.
///
/// # Safety
/// The tile has them.
pub(crate) unsafe fn has_nan<T: Float>(
    tile: *const T,
    (rows, row_stride): (usize, usize),
    columns: usize,
) -> bool {
    let mut found = false;
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: the tile is valid, as this function requires.
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
    // SAFETY: the rows are valid, as this function requires.
    unsafe {
        match product.stride {
            Some(stride) => (0..rows).all(|r| all_finite(product.a.add(r * stride), row)),
            None => all_finite(product.a, row * height),
        }
    }
}
