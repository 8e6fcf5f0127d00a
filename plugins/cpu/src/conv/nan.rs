//! Repairs NaN caused by padding: zero times a weight that is NaN or infinite is NaN. Columns at the padding
//! are recomputed without its zeros.

use crate::gemm::kernel::MAX_ROWS;
use crate::gemm::tile::{Order, Tile};
use crate::simd::vector::Float;
use crate::tensor::row_converter::all_finite;

/// Whether a tile of (rows, row stride) and this many columns has NaN.
///
/// # Safety
/// `tile` is readable for `columns` values in each of its rows.
pub(crate) unsafe fn has_nan<T: Float>(
    tile: *const T,
    (rows, row_stride): (usize, usize),
    columns: usize,
) -> bool {
    let mut found = false;
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: the tile has the row and the column.
            let value = unsafe { tile.add(row * row_stride + column).read_unaligned() };
            found |= value.partial_cmp(&value).is_none();
        }
    }
    found
}

/// Whether the weights of a tile's rows are finite. A panel has a value per row of the micro-kernel.
///
/// # Safety
/// The tile's weights are readable for `rows` rows and all its terms.
pub(crate) unsafe fn are_finite<T: Float>(tile: &Tile<'_, T>, rows: usize) -> bool {
    let terms = tile.depth * tile.taps.len();
    // SAFETY: this function requires the rows, which have weights.
    unsafe {
        match tile.order {
            Order::Rows => (0..rows).all(|r| all_finite(tile.a.add(r * tile.a_stride), terms)),
            Order::Panel => all_finite(tile.a, terms * tile.a_stride),
        }
    }
}

/// Recomputes a column of the tile if some of its taps are in the padding, without these taps.
///
/// # Safety
/// The tile has the rows and the column, and all taps have equally many channels.
pub(crate) unsafe fn compute_column_again<T: Float>(
    tile: &Tile<'_, T>,
    rows: usize,
    column: usize,
    window: usize,
    meets: impl Fn(usize) -> bool,
) {
    if (0..window).all(&meets) {
        return;
    }
    let mut sums = [T::ZERO; MAX_ROWS];
    // A filter of several taps may be passed as one tap with more channels.
    let (taps, terms) = (tile.taps.len(), tile.depth * tile.taps.len() / window);
    let stride = tile.b_stride * (window / taps);
    for tap in (0..window).filter(|tap| meets(*tap)) {
        let first = tile.taps[tap % taps] + tap / taps * tile.b_stride + column;
        for l in 0..terms {
            let term = tap + l * window;
            // SAFETY: the weights and the columns are valid; panels have memory for all of their rows.
            unsafe {
                let b = tile.b.add(first + l * stride).read_unaligned();
                if tile.order == Order::Panel && tile.a_stride == MAX_ROWS {
                    let weights = tile.a.add(term * MAX_ROWS).cast::<[T; MAX_ROWS]>().read_unaligned();
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = *sum + weight * b;
                    }
                    continue;
                }
                for (row, sum) in sums.iter_mut().enumerate().take(rows) {
                    let at = match tile.order {
                        Order::Rows => row * tile.a_stride + term,
                        Order::Panel => term * tile.a_stride + row,
                    };
                    *sum = *sum + tile.a.add(at).read_unaligned() * b;
                }
            }
        }
    }
    let epilogue = tile.epilogue;
    for (row, mut sum) in sums.into_iter().enumerate().take(rows) {
        // SAFETY: the tile, and what is added to it, have the row and the column.
        unsafe {
            if !epilogue.bias.is_null() {
                sum = sum + epilogue.bias.add(row * epilogue.bias_stride).read_unaligned();
            }
            let residual = (!epilogue.residual.is_null())
                .then(|| epilogue.residual.add(row * epilogue.residual_stride + column).read_unaligned());
            if let (Some(residual), false) = (residual, epilogue.residual_last) {
                sum = sum + residual;
            }
            if let Some((function, numbers)) = epilogue.function {
                function.apply(numbers, (&raw mut sum).cast(), 1);
            }
            if let (Some(residual), true) = (residual, epilogue.residual_last) {
                sum = sum + residual;
            }
            tile.to.add(row * tile.to_stride + column).write_unaligned(epilogue.clip.of(sum));
        }
    }
}
