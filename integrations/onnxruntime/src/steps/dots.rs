//! Products of a matrix with a vector, for the processor's instruction set.

use std::sync::OnceLock;

/// The sums that are added side by side.
const LANES: usize = 16;

/// Adds to each result the product of its row, of as many numbers as the vector, with the vector.
pub type Dots = fn(rows: &[f32], vector: &[f32], results: &mut [f32]);

/// The processor's fastest.
pub fn dots() -> Dots {
    static FOUND: OnceLock<Dots> = OnceLock::new();
    *FOUND.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has these instructions.
                return |rows, vector, results| unsafe { with_avx512(rows, vector, results) };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the processor has these instructions.
                return |rows, vector, results| unsafe { with_avx2(rows, vector, results) };
            }
        }
        plain::<false>
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(rows: &[f32], vector: &[f32], results: &mut [f32]) {
    plain::<true>(rows, vector, results);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn with_avx512(rows: &[f32], vector: &[f32], results: &mut [f32]) {
    plain::<true>(rows, vector, results);
}

#[inline(always)]
fn plain<const FUSED: bool>(rows: &[f32], vector: &[f32], results: &mut [f32]) {
    let size = vector.len();
    let (four, rest) = results.as_chunks_mut::<4>();
    let (first, last) = rows.split_at((4 * size * four.len()).min(rows.len()));
    for (rows, results) in first.chunks_exact((4 * size).max(1)).zip(four) {
        let (a, b) = rows.split_at(2 * size);
        let ((a, b), (c, d)) = (a.split_at(size), b.split_at(size));
        add::<4, FUSED>([a, b, c, d], vector, results);
    }
    for (row, result) in last.chunks_exact(size.max(1)).zip(rest) {
        let mut own = [*result];
        add::<1, FUSED>([row], vector, &mut own);
        [*result] = own;
    }
}

#[inline(always)]
fn add<const N: usize, const FUSED: bool>(rows: [&[f32]; N], vector: &[f32], results: &mut [f32; N]) {
    let multiply = |a: f32, b: f32, sum: f32| if FUSED { a.mul_add(b, sum) } else { sum + a * b };
    let mut sums = [[0.0_f32; LANES]; N];
    let (vectors, end) = vector.as_chunks::<LANES>();
    let parts = rows.map(|row| row.as_chunks::<LANES>());
    for (at, vector) in vectors.iter().enumerate() {
        for (sums, (row, _)) in sums.iter_mut().zip(&parts) {
            let Some(row) = row.get(at) else { continue };
            for ((sum, a), b) in sums.iter_mut().zip(row).zip(vector) {
                *sum = multiply(*a, *b, *sum);
            }
        }
    }
    for ((result, sums), (_, row)) in results.iter_mut().zip(&sums).zip(&parts) {
        *result += sums.iter().sum::<f32>();
        *result = row.iter().zip(end).fold(*result, |sum, (a, b)| multiply(*a, *b, sum));
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
