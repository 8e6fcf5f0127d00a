//! Half registers of AVX-512 with lane masks: without them, writing some lanes is many times as slow as
//! writing all.

use std::arch::x86_64::*;

use crate::simd::isa::{Isa, IsaTask, run_avx512};
use crate::simd::vector::{Lanewise, PartialVector, Vector, by_contract};
use crate::simd::x86::{F32x8, F64x4};

macro_rules! half {
    ($name:ident, $vector:ident, $scalar:ty, $load:ident, $store:ident) => {
        /// Like the vector of this size of the next narrower instruction set.
        #[derive(Clone, Copy)]
        pub(crate) struct $name($vector);

        // SAFETY: the instruction set includes the narrower one.
        unsafe impl Vector for $name {
            const ISA: Isa = Isa::Avx512;
            const LANES: usize = $vector::LANES;

            by_contract! {
                fn dispatch<W: IsaTask>(work: W) -> W::Output { run_avx512(work) }
                fn call<W: IsaTask>(work: W) -> W::Output { work.run_avx512() }
                fn zero() -> Self { Self($vector::zero()) }
                fn splat(value: $scalar) -> Self { Self($vector::splat(value)) }
                fn load(from: *const $scalar) -> Self { Self($vector::load(from)) }
                fn store(self: Self, to: *mut $scalar) { self.0.store(to) }
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, summand: Self) -> Self {
                Self(self.0.mul_add(factor.0, summand.0))
            }

            #[inline(always)]
            fn sum(self) -> $scalar {
                self.0.sum()
            }

            #[inline(always)]
            fn lanewise(self, operation: Lanewise, other: Self) -> Self {
                Self(self.0.lanewise(operation, other.0))
            }

            #[inline(always)]
            fn swapped(self, distance: usize) -> Self {
                Self(self.0.swapped(distance))
            }

            #[inline(always)]
            fn where_above_0(self, yes: Self, no: Self) -> Self {
                Self(self.0.where_above_0(yes.0, no.0))
            }
        }

        // SAFETY: the trait's contract guarantees what the functions need.
        unsafe impl PartialVector for $name {
            type Scalar = $scalar;
            type Half = Self;
            type Lanes = __mmask8;

            #[inline(always)]
            unsafe fn lanes(low: usize, high: usize) -> __mmask8 {
                let below = |lane: usize| ((1_u32 << lane) - 1) as __mmask8;
                below(high) & !below(low)
            }

            by_contract! {
                fn load_lanes(from: *const $scalar, lanes: __mmask8) -> Self { Self($vector($load(lanes, from))) }
                fn store_lanes(self: Self, to: *mut $scalar, lanes: __mmask8) { $store(to, lanes, self.0.0) }
            }

            #[inline(always)]
            fn unzip(self, next: Self) -> (Self, Self) {
                let (even, odd) = self.0.unzip(next.0);
                (Self(even), Self(odd))
            }

            #[inline(always)]
            fn zip(self, other: Self) -> (Self, Self) {
                let (lower, upper) = self.0.zip(other.0);
                (Self(lower), Self(upper))
            }

            #[inline(always)]
            fn following(self) -> Self {
                Self(self.0.following())
            }

            #[inline(always)]
            fn clamp(self, low: Self, high: Self) -> Self {
                Self(self.0.clamp(low.0, high.0))
            }

            #[inline(always)]
            fn where_larger(self, than: Self, yes: Self, no: Self) -> Self {
                Self(self.0.where_larger(than.0, yes.0, no.0))
            }
        }
    };
}

half!(Half32x8, F32x8, f32, _mm256_maskz_loadu_ps, _mm256_mask_storeu_ps);

half!(Half64x4, F64x4, f64, _mm256_maskz_loadu_pd, _mm256_mask_storeu_pd);
