//! The registers of AVX-512 and AVX2.

use std::arch::x86_64::*;

use crate::simd::isa::{Isa, IsaTask, run_avx2, run_avx512};
use crate::simd::vector::{Float, Lanewise, Vector, implement_vector};

// Each type has a module, so that its tiles have a codegen unit: see `gemm::multiply::RunTiles`.
pub(crate) use self::f32x8::F32x8;
pub(crate) use self::f32x16::F32x16;
pub(crate) use self::f64x4::F64x4;
pub(crate) use self::f64x8::F64x8;

/// Applies a scalar function to each lane, for lack of an instruction.
macro_rules! one_by_one {
    ($load:ident, $store:ident, $x:expr, $y:expr, [$scalar:ty; $lanes:literal], $function:expr) => {{
        let (mut values, mut others) = ([0.0 as $scalar; $lanes], [0.0 as $scalar; $lanes]);
        $store(values.as_mut_ptr(), $x);
        $store(others.as_mut_ptr(), $y);
        for (value, other) in values.iter_mut().zip(others) {
            *value = $function(*value, other);
        }
        $load(values.as_ptr())
    }};
}

/// A fused multiply-add that the compiler moves neither reads nor others of these past.
macro_rules! in_order {
    ($name:ident, $register:ty, $instruction:literal) => {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn $name(a: $register, b: $register, mut sum: $register) -> $register {
            // SAFETY: the function has the instruction, which touches no memory.
            unsafe {
                std::arch::asm!(
                    concat!($instruction, " {sum}, {a}, {b}"),
                    sum = inout(ymm_reg) sum,
                    a = in(ymm_reg) a,
                    b = in(ymm_reg) b,
                    options(nostack, preserves_flags),
                );
            }
            sum
        }
    };
}

mod f32x16 {
    use super::*;

    implement_vector!(
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
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Max => _mm512_mask_mov_ps(_mm512_max_ps(y, x), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(y, y), y),
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Min => _mm512_mask_mov_ps(_mm512_min_ps(y, x), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(y, y), y),
            Lanewise::Abs => _mm512_abs_ps(x),
            Lanewise::Neg => _mm512_xor_ps(x, _mm512_set1_ps(-0.0)),
            // The comparison holds for NaN.
            Lanewise::Relu => {
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, _mm512_setzero_ps()), x)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm512_sqrt_ps(x),
            // The instruction returns its second operand if one is NaN.
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
}

mod f64x8 {
    use super::*;

    implement_vector!(
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
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Max => _mm512_mask_mov_pd(_mm512_max_pd(y, x), _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(y, y), y),
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Min => _mm512_mask_mov_pd(_mm512_min_pd(y, x), _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(y, y), y),
            Lanewise::Abs => _mm512_abs_pd(x),
            Lanewise::Neg => _mm512_xor_pd(x, _mm512_set1_pd(-0.0)),
            // The comparison holds for NaN.
            Lanewise::Relu => {
                _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_NLE_UQ>(x, _mm512_setzero_pd()), x)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm512_sqrt_pd(x),
            // The instruction returns its second operand if one is NaN.
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
}

mod f32x8 {
    use super::*;

    in_order!(fmadd_ps, __m256, "vfmadd231ps");

    implement_vector!(
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
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Max => _mm256_blendv_ps(_mm256_max_ps(y, x), y, _mm256_cmp_ps::<_CMP_UNORD_Q>(y, y)),
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Min => _mm256_blendv_ps(_mm256_min_ps(y, x), y, _mm256_cmp_ps::<_CMP_UNORD_Q>(y, y)),
            Lanewise::Abs => _mm256_andnot_ps(_mm256_set1_ps(-0.0), x),
            Lanewise::Neg => _mm256_xor_ps(x, _mm256_set1_ps(-0.0)),
            // The comparison holds for NaN.
            Lanewise::Relu => {
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(x, _mm256_setzero_ps()), x)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm256_sqrt_ps(x),
            // The instruction returns its second operand if one is NaN.
            Lanewise::NotBelow => _mm256_max_ps(y, x),
            Lanewise::NotAbove => _mm256_min_ps(y, x),
            Lanewise::Scale => {
                // In two steps, because subnormal and the largest results are more than one power of 2 away.
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
        in order fmadd_ps,
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
}

mod f64x4 {
    use super::*;

    in_order!(fmadd_pd, __m256d, "vfmadd231pd");

    implement_vector!(
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
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Max => _mm256_blendv_pd(_mm256_max_pd(y, x), y, _mm256_cmp_pd::<_CMP_UNORD_Q>(y, y)),
            // The instruction returns its second operand if one is NaN or both are equal.
            Lanewise::Min => _mm256_blendv_pd(_mm256_min_pd(y, x), y, _mm256_cmp_pd::<_CMP_UNORD_Q>(y, y)),
            Lanewise::Abs => _mm256_andnot_pd(_mm256_set1_pd(-0.0), x),
            Lanewise::Neg => _mm256_xor_pd(x, _mm256_set1_pd(-0.0)),
            // The comparison holds for NaN.
            Lanewise::Relu => {
                _mm256_and_pd(_mm256_cmp_pd::<_CMP_NLE_UQ>(x, _mm256_setzero_pd()), x)
            }
            Lanewise::Identity => x,
            Lanewise::Sqrt => _mm256_sqrt_pd(x),
            // The instruction returns its second operand if one is NaN.
            Lanewise::NotBelow => _mm256_max_pd(y, x),
            Lanewise::NotAbove => _mm256_min_pd(y, x),
            Lanewise::Scale => one_by_one!(_mm256_loadu_pd, _mm256_storeu_pd, x, y, [f64; 4], f64::scaled),
        },
        |c, yes, no| _mm256_blendv_pd(no, yes, _mm256_cmp_pd::<_CMP_GT_OQ>(c, _mm256_setzero_pd())),
        |v, distance| match distance {
            2 => _mm256_permute2f128_pd::<1>(v, v),
            _ => _mm256_permute_pd::<0x5>(v),
        },
        stream _mm256_stream_pd,
        in order fmadd_pd
    );
}
