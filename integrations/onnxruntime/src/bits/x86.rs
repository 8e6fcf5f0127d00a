//! Products for the instruction sets of x86 processors.

use std::arch::x86_64::{
    __m512, _mm_loadu_si128, _mm512_cvtepu8_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_permutexvar_ps,
    _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_srli_epi32, _mm512_sub_ps,
};
use std::ops::Range;

use super::{CHUNK, Matrix, Multiply, ROWS, Rows, Store, Zeros};

/// The processor's fastest.
pub(super) fn multiply() -> Option<Multiply> {
    all().next()
}

/// The processor's, the fastest first.
pub(super) fn all() -> impl Iterator<Item = Multiply> {
    let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let narrow = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let wide = wide.then_some(with_avx512 as Multiply);
    wide.into_iter().chain(narrow.then_some(with_avx2 as Multiply))
}

#[target_feature(enable = "avx2,fma")]
fn with_avx2(matrix: &Matrix<'_>, a: &Rows, columns: Range<usize>, store: Store<'_>) {
    super::multiply::<true>(matrix, a, columns, store);
}

#[target_feature(enable = "avx512f,avx512bw")]
fn with_avx512(matrix: &Matrix<'_>, a: &Rows, columns: Range<usize>, store: Store<'_>) {
    if matrix.form.bits != 4 || matrix.form.chunk() == CHUNK {
        return super::multiply::<true>(matrix, a, columns, store);
    }
    let whole = a.count / ROWS * ROWS;
    for column in columns {
        for first in (0..whole).step_by(ROWS) {
            let sums = column_of::<ROWS>(matrix, a, first, column);
            sums.iter().enumerate().for_each(|(at, sum)| store(first + at, column, *sum));
        }
        for first in whole..a.count {
            let [sum] = column_of::<1>(matrix, a, first, column);
            store(first, column, sum);
        }
    }
}

/// The products of some rows with a column of 4-bit numbers, which are looked up in a register.
#[target_feature(enable = "avx512f,avx512bw")]
fn column_of<const R: usize>(matrix: &Matrix<'_>, a: &Rows, first: usize, column: usize) -> [f32; R] {
    const NUMBERS: [f32; 16] =
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
    let (form, blocks) = (matrix.form, matrix.form.blocks());
    let numbers = load(&NUMBERS);
    let rows: [&[f32]; R] = std::array::from_fn(|row| a.row(first + row));
    let scales = &matrix.scales[column * blocks..(column + 1) * blocks];
    let bytes = &matrix.bytes[column * blocks * form.block_bytes()..][..blocks * form.block_bytes()];
    let is_middle = matches!(matrix.zeros, Zeros::Middle);
    let mut table = _mm512_sub_ps(numbers, _mm512_set1_ps(8.0));
    let mut totals = [_mm512_setzero_ps(); R];
    for (block, (scale, bytes)) in scales.iter().zip(bytes.chunks_exact(form.block_bytes())).enumerate() {
        if !is_middle {
            table = _mm512_sub_ps(numbers, _mm512_set1_ps(matrix.zero(column, block)));
        }
        let mut sums = [_mm512_setzero_ps(); R];
        for (chunk, bytes) in bytes.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: there are 16 bytes, of any alignment.
            let bytes = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) });
            // The lowest four bits index the table.
            let low = _mm512_permutexvar_ps(bytes, table);
            let high = _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(bytes), table);
            let begin = block * form.size + chunk * 2 * CHUNK;
            for (sum, row) in sums.iter_mut().zip(&rows) {
                let (a, _) = row[begin..begin + 2 * CHUNK].as_chunks::<16>();
                *sum = _mm512_fmadd_ps(low, load(&a[0]), _mm512_fmadd_ps(high, load(&a[1]), *sum));
            }
        }
        let scale = _mm512_set1_ps(*scale);
        for (total, sum) in totals.iter_mut().zip(&sums) {
            *total = _mm512_fmadd_ps(*sum, scale, *total);
        }
    }
    totals.map(|total| _mm512_reduce_add_ps(total))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(numbers: &[f32; 16]) -> __m512 {
    // SAFETY: there are 16 numbers, of any alignment.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}
