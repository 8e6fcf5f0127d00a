//! The functions in activations, on vectors.
//!
//! In single precision the exponential is a polynomial times a power of 2, the logarithm a polynomial of the
//! mantissa, and tanh and erf are quotients of polynomials where they are not 1. Results are within 8 units
//! in the last place, most within 2. There are no branches. NaN and infinities give the same as the scalar
//! functions, which double precision uses.

use crate::pointwise::smooth::Smooth;
use crate::pointwise::softmax::Softmax;
use crate::pointwise::softmax_columns::SoftmaxColumns;
use crate::simd::array;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector};

/// The largest errors of functions in single precision on any instruction set, in units in the last place.
pub(crate) mod units {
    /// e^x.
    pub(crate) const EXP: u32 = 2;
    /// e^x - 1 for x ≤ 0.
    pub(crate) const EXPM1: u32 = 8;
    /// ln x.
    pub(crate) const LOG: u32 = 4;
    /// ln (1 + x) for x from 0 to 1.
    pub(crate) const LOG1P: u32 = 4;
    /// tanh x.
    pub(crate) const TANH: u32 = 8;
    /// erf x.
    pub(crate) const ERF: u32 = 8;
    /// e^(x - max x) of a softmax.
    pub(crate) const SOFTMAX_WEIGHT: u32 = 8;
    /// e^(s - max s) of an attention: 3 · 10⁻⁷ + 2 |s - max s| · 2⁻²⁴ of it, where it is not 0.
    pub(crate) const SCORE_WEIGHT: u32 = 180;
}

/// Computes rows with an instruction set that the processor supports.
pub(crate) type RowFunction<T> = unsafe fn(Isa, Softmax<T>);

/// The same for columns.
pub(crate) type ColumnFunction<T> = unsafe fn(Isa, SoftmaxColumns<T>);

/// Scalars with functions.
pub(crate) trait Functions: Float {
    /// Estimated nanoseconds of a function per element.
    const TIME: f64;

    /// e to the value.
    fn exponential(self) -> Self;

    /// Whether the function is computed on vectors.
    fn in_registers(smooth: Smooth) -> bool;

    /// Softmax of rows, if it has its own kernel.
    const SOFTMAX: Option<RowFunction<Self>>;

    /// Softmax of columns, if it has its own kernel.
    const SOFTMAX_COLUMNS: Option<ColumnFunction<Self>>;

    /// A function of each element of some vectors.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the operands are readable and the results are writable.
    unsafe fn smooth<V: Vector<Scalar = Self>>(all: &All<Self>);
}

/// Vectors of operands and results.
pub(crate) struct All<T> {
    /// Which function.
    pub(crate) smooth: Smooth,
    /// Its parameter.
    pub(crate) parameter: T,
    /// The operands, and the strides of their vectors.
    pub(crate) from: [(*const T, usize); 2],
    /// The results, contiguous; they may be operands.
    pub(crate) to: *mut T,
    /// How many vectors.
    pub(crate) count: usize,
}

impl<T> All<T> {
    /// The operands of a vector.
    ///
    /// # Safety
    /// As [`Functions::smooth`]; `vector` is below the count.
    #[inline(always)]
    pub(crate) unsafe fn operands<V: Vector<Scalar = T>>(&self, vector: usize) -> [V; 2] {
        // SAFETY: the vector is one of the `count` that this function requires.
        array::map(self.from, |(from, stride)| unsafe { V::load(from.add(vector * stride)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointwise::transcendental::error_function;
    use crate::pointwise::transcendental::exponential;
    use crate::pointwise::transcendental::exponential_less_1;
    use crate::pointwise::transcendental::hyperbolic_tangent;
    use crate::pointwise::transcendental::logarithm;
    use crate::pointwise::transcendental::logarithm_of_1_more;
    use crate::pointwise::transcendental::normal_function;
    use crate::testing::{Function, each};

    /// A single-precision function, for vectors of any instruction set.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Tested {
        Exponential,
        ExponentialLess1,
        LogarithmOf1More,
        Logarithm,
        HyperbolicTangent,
        ErrorFunction,
        NormalFunction,
    }

    impl Function for Tested {
        #[inline(always)]
        fn of<V: Vector<Scalar = f32>>(self, x: V) -> V {
            match self {
                Self::Exponential => exponential(x),
                Self::ExponentialLess1 => exponential_less_1(x),
                Self::LogarithmOf1More => logarithm_of_1_more(x),
                Self::Logarithm => logarithm(x),
                Self::HyperbolicTangent => hyperbolic_tangent(x),
                Self::ErrorFunction => error_function(x),
                Self::NormalFunction => normal_function(x),
            }
        }
    }

    /// Distance from the exact result in units in the last place.
    fn distance(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if got == rounded || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
        (f64::from(got) - exact).abs() / unit
    }

    fn check(tested: Tested, from: f32, to: f32, most: f64, exact: impl Fn(f64) -> f64) {
        const STEPS: usize = 400_000;
        let x: Vec<f32> = (0..=STEPS).map(|step| from + (to - from) * (step as f32 / STEPS as f32)).collect();
        for isa in Isa::available() {
            let mut worst = (0.0, 0.0);
            for (x, y) in x.iter().zip(each(*isa, tested, &x)) {
                let far = distance(y, exact(f64::from(*x)));
                if far > worst.0 {
                    worst = (far, *x);
                }
            }
            assert!(worst.0 <= most, "{tested:?} of {} is off by {} units at {isa:?}", worst.1, worst.0);
        }
    }

    #[test]
    fn results_are_within_few_units() {
        use Tested::*;
        check(Exponential, -104.0, 89.0, units::EXP.into(), f64::exp);
        check(Exponential, -1.0, 1.0, 2.0, f64::exp);
        check(ExponentialLess1, -20.0, 0.0, units::EXPM1.into(), f64::exp_m1);
        check(ExponentialLess1, -0.01, 0.0, 8.0, f64::exp_m1);
        check(LogarithmOf1More, 0.0, 1.0, units::LOG1P.into(), f64::ln_1p);
        check(Logarithm, 0.5, 2.0, units::LOG.into(), f64::ln);
        check(Logarithm, 0.99, 1.01, 2.0, f64::ln);
        check(Logarithm, 0.0, 1000.0, 2.0, f64::ln);
        check(HyperbolicTangent, -12.0, 12.0, units::TANH.into(), f64::tanh);
        check(HyperbolicTangent, -0.7, 0.7, 4.0, f64::tanh);
        check(ErrorFunction, -6.0, 6.0, units::ERF.into(), libm::erf);
        check(ErrorFunction, -1.1, 1.1, 6.0, libm::erf);
        let normal = |x: f64| libm::erf(x * std::f64::consts::FRAC_1_SQRT_2);
        check(NormalFunction, -9.0, 9.0, 8.0, normal);
        check(NormalFunction, -1.1, 1.1, 6.0, normal);
    }

    #[test]
    fn small_and_large_arguments_are_as_accurate() {
        use Tested::*;
        // Every exponent, some mantissas.
        let x: Vec<f32> = (0..0x7f80_0000_u32).step_by(0x3_1415).map(f32::from_bits).collect();
        for isa in Isa::available() {
            for (tested, exact) in [
                (HyperbolicTangent, f64::tanh as fn(f64) -> f64),
                (ErrorFunction, libm::erf),
                (NormalFunction, |x| libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
                (Exponential, f64::exp),
                (Logarithm, f64::ln),
            ] {
                for (x, y) in x.iter().zip(each(*isa, tested, &x)) {
                    let far = distance(y, exact(f64::from(*x)));
                    assert!(far <= 8.0, "{tested:?} of {x} is off by {far} units at {isa:?}");
                }
            }
        }
    }

    #[test]
    fn special_values_are_exact() {
        use Tested::*;
        let infinity = f32::INFINITY;
        for isa in Isa::available() {
            let one = |tested, x| each(*isa, tested, &[x])[0];
            assert_eq!(one(Exponential, infinity), infinity);
            assert_eq!(one(Exponential, -infinity), 0.0);
            assert_eq!(one(Exponential, f32::MAX), infinity);
            assert_eq!(one(ExponentialLess1, -infinity), -1.0);
            assert_eq!(one(Logarithm, infinity), infinity);
            assert_eq!([one(Logarithm, 0.0), one(Logarithm, -0.0)], [-infinity; 2]);
            assert_eq!(one(Logarithm, 1.0), 0.0);
            for negative in [-f32::MIN_POSITIVE, -1.0, f32::MIN, -infinity] {
                assert!(one(Logarithm, negative).is_nan());
            }
            for tested in [HyperbolicTangent, ErrorFunction, NormalFunction] {
                assert_eq!([one(tested, infinity), one(tested, -infinity)], [1.0, -1.0]);
                assert_eq!([one(tested, 10.0), one(tested, -10.0)], [1.0, -1.0]);
                assert_eq!(one(tested, -0.0).to_bits(), (-0.0_f32).to_bits());
            }
            for tested in [
                Exponential,
                ExponentialLess1,
                LogarithmOf1More,
                Logarithm,
                HyperbolicTangent,
                ErrorFunction,
                NormalFunction,
            ] {
                assert!(one(tested, f32::NAN).is_nan());
            }
        }
        assert_eq!(infinity.exponential(), infinity);
        assert!(f32::NAN.exponential().is_nan());
    }
}
