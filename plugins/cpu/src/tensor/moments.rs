//! Sums, means and variances of values that come in chunks.
//!
//! Sums of some hundred values use the compute type, and sums of these double precision. Mean and variance
//! come from deviations from a shift close to the mean.

use crate::dtype::element::ComputeType;
use crate::simd::array;
use crate::simd::row::left;
use crate::simd::vector::{Lanewise, Vector};

/// Independent accumulators, so that additions overlap.
pub(crate) const SUMS: usize = 4;

/// Values that are summed in the compute type before they are added in double precision.
const EXACT: usize = 512;

/// The largest ratio of the squared distance between mean and shift to the variance: the rounding error of the sum
/// of squares grows with it.
pub(crate) const NEAR: f64 = 4.0;

/// Whether sums of squares in the compute type are accurate: neither infinite nor too small, except below ε.
#[inline(always)]
pub(crate) fn is_held<T: ComputeType>(mean: f64, variance: f64, epsilon: f64) -> bool {
    let least = if size_of::<T>() == size_of::<f32>() { SMALL } else { 0.0 };
    mean.is_finite() && variance.is_finite() && variance + epsilon >= least
}

/// Single-precision squares whose sum is below this may have lost digits.
const SMALL: f64 = 1e-28;

/// Sums of values that come in several chunks.
pub(crate) struct Totals<V: Vector, const N: usize> {
    vectors: [[V; N]; SUMS],
    rest: [V::Scalar; N],
    /// How many values were added since the last [`Totals::keep`].
    count: usize,
    /// The sums before these, in double precision.
    sums: [f64; N],
}

impl<V: Vector, const N: usize> Totals<V, N> {
    /// Zero.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        let zero = unsafe { V::zero() };
        Self { vectors: [[zero; N]; SUMS], rest: [V::Scalar::ZERO; N], count: 0, sums: [0.0; N] }
    }

    /// Adds the values of all indices below `len`: `vector` adds those of a vector's lanes from an index on to a sum.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the closures can be called with all indices.
    #[inline(always)]
    pub(crate) unsafe fn add(
        &mut self,
        len: usize,
        vector: impl Fn(usize, [V; N]) -> [V; N],
        scalar: impl Fn(usize, [V::Scalar; N]) -> [V::Scalar; N],
    ) {
        let mut at = 0;
        while at + SUMS * V::LANES <= len {
            for (i, sum) in self.vectors.iter_mut().enumerate() {
                *sum = vector(at + i * V::LANES, *sum);
            }
            at += SUMS * V::LANES;
        }
        for sum in &mut self.vectors {
            if at + V::LANES > len {
                break;
            }
            *sum = vector(at, *sum);
            at += V::LANES;
        }
        for i in 0..left::<V>(at, len) {
            self.rest = scalar(at + i, self.rest);
        }
        self.count += len;
    }

    /// The recent sums, in the compute type.
    #[inline(always)]
    fn combined(&self) -> [V::Scalar; N] {
        let mut result = of_lanes(self.vectors);
        for (result, rest) in result.iter_mut().zip(self.rest) {
            *result = *result + rest;
        }
        result
    }

    /// Moves the sums to double precision if enough values were added. Call it after each chunk.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    pub(crate) unsafe fn keep(&mut self) {
        if self.count >= EXACT {
            // SAFETY: the processor has the vector's instructions, as this function requires.
            unsafe { *self = Self { sums: self.finished(), ..Self::new() } };
        }
    }

    /// The sums of all chunks.
    #[inline(always)]
    pub(crate) fn finished(&self) -> [f64; N] {
        let last = self.combined();
        let mut sums = self.sums;
        for (sum, last) in sums.iter_mut().zip(last) {
            *sum += last.to_f64();
        }
        sums
    }
}

/// Adds all lanes of each of the sums.
#[inline(always)]
pub(crate) fn of_lanes<V: Vector, const N: usize>(vectors: [[V; N]; SUMS]) -> [V::Scalar; N] {
    let [a, b, c, d] = vectors;
    let mut sums = [V::Scalar::ZERO; N];
    for (i, sum) in sums.iter_mut().enumerate() {
        let halves = array::map([(a, b), (c, d)], |(x, y)| x[i].lanewise(Lanewise::Add, y[i]));
        *sum = halves[0].lanewise(Lanewise::Add, halves[1]).sum();
    }
    sums
}

/// Sums the values of all indices below `len`; the closures are as in [`Totals`].
///
/// # Safety
/// The processor has the vector's instructions, and the closures can be called with all indices.
#[inline(always)]
pub(crate) unsafe fn total<V: Vector, const N: usize>(
    len: usize,
    vector: impl Fn(usize, [V; N]) -> [V; N],
    scalar: impl Fn(usize, [V::Scalar; N]) -> [V::Scalar; N],
) -> [V::Scalar; N] {
    // SAFETY: the processor has the vector's instructions, as this function requires.
    unsafe {
        let mut totals = Totals::<V, N>::new();
        totals.add(len, vector, scalar);
        totals.combined()
    }
}

/// Adds Σ x.
///
/// # Safety
/// The processor has the vector's instructions, and `len` values are readable.
#[inline(always)]
pub(crate) unsafe fn sum<V: Vector>(totals: &mut Totals<V, 1>, x: *const V::Scalar, len: usize) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        totals.add(
            len,
            |i, [sum]| [sum.lanewise(Lanewise::Add, V::load(x.add(i)))],
            |i, [sum]| [sum + x.add(i).read_unaligned()],
        );
    }
}

/// The mean of the first values; exact if all values are the same.
///
/// # Safety
/// As [`sum`], and there is a value.
#[inline(always)]
pub(crate) unsafe fn first_mean<V: Vector>(x: *const V::Scalar, len: usize) -> V::Scalar {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        let first = x.read_unaligned();
        if len < V::LANES {
            return first;
        }
        let deviation = V::load(x).lanewise(Lanewise::Sub, V::splat(first));
        first + deviation.sum() / V::Scalar::from_f64(V::LANES as f64)
    }
}

/// Adds Σ (x - mean) and Σ (x - mean)².
///
/// # Safety
/// As [`sum`].
#[inline(always)]
pub(crate) unsafe fn deviations<V: Vector>(
    totals: &mut Totals<V, 2>,
    x: *const V::Scalar,
    mean: V::Scalar,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        // Subtraction and multiply-add use different execution units.
        let means = V::splat(mean);
        totals.add(
            len,
            |i, [sum, squares]| {
                let deviation = V::load(x.add(i)).lanewise(Lanewise::Sub, means);
                [sum.lanewise(Lanewise::Add, deviation), deviation.mul_add(deviation, squares)]
            },
            |i, [sum, squares]| {
                let deviation = x.add(i).read_unaligned() - mean;
                [sum + deviation, deviation * deviation + squares]
            },
        );
    }
}

/// The sums that give mean and variance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// The shift: deviations are from this value.
    pub(crate) about: f64,
    /// The sum of the deviations.
    pub(crate) sum: f64,
    /// The sum of their squares.
    pub(crate) squares: f64,
}

impl Moments {
    /// Whether the shift is close enough to the mean of `n` elements, and all elements are finite.
    pub(crate) fn are_near(&self, n: f64) -> bool {
        let [mean, variance] = self.statistics(n);
        let deviation = mean - self.about;
        // False for NaN.
        deviation * deviation <= NEAR * variance && variance.is_finite()
    }

    /// [`is_held`], of `n` elements.
    pub(crate) fn are_held<T: ComputeType>(&self, n: f64, epsilon: f64) -> bool {
        let [mean, variance] = self.statistics(n);
        is_held::<T>(mean, variance, epsilon)
    }

    /// The moments in double precision, for values beyond the range of the compute type.
    #[cold]
    pub(crate) fn in_double<I: Iterator<Item = f64>>(values: impl Fn() -> I, n: f64) -> Self {
        let about = values().sum::<f64>() / n;
        let deviations = values().map(|x| x - about);
        let [sum, squares] = deviations.fold([0.0; 2], |[sum, squares], x| [sum + x, squares + x * x]);
        Self { about, sum, squares }
    }

    /// Mean and biased variance of `n` elements.
    pub(crate) fn statistics(&self, n: f64) -> [f64; 2] {
        if !self.about.is_finite() {
            return [self.about, f64::NAN];
        }
        let deviation = self.sum / n;
        // Rounding must not make it negative, but NaN stays.
        let variance = self.squares / n - deviation * deviation;
        [self.about + deviation, if variance < 0.0 { 0.0 } else { variance }]
    }
}
