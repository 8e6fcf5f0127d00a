//! Transposition of matrices of bytes.

#[cfg(target_arch = "x86_64")]
use crate::simd::array;

/// Rows and columns of a block.
const SIDE: usize = 16;

/// A matrix of bytes whose rows are contiguous.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) from: *const u8,
    /// The stride of rows.
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Transposes a matrix: column c becomes row c of `to`. Each byte is combined with `flip` by exclusive or.
///
/// # Safety
/// The matrix is readable, and `to` is writable for as many rows as the matrix has columns, with the stride.
#[inline(always)]
pub(crate) unsafe fn transpose(matrix: Matrix, to: *mut u8, to_stride: usize, flip: u8) {
    let Matrix { from, stride, rows, columns } = matrix;
    for first_row in (0..rows).step_by(SIDE) {
        for first in (0..columns).step_by(SIDE) {
            let size = [(rows - first_row).min(SIDE), (columns - first).min(SIDE)];
            // SAFETY: the block lies in the matrix, and its columns in the rows of the result.
            unsafe {
                let from = from.add(first_row * stride + first);
                let to = to.add(first * to_stride + first_row);
                if size == [SIDE; 2] {
                    whole(from, stride, to, to_stride, flip);
                } else {
                    part(from, stride, size, to, to_stride, flip);
                }
            }
        }
    }
}

/// A block at the edge.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn part(
    from: *const u8,
    stride: usize,
    [rows, columns]: [usize; 2],
    to: *mut u8,
    to_stride: usize,
    flip: u8,
) {
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: row and column lie in the block.
            unsafe { to.add(column * to_stride + row).write(from.add(row * stride + column).read() ^ flip) };
        }
    }
}

/// A whole block.
///
/// # Safety
/// As [`transpose`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn whole(from: *const u8, stride: usize, to: *mut u8, to_stride: usize, flip: u8) {
    use std::arch::x86_64::*;
    // SAFETY: every processor of the target has SSE2; the block has 16 rows of 16 bytes, and as many in the result.
    unsafe {
        let flip = _mm_set1_epi8(flip.cast_signed());
        let mut rows: [__m128i; SIDE] = array::from_fn(|row| _mm_loadu_si128(from.add(row * stride).cast()));
        // Interleaving the lower and upper halves of rows i and i + 8 moves one bit of the row index to the
        // column index; four times transposes.
        for _ in 0..4 {
            let mut next = rows;
            for i in 0..SIDE / 2 {
                next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + SIDE / 2]);
                next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + SIDE / 2]);
            }
            rows = next;
        }
        for (column, row) in rows.into_iter().enumerate() {
            _mm_storeu_si128(to.add(column * to_stride).cast(), _mm_xor_si128(row, flip));
        }
    }
}

/// A whole block.
///
/// # Safety
/// As [`transpose`].
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn whole(from: *const u8, stride: usize, to: *mut u8, to_stride: usize, flip: u8) {
    // SAFETY: the block is whole, as this function requires.
    unsafe { part(from, stride, [SIDE; 2], to, to_stride, flip) };
}

/// The same for elements of four bytes.
///
/// # Safety
/// As [`transpose`], with strides in elements.
#[inline(always)]
pub(crate) unsafe fn transpose_words(
    (from, stride): (*const u32, usize),
    [rows, columns]: [usize; 2],
    (to, to_stride): (*mut u32, usize),
) {
    // Blocks of rows, so that the lines that are read stay in the L1 cache.
    for first in (0..rows).step_by(SIDE) {
        let last = (first + SIDE).min(rows);
        for column in 0..columns {
            for row in first..last {
                // SAFETY: row and column lie in the matrix.
                unsafe {
                    let value = from.add(row * stride + column).read();
                    to.add(column * to_stride + row).write_unaligned(value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_transposed() {
        for rows in [1, 15, 16, 17, 40] {
            for columns in [1, 3, 16, 33] {
                let (stride, to_stride) = (columns + 2, rows + 3);
                let from: Vec<u8> = (0..rows * stride).map(|i| (i * 7 % 251) as u8).collect();
                let words: Vec<u32> = from.iter().map(|byte| u32::from(*byte) << 20).collect();
                let mut to = vec![9; columns * to_stride];
                let mut to_words = vec![9; columns * to_stride];
                let matrix = Matrix { from: from.as_ptr(), stride, rows, columns };
                // SAFETY: the vectors have room for all rows and columns.
                unsafe {
                    transpose(matrix, to.as_mut_ptr(), to_stride, 0x80);
                    transpose_words(
                        (words.as_ptr(), stride),
                        [rows, columns],
                        (to_words.as_mut_ptr(), to_stride),
                    );
                }
                for column in 0..columns {
                    for row in 0..to_stride {
                        let at = column * to_stride + row;
                        let byte = from.get(row * stride + column).copied().unwrap_or(0);
                        let expected = if row < rows { byte ^ 0x80 } else { 9 };
                        assert_eq!(to[at], expected, "{rows} x {columns} at {row}, {column}");
                        let word = if row < rows { u32::from(byte) << 20 } else { 9 };
                        assert_eq!(to_words[at], word);
                    }
                }
            }
        }
    }
}
