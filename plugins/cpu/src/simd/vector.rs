//! Vectors of one register, as the matrix kernels see them.

use crate::dtype::element::Real;
use crate::simd::isa::{Isa, IsaTask, run_portable};
use crate::simd::partial::PartialVector;
use crate::simd::real::{Float, relu};
use crate::tensor::combine::MAX_LANES;

/// Added to a number of single precision, it leaves no room for a fraction, and the whole number is in the lowest bits.
pub(crate) const WHOLE: f32 = 12_582_912.0;

/// A register full of numbers.
///
/// # Safety
/// An implementation's functions need no instructions but those of its level. They are `#[inline(always)]`, and fast only
/// below [`Isa::run`].
pub(crate) unsafe trait Vector: PartialVector {
    /// The level whose instructions the functions need.
    const ISA: Isa;
    /// How many numbers there are.
    const LANES: usize;

    /// Does work compiled for the vector's level.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output;

    /// All lanes 0.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn zero() -> Self;

    /// All lanes the same number.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn splat(number: Self::Scalar) -> Self;

    /// Reads `LANES` numbers; no alignment is needed.
    ///
    /// # Safety
    /// As [`Vector::zero`], and `LANES` numbers are readable.
    unsafe fn load(from: *const Self::Scalar) -> Self;

    /// Writes `LANES` numbers; no alignment is needed.
    ///
    /// # Safety
    /// As [`Vector::zero`], and `LANES` numbers are writable.
    unsafe fn store(self, to: *mut Self::Scalar);

    /// Writes `LANES` numbers past the caches where the level can do that. [`crate::simd::stream::settle`] is to be called afterwards.
    ///
    /// # Safety
    /// As [`Vector::store`], and `to` is aligned to the size of the vector.
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self::Scalar) {
        // SAFETY: the caller promises the instructions and writable numbers.
        unsafe { self.store(to) };
    }

    /// `self * factor + summand`, in each lane.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self;

    /// The sum of all lanes.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn sum(self) -> Self::Scalar;

    /// An operation on each lane of one or two vectors.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn lanewise(self, operation: Lanewise, other: Self) -> Self;

    /// Exchanges lanes that are this far apart, a power of 2 below [`Vector::LANES`].
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn swapped(self, distance: usize) -> Self;

    /// In each lane `yes` where the number is above 0, else `no`, as where it is NaN.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn where_above_0(self, yes: Self, no: Self) -> Self;

    /// Whether [`Vector::look_up`] is about as fast as an addition.
    const LOOKS_UP: bool = false;

    /// In each lane the number of the table with the index n, from 0 to 15, where this one's is [`WHOLE`] + n; any number of the table
    /// where it is something else.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    #[inline(always)]
    unsafe fn look_up(self, table: &[Self::Scalar; 16]) -> Self {
        let mut numbers = [Self::Scalar::ZERO; MAX_LANES];
        // SAFETY: the caller promises the instructions; no vector has more lanes.
        unsafe {
            self.store(numbers.as_mut_ptr());
            for number in &mut numbers {
                *number = table[(number.to_f64() - f64::from(WHOLE)) as usize % 16];
            }
            Self::load(numbers.as_ptr())
        }
    }

    /// Of each number above 0 one from 0.75 to 1.5 and a whole one, the power of 2 that it is to be multiplied by. Of infinity and of
    /// what is not above 0 these are any two.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    #[inline(always)]
    unsafe fn parted(self) -> (Self, Self) {
        let mut numbers = [[Self::Scalar::ZERO; MAX_LANES]; 2];
        // SAFETY: the caller promises the instructions; no vector has more lanes.
        unsafe {
            self.store(numbers[0].as_mut_ptr());
            let [parts, powers] = &mut numbers;
            for (part, power) in parts.iter_mut().zip(powers) {
                (*part, *power) = part.parted();
            }
            (Self::load(numbers[0].as_ptr()), Self::load(numbers[1].as_ptr()))
        }
    }
}

/// Operations on each lane of x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanewise {
    /// x + y.
    Add,
    /// x - y.
    Sub,
    /// x · y.
    Mul,
    /// x / y.
    Div,
    /// x where x ≥ y or x is NaN, else y.
    Max,
    /// x where x ≤ y or x is NaN, else y.
    Min,
    /// |x|.
    Abs,
    /// -x.
    Neg,
    /// 0 where x ≤ 0, else x, or the largest number where x is infinite.
    Relu,
    /// x.
    Identity,
    /// The root of x.
    Sqrt,
    /// y where x < y, else x, NaN included.
    NotBelow,
    /// y where x > y, else x, NaN included.
    NotAbove,
    /// x · 2^y for a whole y. Where the result has fewer bits than usual, it may be rounded twice.
    Scale,
}

/// A vector of plain numbers; the compiler finds the registers. For single numbers, and targets without vectors below.
#[derive(Clone, Copy)]
pub(crate) struct PortableVector<T, const N: usize>(pub(crate) [T; N]);

// SAFETY: needs no instruction that the target does not have.
unsafe impl<T: Float, const N: usize> Vector for PortableVector<T, N> {
    const ISA: Isa = Isa::Portable;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output {
        run_portable(work)
    }

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

    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    unsafe fn lanewise(self, operation: Lanewise, other: Self) -> Self {
        let mut result = self.0;
        for (x, y) in result.iter_mut().zip(other.0) {
            *x = match operation {
                Lanewise::Add => *x + y,
                Lanewise::Sub => *x - y,
                Lanewise::Mul => *x * y,
                Lanewise::Div => *x / y,
                Lanewise::Max => {
                    if (*x >= y) | (*x != *x) {
                        *x
                    } else {
                        y
                    }
                }
                Lanewise::Min => {
                    if (*x <= y) | (*x != *x) {
                        *x
                    } else {
                        y
                    }
                }
                Lanewise::Abs => x.abs(),
                Lanewise::Neg => -*x,
                Lanewise::Relu => relu(*x),
                Lanewise::Identity => *x,
                Lanewise::Sqrt => x.sqrt(),
                Lanewise::NotBelow => {
                    if *x < y {
                        y
                    } else {
                        *x
                    }
                }
                Lanewise::NotAbove => {
                    if *x > y {
                        y
                    } else {
                        *x
                    }
                }
                Lanewise::Scale => x.scaled(y),
            };
        }
        Self(result)
    }

    #[inline(always)]
    unsafe fn swapped(self, distance: usize) -> Self {
        let mut result = self.0;
        for (i, number) in result.iter_mut().enumerate() {
            *number = self.0[(i ^ distance) % N];
        }
        Self(result)
    }

    #[inline(always)]
    unsafe fn where_above_0(self, yes: Self, no: Self) -> Self {
        let mut result = no.0;
        for ((result, x), yes) in result.iter_mut().zip(self.0).zip(yes.0) {
            *result = if x > T::ZERO { yes } else { *result };
        }
        Self(result)
    }
}

/// Declares a vector by its intrinsics.
macro_rules! vector {
    ($name:ident, $isa:ident, $run:ident, $register:ty, $number:ty, $lanes:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
        |$v:ident| $sum:expr, |$operation:ident, $x:ident, $y:ident| $lanewise:expr,
        |$c:ident, $yes:ident, $no:ident| $where:expr, |$swap:ident, $distance:ident| $swapped:expr
        $(, stream $stream:ident)? $(, look up |$at:ident, $table:ident| $look_up:expr)? $(, |$whole:ident| $parted:expr)?) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $register);

        // SAFETY: what the functions need is named in the trait's contract.
        unsafe impl Vector for $name {
            const ISA: Isa = Isa::$isa;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output {
                // SAFETY: the caller promises the instructions.
                unsafe { $run(work) }
            }

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

            #[inline(always)]
            unsafe fn lanewise(self, $operation: Lanewise, other: Self) -> Self {
                let ($x, $y) = (self.0, other.0);
                // SAFETY: the caller promises the instructions.
                Self(unsafe { $lanewise })
            }

            #[inline(always)]
            unsafe fn swapped(self, $distance: usize) -> Self {
                let $swap = self.0;
                // SAFETY: the caller promises the instructions.
                Self(unsafe { $swapped })
            }

            #[inline(always)]
            unsafe fn where_above_0(self, yes: Self, no: Self) -> Self {
                let ($c, $yes, $no) = (self.0, yes.0, no.0);
                // SAFETY: the caller promises the instructions.
                Self(unsafe { $where })
            }
            $(
                #[inline(always)]
                unsafe fn stream(self, to: *mut $number) {
                    // SAFETY: the caller promises the instructions and aligned, writable numbers.
                    unsafe { $stream(to, self.0) };
                }
            )?
            $(
                const LOOKS_UP: bool = true;

                #[inline(always)]
                unsafe fn look_up(self, $table: &[$number; 16]) -> Self {
                    let $at = self.0;
                    // SAFETY: the caller promises the instructions; the table has a number for each lane.
                    Self(unsafe { $look_up })
                }
            )?
            $(
                #[inline(always)]
                unsafe fn parted(self) -> (Self, Self) {
                    let $whole = self.0;
                    // SAFETY: the caller promises the instructions.
                    let (part, power) = unsafe { $parted };
                    (Self(part), Self(power))
                }
            )?
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Isa, IsaTask, Lanewise, Vector};
    use crate::simd::isa::{run_avx2, run_avx512};
    use crate::simd::real::Float;

    /// Does to each number what a vector has no instruction for.
    macro_rules! one_by_one {
        ($load:ident, $store:ident, $x:expr, $y:expr, [$number:ty; $lanes:literal], $function:expr) => {{
            let (mut numbers, mut others) = ([0.0 as $number; $lanes], [0.0 as $number; $lanes]);
            $store(numbers.as_mut_ptr(), $x);
            $store(others.as_mut_ptr(), $y);
            for (number, other) in numbers.iter_mut().zip(others) {
                *number = $function(*number, other);
            }
            $load(numbers.as_ptr())
        }};
    }

    vector!(
        F32x16,
        Avx512,
        run_avx512,
        __m512,
        f32,
        16,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        |v| _mm512_reduce_add_ps(v),
        |operation, x, y| match operation {
            Lanewise::Add => _mm512_add_ps(x, y),
            Lanewise::Sub => _mm512_sub_ps(x, y),
            Lanewise::Mul => _mm512_mul_ps(x, y),
            Lanewise::Div => _mm512_div_ps(x, y),
            Lanewise::Max => {
                let first = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, y) | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                _mm512_mask_mov_ps(y, first, x)
            }
            Lanewise::Min => {
                let first = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(x, y) | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                _mm512_mask_mov_ps(y, first, x)
            }
            Lanewise::Abs => _mm512_abs_ps(x),
            Lanewise::Neg => _mm512_xor_ps(x, _mm512_set1_ps(-0.0)),
            Lanewise::Relu => {
                // The second operand where one is NaN.
                let bounded = _mm512_min_ps(_mm512_set1_ps(f32::MAX), x);
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, _mm512_setzero_ps()), bounded)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm512_sqrt_ps(x),
            // The second operand where one is NaN.
            Lanewise::NotBelow => _mm512_max_ps(y, x),
            Lanewise::NotAbove => _mm512_min_ps(y, x),
            Lanewise::Scale => _mm512_scalef_ps(x, y),
        },
        |c, yes, no| _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(c, _mm512_setzero_ps()), yes),
        |v, distance| match distance {
            8 => _mm512_shuffle_f32x4::<0x4E>(v, v),
            4 => _mm512_shuffle_f32x4::<0xB1>(v, v),
            2 => _mm512_permute_ps::<0x4E>(v),
            _ => _mm512_permute_ps::<0xB1>(v),
        },
        stream _mm512_stream_ps,
        look up |at, table| _mm512_permutexvar_ps(_mm512_castps_si512(at), _mm512_loadu_ps(table.as_ptr())),
        |x| {
            let part = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>(x);
            (part, _mm512_sub_ps(_mm512_getexp_ps(x), _mm512_getexp_ps(part)))
        }
    );
    vector!(
        F64x8,
        Avx512,
        run_avx512,
        __m512d,
        f64,
        8,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        |v| _mm512_reduce_add_pd(v),
        |operation, x, y| match operation {
            Lanewise::Add => _mm512_add_pd(x, y),
            Lanewise::Sub => _mm512_sub_pd(x, y),
            Lanewise::Mul => _mm512_mul_pd(x, y),
            Lanewise::Div => _mm512_div_pd(x, y),
            Lanewise::Max => {
                let first = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(x, y) | _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, x);
                _mm512_mask_mov_pd(y, first, x)
            }
            Lanewise::Min => {
                let first = _mm512_cmp_pd_mask::<_CMP_LE_OQ>(x, y) | _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, x);
                _mm512_mask_mov_pd(y, first, x)
            }
            Lanewise::Abs => _mm512_abs_pd(x),
            Lanewise::Neg => _mm512_xor_pd(x, _mm512_set1_pd(-0.0)),
            Lanewise::Relu => {
                // The second operand where one is NaN.
                let bounded = _mm512_min_pd(_mm512_set1_pd(f64::MAX), x);
                _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_NLE_UQ>(x, _mm512_setzero_pd()), bounded)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm512_sqrt_pd(x),
            // The second operand where one is NaN.
            Lanewise::NotBelow => _mm512_max_pd(y, x),
            Lanewise::NotAbove => _mm512_min_pd(y, x),
            Lanewise::Scale => _mm512_scalef_pd(x, y),
        },
        |c, yes, no| _mm512_mask_mov_pd(no, _mm512_cmp_pd_mask::<_CMP_GT_OQ>(c, _mm512_setzero_pd()), yes),
        |v, distance| match distance {
            4 => _mm512_shuffle_f64x2::<0x4E>(v, v),
            2 => _mm512_shuffle_f64x2::<0xB1>(v, v),
            _ => _mm512_permute_pd::<0x55>(v),
        },
        stream _mm512_stream_pd
    );
    vector!(
        F32x8,
        Avx2,
        run_avx2,
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
        },
        |operation, x, y| match operation {
            Lanewise::Add => _mm256_add_ps(x, y),
            Lanewise::Sub => _mm256_sub_ps(x, y),
            Lanewise::Mul => _mm256_mul_ps(x, y),
            Lanewise::Div => _mm256_div_ps(x, y),
            Lanewise::Max => {
                let first =
                    _mm256_or_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x, y), _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                _mm256_blendv_ps(y, x, first)
            }
            Lanewise::Min => {
                let first =
                    _mm256_or_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(x, y), _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                _mm256_blendv_ps(y, x, first)
            }
            Lanewise::Abs => _mm256_andnot_ps(_mm256_set1_ps(-0.0), x),
            Lanewise::Neg => _mm256_xor_ps(x, _mm256_set1_ps(-0.0)),
            Lanewise::Relu => {
                // The second operand where one is NaN.
                let bounded = _mm256_min_ps(_mm256_set1_ps(f32::MAX), x);
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(x, _mm256_setzero_ps()), bounded)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm256_sqrt_ps(x),
            // The second operand where one is NaN.
            Lanewise::NotBelow => _mm256_max_ps(y, x),
            Lanewise::NotAbove => _mm256_min_ps(y, x),
            Lanewise::Scale => {
                // In two steps, as neither subnormal results nor the largest ones are one power of 2 away.
                let exponent = _mm256_cvtps_epi32(y);
                let first = _mm256_srai_epi32::<1>(exponent);
                let power = |exponent| {
                    let bits = _mm256_add_epi32(exponent, _mm256_set1_epi32(127));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits))
                };
                let second = power(_mm256_sub_epi32(exponent, first));
                _mm256_mul_ps(_mm256_mul_ps(x, power(first)), second)
            }
        },
        |c, yes, no| _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_GT_OQ>(c, _mm256_setzero_ps())),
        |v, distance| match distance {
            4 => _mm256_permute2f128_ps::<1>(v, v),
            2 => _mm256_permute_ps::<0x4E>(v),
            _ => _mm256_permute_ps::<0xB1>(v),
        },
        stream _mm256_stream_ps,
        |x| {
            let small = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(f32::MIN_POSITIVE));
            let normal = _mm256_blendv_ps(x, _mm256_mul_ps(x, _mm256_set1_ps(16_777_216.0)), small);
            let bits = _mm256_castps_si256(normal);
            let power = _mm256_sub_epi32(bits, _mm256_castps_si256(_mm256_set1_ps(0.75)));
            let power = _mm256_srai_epi32::<23>(power);
            let part = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(power)));
            let less = _mm256_and_ps(small, _mm256_set1_ps(24.0));
            (part, _mm256_sub_ps(_mm256_cvtepi32_ps(power), less))
        }
    );
    vector!(
        F64x4,
        Avx2,
        run_avx2,
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
        },
        |operation, x, y| match operation {
            Lanewise::Add => _mm256_add_pd(x, y),
            Lanewise::Sub => _mm256_sub_pd(x, y),
            Lanewise::Mul => _mm256_mul_pd(x, y),
            Lanewise::Div => _mm256_div_pd(x, y),
            Lanewise::Max => {
                let first =
                    _mm256_or_pd(_mm256_cmp_pd::<_CMP_GE_OQ>(x, y), _mm256_cmp_pd::<_CMP_UNORD_Q>(x, x));
                _mm256_blendv_pd(y, x, first)
            }
            Lanewise::Min => {
                let first =
                    _mm256_or_pd(_mm256_cmp_pd::<_CMP_LE_OQ>(x, y), _mm256_cmp_pd::<_CMP_UNORD_Q>(x, x));
                _mm256_blendv_pd(y, x, first)
            }
            Lanewise::Abs => _mm256_andnot_pd(_mm256_set1_pd(-0.0), x),
            Lanewise::Neg => _mm256_xor_pd(x, _mm256_set1_pd(-0.0)),
            Lanewise::Relu => {
                // The second operand where one is NaN.
                let bounded = _mm256_min_pd(_mm256_set1_pd(f64::MAX), x);
                _mm256_and_pd(_mm256_cmp_pd::<_CMP_NLE_UQ>(x, _mm256_setzero_pd()), bounded)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm256_sqrt_pd(x),
            // The second operand where one is NaN.
            Lanewise::NotBelow => _mm256_max_pd(y, x),
            Lanewise::NotAbove => _mm256_min_pd(y, x),
            Lanewise::Scale => one_by_one!(_mm256_loadu_pd, _mm256_storeu_pd, x, y, [f64; 4], f64::scaled),
        },
        |c, yes, no| _mm256_blendv_pd(no, yes, _mm256_cmp_pd::<_CMP_GT_OQ>(c, _mm256_setzero_pd())),
        |v, distance| match distance {
            2 => _mm256_permute2f128_pd::<1>(v, v),
            _ => _mm256_permute_pd::<0x5>(v),
        },
        stream _mm256_stream_pd
    );
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{F32x8, F32x16, F64x4, F64x8};

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use super::{Isa, IsaTask, Lanewise, Vector, run_portable};

    vector!(
        F32x4,
        Portable,
        run_neon,
        float32x4_t,
        f32,
        4,
        zero_f32,
        vdupq_n_f32,
        vld1q_f32,
        vst1q_f32,
        fused_f32,
        |v| vaddvq_f32(v),
        |operation, x, y| match operation {
            Lanewise::Add => vaddq_f32(x, y),
            Lanewise::Sub => vsubq_f32(x, y),
            Lanewise::Mul => vmulq_f32(x, y),
            Lanewise::Div => vdivq_f32(x, y),
            Lanewise::Max => vbslq_f32(vornq_u32(vcgeq_f32(x, y), vceqq_f32(x, x)), x, y),
            Lanewise::Min => vbslq_f32(vornq_u32(vcleq_f32(x, y), vceqq_f32(x, x)), x, y),
            Lanewise::Abs => vabsq_f32(x),
            Lanewise::Neg => vnegq_f32(x),
            Lanewise::Relu => {
                let most = vdupq_n_f32(f32::MAX);
                let bounded = vbslq_f32(vcgeq_f32(x, most), most, x);
                vbslq_f32(vclezq_f32(x), vdupq_n_f32(0.0), bounded)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => vsqrtq_f32(x),
            Lanewise::NotBelow => vbslq_f32(vcltq_f32(x, y), y, x),
            Lanewise::NotAbove => vbslq_f32(vcgtq_f32(x, y), y, x),
            Lanewise::Scale => {
                // In two steps, as neither subnormal results nor the largest ones are one power of 2 away.
                let exponent = vcvtnq_s32_f32(y);
                let first = vshrq_n_s32::<1>(exponent);
                let biased = vaddq_s32(first, vdupq_n_s32(127));
                let rest = vaddq_s32(vsubq_s32(exponent, first), vdupq_n_s32(127));
                let [first, second] =
                    [biased, rest].map(|bits| vreinterpretq_f32_s32(vshlq_n_s32::<23>(bits)));
                vmulq_f32(vmulq_f32(x, first), second)
            }
        },
        |c, yes, no| vbslq_f32(vcgtzq_f32(c), yes, no),
        |v, distance| match distance {
            2 => vextq_f32::<2>(v, v),
            _ => vrev64q_f32(v),
        }
    );
    vector!(
        F64x2,
        Portable,
        run_neon,
        float64x2_t,
        f64,
        2,
        zero_f64,
        vdupq_n_f64,
        vld1q_f64,
        vst1q_f64,
        fused_f64,
        |v| vaddvq_f64(v),
        |operation, x, y| match operation {
            Lanewise::Add => vaddq_f64(x, y),
            Lanewise::Sub => vsubq_f64(x, y),
            Lanewise::Mul => vmulq_f64(x, y),
            Lanewise::Div => vdivq_f64(x, y),
            Lanewise::Max => vbslq_f64(vornq_u64(vcgeq_f64(x, y), vceqq_f64(x, x)), x, y),
            Lanewise::Min => vbslq_f64(vornq_u64(vcleq_f64(x, y), vceqq_f64(x, x)), x, y),
            Lanewise::Abs => vabsq_f64(x),
            Lanewise::Neg => vnegq_f64(x),
            Lanewise::Relu => {
                let most = vdupq_n_f64(f64::MAX);
                let bounded = vbslq_f64(vcgeq_f64(x, most), most, x);
                vbslq_f64(vclezq_f64(x), vdupq_n_f64(0.0), bounded)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => vsqrtq_f64(x),
            Lanewise::NotBelow => vbslq_f64(vcltq_f64(x, y), y, x),
            Lanewise::NotAbove => vbslq_f64(vcgtq_f64(x, y), y, x),
            Lanewise::Scale => {
                // In two steps, as neither subnormal results nor the largest ones are one power of 2 away.
                let exponent = vcvtnq_s64_f64(y);
                let first = vshrq_n_s64::<1>(exponent);
                let biased = vaddq_s64(first, vdupq_n_s64(1023));
                let rest = vaddq_s64(vsubq_s64(exponent, first), vdupq_n_s64(1023));
                let [first, second] =
                    [biased, rest].map(|bits| vreinterpretq_f64_s64(vshlq_n_s64::<52>(bits)));
                vmulq_f64(vmulq_f64(x, first), second)
            }
        },
        |c, yes, no| vbslq_f64(vcgtzq_f64(c), yes, no),
        |v, _apart| vextq_f64::<1>(v, v)
    );

    #[inline(always)]
    unsafe fn run_neon<W: IsaTask>(work: W) -> W::Output {
        // Every processor of the target has the instructions.
        run_portable(work)
    }

    #[inline(always)]
    unsafe fn zero_f32() -> float32x4_t {
        // SAFETY: every processor of the target has the instruction.
        unsafe { vdupq_n_f32(0.0) }
    }

    #[inline(always)]
    unsafe fn zero_f64() -> float64x2_t {
        // SAFETY: every processor of the target has the instruction.
        unsafe { vdupq_n_f64(0.0) }
    }

    /// `a · b + c`: the intrinsic names the summand first.
    #[inline(always)]
    unsafe fn fused_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: every processor of the target has the instruction.
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    unsafe fn fused_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
        // SAFETY: every processor of the target has the instruction.
        unsafe { vfmaq_f64(c, a, b) }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{F32x4, F64x2};
