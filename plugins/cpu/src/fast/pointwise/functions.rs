//! The functions behind the activations, written so that a loop over them becomes vectors.
//!
//! In single precision each is a polynomial near 0 and an expression of the exponential elsewhere, fitted to a relative error
//! below the type's own rounding; results are within 4 units in the last place. There are no branches: both sides are computed
//! and one is chosen, so NaN and infinities pass as they do through the plain functions. In double precision they are the
//! plain functions.

use super::super::real::FastReal;
use crate::element::Real;

/// Numbers with functions.
pub(in crate::fast) trait Functions: FastReal {
    /// Nanoseconds that a function takes for one number, about.
    const TIME: f64;

    /// e to the value.
    fn exponential(self) -> Self;
    /// e to the value, less 1, for values that are not above 0; something else above.
    fn exponential_less_1(self) -> Self;
    /// The natural logarithm of 1 more than a value from 0 to 1.
    fn logarithm_of_1_more(self) -> Self;
    /// The hyperbolic tangent.
    fn hyperbolic_tangent(self) -> Self;
    /// The error function.
    fn error_function(self) -> Self;
}

impl Functions for f64 {
    const TIME: f64 = 8.0;

    #[inline(always)]
    fn exponential(self) -> Self {
        self.exp()
    }
    #[inline(always)]
    fn exponential_less_1(self) -> Self {
        self.exp_m1()
    }
    #[inline(always)]
    fn logarithm_of_1_more(self) -> Self {
        self.ln_1p()
    }
    #[inline(always)]
    fn hyperbolic_tangent(self) -> Self {
        self.tanh()
    }
    #[inline(always)]
    fn error_function(self) -> Self {
        Real::erf(self)
    }
}

/// A polynomial, the coefficient of the highest power first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = 0.0_f32;
    for coefficient in coefficients {
        sum = sum.fused(x, coefficient);
    }
    sum
}

/// 2 to the power of a whole number from -126 to 127.
#[inline(always)]
fn power_of_2(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}

impl Functions for f32 {
    const TIME: f64 = 1.0;

    #[inline(always)]
    fn exponential(self) -> Self {
        /// Beyond these, the result is 0 or infinite.
        const LOWEST: f32 = -104.0;
        const HIGHEST: f32 = 89.0;
        /// ln 2 in two parts, of which the first has few enough bits that its multiples are exact.
        const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
        /// Added to a number, it leaves no room for a fraction; the whole number is then in the lowest bits.
        const WHOLE: f32 = 12_582_912.0;

        let x = if self < LOWEST { LOWEST } else { self };
        let x = if x > HIGHEST { HIGHEST } else { x };
        let shifted = x * std::f32::consts::LOG2_E + WHOLE;
        let whole = shifted - WHOLE;
        let rest = (x - whole * LN_2[0]) - whole * LN_2[1];
        let power =
            polynomial(rest, [0.001_394_114_6, 0.008_375_157, 0.041_666_35, 0.166_664_15, 0.5, 1.0, 1.0]);
        // In two steps, as neither subnormal results nor the largest ones are one power of 2 away.
        let exponent = (shifted.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32);
        let first = exponent >> 1;
        power * power_of_2(first) * power_of_2(exponent.wrapping_sub(first))
    }

    #[inline(always)]
    fn exponential_less_1(self) -> Self {
        let half = (0.5 * self).hyperbolic_tangent();
        2.0 * half / (1.0 - half)
    }

    #[inline(always)]
    fn logarithm_of_1_more(self) -> Self {
        // ln(1 + x) = 2 artanh(x / (2 + x)).
        let s = self / (2.0 + self);
        s * polynomial(s * s, [0.243_939_08, 0.213_985_6, 0.286_202_07, 0.399_987_1, 0.666_666_8, 2.0])
    }

    #[inline(always)]
    fn hyperbolic_tangent(self) -> Self {
        /// Below this the polynomial is used: the other expression would lose what little is left of 1.
        const NEAR: f32 = 0.625;

        let size = self.abs();
        let square = self * self;
        let near = self
            * polynomial(
                square,
                [-0.005_657_135, 0.020_588_191, -0.053_720_107, 0.133_311_14, -0.333_332_6, 1.0],
            );
        let far = (1.0 - 2.0 / ((2.0 * size).exponential() + 1.0)).copysign(self);
        if size < NEAR { near } else { far }
    }

    #[inline(always)]
    fn error_function(self) -> Self {
        /// From here on the result is 1.
        const ONE: f32 = 4.0;

        let size = self.abs();
        let square = self * self;
        let near = self
            * polynomial(
                square,
                [
                    7.875_875e-5,
                    -0.000_801_686_4,
                    0.005_189_087_4,
                    -0.026_854_212,
                    0.112_835_95,
                    -0.376_126_27,
                    std::f32::consts::FRAC_2_SQRT_PI,
                ],
            );
        let end = if size > ONE { ONE } else { size };
        let rest = (-(end * end)).exponential()
            * polynomial(
                1.0 / end,
                [
                    -0.005_934_022_5,
                    0.010_945_133,
                    0.061_354_15,
                    -0.286_535_6,
                    0.529_070_6,
                    -0.485_939_5,
                    0.045_837_91,
                    0.558_479_9,
                    0.000_305_017_75,
                ],
            );
        let far = (1.0 - rest).copysign(self);
        if size < 1.0 { near } else { far }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units in the last place of the exact result.
    fn units(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if got == rounded || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
        (f64::from(got) - exact).abs() / unit
    }

    fn check(what: &str, from: f32, to: f32, got: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) {
        const STEPS: usize = 200_000;
        let mut worst = (0.0, 0.0);
        for step in 0..=STEPS {
            let x = from + (to - from) * (step as f32 / STEPS as f32);
            let far = units(got(x), exact(f64::from(x)));
            if far > worst.0 {
                worst = (far, x);
            }
        }
        assert!(worst.0 <= 4.0, "{what} of {} is off by {} units", worst.1, worst.0);
    }

    #[test]
    fn results_are_within_four_units() {
        check("exp", -104.0, 89.0, f32::exponential, f64::exp);
        check("exp", -1.0, 1.0, f32::exponential, f64::exp);
        check("expm1", -20.0, 0.0, f32::exponential_less_1, f64::exp_m1);
        check("expm1", -0.01, 0.0, f32::exponential_less_1, f64::exp_m1);
        check("ln1p", 0.0, 1.0, f32::logarithm_of_1_more, f64::ln_1p);
        check("tanh", -12.0, 12.0, f32::hyperbolic_tangent, f64::tanh);
        check("tanh", -0.7, 0.7, f32::hyperbolic_tangent, f64::tanh);
        check("erf", -6.0, 6.0, f32::error_function, libm::erf);
        check("erf", -1.1, 1.1, f32::error_function, libm::erf);
    }

    #[test]
    fn what_is_special_stays_special() {
        let infinity = f32::INFINITY;
        assert_eq!(infinity.exponential(), infinity);
        assert_eq!((-infinity).exponential(), 0.0);
        assert_eq!(f32::MAX.exponential(), infinity);
        assert_eq!((-infinity).exponential_less_1(), -1.0);
        for (one, function) in
            [(1.0, f32::hyperbolic_tangent as fn(f32) -> f32), (1.0, f32::error_function as fn(f32) -> f32)]
        {
            assert_eq!([function(infinity), function(-infinity)], [one, -one]);
            assert_eq!(function(-0.0).to_bits(), (-0.0_f32).to_bits());
            assert!(function(f32::NAN).is_nan());
        }
        assert!(f32::NAN.exponential().is_nan());
        assert!(f32::NAN.exponential_less_1().is_nan());
        assert!(f32::NAN.logarithm_of_1_more().is_nan());
    }
}
