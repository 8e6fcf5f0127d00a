//! Turns scores and gradients of probabilities into gradients of scores.

use crate::pointwise::functions::Functions;
use crate::simd::isa::IsaTask;

/// Σ a · b.
pub(crate) struct Dot<T> {
    pub(crate) a: *const T,
    pub(crate) b: *const T,
    pub(crate) len: usize,
}

impl<T: Functions> IsaTask for Dot<T> {
    type Output = T;

    #[inline(always)]
    fn run(self) -> T {
        const CHUNK: usize = 16;
        let mut sums = [T::ZERO; CHUNK];
        for i in 0..self.len {
            // SAFETY: the creator of the task guarantees these values.
            let product = unsafe { self.a.add(i).read() * self.b.add(i).read() };
            sums[i % CHUNK] = sums[i % CHUNK] + product;
        }
        sums.into_iter().fold(T::ZERO, |all, sum| all + sum)
    }
}

/// Turns scores into probabilities, and gradients of probabilities into those of scores.
pub(crate) struct Slopes<T> {
    pub(crate) scores: *mut T,
    pub(crate) slopes: *mut T,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) stats: *const T,
    pub(crate) deltas: *const T,
    /// The smallest probability of a score that is not masked.
    pub(crate) least: T,
}

impl<T: Functions> IsaTask for Slopes<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let masked = -(T::ONE / T::ZERO);
        // SAFETY: the creator of the task guarantees these values.
        unsafe {
            let stats = std::slice::from_raw_parts(self.stats, self.columns);
            let deltas = std::slice::from_raw_parts(self.deltas, self.columns);
            for row in 0..self.rows {
                let at = row * self.columns;
                let scores = std::slice::from_raw_parts_mut(self.scores.add(at), self.columns);
                let slopes = std::slice::from_raw_parts_mut(self.slopes.add(at), self.columns);
                let known = stats.iter().zip(deltas);
                for ((score, slope), (stats, delta)) in scores.iter_mut().zip(slopes).zip(known) {
                    let probability = (*score - *stats).exponential();
                    let probability = if probability < self.least { self.least } else { probability };
                    // If all keys are masked, no score contributes.
                    let counts = *score != masked && *stats != masked;
                    let from_value = probability * (*slope - *delta);
                    *slope = if counts { from_value } else { T::ZERO };
                    *score = if counts { probability } else { T::ZERO };
                }
            }
        }
    }
}
