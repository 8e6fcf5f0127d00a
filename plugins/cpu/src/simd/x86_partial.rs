//! Loads, stores and permutations of some lanes with AVX-512 and AVX2.

use std::arch::x86_64::*;

use crate::simd::halves::{Half32x8, Half64x4};
use crate::simd::vector::{PartialVector, by_contract, of_values};
use crate::simd::x86::{F32x8, F32x16, F64x4, F64x8};

macro_rules! partial_vector {
    ($name:ident, $half:ident, $scalar:ty, $lanes:ty,
        |$low:ident, $high:ident| $make:expr,
        |$from:ident, $read:ident| $load:expr,
        |$to:ident, $written:ident, $stored:ident| $store:expr,
        |$a:ident, $b:ident| $unzip:expr,
        |$first:ident, $second:ident| $zip:expr,
        |$f:ident| $following:expr,
        $min:ident, $max:ident,
        |$x:ident, $than:ident, $yes:ident, $no:ident| $larger:expr) => {
        // SAFETY: the trait's contract guarantees what the functions need.
        unsafe impl PartialVector for $name {
            type Scalar = $scalar;
            type Half = $half;
            type Lanes = $lanes;

            by_contract! {
                fn lanes($low: usize, $high: usize) -> $lanes { $make }
                fn load_lanes($from: *const $scalar, $read: $lanes) -> Self { Self($load) }
                fn store_lanes(self: Self, $to: *mut $scalar, $written: $lanes) { match self.0 { $stored => $store } }
            }

            of_values! {
                fn unzip(self: Self, next: Self) -> (Self, Self) {
                    match (self.0, next.0) { ($a, $b) => match $unzip { (even, odd) => (Self(even), Self(odd)) } }
                }
                fn zip(self: Self, other: Self) -> (Self, Self) {
                    match (self.0, other.0) { ($first, $second) => match $zip { (low, high) => (Self(low), Self(high)) } }
                }
                fn following(self: Self) -> Self { match self.0 { $f => Self($following) } }
                // The instructions return their second operand if one is NaN.
                fn clamp(self: Self, low: Self, high: Self) -> Self { Self($min(high.0, $max(low.0, self.0))) }
                fn where_larger(self: Self, than: Self, yes: Self, no: Self) -> Self {
                    match (self.0, than.0, yes.0, no.0) { ($x, $than, $yes, $no) => Self($larger) }
                }
            }
        }
    };
}

/// A mask of the lanes below this one, of up to 16.
#[inline(always)]
fn below(lane: usize) -> u16 {
    ((1_u32 << lane) - 1) as u16
}

partial_vector!(
    F32x16,
    Half32x8,
    f32,
    __mmask16,
    |low, high| _kandn_mask16(below(low), below(high)),
    |from, lanes| _mm512_maskz_loadu_ps(lanes, from),
    |to, lanes, x| _mm512_mask_storeu_ps(to, lanes, x),
    |a, b| {
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
    },
    |a, b| {
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        (_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b))
    },
    |v| {
        let bits = _mm512_castps_si512(v);
        _mm512_castsi512_ps(_mm512_alignr_epi32::<1>(bits, bits))
    },
    _mm512_min_ps,
    _mm512_max_ps,
    |x, than, yes, no| {
        let new = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x) & _mm512_cmp_ps_mask::<_CMP_ORD_Q>(than, than);
        _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, than) | new, yes)
    }
);

partial_vector!(
    F64x8,
    Half64x4,
    f64,
    __mmask8,
    |low, high| _kandn_mask8(below(low) as __mmask8, below(high) as __mmask8),
    |from, lanes| _mm512_maskz_loadu_pd(lanes, from),
    |to, lanes, x| _mm512_mask_storeu_pd(to, lanes, x),
    |a, b| {
        let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
        let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
        (_mm512_permutex2var_pd(a, even, b), _mm512_permutex2var_pd(a, odd, b))
    },
    |a, b| {
        let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        (_mm512_permutex2var_pd(a, low, b), _mm512_permutex2var_pd(a, high, b))
    },
    |v| {
        let bits = _mm512_castpd_si512(v);
        _mm512_castsi512_pd(_mm512_alignr_epi64::<1>(bits, bits))
    },
    _mm512_min_pd,
    _mm512_max_pd,
    |x, than, yes, no| {
        let new = _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, x) & _mm512_cmp_pd_mask::<_CMP_ORD_Q>(than, than);
        _mm512_mask_mov_pd(no, _mm512_cmp_pd_mask::<_CMP_GT_OQ>(x, than) | new, yes)
    }
);

partial_vector!(
    F32x8,
    F32x8,
    f32,
    __m256i,
    |low, high| {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let begun = _mm256_cmpgt_epi32(_mm256_set1_epi32(low as i32), lane);
        _mm256_andnot_si256(begun, _mm256_cmpgt_epi32(_mm256_set1_epi32(high as i32), lane))
    },
    |from, lanes| _mm256_maskload_ps(from, lanes),
    |to, lanes, x| _mm256_maskstore_ps(to, lanes, x),
    |a, b| {
        let even = _mm256_castps_pd(_mm256_shuffle_ps::<0x88>(a, b));
        let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0xDD>(a, b));
        (
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0xD8>(even)),
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0xD8>(odd)),
        )
    },
    |a, b| {
        let (even, odd) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        (_mm256_permute2f128_ps::<0x20>(even, odd), _mm256_permute2f128_ps::<0x31>(even, odd))
    },
    |v| _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 7)),
    _mm256_min_ps,
    _mm256_max_ps,
    |x, than, yes, no| {
        let new = _mm256_and_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x), _mm256_cmp_ps::<_CMP_ORD_Q>(than, than));
        _mm256_blendv_ps(no, yes, _mm256_or_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, than), new))
    }
);

partial_vector!(
    F64x4,
    F64x4,
    f64,
    __m256i,
    |low, high| {
        let lane = _mm256_setr_epi64x(0, 1, 2, 3);
        let begun = _mm256_cmpgt_epi64(_mm256_set1_epi64x(low as i64), lane);
        _mm256_andnot_si256(begun, _mm256_cmpgt_epi64(_mm256_set1_epi64x(high as i64), lane))
    },
    |from, lanes| _mm256_maskload_pd(from, lanes),
    |to, lanes, x| _mm256_maskstore_pd(to, lanes, x),
    |a, b| {
        let (even, odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        (_mm256_permute4x64_pd::<0xD8>(even), _mm256_permute4x64_pd::<0xD8>(odd))
    },
    |a, b| {
        let (even, odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        (_mm256_permute2f128_pd::<0x20>(even, odd), _mm256_permute2f128_pd::<0x31>(even, odd))
    },
    |v| _mm256_permute4x64_pd::<0xF9>(v),
    _mm256_min_pd,
    _mm256_max_pd,
    |x, than, yes, no| {
        let new = _mm256_and_pd(_mm256_cmp_pd::<_CMP_UNORD_Q>(x, x), _mm256_cmp_pd::<_CMP_ORD_Q>(than, than));
        _mm256_blendv_pd(no, yes, _mm256_or_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(x, than), new))
    }
);
