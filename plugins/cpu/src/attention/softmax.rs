//! Online softmax: the weights of a block of scores, and the factors that rescale earlier blocks.
//!
//! A row of scores belongs to a key and a column to a query, so no reduction across a vector is needed.

use crate::dtype::element::ComputeType;
use crate::gemm::kernel::fused;
use crate::pointwise::functions::Functions;
use crate::problem::attention::shape::Shape;
use crate::simd::isa::{Isa, IsaTask};

/// Estimated nanoseconds for the exponential of a score.
pub(crate) const WEIGHT: f64 = 0.2;

/// Estimated nanoseconds of a forward pass on one thread.
pub(crate) fn work<T>(shape: &Shape, isa: Isa) -> f64 {
    let scores = shape.scores().iter().map(|dim| *dim as f64).product::<f64>();
    scores * ((shape.depth + shape.value_depth) as f64 * fused::<T>(isa) + WEIGHT)
}

/// Compute types with the exponential that weights need.
pub(crate) trait Weight: Functions {
    /// e to a value that is at most 0, or NaN; 0 if the result would be subnormal. `FUSED` means that the
    /// processor has fused multiply-add.
    fn weight<const FUSED: bool>(self) -> Self;
}

macro_rules! weight {
    ($float:ident, $mantissa:literal, $lowest:literal, $coefficients:expr) => {
        impl Weight for $float {
            #[inline(always)]
            fn weight<const FUSED: bool>(self) -> Self {
                /// Below this the result is subnormal.
                const LOWEST: $float = $lowest;
                /// Adding this constant rounds to an integer, which is then in the lowest bits.
                const WHOLE: $float = 1.5 * (1_u64 << $mantissa) as $float;

                let exponent = self * std::$float::consts::LOG2_E;
                let shifted = exponent + WHOLE;
                let whole = shifted - WHOLE;
                let rest = exponent - whole;
                let [mut power, others @ ..] = $coefficients;
                for coefficient in others {
                    power = if FUSED { rest.mul_add(power, coefficient) } else { power * rest + coefficient };
                }
                let scale =
                    $float::from_bits((shifted.to_bits() << $mantissa).wrapping_add($float::to_bits(1.0)));
                if exponent < LOWEST { 0.0 } else { power * scale }
            }
        }
    };
}

// Polynomials for powers of two from -1/2 to 1/2, with errors of 2e-7 and 1e-17. The exponents are rounded,
// so the error of a weight grows with them like that of the score.
weight!(
    f32,
    23,
    -126.0,
    [0.001_338_130_3, 0.009_666_368, 0.055_503_81, 0.240_223_5, std::f32::consts::LN_2, 1.0]
);

weight!(
    f64,
    52,
    -1022.0,
    [
        4.454_960_598_186_508_6e-10,
        7.072_585_949_269_223e-9,
        1.017_806_244_584_577_4e-7,
        1.321_544_258_792_169e-6,
        1.525_273_382_983_612e-5,
        1.540_353_044_173_605e-4,
        1.333_355_814_641_693_7e-3,
        9.618_129_107_606_888e-3,
        5.550_410_866_482_16e-2,
        0.240_226_506_959_100_97,
        std::f64::consts::LN_2,
        1.0,
    ]
);

/// The larger of two; the second if the first is NaN, and NaN if the second is.
#[inline(always)]
fn larger<T: ComputeType>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// The base of exponents: finite if the largest score so far is -∞, so that the weight of -∞ is 0.
#[inline(always)]
fn base<T: ComputeType>(max: T) -> T {
    if max < -T::LARGEST { -T::LARGEST } else { max }
}

/// A weight that is negligible next to others, but whose product with infinity is infinite.
pub(crate) const LEAST: f64 = 1e-37;

/// What the softmax of each query (a column here) has found so far.
#[derive(Clone, Copy)]
pub(crate) struct RowStatistics<T> {
    /// The largest score so far: -∞ before the first score that is not masked.
    pub(crate) max: *mut T,
    /// Σ e^(s - max).
    pub(crate) sum: *mut T,
    /// The factor by which earlier results are rescaled.
    pub(crate) factor: *mut T,
}

/// Columns of scores that become weights.
pub(crate) struct Softmax<T> {
    /// The first score.
    pub(crate) scores: *mut T,
    /// Row stride.
    pub(crate) row_stride: usize,
    /// Rows.
    pub(crate) keys: usize,
    /// Columns.
    pub(crate) columns: usize,
    /// One per column.
    pub(crate) statistics: RowStatistics<T>,
}

/// `LANES` columns at a time.
struct Columns<T, const LANES: usize, const FUSED: bool>(Softmax<T>);

/// The same with final sums and factors.
struct RoundedColumns<T, const LANES: usize, const FUSED: bool>(Softmax<T>);

/// Runs a task on columns, as many at a time as suit vectors of this many lanes.
macro_rules! dispatch {
    ($isa:expr, $lanes:expr, $work:ident, $softmax:expr) => {
        // SAFETY: `run` and `known`, which use this, require the instruction set, the scores and the statistics.
        unsafe {
            match ($isa == Isa::Portable, $lanes) {
                (true, 4) => $isa.run($work::<T, 4, false>($softmax)),
                (true, _) => $isa.run($work::<T, 2, false>($softmax)),
                (false, 16) => $isa.run($work::<T, 16, true>($softmax)),
                (false, 8) => $isa.run($work::<T, 8, true>($softmax)),
                (false, _) => $isa.run($work::<T, 4, true>($softmax)),
            }
        }
    };
}

impl<T: Weight> Softmax<T> {
    /// Turns scores into weights.
    ///
    /// # Safety
    /// The processor supports the instruction set, which has fused multiply-add unless it is the portable one;
    /// the scores, whose columns are a multiple of the vector length, and the statistics are valid.
    pub(crate) unsafe fn run(self, isa: Isa, lanes: usize) {
        dispatch!(isa, lanes, Columns, self);
    }

    /// Turns scores into weights relative to the final maximum, times the factor of their column.
    ///
    /// # Safety
    /// As [`Softmax::run`].
    pub(crate) unsafe fn known(self, isa: Isa, lanes: usize) {
        dispatch!(isa, lanes, RoundedColumns, self);
    }

    /// The same if scores or values may be infinite or NaN: -0 marks masked scores.
    ///
    /// # Safety
    /// As [`Softmax::run_with_any`].
    pub(crate) unsafe fn known_with_any(self) {
        let Self { scores, row_stride, keys, columns, statistics } = self;
        for (key, column) in (0..keys).flat_map(|key| (0..columns).map(move |column| (key, column))) {
            // SAFETY: this function requires the scores and the statistics.
            unsafe {
                let score = scores.add(key * row_stride + column);
                let (max, factor) = (statistics.max.add(column).read(), statistics.factor.add(column).read());
                let weight = (score.read() - base(max)).weight::<false>() * factor;
                score.write(if score.read() == -(T::ONE / T::ZERO) { -T::ZERO } else { weight });
            }
        }
    }

    /// The same if scores or values may be infinite or NaN: NaN counts as the largest, and neither the weight
    /// of an unmasked score nor a rescaling factor is 0.
    ///
    /// # Safety
    /// The scores are valid for `keys` rows of `columns` values, and the statistics for one of each kind a column.
    pub(crate) unsafe fn run_with_any(self) {
        let Self { scores, row_stride, keys, columns, statistics } = self;
        let (masked, least) = (-(T::ONE / T::ZERO), T::from_f64(LEAST));
        let of = |score: T| {
            let weight = score.weight::<false>();
            if weight < least { least } else { weight }
        };
        for column in 0..columns {
            // SAFETY: this function requires the scores and the statistics.
            unsafe {
                let score = |key: usize| scores.add(key * row_stride + column);
                let (max, sum) = (statistics.max.add(column), statistics.sum.add(column));
                let before = max.read();
                let most = (0..keys).fold(before, |most, key| {
                    let score = score(key).read();
                    if score.is_nan() { score } else { larger(score, most) }
                });
                let mut all = T::ZERO;
                for key in 0..keys {
                    let score = score(key);
                    let weight = if score.read() == masked { T::ZERO } else { of(score.read() - base(most)) };
                    score.write(weight);
                    all = all + weight;
                }
                let factor = of(base(before) - base(most));
                statistics.factor.add(column).write(factor);
                sum.write(sum.read() * factor + all);
                max.write(most);
            }
        }
    }
}

impl<T: Weight, const LANES: usize, const FUSED: bool> IsaTask for Columns<T, LANES, FUSED> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Softmax { scores, row_stride, keys, columns, statistics } = self.0;
        for first in (0..columns).step_by(LANES) {
            let row = |key: usize| scores.wrapping_add(key * row_stride + first).cast::<[T; LANES]>();
            let of = |values: *mut T| values.wrapping_add(first).cast::<[T; LANES]>();
            // SAFETY: there is a statistic of each kind for each column.
            let (before, mut all) =
                unsafe { (of(statistics.max).read_unaligned(), of(statistics.sum).read_unaligned()) };
            // Two accumulators, so that operations overlap.
            let (mut max, mut odd) = (before, [-(T::ONE / T::ZERO); LANES]);
            for pair in 0..keys / 2 {
                // SAFETY: each key has a row of scores, in whole runs of this many lanes.
                let (a, b) = unsafe { (row(2 * pair).read_unaligned(), row(2 * pair + 1).read_unaligned()) };
                for ((max, odd), (a, b)) in max.iter_mut().zip(&mut odd).zip(a.into_iter().zip(b)) {
                    *max = larger(a, *max);
                    *odd = larger(b, *odd);
                }
            }
            if keys % 2 == 1 {
                // SAFETY: the last key has a row of scores.
                for (odd, score) in odd.iter_mut().zip(unsafe { row(keys - 1).read_unaligned() }) {
                    *odd = larger(score, *odd);
                }
            }
            let mut bases = [T::ZERO; LANES];
            for ((max, odd), of_max) in max.iter_mut().zip(odd).zip(&mut bases) {
                *max = larger(odd, *max);
                *of_max = base(*max);
            }
            let mut sum = [T::ZERO; LANES];
            for key in 0..keys {
                // SAFETY: the key has a row of scores.
                let mut weights = unsafe { row(key).read_unaligned() };
                for ((weight, base), sum) in weights.iter_mut().zip(bases).zip(&mut sum) {
                    *weight = (*weight - base).weight::<FUSED>();
                    *sum = *sum + *weight;
                }
                // SAFETY: the key has a row of scores, which its weights replace.
                unsafe { row(key).write_unaligned(weights) };
            }
            let mut factors = before;
            let sums_and_bases = sum.into_iter().zip(bases);
            for ((factor, all), (sum, of_max)) in factors.iter_mut().zip(&mut all).zip(sums_and_bases) {
                *factor = (base(*factor) - of_max).weight::<FUSED>();
                *all = *all * *factor + sum;
            }
            // SAFETY: there is a statistic of each kind for each column.
            unsafe {
                of(statistics.max).write_unaligned(max);
                of(statistics.sum).write_unaligned(all);
                of(statistics.factor).write_unaligned(factors);
            }
        }
    }
}

impl<T: Weight, const LANES: usize, const FUSED: bool> IsaTask for RoundedColumns<T, LANES, FUSED> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Softmax { scores, row_stride, keys, columns, statistics } = self.0;
        for first in (0..columns).step_by(LANES) {
            // SAFETY: `Softmax::known` requires valid scores and statistics, with columns in multiples of the vector length.
            unsafe {
                let of = |values: *mut T| values.add(first).cast::<[T; LANES]>().read_unaligned();
                let (bases, factors) = (of(statistics.max).map(base), of(statistics.factor));
                for key in 0..keys {
                    let row = scores.add(key * row_stride + first).cast::<[T; LANES]>();
                    let mut weights = row.read_unaligned();
                    for ((weight, base), factor) in weights.iter_mut().zip(bases).zip(factors) {
                        *weight = (*weight - base).weight::<FUSED>() * factor;
                    }
                    row.write_unaligned(weights);
                }
            }
        }
    }
}

/// Multiplies each row by a factor; rows with factor 1 are not touched.
pub(crate) struct Scaling<T> {
    /// A factor for each row.
    pub(crate) factors: *const T,
    /// Number of rows.
    pub(crate) rows: usize,
    /// The first row.
    pub(crate) values: *mut T,
    /// Elements of a row.
    pub(crate) width: usize,
}

impl<T: Functions> Scaling<T> {
    /// # Safety
    /// `factors` has a value and `values` a row with this index.
    #[inline(always)]
    unsafe fn row(&self, index: usize) -> (*mut [T], T) {
        // SAFETY: this function requires that the row `index` and its factor are valid.
        unsafe {
            let row = self.values.add(index * self.width);
            (std::ptr::slice_from_raw_parts_mut(row, self.width), self.factors.add(index).read())
        }
    }
}

impl<T: Functions> IsaTask for Scaling<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for r in 0..self.rows {
            // SAFETY: whoever makes a `Scaling` has `rows` rows and a factor for each, and nothing else uses them meanwhile.
            let (row, factor) = unsafe {
                let (row, factor) = self.row(r);
                (&mut *row, factor)
            };
            if factor != T::ONE {
                row.iter_mut().for_each(|value| *value = *value * factor);
            }
        }
    }
}

/// The same, and returns whether all results are finite.
pub(crate) struct CheckedScaling<T>(pub(crate) Scaling<T>);

impl<T: Functions> IsaTask for CheckedScaling<T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        const CHUNK: usize = 16;
        // A finite value times zero is zero; others give NaN.
        let (mut sums, mut rests) = ([T::ZERO; CHUNK], T::ZERO);
        for r in 0..self.0.rows {
            // SAFETY: whoever makes a `Scaling` has `rows` rows and a factor for each, and nothing else uses them meanwhile.
            let (row, factor) = unsafe {
                let (row, factor) = self.0.row(r);
                (&mut *row, factor)
            };
            let (chunks, rest) = row.as_chunks_mut::<CHUNK>();
            for chunk in chunks {
                for (value, sum) in chunk.iter_mut().zip(&mut sums) {
                    *value = *value * factor;
                    *sum = *sum + *value * T::ZERO;
                }
            }
            for value in rest {
                *value = *value * factor;
                rests = rests + *value * T::ZERO;
            }
        }
        sums.into_iter().fold(rests, |all, sum| all + sum) == T::ZERO
    }
}
