//! Floating-point types of 4 to 8 bits.
//!
//! The types follow the OCP 8-bit Floating Point Specification (OFP8) 1.0 and the OCP Microscaling Formats
//! (MX) Specification 1.0, plus the two types with one zero and one NaN (FNUZ).

use crate::rounding::to_odd;

/// Which codes are NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// The largest exponent is infinity and NaN.
    InfinityAndNan,
    /// The largest magnitude is NaN.
    Nan,
    /// The code of negative zero is NaN.
    NanForNegativeZero,
    /// None.
    None,
}

/// A sign, an exponent and a mantissa in the low bits of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    special: Special,
}

const fn format(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special) -> Format {
    Format { exponent_bits, mantissa_bits, bias, special }
}

/// `fp8_e4m3`.
pub const E4M3: Format = format(4, 3, 7, Special::Nan);

/// `fp8_e5m2`.
pub const E5M2: Format = format(5, 2, 15, Special::InfinityAndNan);

/// `fp8_e4m3_fnuz`.
pub const E4M3_FNUZ: Format = format(4, 3, 8, Special::NanForNegativeZero);

/// `fp8_e5m2_fnuz`.
pub const E5M2_FNUZ: Format = format(5, 2, 16, Special::NanForNegativeZero);

/// `fp6_e2m3`.
pub const E2M3: Format = format(2, 3, 1, Special::None);

/// `fp6_e3m2`.
pub const E3M2: Format = format(3, 2, 3, Special::None);

/// `fp4_e2m1`.
pub const E2M1: Format = format(2, 1, 1, Special::None);

/// 2 to a power within the range of normal doubles.
#[inline(always)]
const fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The exponent of a positive normal double.
#[inline]
fn exponent(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7FF) as i32 - 1023
}

impl Format {
    #[inline(always)]
    const fn sign_bit(self) -> u8 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The code of the largest finite value.
    #[inline(always)]
    const fn largest_code(self) -> u8 {
        let all = self.sign_bit() - 1;
        match self.special {
            Special::InfinityAndNan => all - (1 << self.mantissa_bits),
            Special::Nan => all - 1,
            Special::NanForNegativeZero | Special::None => all,
        }
    }

    /// The largest finite value.
    #[inline]
    pub fn largest(self) -> f64 {
        self.decode(self.largest_code())
    }

    /// The value of a code. Bits above the format are ignored.
    #[inline]
    pub const fn decode(self, code: u8) -> f64 {
        self.decode_single(code) as f64
    }

    /// The values of all codes of 8 bits.
    #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
    pub const fn decode_table(self) -> DecodeTable {
        let mut values = [0.0; 256];
        let mut code = 0;
        while code < values.len() {
            values[code] = self.decode_single(code as u8);
            code += 1;
        }
        DecodeTable(values)
    }

    /// [`Format::decode`] in single precision, which is exact; without branches, for automatic vectorization.
    #[inline(always)]
    pub const fn decode_single(self, code: u8) -> f32 {
        let magnitude = (code & (self.sign_bit() - 1)) as u32;
        let normal = (magnitude << (f32::MANTISSA_DIGITS - 1 - self.mantissa_bits))
            + (((127 - self.bias) as u32) << (f32::MANTISSA_DIGITS - 1));
        let smallest = power(1 - self.bias - self.mantissa_bits as i32) as f32;
        let subnormal = (magnitude as i32 as f32 * smallest).to_bits();
        let finite = if magnitude >> self.mantissa_bits == 0 { subnormal } else { normal };
        let largest = self.largest_code() as u32;
        let has_infinity = matches!(self.special, Special::InfinityAndNan);
        let is_infinite = has_infinity && magnitude == largest + 1;
        let has_zeros = !matches!(self.special, Special::NanForNegativeZero);
        let is_nan = (magnitude > largest && !is_infinite) || (!has_zeros && code == self.sign_bit());
        let bits = if is_infinite { f32::INFINITY.to_bits() } else { finite };
        let bits = if is_nan { f32::NAN.to_bits() } else { bits };
        let sign = (code & self.sign_bit()) as u32;
        f32::from_bits(bits | sign << (31 - self.exponent_bits - self.mantissa_bits))
    }

    /// [`Format::encode`] of single precision, without branches, for automatic vectorization.
    #[inline(always)]
    pub const fn encode_single(self, value: f32) -> u8 {
        const DIGITS: u32 = f32::MANTISSA_DIGITS - 1;
        const SIGN: u32 = 1 << 31;
        let below = DIGITS - self.mantissa_bits;
        let lowest = 1 - self.bias;
        let bits = value.to_bits();
        let magnitude = bits & !SIGN;
        let normal = {
            let half = (1 << (below - 1)) - 1 + (magnitude >> below & 1);
            ((magnitude + half) >> below).wrapping_sub(((126 + lowest) as u32) << self.mantissa_bits)
        };
        let subnormal = {
            // Adding a value whose last bit is the smallest magnitude rounds to that bit.
            let large = power(lowest - self.mantissa_bits as i32 + DIGITS as i32) as f32;
            (f32::from_bits(magnitude) + large).to_bits().wrapping_sub(large.to_bits())
        };
        let code = if magnitude < (power(lowest) as f32).to_bits() { subnormal } else { normal };
        let largest = self.decode_single(self.largest_code()).to_bits();
        let code = if magnitude >= largest { self.largest_code() } else { code as u8 };
        let has_zeros = !matches!(self.special, Special::NanForNegativeZero);
        let is_signed = bits & SIGN != 0 && (has_zeros || code != 0);
        let code = if is_signed { code | self.sign_bit() } else { code };
        if magnitude > f32::INFINITY.to_bits() { self.nan() } else { code }
    }

    /// The code of the nearest value, ties to even codes, with an overflow's own code for values that round beyond the largest: that of
    /// infinity, else that of NaN, if the format has one. NaN keeps its sign, if the format has negative zero.
    pub fn encode_overflowing(self, value: f32) -> u8 {
        let has_zeros = !matches!(self.special, Special::NanForNegativeZero);
        let sign = if has_zeros && value.is_sign_negative() { self.sign_bit() } else { 0 };
        let (most, largest) = (self.largest_code(), self.largest());
        // Half a step from the largest, which wins if its code is even.
        let limit = largest + (largest - self.decode(most - 1)) / 2.0;
        let size = f64::from(value.abs());
        let is_beyond = size > limit || (size == limit && most % 2 == 1);
        match self.special {
            _ if value.is_nan() => self.nan() | sign,
            Special::InfinityAndNan if is_beyond => (most + 1) | sign,
            Special::Nan | Special::NanForNegativeZero if is_beyond => self.nan() | sign,
            _ => self.encode_single(value),
        }
    }

    /// The code of NaN, or 0 if the format has none.
    #[inline(always)]
    const fn nan(self) -> u8 {
        match self.special {
            Special::InfinityAndNan | Special::Nan => self.sign_bit() - 1,
            Special::NanForNegativeZero => self.sign_bit(),
            Special::None => 0,
        }
    }

    /// The code of the nearest value, ties to even codes. Overflow saturates; NaN becomes NaN, or 0 if the
    /// format has none.
    #[inline(always)]
    pub fn encode(self, value: f64) -> u8 {
        self.encode_single(to_odd(value))
    }
}

/// The values of a format's codes.
pub struct DecodeTable([f32; 256]);

impl DecodeTable {
    /// The value of a code.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "there is an entry for every code")]
    pub const fn of(&self, code: u8) -> f32 {
        self.0[code as usize]
    }
}

/// The value of an `fp8_e8m0` code: 2 to the code less 127, and NaN for 255.
#[inline]
pub fn decode_e8m0(code: u8) -> f64 {
    if code == u8::MAX { f64::NAN } else { power(i32::from(code) - 127) }
}

/// The code of the nearest power of two, ties to even codes, saturating at both ends; values that are not
/// positive give the smallest.
#[inline]
pub fn encode_e8m0(value: f64) -> u8 {
    if value.is_nan() {
        return u8::MAX;
    }
    if value <= power(-127) {
        return 0;
    }
    if value >= power(127) {
        return u8::MAX - 1;
    }
    let lower = (exponent(value) + 127) as u8;
    let part = value / decode_e8m0(lower);
    if part > 1.5 || (part == 1.5 && lower % 2 == 1) { lower + 1 } else { lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(Format, f64, f64, usize); 7] = [
        // The largest value, the smallest above 0, and the count of finite codes.
        (E4M3, 448.0, 1.0 / 512.0, 254),
        (E5M2, 57344.0, 1.0 / 65536.0, 248),
        (E4M3_FNUZ, 240.0, 1.0 / 1024.0, 255),
        (E5M2_FNUZ, 57344.0, 1.0 / 131_072.0, 255),
        (E2M3, 7.5, 0.125, 64),
        (E3M2, 28.0, 0.0625, 64),
        (E2M1, 6.0, 0.5, 16),
    ];

    fn codes(format: Format) -> impl Iterator<Item = u8> {
        0..=(format.sign_bit() | (format.sign_bit() - 1))
    }

    #[test]
    fn ranges_are_those_of_the_specifications() {
        for (format, largest, smallest, finite) in ALL {
            assert_eq!(format.largest(), largest);
            assert_eq!(format.decode(1), smallest);
            assert_eq!(codes(format).filter(|code| format.decode(*code).is_finite()).count(), finite);
        }
        let fp4: Vec<f64> = (0..16).map(|code| E2M1.decode(code)).collect();
        let half = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        assert_eq!(fp4, [half, half.map(|value| -value)].concat());
        assert_eq!((E5M2.decode(0x7C), E5M2.decode(0xFC)), (f64::INFINITY, f64::NEG_INFINITY));
        assert!([0x7D, 0x7E, 0x7F, 0xFD].iter().all(|code| E5M2.decode(*code).is_nan()));
        assert!([0x7F, 0xFF].iter().all(|code| E4M3.decode(*code).is_nan()));
        assert!([E4M3_FNUZ, E5M2_FNUZ].iter().all(|format| format.decode(0x80).is_nan()));
    }

    #[test]
    fn every_code_is_read_and_written_as_itself() {
        for (format, ..) in ALL {
            for code in codes(format) {
                let value = format.decode(code);
                if value.is_finite() {
                    assert_eq!(format.encode(value), code, "{format:?}: {value}");
                } else if value.is_nan() {
                    assert!(format.decode(format.encode(value)).is_nan());
                }
            }
        }
        for code in 0..=254 {
            assert_eq!(encode_e8m0(decode_e8m0(code)), code);
        }
        assert!(decode_e8m0(encode_e8m0(f64::NAN)).is_nan());
    }

    /// The value of a code according to the specifications.
    fn number(format: Format, code: u8) -> f64 {
        let magnitude = code & (format.sign_bit() - 1);
        let is_negative = code & format.sign_bit() != 0;
        let value = if magnitude > format.largest_code() {
            let has_infinity = matches!(format.special, Special::InfinityAndNan);
            let infinity = has_infinity && magnitude == format.largest_code() + 1;
            if infinity { f64::INFINITY } else { f64::NAN }
        } else if magnitude == 0 && is_negative && matches!(format.special, Special::NanForNegativeZero) {
            f64::NAN
        } else {
            let mantissa = (magnitude & ((1 << format.mantissa_bits) - 1)) as i32;
            let (digits, exponent) = match (magnitude >> format.mantissa_bits) as i32 {
                0 => (mantissa, 1),
                exponent => (mantissa + (1 << format.mantissa_bits), exponent),
            };
            digits as f64 * power(exponent - format.bias - format.mantissa_bits as i32)
        };
        if is_negative { -value } else { value }
    }

    #[test]
    fn single_precision_is_decoded_as_double() {
        for (format, ..) in ALL {
            let table = format.decode_table();
            for code in codes(format) {
                let expected = number(format, code);
                let singles = [format.decode_single(code), table.of(code)].map(f64::from);
                for number in singles.into_iter().chain([format.decode(code)]) {
                    let same = number.to_bits() == expected.to_bits();
                    assert!(same || (number.is_nan() && expected.is_nan()), "{format:?}: {code}");
                }
            }
        }
    }

    #[test]
    fn single_precision_is_encoded_as_double() {
        let every = (0..1 << 20).map(|i: u32| f32::from_bits(i << 12 | i & 0xFFF));
        for (format, ..) in ALL {
            let ties = (0..format.largest_code()).flat_map(|code| {
                let middle = ((format.decode(code) + format.decode(code + 1)) / 2.0) as f32;
                [middle.next_down(), middle, middle.next_up()].into_iter().flat_map(|x| [x, -x])
            });
            for value in every.clone().chain(ties).chain([f32::MIN_POSITIVE / 4.0, f32::MAX]) {
                assert_eq!(format.encode_single(value), format.encode(value.into()), "{format:?}: {value}");
            }
        }
    }

    /// Values between two neighbours round to the nearer one, and the midpoint to the even one.
    #[test]
    fn values_round_to_nearest_with_ties_to_even() {
        for (format, ..) in ALL {
            for code in 0..format.largest_code() {
                let (lower, upper) = (format.decode(code), format.decode(code + 1));
                let middle = (lower + upper) / 2.0;
                let even = if code % 2 == 0 { code } else { code + 1 };
                for (value, expected) in
                    [(middle.next_down(), code), (middle, even), (middle.next_up(), code + 1)]
                {
                    assert_eq!(format.encode(value), expected, "{format:?}: {value}");
                    let negative = format.encode(-value);
                    let zero = expected == 0 && format.special == Special::NanForNegativeZero;
                    assert_eq!(negative, if zero { 0 } else { expected | format.sign_bit() });
                }
            }
        }
        for code in 0..254 {
            let middle = 1.5 * decode_e8m0(code);
            let even = if code % 2 == 0 { code } else { code + 1 };
            let rounded = [middle.next_down(), middle, middle.next_up()].map(encode_e8m0);
            assert_eq!(rounded, [code, even, code + 1]);
        }
    }

    #[test]
    fn large_values_saturate() {
        for (format, largest, ..) in ALL {
            for value in [largest.next_up(), largest * 1.5, 1e300, f64::INFINITY] {
                assert_eq!(format.decode(format.encode(value)), largest);
                assert_eq!(format.decode(format.encode(-value)), -largest);
            }
            assert_eq!(format.decode(format.encode(f64::MIN_POSITIVE / 4.0)), 0.0);
        }
        assert!([E2M1, E2M3, E3M2].iter().all(|format| format.encode(f64::NAN) == 0));
        let of = |value| decode_e8m0(encode_e8m0(value));
        assert_eq!([of(0.0), of(-3.0), of(f64::INFINITY)], [power(-127), power(-127), power(127)]);
    }

    #[test]
    fn overflows_have_their_own_codes() {
        for (format, beyond, half_step) in
            [(E4M3, 0x7F, 464.0), (E5M2, 0x7C, 61440.0), (E4M3_FNUZ, 0x80, 248.0), (E5M2_FNUZ, 0x80, 61440.0)]
        {
            let most = format.largest_code();
            let even = if most % 2 == 0 { most } else { beyond };
            let of = |value: f32| format.encode_overflowing(value);
            assert_eq!(
                [of(half_step), of(half_step.next_down()), of(half_step.next_up())],
                [even, most, beyond]
            );
            let sign = if beyond == 0x80 { 0 } else { 0x80 };
            assert_eq!(
                [of(f32::INFINITY), of(-1e30), of(-1.0)],
                [beyond, beyond | sign, format.encode(-1.0)]
            );
            assert_eq!([of(f32::NAN), of(-f32::NAN)], [format.nan(), format.nan() | sign]);
        }
        assert_eq!(E2M1.encode_overflowing(1e9), E2M1.encode(6.0));
    }
}
