//! Elements of any dtype in memory, and their values.

use std::ops::{Add, Div, Mul, Neg, Sub};

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::rounding::to_odd;
use hipdnn_plugin_sdk::small_float;

use crate::dtype::packed_bits;
use crate::kernel::Refusal;

/// A type to compute in: `f32`, `f64`, or one of the reference's types for integers and booleans
/// ([`crate::dtype::integer`]).
pub trait ComputeType:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The largest finite value.
    const LARGEST: Self;

    /// The nearest value to a double.
    fn from_f64(value: f64) -> Self;
    /// The same value as a double.
    fn to_f64(self) -> f64;
    /// Whether the value is NaN.
    fn is_nan(self) -> bool;
    /// The magnitude.
    fn abs(self) -> Self;
    /// The smallest integer not less than the value.
    fn ceil(self) -> Self;
    /// The largest integer not greater than the value.
    fn floor(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to the value.
    fn exp(self) -> Self;
    /// e to the value, less 1, exact near 0.
    fn exp_m1(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The natural logarithm of 1 more than the value, exact near 0.
    fn ln_1p(self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The tangent.
    fn tan(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The error function.
    fn erf(self) -> Self;

    /// Reads and writes elements of a data type as this type.
    fn element(data_type: DataType) -> Option<Element<Self>>;
}

/// How elements of one data type are read and written as `R`.
///
/// Elements smaller than a byte are packed, the first in the lowest bits; `index` counts elements. Stores to
/// integers truncate and saturate; NaN becomes 0. BOOLEAN reads as 0 or 1; all values but 0 are written as 1.
pub struct Element<R> {
    load: unsafe fn(*const u8, usize) -> R,
    store: unsafe fn(*mut u8, usize, R),
}

impl<R> Clone for Element<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Element<R> {}

impl<R: ComputeType> Element<R> {
    /// The element of a dtype. An error names the dtype.
    pub fn of(data_type: DataType) -> Result<Self, Refusal> {
        R::element(data_type)
            .ok_or_else(|| format!("data type is {}, expected one that is set", data_type.name()))
    }

    /// An element read and written by these functions, which follow [`Element::load`] and [`Element::store`].
    pub(crate) const fn new(
        load: unsafe fn(*const u8, usize) -> R,
        store: unsafe fn(*mut u8, usize, R),
    ) -> Self {
        Self { load, store }
    }

    /// Reads element `index` from `base`; no alignment is needed.
    ///
    /// # Safety
    /// The element lies in memory that is valid for reads.
    pub unsafe fn load(&self, base: *const u8, index: usize) -> R {
        // SAFETY: the element is readable. This function requires it.
        unsafe { (self.load)(base, index) }
    }

    /// Writes element `index`, counted from `base`.
    ///
    /// # Safety
    /// The element lies in memory that is valid for writes.
    pub unsafe fn store(&self, base: *mut u8, index: usize, value: R) {
        // SAFETY: the element is writable. This function requires it.
        unsafe { (self.store)(base, index, value) }
    }
}

/// Whether elements are integers or booleans.
pub(crate) fn is_integer(data_type: DataType) -> bool {
    use DataType::{Boolean, Int4, Int8, Int32, Int64, Uint8};
    matches!(data_type, Int64 | Int32 | Int8 | Uint8 | Int4 | Boolean)
}

/// Whether elements are 8-bit floats.
pub(crate) fn is_float_of_eight_bits(data_type: DataType) -> bool {
    use DataType::{Fp8E4m3, Fp8E4m3Fnuz, Fp8E5m2, Fp8E5m2Fnuz};
    matches!(data_type, Fp8E4m3 | Fp8E5m2 | Fp8E4m3Fnuz | Fp8E5m2Fnuz)
}

/// An element whose bytes are a `$stored`.
macro_rules! element {
    ($compute:ty, $stored:ty, |$s:ident| $load:expr, |$r:ident| $store:expr) => {
        Element {
            load: |base, index| {
                // SAFETY: `Element::load` is called with a readable element.
                let $s = unsafe { base.cast::<$stored>().add(index).read_unaligned() };
                $load
            },
            store: |base, index, $r: $compute| {
                let stored: $stored = $store;
                // SAFETY: `Element::store` is called with a writable element.
                unsafe { base.cast::<$stored>().add(index).write_unaligned(stored) }
            },
        }
    };
}

/// An element of `$bits` bits, coded in the low bits of a byte.
macro_rules! packed {
    ($compute:ty, $bits:literal, |$s:ident| $load:expr, |$r:ident| $store:expr) => {
        Element {
            load: |base, index| {
                // SAFETY: `Element::load` is called with a readable element.
                let $s = unsafe { packed_bits::load_bits::<$bits>(base, index) };
                $load
            },
            store: |base, index, $r: $compute| {
                let code: u8 = $store;
                // SAFETY: `Element::store` is called with a writable element.
                unsafe { packed_bits::store_bits::<$bits>(base, index, code) }
            },
        }
    };
}

/// An element of a small floating-point format.
macro_rules! float {
    ($compute:ident, 8, $format:expr) => {
        element!(
            $compute,
            u8,
            |s| {
                static TABLE: small_float::DecodeTable = $format.decode_table();
                $compute::from(TABLE.of(s))
            },
            |r| $format.encode(r.to_f64())
        )
    };
    ($compute:ident, $bits:literal, $format:expr) => {
        packed!($compute, $bits, |s| $compute::from_f64($format.decode(s)), |r| $format.encode(r.to_f64()))
    };
}

/// Functions that the primitive type already has.
macro_rules! unary {
    ($($name:ident)*) => {$(
        fn $name(self) -> Self {
            self.$name()
        }
    )*};
}

macro_rules! compute_type {
    ($compute:ident, $to:ident, $single:path, $erf:path) => {
        impl ComputeType for $compute {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LARGEST: Self = $compute::MAX;

            fn from_f64(value: f64) -> Self {
                value as $compute
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            unary!(abs ceil floor sqrt exp exp_m1 ln ln_1p sin tan tanh);
            fn erf(self) -> Self {
                $erf(self)
            }

            fn element(data_type: DataType) -> Option<Element<Self>> {
                Some(match data_type {
                    DataType::Float => element!($compute, f32, |s| s as $compute, |r| r as f32),
                    DataType::Double => element!($compute, f64, |s| s as $compute, |r| r as f64),
                    DataType::Half => element!($compute, f16, |s| s.$to(), |r| f16::from_f32($single(r))),
                    DataType::Bfloat16 => element!($compute, bf16, |s| s.$to(), |r| bf16::from_f32($single(r))),
                    DataType::Int64 => element!($compute, i64, |s| s as $compute, |r| r as i64),
                    DataType::Int32 => element!($compute, i32, |s| s as $compute, |r| r as i32),
                    DataType::Int8 => element!($compute, i8, |s| $compute::from(s), |r| r as i8),
                    DataType::Uint8 => element!($compute, u8, |s| $compute::from(s), |r| r as u8),
                    DataType::Boolean => {
                        element!($compute, u8, |s| $compute::from(u8::from(s != 0)), |r| u8::from(r != 0.0))
                    }
                    DataType::Fp8E4m3 => float!($compute, 8, small_float::E4M3),
                    DataType::Fp8E5m2 => float!($compute, 8, small_float::E5M2),
                    DataType::Fp8E4m3Fnuz => float!($compute, 8, small_float::E4M3_FNUZ),
                    DataType::Fp8E5m2Fnuz => float!($compute, 8, small_float::E5M2_FNUZ),
                    DataType::Fp6E2m3 => float!($compute, 6, small_float::E2M3),
                    DataType::Fp6E3m2 => float!($compute, 6, small_float::E3M2),
                    DataType::Fp4E2m1 => float!($compute, 4, small_float::E2M1),
                    DataType::Fp8E8m0 => {
                        element!($compute, u8, |s| $compute::from_f64(small_float::decode_e8m0(s)), |r| {
                            small_float::encode_e8m0(r.to_f64())
                        })
                    }
                    // The sign is the highest of four bits.
                    DataType::Int4 => {
                        packed!($compute, 4, |s| $compute::from((s << 4).cast_signed() >> 4), |r| {
                            (r as i8).clamp(-8, 7).cast_unsigned() & 0xF
                        })
                    }
                    DataType::Unset => return None,
                })
            }
        }
    };
}

compute_type!(f32, to_f32, std::convert::identity, libm::erff);

compute_type!(f64, to_f64, to_odd, libm::erf);

/// The Rust type of a compute type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// `f32`: compute types float, half and bfloat16.
    Single,
    /// `f64`: compute type double.
    Double,
}

/// The arithmetic of a node's compute type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Floating point.
    Floating(Compute),
    /// Compute type `int32`.
    Integer,
    /// Compute type `boolean`.
    Truth,
}

impl Arithmetic {
    /// The arithmetic of a node's compute type.
    pub fn of(data_type: DataType) -> Result<Self, Refusal> {
        match data_type {
            DataType::Int32 => Ok(Self::Integer),
            DataType::Boolean => Ok(Self::Truth),
            other => match Compute::of(other) {
                Ok(compute) => Ok(Self::Floating(compute)),
                Err(_) => Err(format!(
                    "compute type is {}, expected float, double, half, bfloat16, int32 or boolean",
                    other.name()
                )),
            },
        }
    }
}

impl Compute {
    /// The type for a node's compute type.
    pub fn of(data_type: DataType) -> Result<Self, Refusal> {
        match data_type {
            DataType::Float | DataType::Half | DataType::Bfloat16 => Ok(Self::Single),
            DataType::Double => Ok(Self::Double),
            other => {
                Err(format!("compute type is {}, expected float, double, half or bfloat16", other.name()))
            }
        }
    }
}

/// Evaluates an expression with the type of a [`Compute`] as `$t`.
macro_rules! with_compute {
    ($compute:expr, $t:ident => $call:expr) => {
        match $compute {
            $crate::dtype::element::Compute::Single => {
                type $t = f32;
                $call
            }
            $crate::dtype::element::Compute::Double => {
                type $t = f64;
                $call
            }
        }
    };
}
pub(crate) use with_compute;

#[cfg(test)]
mod tests {
    use super::*;

    fn stored<R: ComputeType>(data_type: DataType, value: R) -> f64 {
        let mut bytes = [0xAA_u8; 24];
        let element = Element::<R>::of(data_type).unwrap();
        // SAFETY: 24 bytes hold an element at index 1 from an odd address.
        unsafe {
            let base = bytes.as_mut_ptr().add(1);
            element.store(base, 1, value);
            element.load(base, 1).to_f64()
        }
    }

    #[test]
    fn floats_round_to_nearest() {
        assert_eq!(stored(DataType::Half, 1.0_f32 + 1.0 / 4096.0), 1.0);
        assert_eq!(stored(DataType::Half, 65520.0_f64), f64::INFINITY);
        assert_eq!(stored(DataType::Bfloat16, 1.0_f64 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(stored(DataType::Double, 1.0_f64 / 3.0), 1.0 / 3.0);
        assert_eq!(stored(DataType::Float, 1.0_f64 / 3.0), f64::from(1.0_f32 / 3.0));
        assert!(stored(DataType::Bfloat16, f32::NAN).is_nan());
    }

    #[test]
    fn doubles_round_once_to_half_types() {
        // Just above and just below the middle of two neighbours, by less than a bit of single precision.
        for power in [-20, 0, 14] {
            let unit = 2.0_f64.powi(power);
            let half = |value| stored(DataType::Half, value * unit) / unit;
            let bfloat16 = |value| stored(DataType::Bfloat16, value * unit) / unit;
            let tiny = 2.0_f64.powi(-40);
            assert_eq!(bfloat16(1.0 + 2.0_f64.powi(-8) + tiny), 1.0 + 2.0_f64.powi(-7));
            assert_eq!(bfloat16(1.0 + 3.0 * 2.0_f64.powi(-8) - tiny), 1.0 + 2.0_f64.powi(-7));
            assert_eq!(bfloat16(1.0 + 2.0_f64.powi(-8)), 1.0);
            if power == 0 {
                assert_eq!(half(-1.0 - 2.0_f64.powi(-11) - tiny), -1.0 - 2.0_f64.powi(-10));
                assert_eq!(half(1.0 + 3.0 * 2.0_f64.powi(-11) - tiny), 1.0 + 2.0_f64.powi(-10));
            }
        }
        assert_eq!(stored(DataType::Bfloat16, 1e300_f64), f64::INFINITY);
        assert_eq!(stored(DataType::Half, 5e-324_f64), 0.0);
        assert_eq!(stored(DataType::Half, -2.0_f64.powi(-25) * 1.000_000_1), -2.0_f64.powi(-24));
    }

    #[test]
    fn integers_saturate_and_truncate() {
        assert_eq!(stored(DataType::Int8, -1.9_f32), -1.0);
        assert_eq!(stored(DataType::Int8, 1e9_f32), 127.0);
        assert_eq!(stored(DataType::Uint8, -3.0_f64), 0.0);
        assert_eq!(stored(DataType::Int32, f32::NAN), 0.0);
        assert_eq!(stored(DataType::Int64, 9_007_199_254_740_991.0_f64), 9_007_199_254_740_991.0);
        assert_eq!(stored(DataType::Boolean, f32::NAN), 1.0);
        assert_eq!(stored(DataType::Boolean, -0.0_f64), 0.0);
    }

    #[test]
    fn small_types_saturate() {
        for (data_type, largest) in [
            (DataType::Fp8E4m3, 448.0),
            (DataType::Fp8E5m2, 57344.0),
            (DataType::Fp8E4m3Fnuz, 240.0),
            (DataType::Fp8E5m2Fnuz, 57344.0),
            (DataType::Fp6E2m3, 7.5),
            (DataType::Fp6E3m2, 28.0),
            (DataType::Fp4E2m1, 6.0),
            (DataType::Int4, 7.0),
        ] {
            assert_eq!(stored(data_type, 1e30_f32), largest);
            let lowest = if data_type == DataType::Int4 { -8.0 } else { -largest };
            assert_eq!(stored(data_type, -1e300_f64), lowest);
            assert_eq!(stored(data_type, 3.0_f32), 3.0);
            assert_eq!(stored(data_type, -2.0_f64), -2.0);
        }
        assert_eq!(stored(DataType::Fp8E8m0, 0.25_f32), 0.25);
        assert_eq!(stored(DataType::Int4, -3.9_f32), -3.0);
    }

    #[test]
    fn unsupported_types_are_refused() {
        assert!(Element::<f32>::of(DataType::Unset).is_err());
        for data_type in [DataType::Unset, DataType::Fp8E4m3, DataType::Int4] {
            assert!(Compute::of(data_type).is_err());
        }
    }
}
