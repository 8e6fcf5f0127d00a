//! Vectors of one register, as the matrix kernels see them.

use super::level::Level;
use super::real::FastReal;

/// A register full of numbers.
///
/// # Safety
/// An implementation's functions need no instructions but those of its level. They are `#[inline(always)]`, and fast only
/// below [`Level::run`].
pub(crate) unsafe trait Vector: Copy {
    /// One number.
    type Number: FastReal;
    /// The level whose instructions the functions need.
    const LEVEL: Level;
    /// How many numbers there are.
    const LANES: usize;

    /// All lanes 0.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn zero() -> Self;

    /// All lanes the same number.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn splat(number: Self::Number) -> Self;

    /// Reads `LANES` numbers; no alignment is needed.
    ///
    /// # Safety
    /// As [`Vector::zero`], and `LANES` numbers are readable.
    unsafe fn load(from: *const Self::Number) -> Self;

    /// Writes `LANES` numbers; no alignment is needed.
    ///
    /// # Safety
    /// As [`Vector::zero`], and `LANES` numbers are writable.
    unsafe fn store(self, to: *mut Self::Number);

    /// `self * factor + summand`, in each lane.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self;

    /// The sum of all lanes.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn sum(self) -> Self::Number;
}

/// A vector of plain numbers; the compiler finds the registers.
#[derive(Clone, Copy)]
pub(crate) struct Plain<T, const N: usize>([T; N]);

// SAFETY: needs no instruction that the target does not have.
unsafe impl<T: FastReal, const N: usize> Vector for Plain<T, N> {
    type Number = T;
    const LEVEL: Level = Level::Portable;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([T::ZERO; N])
    }

    #[inline(always)]
    unsafe fn splat(number: T) -> Self {
        Self([number; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller promises N readable numbers.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller promises N writable numbers.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
        let mut result = summand.0;
        for ((r, a), b) in result.iter_mut().zip(self.0).zip(factor.0) {
            *r = a.fused(b, *r);
        }
        Self(result)
    }

    #[inline(always)]
    unsafe fn sum(self) -> T {
        self.0.into_iter().fold(T::ZERO, |sum, number| sum + number)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Level, Vector};

    macro_rules! vector {
        ($name:ident, $level:ident, $register:ty, $number:ty, $lanes:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
            |$v:ident| $sum:expr) => {
            #[derive(Clone, Copy)]
            pub(crate) struct $name($register);

            // SAFETY: what the functions need is named in the trait's contract.
            unsafe impl Vector for $name {
                type Number = $number;
                const LEVEL: Level = Level::$level;
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the caller promises the instructions.
                    Self(unsafe { $zero() })
                }

                #[inline(always)]
                unsafe fn splat(number: $number) -> Self {
                    // SAFETY: the caller promises the instructions.
                    Self(unsafe { $splat(number) })
                }

                #[inline(always)]
                unsafe fn load(from: *const $number) -> Self {
                    // SAFETY: the caller promises the instructions and readable numbers.
                    Self(unsafe { $load(from) })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $number) {
                    // SAFETY: the caller promises the instructions and writable numbers.
                    unsafe { $store(to, self.0) };
                }

                #[inline(always)]
                unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
                    // SAFETY: the caller promises the instructions.
                    Self(unsafe { $fma(self.0, factor.0, summand.0) })
                }

                #[inline(always)]
                unsafe fn sum(self) -> $number {
                    let $v = self.0;
                    // SAFETY: the caller promises the instructions.
                    unsafe { $sum }
                }
            }
        };
    }

    vector!(
        F32x16,
        Avx512,
        __m512,
        f32,
        16,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        |v| _mm512_reduce_add_ps(v)
    );
    vector!(
        F64x8,
        Avx512,
        __m512d,
        f64,
        8,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        |v| _mm512_reduce_add_pd(v)
    );
    vector!(
        F32x8,
        Avx2,
        __m256,
        f32,
        8,
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        |v| {
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    );
    vector!(
        F64x4,
        Avx2,
        __m256d,
        f64,
        4,
        _mm256_setzero_pd,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd,
        |v| {
            let two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    );
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{F32x8, F32x16, F64x4, F64x8};
