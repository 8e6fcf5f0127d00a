//! Doubles rounded once to types of fewer bits.
//!
//! `half::f16::from_f64` and `half::bf16::from_f64` read only the upper 32 bits of a double, so that a double just above the middle
//! of two values rounds as the middle itself.

use half::{bf16, f16};

/// The double in single precision, with an odd last bit unless it is exact: rounding that to a type of at most 22 bits is as
/// rounding the double itself.
///
/// Doubles beyond single precision become its largest value, and those below it its smallest, so that this also holds for types with
/// the same exponents, such as bfloat16, down to their subnormal values.
#[inline(always)]
pub fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return near;
    }
    let is_beyond = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(is_beyond)) | 1)
}

/// The nearest value in half precision, ties to even.
#[inline]
pub fn to_half(value: f64) -> f16 {
    f16::from_f32(to_odd(value))
}

/// The nearest bfloat16 value, ties to even.
#[inline]
pub fn to_bfloat16(value: f64) -> bf16 {
    bf16::from_f32(to_odd(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a conversion at every pair of neighbours from 0 to infinity, by their middle, which doubles hold exactly.
    ///
    /// `values` are all of the type's values, in order, and then the first that it has no room for.
    fn rounds_to_the_nearest(values: &[f64], round: impl Fn(f64) -> f64) {
        let largest = values.len() - 2;
        for (place, pair) in values.windows(2).enumerate() {
            let [low, high] = pair else { continue };
            let middle = f64::midpoint(*low, *high);
            let high = if place == largest { f64::INFINITY } else { *high };
            let even = if place % 2 == 0 { *low } else { high };
            let cases = [
                (*low, *low),
                (low.next_up(), *low),
                (middle.next_down(), *low),
                (middle, even),
                (middle.next_up(), high),
                (pair[1].next_down(), high),
            ];
            for (value, expected) in cases {
                assert_eq!(round(value), expected, "{value:e} between {low:e} and {high:e}");
                assert_eq!(round(-value), -expected, "{:e}", -value);
            }
        }
    }

    fn half_values() -> Vec<f64> {
        let finite = (0..f16::INFINITY.to_bits()).map(|bits| f16::from_bits(bits).to_f64());
        finite.chain([65536.0]).collect()
    }

    fn bfloat16_values() -> Vec<f64> {
        let finite = (0..bf16::INFINITY.to_bits()).map(|bits| bf16::from_bits(bits).to_f64());
        finite.chain([2.0_f64.powi(128)]).collect()
    }

    #[test]
    fn doubles_round_once_to_the_nearest_value() {
        rounds_to_the_nearest(&half_values(), |value| to_half(value).to_f64());
        rounds_to_the_nearest(&bfloat16_values(), |value| to_bfloat16(value).to_f64());
    }

    #[test]
    fn special_values_stay() {
        for value in [0.0, f64::INFINITY] {
            assert_eq!(to_half(value).to_f64().to_bits(), value.to_bits());
            assert_eq!(to_bfloat16(-value).to_f64().to_bits(), (-value).to_bits());
        }
        assert!(to_half(f64::NAN).is_nan() && to_bfloat16(f64::NAN).is_nan());
        assert_eq!(
            [to_half(1e300).to_f64(), to_bfloat16(-1e300).to_f64()],
            [f64::INFINITY, f64::NEG_INFINITY]
        );
        assert_eq!([to_half(5e-324).to_f64(), to_bfloat16(5e-324).to_f64()], [0.0; 2]);
    }
}
