//! Half registers of AVX-512, with lanes selected by masks: without them, writing some lanes takes many times as
//! long as writing all of them.

use std::arch::x86_64::*;

use crate::simd::isa::{Isa, IsaTask, run_avx512};
use crate::simd::vector::{Lanewise, PartialVector, Vector};
use crate::simd::x86::{F32x8, F64x4};

macro_rules! half {
    ($name:ident, $vector:ident, $number:ty, $load:ident, $store:ident) => {
        /// As the vector of this size of the next narrower instruction set.
        #[derive(Clone, Copy)]
        pub(crate) struct $name($vector);

        // SAFETY: the instruction set has the instructions of the one below.
        unsafe impl Vector for $name {
            const ISA: Isa = Isa::Avx512;
            const LANES: usize = $vector::LANES;

            #[inline(always)]
            unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                unsafe { run_avx512(work) }
            }

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $vector::zero() })
            }

            #[inline(always)]
            unsafe fn splat(number: $number) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $vector::splat(number) })
            }

            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: the processor has the vector's instructions, and there are readable
                // numbers.
                Self(unsafe { $vector::load(from) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: the processor has the vector's instructions, and there are writable
                // numbers.
                unsafe { self.0.store(to) };
            }

            #[inline(always)]
            unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.mul_add(factor.0, summand.0) })
            }

            #[inline(always)]
            unsafe fn sum(self) -> $number {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                unsafe { self.0.sum() }
            }

            #[inline(always)]
            unsafe fn lanewise(self, operation: Lanewise, other: Self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.lanewise(operation, other.0) })
            }

            #[inline(always)]
            unsafe fn swapped(self, distance: usize) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.swapped(distance) })
            }

            #[inline(always)]
            unsafe fn where_above_0(self, yes: Self, no: Self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.where_above_0(yes.0, no.0) })
            }
        }

        // SAFETY: what the functions need is named in the trait's contract.
        unsafe impl PartialVector for $name {
            type Scalar = $number;
            type Half = Self;
            type Lanes = __mmask8;

            #[inline(always)]
            unsafe fn lanes(low: usize, high: usize) -> __mmask8 {
                let below = |lane: usize| ((1_u32 << lane) - 1) as __mmask8;
                below(high) & !below(low)
            }

            #[inline(always)]
            unsafe fn load_lanes(from: *const $number, lanes: __mmask8) -> Self {
                // SAFETY: the processor has the vector's instructions, and there are the lanes'
                // numbers.
                Self($vector(unsafe { $load(lanes, from) }))
            }

            #[inline(always)]
            unsafe fn store_lanes(self, to: *mut $number, lanes: __mmask8) {
                // SAFETY: the processor has the vector's instructions, and there are the lanes'
                // numbers.
                unsafe { $store(to, lanes, self.0.0) };
            }

            #[inline(always)]
            unsafe fn unzip(self, next: Self) -> (Self, Self) {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                let (even, odd) = unsafe { self.0.unzip(next.0) };
                (Self(even), Self(odd))
            }

            #[inline(always)]
            unsafe fn zip(self, other: Self) -> (Self, Self) {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                let (lower, upper) = unsafe { self.0.zip(other.0) };
                (Self(lower), Self(upper))
            }

            #[inline(always)]
            unsafe fn following(self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.following() })
            }

            #[inline(always)]
            unsafe fn clamp(self, low: Self, high: Self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.clamp(low.0, high.0) })
            }

            #[inline(always)]
            unsafe fn where_larger(self, than: Self, yes: Self, no: Self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { self.0.where_larger(than.0, yes.0, no.0) })
            }
        }
    };
}

half!(Half32x8, F32x8, f32, _mm256_maskz_loadu_ps, _mm256_mask_storeu_ps);

half!(Half64x4, F64x4, f64, _mm256_maskz_loadu_pd, _mm256_mask_storeu_pd);
