//! Products of a matrix with a vector, for the processor's instruction set.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps};
use std::sync::OnceLock;

/// The sums that are added side by side.
const LANES: usize = 8;

/// Adds to each result the product of its row, of as many numbers as the vector, with the vector.
pub type Dots = fn(rows: &[f32], vector: &[f32], results: &mut [f32]);

/// The processor's fastest.
pub fn dots() -> Dots {
    static FOUND: OnceLock<Dots> = OnceLock::new();
    *FOUND.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the processor has these instructions.
                return |rows, vector, results| unsafe { with_avx2(rows, vector, results) };
            }
        }
        plain
    })
}

/// Calls `add` with four rows at a time, then with single ones.
#[inline(always)]
fn by_rows(
    rows: &[f32],
    vector: &[f32],
    results: &mut [f32],
    four_rows: impl Fn([&[f32]; 4], &mut [f32; 4]),
    one_row: impl Fn([&[f32]; 1], &mut [f32; 1]),
) {
    let size = vector.len();
    let (four, rest) = results.as_chunks_mut::<4>();
    let (first, last) = rows.split_at((4 * size * four.len()).min(rows.len()));
    for (rows, results) in first.chunks_exact((4 * size).max(1)).zip(four) {
        let (a, b) = rows.split_at(2 * size);
        let ((a, b), (c, d)) = (a.split_at(size), b.split_at(size));
        four_rows([a, b, c, d], results);
    }
    for (row, result) in last.chunks_exact(size.max(1)).zip(rest) {
        let mut own = [*result];
        one_row([row], &mut own);
        [*result] = own;
    }
}

fn plain(rows: &[f32], vector: &[f32], results: &mut [f32]) {
    fn add<const N: usize>(rows: [&[f32]; N], vector: &[f32], results: &mut [f32; N]) {
        for (row, result) in rows.iter().zip(results) {
            let mut sums = [0.0_f32; LANES];
            let ((row, row_end), (vector, end)) = (row.as_chunks::<LANES>(), vector.as_chunks::<LANES>());
            for (row, vector) in row.iter().zip(vector) {
                sums.iter_mut().zip(row.iter().zip(vector)).for_each(|(sum, (a, b))| *sum += a * b);
            }
            *result += sums.iter().sum::<f32>();
            *result = row_end.iter().zip(end).fold(*result, |sum, (a, b)| sum + a * b);
        }
    }
    by_rows(
        rows,
        vector,
        results,
        |rows, results| add(rows, vector, results),
        |rows, results| add(rows, vector, results),
    );
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(rows: &[f32], vector: &[f32], results: &mut [f32]) {
    by_rows(
        rows,
        vector,
        results,
        |rows, results| add_avx2(rows, vector, results),
        |rows, results| add_avx2(rows, vector, results),
    );
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(from: &[f32; LANES]) -> __m256 {
    // SAFETY: there are eight numbers, which may be unaligned.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_avx2<const N: usize>(rows: [&[f32]; N], vector: &[f32], results: &mut [f32; N]) {
    let mut sums = [_mm256_setzero_ps(); N];
    let (vectors, end) = vector.as_chunks::<LANES>();
    let parts = rows.map(|row| row.as_chunks::<LANES>());
    for (at, vector) in vectors.iter().enumerate() {
        let vector = load(vector);
        for (sum, (row, _)) in sums.iter_mut().zip(&parts) {
            if let Some(row) = row.get(at) {
                *sum = _mm256_fmadd_ps(load(row), vector, *sum);
            }
        }
    }
    for ((result, sum), (_, row)) in results.iter_mut().zip(sums).zip(&parts) {
        let mut lanes = [0.0_f32; LANES];
        // SAFETY: there is room for eight numbers, which may be unaligned.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        *result += lanes.iter().sum::<f32>();
        *result = row.iter().zip(end).fold(*result, |sum, (a, b)| sum + a * b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_multiplied() {
        for size in [1, 15, 16, 37, 128] {
            for count in [1, 4, 7] {
                let rows: Vec<f32> = (0..size * count).map(|at| ((at * 7) % 13) as f32 - 6.0).collect();
                let vector: Vec<f32> = (0..size).map(|at| ((at * 5) % 11) as f32 - 5.0).collect();
                let mut results: Vec<f32> = (0..count).map(|at| at as f32).collect();
                dots()(&rows, &vector, &mut results);
                for (at, (row, have)) in rows.chunks(size).zip(&results).enumerate() {
                    let want = at as f32 + row.iter().zip(&vector).map(|(a, b)| a * b).sum::<f32>();
                    assert_eq!(*have, want, "row {at} of {count} × {size}");
                }
            }
        }
    }
}
