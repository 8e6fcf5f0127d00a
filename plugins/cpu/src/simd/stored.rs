//! The element types of tensors: conversion to and from the compute type.

use std::any::TypeId;

use half::{bf16, f16};
use hipdnn_plugin_sdk::small_float;

use crate::simd::vector::Float;

/// An element in its stored form.
pub(crate) trait Stored: Copy + Send + Sync + 'static {
    /// The value.
    fn value<T: Float>(self) -> T;
    /// The element nearest to a value.
    fn nearest<T: Float>(value: T) -> Self;

    /// Whether loops over [`Stored::in_line`] and [`Stored::nearest`] in single precision vectorize.
    const IN_LINE: bool = false;

    /// The value; for loops over many elements.
    #[inline(always)]
    fn in_line<T: Float>(self) -> T {
        self.value()
    }
}

macro_rules! stored {
    ($stored:ident, $from:ident, $into:ident) => {
        impl Stored for $stored {
            #[inline(always)]
            fn value<T: Float>(self) -> T {
                T::$from(self)
            }
            #[inline(always)]
            fn nearest<T: Float>(value: T) -> Self {
                value.$into()
            }
        }
    };
}

stored!(f32, from_single, into_single);

stored!(f64, from_double, into_double);

stored!(f16, from_half, into_half);

stored!(bf16, from_bfloat16, into_bfloat16);

macro_rules! stored_byte {
    ($stored:ident) => {
        impl Stored for $stored {
            const IN_LINE: bool = true;

            #[inline(always)]
            fn value<T: Float>(self) -> T {
                T::from_single(f32::from(self))
            }
            #[inline(always)]
            fn nearest<T: Float>(value: T) -> Self {
                if TypeId::of::<T>() == TypeId::of::<f32>() {
                    value.into_single() as $stored
                } else {
                    value.to_f64() as $stored
                }
            }
        }
    };
}

stored_byte!(i8);

stored_byte!(u8);

macro_rules! stored_integer {
    ($stored:ident) => {
        impl Stored for $stored {
            #[inline(always)]
            fn value<T: Float>(self) -> T {
                T::from_f64(f64::from(self))
            }
            #[inline(always)]
            fn nearest<T: Float>(value: T) -> Self {
                value.to_f64() as $stored
            }
        }
    };
}

stored_integer!(i32);

impl Stored for i64 {
    #[inline(always)]
    fn value<T: Float>(self) -> T {
        // Rounded once.
        if TypeId::of::<T>() == TypeId::of::<f32>() {
            T::from_single(self as f32)
        } else {
            T::from_double(self as f64)
        }
    }
    #[inline(always)]
    fn nearest<T: Float>(value: T) -> Self {
        value.to_f64() as i64
    }
}

macro_rules! stored_code {
    ($stored:ident, $format:ident) => {
        #[doc = concat!("An element of the format `", stringify!($format), "`.")]
        #[derive(Clone, Copy)]
        pub(crate) struct $stored(pub(crate) u8);

        impl Stored for $stored {
            #[inline(always)]
            fn value<T: Float>(self) -> T {
                static TABLE: small_float::DecodeTable = small_float::$format.decode_table();
                T::from_single(TABLE.of(self.0))
            }

            const IN_LINE: bool = true;

            #[inline(always)]
            fn in_line<T: Float>(self) -> T {
                T::from_single(small_float::$format.decode_single(self.0))
            }

            #[inline(always)]
            fn nearest<T: Float>(value: T) -> Self {
                // In double precision the value could be rounded twice, first to single precision.
                if TypeId::of::<T>() == TypeId::of::<f32>() {
                    Self(small_float::$format.encode_single(value.into_single()))
                } else {
                    Self(small_float::$format.encode(value.to_f64()))
                }
            }
        }
    };
}

stored_code!(E4m3, E4M3);

stored_code!(E5m2, E5M2);

stored_code!(E4m3Fnuz, E4M3_FNUZ);

stored_code!(E5m2Fnuz, E5M2_FNUZ);

stored_code!(E2m3, E2M3);

stored_code!(E3m2, E3M2);

stored_code!(E2m1, E2M1);

/// An element of `fp8_e8m0`.
#[derive(Clone, Copy)]
pub(crate) struct E8m0(u8);

impl Stored for E8m0 {
    const IN_LINE: bool = true;

    #[inline(always)]
    fn value<T: Float>(self) -> T {
        // The code is the exponent, except for the smallest value, which is subnormal.
        let bits = u32::from(self.0) << (f32::MANTISSA_DIGITS - 1);
        let bits = if self.0 == 0 { 1 << (f32::MANTISSA_DIGITS - 2) } else { bits };
        T::from_single(if self.0 == u8::MAX { f32::NAN } else { f32::from_bits(bits) })
    }
    #[inline(always)]
    fn nearest<T: Float>(value: T) -> Self {
        Self(small_float::encode_e8m0(value.to_f64()))
    }
}

/// An integer of four bits, in the lower half of a byte.
#[derive(Clone, Copy)]
pub(crate) struct Int4(u8);

impl Stored for Int4 {
    const IN_LINE: bool = true;

    #[inline(always)]
    fn value<T: Float>(self) -> T {
        T::from_single(f32::from((self.0 << 4).cast_signed() >> 4))
    }
    #[inline(always)]
    fn nearest<T: Float>(value: T) -> Self {
        Self((value.to_f64() as i8).clamp(-8, 7).cast_unsigned() & 0xF)
    }
}

/// A boolean: read as 0 or 1, and written as 1 if the value is not zero.
#[derive(Clone, Copy)]
pub(crate) struct Boolean(u8);

impl Stored for Boolean {
    #[inline(always)]
    fn value<T: Float>(self) -> T {
        if self.0 == 0 { T::ZERO } else { T::ONE }
    }
    #[inline(always)]
    fn nearest<T: Float>(value: T) -> Self {
        Self(u8::from(value != T::ZERO))
    }
}

/// Evaluates an expression with `$t` as the first matching pattern's type, or another expression if none
/// matches.
macro_rules! with_type {
    ($value:expr, $t:ident => $call:expr, { $($pattern:pat => $type:ty),+ $(,)? } $(, $other:ident => $rest:expr)?) => {
        match $value {
            $($pattern => {
                type $t = $type;
                $call
            })+
            $($other => $rest,)?
        }
    };
}
pub(crate) use with_type;

/// Calls a generic function with the element of a dtype as its type argument `$s`; `$other` gets the dtype if it is
/// not a float of at least 16 bits.
macro_rules! with_stored {
    ($data_type:expr, $s:ident => $call:expr, $other:ident => $refuse:expr) => {{
        use ::hipdnn_plugin_sdk::graph::DataType as Type;
        $crate::simd::stored::with_type!($data_type, $s => $call, {
            Type::Float => f32,
            Type::Double => f64,
            Type::Half => ::half::f16,
            Type::Bfloat16 => ::half::bf16,
        }, $other => $refuse)
    }};
}
pub(crate) use with_stored;

/// The same, including 8-bit floats.
macro_rules! with_float {
    ($data_type:expr, $s:ident => $call:expr, $other:ident => $refuse:expr) => {{
        use $crate::simd::stored as types;
        types::with_stored!($data_type, $s => $call, other => types::with_type!(other, $s => $call, {
            Type::Fp8E4m3 => types::E4m3,
            Type::Fp8E5m2 => types::E5m2,
            Type::Fp8E4m3Fnuz => types::E4m3Fnuz,
            Type::Fp8E5m2Fnuz => types::E5m2Fnuz,
        }, $other => $refuse))
    }};
}
pub(crate) use with_float;
