//! The functions behind the activations, on vectors.
//!
//! In single precision the exponential is a polynomial times a power of 2, the logarithm one of what is left when a power of 2 is taken
//! away, and tanh and erf are quotients of polynomials within the range in which they are not 1; results are within 8 units in the last place, most within 2. There are no branches, and
//! NaN and infinities pass as they do through the plain functions. In double precision they are the plain functions.

use crate::pointwise::smooth::{Smooth, exactly, in_single, with_constant};
use crate::pointwise::softmax::Softmax;
use crate::simd::isa::Isa;
use crate::simd::real::Float;
use crate::simd::vector::{Lanewise, PortableVector, Vector, WHOLE};

/// Computes rows at a level that the processor has.
pub(crate) type RowFunction<T> = unsafe fn(Isa, Softmax<T>);

/// Numbers with functions.
pub(crate) trait Functions: Float {
    /// Nanoseconds that a function takes for one number, about.
    const TIME: f64;

    /// e to the value.
    fn exponential(self) -> Self;

    /// Whether vectors have the function, and not only numbers one by one.
    fn in_registers(smooth: Smooth) -> bool;

    /// Softmax of rows, where it has a form of its own.
    const SOFTMAX: Option<RowFunction<Self>>;

    /// A function of each number of some vectors.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the operands and the results are there.
    unsafe fn smooth<V: Vector<Scalar = Self>>(all: &All<Self>);
}

/// Vectors of operands, and where the function of them goes.
pub(crate) struct All<T> {
    /// Which function.
    pub(crate) smooth: Smooth,
    /// The number that it has of its own.
    pub(crate) number: T,
    /// The operands, and how far apart their vectors are.
    pub(crate) from: [(*const T, usize); 2],
    /// The results, side by side; they may be where operands are.
    pub(crate) to: *mut T,
    /// How many vectors.
    pub(crate) count: usize,
}

impl<T> All<T> {
    /// The operands of a vector.
    ///
    /// # Safety
    /// As [`Functions::smooth`]; the number is below the count.
    #[inline(always)]
    unsafe fn operands<V: Vector<Scalar = T>>(&self, number: usize) -> [V; 2] {
        // SAFETY: the caller promises the operands.
        self.from.map(|(from, stride)| unsafe { V::load(from.add(number * stride)) })
    }
}

impl Functions for f64 {
    const TIME: f64 = 8.0;
    const SOFTMAX: Option<RowFunction<Self>> = None;

    #[inline(always)]
    fn exponential(self) -> Self {
        self.exp()
    }

    #[inline(always)]
    fn in_registers(smooth: Smooth) -> bool {
        // Loops over these alone become vectors.
        use Smooth::{AddSquare, Reciprocal, ReluBwd, Rsqrt};
        !matches!(smooth, AddSquare | Reciprocal | ReluBwd | Rsqrt)
    }

    #[inline(always)]
    unsafe fn smooth<V: Vector<Scalar = Self>>(all: &All<Self>) {
        for i in 0..all.count {
            // SAFETY: the caller promises instructions and numbers.
            unsafe {
                let [x, y] = all.operands::<V>(i);
                exactly(all.smooth, x, y, all.number).store(all.to.add(i * V::LANES));
            }
        }
    }
}

impl Functions for f32 {
    const TIME: f64 = 0.4;
    // SAFETY: whoever calls it promises level and numbers.
    const SOFTMAX: Option<RowFunction<Self>> = Some(|isa, rows| unsafe { isa.run_vectors(rows) });

    #[inline(always)]
    fn exponential(self) -> Self {
        let (one, mut result) = (self, 0.0);
        // SAFETY: a plain vector needs no instructions of its own; both numbers are there.
        unsafe { exponential(PortableVector::<Self, 1>::load(&raw const one)).store(&raw mut result) };
        result
    }

    #[inline(always)]
    fn in_registers(_smooth: Smooth) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn smooth<V: Vector<Scalar = Self>>(all: &All<Self>) {
        // SAFETY: the caller promises instructions and numbers.
        unsafe {
            with_constant!(all.smooth, S => {
                for i in 0..all.count {
                    let [x, y] = all.operands::<V>(i);
                    in_single(S, x, y, all.number).store(all.to.add(i * V::LANES));
                }
            });
        }
    }
}

/// A polynomial, the coefficient of the highest power first.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn polynomial<V: Vector<Scalar = f32>, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let mut sum = V::splat(coefficients[0]);
        for coefficient in &coefficients[1..] {
            sum = sum.mul_add(x, V::splat(*coefficient));
        }
        sum
    }
}

/// The number, or the nearest end of a range where it is outside; NaN stays.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn within<V: Vector>(x: V, low: V::Scalar, high: V::Scalar) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe { x.lanewise(Lanewise::NotBelow, V::splat(low)).lanewise(Lanewise::NotAbove, V::splat(high)) }
}

/// ln 2 in two parts, of which the first has few enough bits that its multiples are exact.
pub(crate) const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];

/// e to the value.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn exponential<V: Vector<Scalar = f32>>(x: V) -> V {
    /// Beyond this, the result is infinite.
    const HIGHEST: f32 = 89.0;
    // SAFETY: the caller promises the instructions.
    unsafe { exponential_of_negative(x.lanewise(Lanewise::NotAbove, V::splat(HIGHEST))) }
}

/// e to the value, which is not above 89.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn exponential_of_negative<V: Vector<Scalar = f32>>(x: V) -> V {
    /// Below this, the result is 0.
    const LOWEST: f32 = -104.0;
    // SAFETY: the caller promises the instructions.
    unsafe {
        let x = x.lanewise(Lanewise::NotBelow, V::splat(LOWEST));
        let shifted = x.mul_add(V::splat(std::f32::consts::LOG2_E), V::splat(WHOLE));
        let whole = shifted.lanewise(Lanewise::Sub, V::splat(WHOLE));
        let rest = whole.mul_add(V::splat(-LN_2[0]), x);
        let rest = whole.mul_add(V::splat(-LN_2[1]), rest);
        let power =
            polynomial(rest, [0.001_394_114_6, 0.008_375_157, 0.041_666_35, 0.166_664_15, 0.5, 1.0, 1.0]);
        power.lanewise(Lanewise::Scale, whole)
    }
}

/// e to the value, less 1, for values that are not above 0; something else above.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn exponential_less_1<V: Vector<Scalar = f32>>(x: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let half = hyperbolic_tangent(x.lanewise(Lanewise::Mul, V::splat(0.5)));
        let rest = V::splat(1.0).lanewise(Lanewise::Sub, half);
        half.lanewise(Lanewise::Add, half).lanewise(Lanewise::Div, rest)
    }
}

/// The natural logarithm of 1 more than a value from 0 to 1.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn logarithm_of_1_more<V: Vector<Scalar = f32>>(x: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        // ln(1 + x) = 2 artanh(x / (2 + x)).
        let s = x.lanewise(Lanewise::Div, x.lanewise(Lanewise::Add, V::splat(2.0)));
        let square = s.lanewise(Lanewise::Mul, s);
        let sum =
            polynomial(square, [0.243_939_08, 0.213_985_6, 0.286_202_07, 0.399_987_1, 0.666_666_8, 2.0]);
        s.lanewise(Lanewise::Mul, sum)
    }
}

/// The natural logarithm.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn logarithm<V: Vector<Scalar = f32>>(x: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let (part, power) = x.parted();
        // ln(1 + r) = r - r²/2 + r³ · (1/3 - …).
        let rest = part.lanewise(Lanewise::Sub, V::splat(1.0));
        let square = rest.lanewise(Lanewise::Mul, rest);
        let sum = polynomial(
            rest,
            [
                -0.045_085_86,
                0.104_638_495,
                -0.131_610_2,
                0.144_781_83,
                -0.166_473_15,
                0.199_908_76,
                -0.250_000_95,
                0.333_334_48,
            ],
        );
        let small = power.lanewise(Lanewise::Mul, V::splat(LN_2[1]));
        let small = rest.lanewise(Lanewise::Mul, square).mul_add(sum, small);
        let small = square.mul_add(V::splat(-0.5), small);
        let result = power.mul_add(V::splat(LN_2[0]), rest.lanewise(Lanewise::Add, small));
        // Of infinity and NaN themselves, of 0 minus infinity, of what is below NaN.
        let beyond = x.lanewise(Lanewise::Sub, V::splat(f32::MAX));
        let result = beyond.where_above_0(x, result);
        let none = x.lanewise(Lanewise::Add, V::splat(f32::NEG_INFINITY));
        let none = x.lanewise(Lanewise::Neg, x).where_above_0(V::splat(f32::NAN), none);
        x.where_above_0(result, none)
    }
}

/// An odd function that grows to 1: x · p(x²) / q(x²), where x goes no further than where that is 1.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn quotient<V: Vector<Scalar = f32>, const P: usize, const Q: usize>(
    x: V,
    one: f32,
    above: [f32; P],
    below: [f32; Q],
) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let x = within(x, -one, one);
        let square = x.lanewise(Lanewise::Mul, x);
        let above = x.lanewise(Lanewise::Mul, polynomial(square, above));
        within(above.lanewise(Lanewise::Div, polynomial(square, below)), -1.0, 1.0)
    }
}

/// The hyperbolic tangent.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn hyperbolic_tangent<V: Vector<Scalar = f32>>(x: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        quotient(
            x,
            9.02,
            [1.330_056_9e-8, 2.057_014_4e-5, 0.003_493_224_3, 0.133_790_36, 0.999_999_94],
            [7.754_451e-7, 0.000_328_176_74, 0.025_867_991, 0.467_123_5, 1.0],
        )
    }
}

/// The error function.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn error_function<V: Vector<Scalar = f32>>(x: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        quotient(
            x,
            3.925,
            [
                2.041_957_7e-6,
                0.000_284_799_26,
                0.003_779_369_2,
                0.052_789_53,
                0.190_778_82,
                std::f32::consts::FRAC_2_SQRT_PI,
            ],
            [3.800_344_7e-5, 0.001_165_147_2, 0.014_996_96, 0.114_255_36, 0.502_406_1, 1.0],
        )
    }
}

/// The error function of x/√2, which is 2 Φ(x) - 1 of the normal distribution.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn normal_function<V: Vector<Scalar = f32>>(x: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe {
        quotient(
            x,
            5.55,
            [4.509_426e-8, 1.258_599_7e-5, 0.000_334_240_55, 0.009_333_08, 0.067_470_79, 0.797_884_6],
            [1.187_195_4e-6, 7.284_724e-5, 0.001_875_157_5, 0.028_569_49, 0.251_228_45, 1.0],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Function, each};

    /// A function of single precision, for vectors of any level.
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
        unsafe fn of<V: Vector<Scalar = f32>>(self, x: V) -> V {
            // SAFETY: the caller promises the instructions.
            unsafe {
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
    }

    /// Distance in units in the last place of the exact result.
    fn units(got: f32, exact: f64) -> f64 {
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
                let far = units(y, exact(f64::from(*x)));
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
        check(Exponential, -104.0, 89.0, 2.0, f64::exp);
        check(Exponential, -1.0, 1.0, 2.0, f64::exp);
        check(ExponentialLess1, -20.0, 0.0, 8.0, f64::exp_m1);
        check(ExponentialLess1, -0.01, 0.0, 8.0, f64::exp_m1);
        check(LogarithmOf1More, 0.0, 1.0, 4.0, f64::ln_1p);
        check(Logarithm, 0.5, 2.0, 4.0, f64::ln);
        check(Logarithm, 0.99, 1.01, 2.0, f64::ln);
        check(Logarithm, 0.0, 1000.0, 2.0, f64::ln);
        check(HyperbolicTangent, -12.0, 12.0, 8.0, f64::tanh);
        check(HyperbolicTangent, -0.7, 0.7, 4.0, f64::tanh);
        check(ErrorFunction, -6.0, 6.0, 8.0, libm::erf);
        check(ErrorFunction, -1.1, 1.1, 6.0, libm::erf);
        let normal = |x: f64| libm::erf(x * std::f64::consts::FRAC_1_SQRT_2);
        check(NormalFunction, -9.0, 9.0, 8.0, normal);
        check(NormalFunction, -1.1, 1.1, 6.0, normal);
    }

    #[test]
    fn small_arguments_and_large_ones_are_no_worse() {
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
                    let far = units(y, exact(f64::from(*x)));
                    assert!(far <= 8.0, "{tested:?} of {x} is off by {far} units at {isa:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_special_stays_special() {
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
