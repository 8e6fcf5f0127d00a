//! Exponential, logarithm, tanh and erf on vectors.

use crate::simd::vector::{Lanewise, Vector, WHOLE};

/// A polynomial, the coefficient of the highest power first.
#[inline(always)]
pub(crate) fn polynomial<V: Vector<Scalar = f32>, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    let mut sum = x.broadcast(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, x.broadcast(*coefficient));
    }
    sum
}

/// The value clamped to a range; NaN stays.
#[inline(always)]
pub(crate) fn within<V: Vector>(x: V, low: V::Scalar, high: V::Scalar) -> V {
    x.lanewise(Lanewise::NotBelow, x.broadcast(low)).lanewise(Lanewise::NotAbove, x.broadcast(high))
}

/// ln 2 in two parts, the first of which has few enough bits that its multiples are exact.
pub(crate) const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];

/// e to the value.
#[inline(always)]
pub(crate) fn exponential<V: Vector<Scalar = f32>>(x: V) -> V {
    /// Beyond this, the result is infinite.
    const HIGHEST: f32 = 89.0;
    exponential_of_negative(x.lanewise(Lanewise::NotAbove, x.broadcast(HIGHEST)))
}

/// e to the value, which is at most 89.
#[inline(always)]
pub(crate) fn exponential_of_negative<V: Vector<Scalar = f32>>(x: V) -> V {
    /// Below this, the result is 0.
    const LOWEST: f32 = -104.0;
    let x = x.lanewise(Lanewise::NotBelow, x.broadcast(LOWEST));
    let shifted = x.mul_add(x.broadcast(std::f32::consts::LOG2_E), x.broadcast(WHOLE));
    let whole = shifted.lanewise(Lanewise::Sub, x.broadcast(WHOLE));
    let rest = whole.mul_add(x.broadcast(-LN_2[0]), x);
    let rest = whole.mul_add(x.broadcast(-LN_2[1]), rest);
    let power = polynomial(rest, [0.001_394_114_6, 0.008_375_157, 0.041_666_35, 0.166_664_15, 0.5, 1.0, 1.0]);
    power.lanewise(Lanewise::Scale, whole)
}

/// e to the value, minus 1, for values that are at most 0; unspecified above.
#[inline(always)]
pub(crate) fn exponential_less_1<V: Vector<Scalar = f32>>(x: V) -> V {
    let half = hyperbolic_tangent(x.lanewise(Lanewise::Mul, x.broadcast(0.5)));
    let rest = x.broadcast(1.0).lanewise(Lanewise::Sub, half);
    half.lanewise(Lanewise::Add, half).lanewise(Lanewise::Div, rest)
}

/// The natural logarithm of 1 plus a value from 0 to 1.
#[inline(always)]
pub(crate) fn logarithm_of_1_more<V: Vector<Scalar = f32>>(x: V) -> V {
    // ln(1 + x) = 2 artanh(x / (2 + x)).
    let s = x.lanewise(Lanewise::Div, x.lanewise(Lanewise::Add, x.broadcast(2.0)));
    let square = s.lanewise(Lanewise::Mul, s);
    let sum = polynomial(square, [0.243_939_08, 0.213_985_6, 0.286_202_07, 0.399_987_1, 0.666_666_8, 2.0]);
    s.lanewise(Lanewise::Mul, sum)
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn logarithm<V: Vector<Scalar = f32>>(x: V) -> V {
    let (part, power) = x.parted();
    // ln(1 + r) = r - r²/2 + r³ · (1/3 - …).
    let rest = part.lanewise(Lanewise::Sub, x.broadcast(1.0));
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
    let small = power.lanewise(Lanewise::Mul, x.broadcast(LN_2[1]));
    let small = rest.lanewise(Lanewise::Mul, square).mul_add(sum, small);
    let small = square.mul_add(x.broadcast(-0.5), small);
    let result = power.mul_add(x.broadcast(LN_2[0]), rest.lanewise(Lanewise::Add, small));
    // log(∞) = ∞, log(NaN) = NaN, log(0) = -∞, and NaN for negative values.
    let beyond = x.lanewise(Lanewise::Sub, x.broadcast(f32::MAX));
    let result = beyond.where_above_0(x, result);
    let none = x.lanewise(Lanewise::Add, x.broadcast(f32::NEG_INFINITY));
    let none = x.lanewise(Lanewise::Neg, x).where_above_0(x.broadcast(f32::NAN), none);
    x.where_above_0(result, none)
}

/// An odd function that approaches 1: x · p(x²) / q(x²), with x limited to where it reaches 1.
#[inline(always)]
pub(crate) fn quotient<V: Vector<Scalar = f32>, const P: usize, const Q: usize>(
    x: V,
    one: f32,
    above: [f32; P],
    below: [f32; Q],
) -> V {
    let x = within(x, -one, one);
    let square = x.lanewise(Lanewise::Mul, x);
    let above = x.lanewise(Lanewise::Mul, polynomial(square, above));
    within(above.lanewise(Lanewise::Div, polynomial(square, below)), -1.0, 1.0)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn hyperbolic_tangent<V: Vector<Scalar = f32>>(x: V) -> V {
    quotient(
        x,
        9.02,
        [1.330_056_9e-8, 2.057_014_4e-5, 0.003_493_224_3, 0.133_790_36, 0.999_999_94],
        [7.754_451e-7, 0.000_328_176_74, 0.025_867_991, 0.467_123_5, 1.0],
    )
}

/// The error function.
#[inline(always)]
pub(crate) fn error_function<V: Vector<Scalar = f32>>(x: V) -> V {
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

/// The error function of x/√2, which is 2 Φ(x) - 1 of the normal distribution.
#[inline(always)]
pub(crate) fn normal_function<V: Vector<Scalar = f32>>(x: V) -> V {
    quotient(
        x,
        5.55,
        [4.509_426e-8, 1.258_599_7e-5, 0.000_334_240_55, 0.009_333_08, 0.067_470_79, 0.797_884_6],
        [1.187_195_4e-6, 7.284_724e-5, 0.001_875_157_5, 0.028_569_49, 0.251_228_45, 1.0],
    )
}
