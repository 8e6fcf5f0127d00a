//! Parts of a register, and registers of every other number.

use crate::simd::real::Float;
use crate::simd::vector::{PortableVector, Vector};

/// What a kernel of images does with a register besides arithmetic: rows end where no register does.
///
/// # Safety
/// As [`Vector`].
pub(crate) unsafe trait PartialVector: Copy {
    /// One number.
    type Scalar: Float;
    /// A register of half as many numbers, or the same where there is none.
    type Half: Vector<Scalar = Self::Scalar>;
    /// Some lanes side by side.
    type Lanes: Copy;

    /// The lanes from `low` on, up to but not including `high`; none where `high` is not larger.
    ///
    /// # Safety
    /// The processor has the vector's instructions; neither is more than the number of lanes.
    unsafe fn lanes(low: usize, high: usize) -> Self::Lanes;

    /// Reads these lanes' numbers, and zeros into all others, whose memory is not touched.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the numbers of the lanes are readable.
    unsafe fn load_lanes(from: *const Self::Scalar, lanes: Self::Lanes) -> Self;

    /// Writes these lanes' numbers and nothing else.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the numbers of the lanes are writable.
    unsafe fn store_lanes(self, to: *mut Self::Scalar, lanes: Self::Lanes);

    /// The numbers at even and at odd places of this vector and the next together.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn unzip(self, next: Self) -> (Self, Self);

    /// The numbers of this vector and of the other by turns: the first half of both, and the second one.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn zip(self, other: Self) -> (Self, Self);

    /// In each lane the number of the next one, and any number in the last.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn following(self) -> Self;

    /// Each number, but at least the one of `low` and at most the one of `high`, which are no NaN; NaN stays.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn clamp(self, low: Self, high: Self) -> Self;

    /// In each lane the number of `yes` where this one is larger than `than`, or NaN where that is not, else the number of `no`.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn where_larger(self, than: Self, yes: Self, no: Self) -> Self;
}

// SAFETY: needs no instruction that the target does not have.
unsafe impl<T: Float, const N: usize> PartialVector for PortableVector<T, N> {
    type Scalar = T;
    type Half = Self;
    type Lanes = (usize, usize);

    #[inline(always)]
    unsafe fn lanes(low: usize, high: usize) -> (usize, usize) {
        (low, high)
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const T, (low, high): (usize, usize)) -> Self {
        let mut numbers = [T::ZERO; N];
        for (i, number) in numbers.iter_mut().enumerate() {
            if low <= i && i < high {
                // SAFETY: the caller promises the lanes' numbers.
                *number = unsafe { from.wrapping_add(i).read_unaligned() };
            }
        }
        Self(numbers)
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut T, (low, high): (usize, usize)) {
        for (i, number) in self.0.into_iter().enumerate() {
            if low <= i && i < high {
                // SAFETY: the caller promises the lanes' numbers.
                unsafe { to.wrapping_add(i).write_unaligned(number) };
            }
        }
    }

    #[inline(always)]
    unsafe fn unzip(self, next: Self) -> (Self, Self) {
        let (mut even, mut odd) = (self.0, self.0);
        for i in 0..N {
            let pair = if 2 * i < N { &self.0 } else { &next.0 };
            (even[i], odd[i]) = (pair[2 * i % N], pair[(2 * i + 1) % N]);
        }
        (Self(even), Self(odd))
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        let (mut low, mut high) = (self.0, self.0);
        for i in 0..N {
            let turn =
                |place: usize| if place.is_multiple_of(2) { self.0[place / 2] } else { other.0[place / 2] };
            (low[i], high[i]) = (turn(i), turn(N + i));
        }
        (Self(low), Self(high))
    }

    #[inline(always)]
    unsafe fn following(self) -> Self {
        let mut result = self.0;
        for (i, number) in result.iter_mut().enumerate() {
            *number = self.0[(i + 1) % N];
        }
        Self(result)
    }

    #[inline(always)]
    unsafe fn clamp(self, low: Self, high: Self) -> Self {
        let mut result = self.0;
        for ((x, low), high) in result.iter_mut().zip(low.0).zip(high.0) {
            let raised = if *x < low { low } else { *x };
            *x = if raised > high { high } else { raised };
        }
        Self(result)
    }

    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    unsafe fn where_larger(self, than: Self, yes: Self, no: Self) -> Self {
        let mut result = no.0;
        for (i, number) in result.iter_mut().enumerate() {
            let (x, y) = (self.0[i], than.0[i]);
            if (x > y) | ((x != x) & (y == y)) {
                *number = yes.0[i];
            }
        }
        Self(result)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::PartialVector;
    use crate::simd::halves::{Half32x8, Half64x4};
    use crate::simd::vector::{F32x8, F32x16, F64x4, F64x8};

    macro_rules! pieces {
        ($name:ident, $half:ident, $number:ty, $lanes:ty,
            |$low:ident, $high:ident| $make:expr,
            |$from:ident, $read:ident| $load:expr,
            |$to:ident, $written:ident, $stored:ident| $store:expr,
            |$a:ident, $b:ident| $unzip:expr,
            |$first:ident, $second:ident| $zip:expr,
            |$f:ident| $following:expr,
            $min:ident, $max:ident,
            |$x:ident, $than:ident, $yes:ident, $no:ident| $larger:expr) => {
            // SAFETY: what the functions need is named in the trait's contract.
            unsafe impl PartialVector for $name {
                type Scalar = $number;
                type Half = $half;
                type Lanes = $lanes;

                #[inline(always)]
                unsafe fn lanes($low: usize, $high: usize) -> $lanes {
                    // SAFETY: the caller promises the instructions.
                    unsafe { $make }
                }

                #[inline(always)]
                unsafe fn load_lanes($from: *const $number, $read: $lanes) -> Self {
                    // SAFETY: the caller promises the instructions and the lanes' numbers.
                    Self(unsafe { $load })
                }

                #[inline(always)]
                unsafe fn store_lanes(self, $to: *mut $number, $written: $lanes) {
                    let $stored = self.0;
                    // SAFETY: the caller promises the instructions and the lanes' numbers.
                    unsafe { $store };
                }

                #[inline(always)]
                unsafe fn unzip(self, next: Self) -> (Self, Self) {
                    let ($a, $b) = (self.0, next.0);
                    // SAFETY: the caller promises the instructions.
                    let (even, odd) = unsafe { $unzip };
                    (Self(even), Self(odd))
                }

                #[inline(always)]
                unsafe fn zip(self, other: Self) -> (Self, Self) {
                    let ($first, $second) = (self.0, other.0);
                    // SAFETY: the caller promises the instructions.
                    let (low, high) = unsafe { $zip };
                    (Self(low), Self(high))
                }

                #[inline(always)]
                unsafe fn following(self) -> Self {
                    let $f = self.0;
                    // SAFETY: the caller promises the instructions.
                    Self(unsafe { $following })
                }

                #[inline(always)]
                unsafe fn clamp(self, low: Self, high: Self) -> Self {
                    // The second operand where one is NaN.
                    // SAFETY: the caller promises the instructions.
                    Self(unsafe { $min(high.0, $max(low.0, self.0)) })
                }

                #[inline(always)]
                unsafe fn where_larger(self, than: Self, yes: Self, no: Self) -> Self {
                    let ($x, $than, $yes, $no) = (self.0, than.0, yes.0, no.0);
                    // SAFETY: the caller promises the instructions.
                    Self(unsafe { $larger })
                }
            }
        };
    }

    /// The lanes below this number, of up to 16.
    #[inline(always)]
    fn below(lane: usize) -> u16 {
        ((1_u32 << lane) - 1) as u16
    }

    pieces!(
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
    pieces!(
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
    pieces!(
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
            let new =
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x), _mm256_cmp_ps::<_CMP_ORD_Q>(than, than));
            _mm256_blendv_ps(no, yes, _mm256_or_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, than), new))
        }
    );
    pieces!(
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
            let new =
                _mm256_and_pd(_mm256_cmp_pd::<_CMP_UNORD_Q>(x, x), _mm256_cmp_pd::<_CMP_ORD_Q>(than, than));
            _mm256_blendv_pd(no, yes, _mm256_or_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(x, than), new))
        }
    );
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use super::{PartialVector, Vector};
    use crate::simd::vector::{F32x4, F64x2};

    macro_rules! pieces {
        ($name:ident, $number:ty, $unzip:ident, $unzip_odd:ident, $zip:ident, $zip_high:ident, $ext:ident, $min:ident, $max:ident,
            |$x:ident, $than:ident| $larger:expr, $select:ident) => {
            // SAFETY: every processor of the target has the instructions.
            unsafe impl PartialVector for $name {
                type Scalar = $number;
                type Half = Self;
                type Lanes = (usize, usize);

                #[inline(always)]
                unsafe fn lanes(low: usize, high: usize) -> (usize, usize) {
                    (low, high)
                }

                #[inline(always)]
                unsafe fn load_lanes(from: *const $number, (low, high): (usize, usize)) -> Self {
                    let mut numbers = [0.0; Self::LANES];
                    // SAFETY: the caller promises the lanes' numbers.
                    unsafe {
                        for i in low..high {
                            numbers[i] = from.wrapping_add(i).read_unaligned();
                        }
                        Self::load(numbers.as_ptr())
                    }
                }

                #[inline(always)]
                unsafe fn store_lanes(self, to: *mut $number, (low, high): (usize, usize)) {
                    let mut numbers = [0.0; Self::LANES];
                    // SAFETY: the caller promises the lanes' numbers.
                    unsafe {
                        self.store(numbers.as_mut_ptr());
                        for i in low..high {
                            to.wrapping_add(i).write_unaligned(numbers[i]);
                        }
                    }
                }

                #[inline(always)]
                unsafe fn unzip(self, next: Self) -> (Self, Self) {
                    // SAFETY: as above.
                    unsafe { (Self($unzip(self.0, next.0)), Self($unzip_odd(self.0, next.0))) }
                }

                #[inline(always)]
                unsafe fn zip(self, other: Self) -> (Self, Self) {
                    // SAFETY: as above.
                    unsafe { (Self($zip(self.0, other.0)), Self($zip_high(self.0, other.0))) }
                }

                #[inline(always)]
                unsafe fn following(self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $ext::<1>(self.0, self.0) })
                }

                #[inline(always)]
                unsafe fn clamp(self, low: Self, high: Self) -> Self {
                    // NaN where one is NaN.
                    // SAFETY: as above.
                    Self(unsafe { $min(high.0, $max(low.0, self.0)) })
                }

                #[inline(always)]
                unsafe fn where_larger(self, than: Self, yes: Self, no: Self) -> Self {
                    let ($x, $than) = (self.0, than.0);
                    // SAFETY: as above.
                    Self(unsafe { $select($larger, yes.0, no.0) })
                }
            }
        };
    }

    pieces!(
        F32x4,
        f32,
        vuzp1q_f32,
        vuzp2q_f32,
        vzip1q_f32,
        vzip2q_f32,
        vextq_f32,
        vminq_f32,
        vmaxq_f32,
        |x, than| vorrq_u32(vcgtq_f32(x, than), vbicq_u32(vceqq_f32(than, than), vceqq_f32(x, x))),
        vbslq_f32
    );
    pieces!(
        F64x2,
        f64,
        vuzp1q_f64,
        vuzp2q_f64,
        vzip1q_f64,
        vzip2q_f64,
        vextq_f64,
        vminq_f64,
        vmaxq_f64,
        |x, than| vorrq_u64(vcgtq_f64(x, than), vbicq_u64(vceqq_f64(than, than), vceqq_f64(x, x))),
        vbslq_f64
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::isa::{Isa, VectorTask};

    struct Check;

    impl<T: Float> VectorTask<T> for Check {
        type Output = ();

        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = T>>(self) {
            // SAFETY: run at the vector's level.
            unsafe {
                Self::of::<T, V>();
                Self::of::<T, V::Half>();
            }
        }
    }

    impl Check {
        #[inline(always)]
        unsafe fn of<T: Float, V: Vector<Scalar = T>>() {
            let n = V::LANES;
            let number = |i: usize| T::from_f64(i as f64);
            let from: Vec<T> = (0..4 * n).map(number).collect();
            let mut to = vec![T::from_f64(-1.0); 2 * n];
            // SAFETY: run at the vector's level, all indices lie inside the arrays.
            unsafe {
                for low in 0..=n {
                    for high in 0..=n {
                        let lanes = V::lanes(low, high);
                        let inside = |i: usize| low <= i && i < high;
                        V::load_lanes(from.as_ptr().add(n), lanes).store(to.as_mut_ptr());
                        let read = |i: usize| if inside(i) { number(n + i) } else { T::ZERO };
                        assert!((0..n).all(|i| to[i] == read(i)), "reads {low}..{high} of {n}");
                        to.fill(T::ONE);
                        V::load(from.as_ptr().add(2)).store_lanes(to.as_mut_ptr(), lanes);
                        let written = |i: usize| if inside(i) { number(2 + i) } else { T::ONE };
                        assert!((0..2 * n).all(|i| to[i] == written(i)), "writes {low}..{high} of {n}");
                    }
                }
                let (a, b) = (V::load(from.as_ptr()), V::load(from.as_ptr().add(n)));
                let (even, odd) = a.unzip(b);
                for (vector, first) in [(even, 0), (odd, 1)] {
                    vector.store(to.as_mut_ptr());
                    assert!((0..n).all(|i| to[i] == number(2 * i + first)));
                }
                let (low, high) = even.zip(odd);
                for (vector, first) in [(low, 0), (high, n)] {
                    vector.store(to.as_mut_ptr());
                    assert!((0..n).all(|i| to[i] == number(first + i)));
                }
                b.following().store(to.as_mut_ptr());
                assert!((1..n).all(|i| to[i - 1] == number(n + i)));
                let nan = T::from_f64(f64::NAN);
                let inf = T::from_f64(f64::INFINITY);
                let clamped = |x: T| {
                    let mut to = vec![T::ZERO; n];
                    V::splat(x).clamp(V::splat(T::ZERO), V::splat(number(6))).store(to.as_mut_ptr());
                    to[n - 1]
                };
                assert!(clamped(nan).is_nan());
                assert!(
                    clamped(inf) == number(6) && clamped(-inf) == T::ZERO && clamped(number(3)) == number(3)
                );
                for (x, than, larger) in [
                    (nan, T::ONE, true),
                    (nan, nan, false),
                    (inf, nan, false),
                    (T::ONE, T::ONE, false),
                    (number(2), T::ONE, true),
                    (-inf, T::ZERO, false),
                ] {
                    let mut to = vec![T::ZERO; n];
                    let result = V::splat(x).where_larger(V::splat(than), V::splat(T::ONE), V::zero());
                    result.store(to.as_mut_ptr());
                    assert!(to[n - 1] == if larger { T::ONE } else { T::ZERO });
                }
            }
        }
    }

    #[test]
    fn parts_of_vectors_are_those_named() {
        for isa in Isa::available() {
            // SAFETY: the level is available.
            unsafe {
                isa.run_vectors::<f32, _>(Check);
                isa.run_vectors::<f64, _>(Check);
            }
        }
    }
}
