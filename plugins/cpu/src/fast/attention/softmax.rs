//! The exponentials of a block of scores, and what becomes of earlier blocks.

use super::super::level::Work;
use super::super::pointwise::Functions;
use crate::element::Real;

/// Scores that are computed with at once; rows of scores are as many times that long.
pub(super) const STEP: usize = 32;

/// What a sum of weights has to go on from.
#[derive(Clone, Copy)]
pub(super) struct Row<T> {
    /// The largest score so far, NaN if any was: -∞ before the first that counts.
    pub(super) max: T,
    /// Σ e^(s - max).
    pub(super) sum: T,
}

/// Numbers whose exponentials are weights.
pub(super) trait Weight: Functions {
    /// e to a value that is not above 0, or NaN; 0 where it would be subnormal. `FUSED` says that the processor multiplies and
    /// adds in one instruction.
    fn weight<const FUSED: bool>(self) -> Self;
}

impl Weight for f64 {
    #[inline(always)]
    fn weight<const FUSED: bool>(self) -> Self {
        self.exp()
    }
}

/// `a * b + c`.
#[inline(always)]
fn mul_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

impl Weight for f32 {
    #[inline(always)]
    fn weight<const FUSED: bool>(self) -> Self {
        /// Below this the result is no normal number.
        const LOWEST: f32 = -87.3;
        /// ln 2 in two parts, of which the first has few enough bits that its multiples are exact.
        const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
        /// Added to a number, it leaves no room for a fraction; the whole number is then in the lowest bits.
        const WHOLE: f32 = 12_582_912.0;

        let shifted = mul_add::<FUSED>(self, std::f32::consts::LOG2_E, WHOLE);
        let whole = shifted - WHOLE;
        let rest = mul_add::<FUSED>(whole, -LN_2[0], self);
        let rest = mul_add::<FUSED>(whole, -LN_2[1], rest);
        let mut power = 0.001_394_114_6;
        for coefficient in [0.008_375_157, 0.041_666_35, 0.166_664_15, 0.5, 1.0, 1.0] {
            power = mul_add::<FUSED>(power, rest, coefficient);
        }
        let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
        if self < LOWEST { 0.0 } else { power * scale }
    }
}

/// The larger of two, NaN if either is.
#[inline(always)]
fn larger<T: Real>(max: T, score: T) -> T {
    let of_numbers = if score > max { score } else { max };
    if score.is_nan() { score } else { of_numbers }
}

/// All numbers combined by halves, so that each step is one of vectors.
#[inline(always)]
fn combined<T: Real>(mut numbers: [T; STEP], combine: impl Fn(T, T) -> T) -> T {
    let mut half = STEP / 2;
    while half > 0 {
        for i in 0..half {
            numbers[i] = combine(numbers[i], numbers[i + half]);
        }
        half /= 2;
    }
    numbers[0]
}

/// e^(score - max): 0 where a score is -∞, whatever the largest is.
#[inline(always)]
fn weight<T: Functions>(score: T, max: T) -> T {
    let lowest = -T::LARGEST;
    let max = if max < lowest { T::ZERO } else { max };
    (score - max).exponential()
}

impl<T: Functions> Row<T> {
    /// Before the first block; `first` is a score whose weight counts, but which has no value.
    pub(super) fn beginning(first: Option<T>) -> Self {
        match first {
            Some(score) => Self { max: score, sum: weight(score, score) },
            None => Self { max: -(T::ONE / T::ZERO), sum: T::ZERO },
        }
    }
}

/// Rows of scores that become weights.
pub(super) struct Softmax<'a, T, const FUSED: bool> {
    /// The first score.
    pub(super) scores: *mut T,
    /// Distance of rows.
    pub(super) pitch: usize,
    /// Scores of a row, a multiple of [`STEP`].
    pub(super) width: usize,
    /// What is known of each row.
    pub(super) rows: &'a mut [Row<T>],
    /// The results so far.
    pub(super) results: *mut T,
    /// Numbers of a row of them.
    pub(super) result: usize,
    /// The smallest weight of a score that counts.
    pub(super) least: T,
}

impl<T: Weight, const FUSED: bool> Work for Softmax<'_, T, FUSED> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let nothing = -(T::ONE / T::ZERO);
        for (r, row) in self.rows.iter_mut().enumerate() {
            // SAFETY: the scores and the results are there, `width` and `result` of each row.
            let (scores, results) = unsafe {
                (
                    std::slice::from_raw_parts_mut(self.scores.add(r * self.pitch), self.width),
                    std::slice::from_raw_parts_mut(self.results.add(r * self.result), self.result),
                )
            };
            let mut most = [nothing; STEP];
            let (steps, _) = scores.as_chunks_mut::<STEP>();
            for step in steps.iter() {
                for (most, score) in most.iter_mut().zip(step) {
                    *most = larger(*most, *score);
                }
            }
            let max = larger(row.max, combined(most, larger));
            if max == nothing {
                scores.fill(T::ZERO);
                continue;
            }
            let mut sums = [T::ZERO; STEP];
            if self.least == T::ZERO {
                for step in steps.iter_mut() {
                    for (score, sum) in step.iter_mut().zip(&mut sums) {
                        *score = (*score - max).weight::<FUSED>();
                        *sum = *sum + *score;
                    }
                }
            } else {
                for step in steps.iter_mut() {
                    for (score, sum) in step.iter_mut().zip(&mut sums) {
                        let weight = (*score - max).weight::<FUSED>();
                        let weight = if weight < self.least { self.least } else { weight };
                        *score = if *score == nothing { T::ZERO } else { weight };
                        *sum = *sum + *score;
                    }
                }
            }
            let sum = combined(sums, |a, b| a + b);
            if max == row.max {
                row.sum = row.sum + sum;
                continue;
            }
            let earlier = (row.max - max).weight::<FUSED>();
            *row = Row { max, sum: row.sum * earlier + sum };
            for result in results {
                *result = *result * earlier;
            }
        }
    }
}

/// Divides the results by the sums of their weights.
pub(super) struct Finish<'a, T> {
    /// What is known of each row.
    pub(super) rows: &'a [Row<T>],
    /// The results.
    pub(super) results: *mut T,
    /// Numbers of a row of them.
    pub(super) result: usize,
}

impl<T: Functions> Work for Finish<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (r, row) in self.rows.iter().enumerate() {
            // SAFETY: the results are there.
            let results =
                unsafe { std::slice::from_raw_parts_mut(self.results.add(r * self.result), self.result) };
            // Where no key counts, the results are zeros.
            let sum = if row.sum == T::ZERO { T::ONE } else { row.sum };
            for result in results {
                *result = *result / sum;
            }
        }
    }
}
