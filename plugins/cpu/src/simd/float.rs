//! Single and double precision as compute types, with their vectors on each instruction set.

use half::{bf16, f16};
use hipdnn_plugin_sdk::rounding::to_odd;

#[cfg(target_arch = "aarch64")]
use crate::simd::neon::{F32x4, F64x2};
#[cfg(not(target_arch = "aarch64"))]
use crate::simd::portable::PortableVector;
use crate::simd::vector::Float;
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{F32x8, F32x16, F64x4, F64x8};

macro_rules! implement_float {
    ($real:ident, $portable:ty, $avx2:ty, $avx512:ty, $from_half:ident, $single:path, $whole:expr, $bias:literal) => {
        impl Float for $real {
            type Portable = $portable;
            #[cfg(target_arch = "x86_64")]
            type Avx2 = $avx2;
            #[cfg(target_arch = "x86_64")]
            type Avx512 = $avx512;

            #[inline(always)]
            fn fused(self, factor: Self, summand: Self) -> Self {
                if cfg!(target_arch = "aarch64") {
                    self.mul_add(factor, summand)
                } else {
                    self * factor + summand
                }
            }
            #[inline(always)]
            fn scaled(self, exponent: Self) -> Self {
                // Adding this constant rounds to an integer, which is then in the lowest bits.
                let whole: $real = $whole;
                let exponent =
                    (exponent + whole).to_bits().cast_signed().wrapping_sub(whole.to_bits().cast_signed());
                // In two steps, because subnormal and the largest results are more than one power of 2 away.
                let first = exponent >> 1;
                let power = |exponent| {
                    let biased = $bias.wrapping_add_signed(exponent);
                    $real::from_bits(biased << ($real::MANTISSA_DIGITS - 1))
                };
                self * power(first) * power(exponent.wrapping_sub(first))
            }
            #[inline(always)]
            fn parted(self) -> (Self, Self) {
                const DIGITS: u32 = $real::MANTISSA_DIGITS;
                let (normal, less) = if self < $real::MIN_POSITIVE {
                    (self * (1_u64 << DIGITS) as $real, DIGITS as $real)
                } else {
                    (self, 0.0)
                };
                let lowest: $real = 0.75;
                let bits = normal.to_bits();
                let power = bits.wrapping_sub(lowest.to_bits()).cast_signed() >> (DIGITS - 1);
                let part = $real::from_bits(bits.wrapping_sub((power << (DIGITS - 1)).cast_unsigned()));
                (part, power as $real - less)
            }
            #[inline(always)]
            fn from_single(stored: f32) -> Self {
                stored as $real
            }
            #[inline(always)]
            fn from_double(stored: f64) -> Self {
                stored as $real
            }
            #[inline(always)]
            fn from_half(stored: f16) -> Self {
                stored.$from_half()
            }
            #[inline(always)]
            fn from_bfloat16(stored: bf16) -> Self {
                stored.$from_half()
            }
            #[inline(always)]
            fn into_single(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn into_double(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn into_half(self) -> f16 {
                f16::from_f32($single(self))
            }
            #[inline(always)]
            fn into_bfloat16(self) -> bf16 {
                bf16::from_f32($single(self))
            }
            #[inline(always)]
            fn into_whole(self) -> i32 {
                self as i32
            }
        }
    };
}

#[cfg(not(target_arch = "aarch64"))]
implement_float!(f32, PortableVector<f32, 4>, F32x8, F32x16, to_f32, std::convert::identity, 12_582_912.0, 127_u32);

#[cfg(not(target_arch = "aarch64"))]
implement_float!(f64, PortableVector<f64, 2>, F64x4, F64x8, to_f64, to_odd, 6_755_399_441_055_744.0, 1023_u64);

// Every processor of this target has NEON.
#[cfg(target_arch = "aarch64")]
implement_float!(f32, F32x4, F32x8, F32x16, to_f32, std::convert::identity, 12_582_912.0, 127_u32);

#[cfg(target_arch = "aarch64")]
implement_float!(f64, F64x2, F64x4, F64x8, to_f64, to_odd, 6_755_399_441_055_744.0, 1023_u64);
