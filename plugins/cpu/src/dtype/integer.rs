//! The compute types for integers and booleans, in which the reference computes exactly.

use std::ops::{Add, Div, Mul, Neg, Sub};

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::{ComputeType, Element};

/// An integer of 128 bits, which hold sums of products of 64-bit integers, for compute type `int32` and for sums of integers.
/// Overflow saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Integer(pub i128);

/// A boolean, for compute type `boolean`. Addition is `or`, multiplication `and`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Truth(pub bool);

impl Add for Integer {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Integer {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul for Integer {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

/// The quotient, truncated; x / 0 saturates to the end of the range on x's side, and 0 / 0 = 0.
impl Div for Integer {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self(match (self.0, other.0) {
            (0, 0) => 0,
            (above, 0) if above > 0 => i128::MAX,
            (_, 0) => i128::MIN,
            (above, below) => above.saturating_div(below),
        })
    }
}

impl Neg for Integer {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

#[expect(clippy::suspicious_arithmetic_impl, reason = "the sum of booleans is or")]
impl Add for Truth {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[expect(clippy::suspicious_arithmetic_impl, reason = "the difference of booleans is 0 if they are equal")]
impl Sub for Truth {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

#[expect(clippy::suspicious_arithmetic_impl, reason = "the product of booleans is and")]
impl Mul for Truth {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Div for Truth {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self(self.0 | !other.0)
    }
}

impl Neg for Truth {
    type Output = Self;
    fn neg(self) -> Self {
        self
    }
}

/// Computes functions in double precision. No engine uses them: [`crate::reference::pointwise`] refuses modes
/// not defined for integers.
macro_rules! by_double {
    ($($name:ident)*) => {$(
        fn $name(self) -> Self {
            Self::from_f64(self.to_f64().$name())
        }
    )*};
}

/// An element read and written as a double.
macro_rules! as_double {
    ($data_type:expr) => {
        Element::new(
            |base, index| {
                let element = <f64 as ComputeType>::element($data_type);
                // SAFETY: `Element::load` is called with a readable element.
                element.map_or(Self::ZERO, |element| Self::from_f64(unsafe { element.load(base, index) }))
            },
            |base, index, value: Self| {
                if let Some(element) = <f64 as ComputeType>::element($data_type) {
                    // SAFETY: `Element::store` is called with a writable element.
                    unsafe { element.store(base, index, value.to_f64()) }
                }
            },
        )
    };
}

macro_rules! elements_as_double {
    ($given:expr, $($name:ident)*) => {
        match $given {
            $(DataType::$name => as_double!(DataType::$name),)*
            DataType::Unset => return None,
        }
    };
}

/// An element of at least a byte that is an integer, or is rounded once to one.
macro_rules! whole {
    ($stored:ty, |$value:ident| $store:expr) => {
        Element::new(
            // SAFETY: `Element::load` is called with a readable element.
            |base, index| Integer(unsafe { base.cast::<$stored>().add(index).read_unaligned() } as i128),
            |base, index, Integer($value)| {
                // SAFETY: `Element::store` is called with a writable element.
                unsafe { base.cast::<$stored>().add(index).write_unaligned($store) }
            },
        )
    };
}

impl ComputeType for Integer {
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);
    const LARGEST: Self = Self(i128::MAX);

    fn from_f64(value: f64) -> Self {
        Self(value as i128)
    }
    fn to_f64(self) -> f64 {
        self.0 as f64
    }
    fn is_nan(self) -> bool {
        false
    }
    fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }
    fn ceil(self) -> Self {
        self
    }
    fn floor(self) -> Self {
        self
    }
    by_double!(sqrt exp exp_m1 ln ln_1p sin tan tanh);
    fn erf(self) -> Self {
        Self::from_f64(libm::erf(self.to_f64()))
    }

    fn element(data_type: DataType) -> Option<Element<Self>> {
        Some(match data_type {
            DataType::Int64 => {
                whole!(i64, |value| i64::try_from(value).unwrap_or(if value < 0 {
                    i64::MIN
                } else {
                    i64::MAX
                }))
            }
            DataType::Int32 => {
                whole!(i32, |value| i32::try_from(value).unwrap_or(if value < 0 {
                    i32::MIN
                } else {
                    i32::MAX
                }))
            }
            DataType::Int8 => {
                whole!(i8, |value| i8::try_from(value).unwrap_or(if value < 0 { i8::MIN } else { i8::MAX }))
            }
            DataType::Uint8 => {
                whole!(u8, |value| u8::try_from(value).unwrap_or(if value < 0 { 0 } else { u8::MAX }))
            }
            DataType::Float => whole!(f32, |value| value as f32),
            other => elements_as_double!(
                other,
                Double Half Bfloat16 Boolean Fp8E4m3 Fp8E5m2 Fp8E4m3Fnuz Fp8E5m2Fnuz Fp6E2m3 Fp6E3m2 Fp4E2m1
                Fp8E8m0 Int4 Float Int64 Int32 Int8 Uint8
            ),
        })
    }
}

impl ComputeType for Truth {
    const ZERO: Self = Self(false);
    const ONE: Self = Self(true);
    const LARGEST: Self = Self(true);

    fn from_f64(value: f64) -> Self {
        Self(value != 0.0)
    }
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self.0))
    }
    fn is_nan(self) -> bool {
        false
    }
    fn abs(self) -> Self {
        self
    }
    fn ceil(self) -> Self {
        self
    }
    fn floor(self) -> Self {
        self
    }
    by_double!(sqrt exp exp_m1 ln ln_1p sin tan tanh);
    fn erf(self) -> Self {
        self
    }

    fn element(data_type: DataType) -> Option<Element<Self>> {
        Some(elements_as_double!(
            data_type,
            Double Half Bfloat16 Boolean Fp8E4m3 Fp8E5m2 Fp8E4m3Fnuz Fp8E5m2Fnuz Fp6E2m3 Fp6E3m2 Fp4E2m1 Fp8E8m0
            Int4 Float Int64 Int32 Int8 Uint8
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(data_type: DataType, value: i128) -> f64 {
        let mut bytes = [0xAA_u8; 24];
        let element = Element::<Integer>::of(data_type).unwrap();
        let double = Element::<f64>::of(data_type).unwrap();
        // SAFETY: 24 bytes hold an element at index 1 from an odd address.
        unsafe {
            let base = bytes.as_mut_ptr().add(1);
            element.store(base, 1, Integer(value));
            double.load(base, 1)
        }
    }

    #[test]
    fn integers_saturate_when_they_are_stored() {
        assert_eq!(stored(DataType::Int8, 300), 127.0);
        assert_eq!(stored(DataType::Int8, -300), -128.0);
        assert_eq!(stored(DataType::Uint8, -1), 0.0);
        assert_eq!(stored(DataType::Uint8, 256), 255.0);
        assert_eq!(stored(DataType::Int32, 1 << 40), 2_147_483_647.0);
        assert_eq!(stored(DataType::Int32, -(1 << 40)), -2_147_483_648.0);
        assert_eq!(stored(DataType::Int64, 1 << 70), 9_223_372_036_854_775_808.0);
        assert_eq!(stored(DataType::Int64, -(1 << 70)), -9_223_372_036_854_775_808.0);
        assert_eq!(stored(DataType::Int4, 9), 7.0);
        assert_eq!(stored(DataType::Boolean, -5), 1.0);
        assert_eq!(stored(DataType::Float, (1 << 24) + 1), 16_777_216.0);
        assert_eq!(stored(DataType::Half, 70_000), f64::INFINITY);
        assert!(Element::<Integer>::of(DataType::Unset).is_err());
    }

    #[test]
    fn quotients_truncate_and_division_by_zero_is_defined() {
        let of = |a, b| (Integer(a) / Integer(b)).0;
        assert_eq!([of(7, 2), of(-7, 2), of(7, -2)], [3, -3, -3]);
        assert_eq!([of(0, 0), of(3, 0), of(-3, 0), of(i128::MIN, -1)], [0, i128::MAX, i128::MIN, i128::MAX]);
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let (most, least) = (Integer(i128::MAX), Integer(i128::MIN));
        assert_eq!([most + Integer(1), least - Integer(1), most * most, -least], [most, least, most, most]);
        assert_eq!(Integer::from_f64(-2.9), Integer(-2));
        assert_eq!(Integer::from_f64(f64::NAN), Integer(0));
    }

    #[test]
    fn booleans_have_or_and_and() {
        let [no, yes] = [Truth(false), Truth(true)];
        assert_eq!([yes + yes, yes * no, yes - yes, no + yes], [yes, no, no, yes]);
        assert_eq!(Truth::from_f64(0.25), yes);
        assert_eq!(Truth::from_f64(f64::NAN), yes);
    }
}
