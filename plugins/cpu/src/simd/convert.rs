//! Conversions and transpositions in registers.
//!
//! Each function converts as much as the instruction set allows and returns how much; the caller does the
//! rest element by element. All are `#[inline(always)]`, and fast only below [`Isa::run`]. Do not wrap
//! intrinsics in closures: a closure that is not inlined is compiled without the instruction set.

use std::any::TypeId;

#[cfg(target_arch = "x86_64")]
use half::{bf16, f16};

use crate::dtype::element::ComputeType;
use crate::simd::isa::Isa;
use crate::simd::stored::Stored;
use crate::simd::vector::{Float, MAX_LANES, Vector};

/// Whether two types are the same.
pub(crate) fn same<A: 'static, B: 'static>() -> bool {
    TypeId::of::<A>() == TypeId::of::<B>()
}

/// Reads a vector of contiguous elements.
///
/// # Safety
/// The processor has the vector's instructions, and as many elements as it has lanes are readable.
#[inline(always)]
pub(crate) unsafe fn load<S: Stored, V: Vector>(from: *const S) -> V {
    // SAFETY: this function requires the instructions and the elements; no vector has more lanes than the
    // array.
    unsafe {
        if same::<S, V::Scalar>() {
            return V::load(from.cast());
        }
        let mut values = [V::Scalar::ZERO; MAX_LANES];
        if widen(V::ISA, from, values.as_mut_ptr(), V::LANES) < V::LANES {
            for (i, value) in values.iter_mut().enumerate().take(V::LANES) {
                *value = from.add(i).read_unaligned().value();
            }
        }
        V::load(values.as_ptr())
    }
}

/// Writes a vector as contiguous elements, each rounded to nearest.
///
/// # Safety
/// The processor has the vector's instructions, and as many elements as it has lanes are writable.
#[inline(always)]
pub(crate) unsafe fn store<S: Stored, V: Vector>(vector: V, to: *mut S) {
    // SAFETY: this function requires the instructions and the elements; no vector has more lanes than the
    // array.
    unsafe {
        if same::<S, V::Scalar>() {
            return vector.store(to.cast());
        }
        let mut values = [V::Scalar::ZERO; MAX_LANES];
        vector.store(values.as_mut_ptr());
        if narrow(V::ISA, values.as_ptr(), to, V::LANES) < V::LANES {
            for (i, value) in values.iter().enumerate().take(V::LANES) {
                to.add(i).write_unaligned(S::nearest(*value));
            }
        }
    }
}

/// Converts contiguous elements to the compute type; returns how many.
///
/// # Safety
/// The processor supports the instruction set, `len` elements are readable, and as many values are writable.
#[inline(always)]
pub(crate) unsafe fn widen<S: Stored, T: Float>(isa: Isa, from: *const S, to: *mut T, len: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this function requires the instruction set, and all elements on both sides.
    unsafe {
        if same::<T, f32>() {
            match isa {
                Isa::Avx512 if x86::reads::<S>() => return x86::widen_512(from, to.cast(), len),
                Isa::Avx2 if x86::reads::<S>() => return x86::widen_256(from, to.cast(), len),
                _ => {}
            }
        }
    }
    let _ = isa;
    if !S::IN_LINE || !same::<T, f32>() {
        return 0;
    }
    for i in 0..len {
        // SAFETY: this function requires the instruction set, and all elements on both sides.
        unsafe { to.add(i).write(from.add(i).read_unaligned().in_line()) };
    }
    len
}

/// Rounds values to contiguous elements; returns how many.
///
/// # Safety
/// The processor supports the instruction set, `len` values are readable, and as many elements are writable.
#[inline(always)]
pub(crate) unsafe fn narrow<S: Stored, T: Float>(isa: Isa, from: *const T, to: *mut S, len: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this function requires the instruction set, and all elements on both sides.
    unsafe {
        if same::<T, f32>() && same::<S, f16>() {
            match isa {
                Isa::Avx512 => return x86::halve_512(from.cast(), to.cast(), len),
                Isa::Avx2 => return x86::halve_256(from.cast(), to.cast(), len),
                Isa::Portable => {}
            }
        }
        if same::<T, f32>() && same::<S, bf16>() {
            return match isa {
                Isa::Avx512 => x86::truncate_512(from.cast(), to.cast(), len),
                Isa::Avx2 => x86::truncate_256(from.cast(), to.cast(), len),
                Isa::Portable => x86::truncate(from.cast(), to.cast(), len),
            };
        }
    }
    let _ = isa;
    if !S::IN_LINE || !same::<T, f32>() {
        return 0;
    }
    for i in 0..len {
        // SAFETY: this function requires the instruction set, and all elements on both sides.
        unsafe { to.add(i).write_unaligned(S::nearest(from.add(i).read())) };
    }
    len
}

/// Rows and columns of the blocks that [`transpose`] copies; 0 if it copies none.
#[inline(always)]
pub(crate) fn block<S: 'static, T: 'static>(isa: Isa) -> usize {
    #[cfg(target_arch = "x86_64")]
    if same::<T, f32>() && x86::reads::<S>() {
        return match isa {
            Isa::Avx512 => 16,
            Isa::Avx2 => 8,
            Isa::Portable => 0,
        };
    }
    let _ = (isa, TypeId::of::<(S, T)>());
    0
}

/// Transposes a block of [`block`] rows with contiguous columns into contiguous rows. Columns beyond `columns`
/// become zero.
///
/// # Safety
/// The processor supports the instruction set, the block's columns are readable, and whole rows are writable.
#[inline(always)]
pub(crate) unsafe fn transpose<S: 'static, T: 'static>(
    isa: Isa,
    (from, column): (*const S, usize),
    columns: usize,
    (to, row_stride): (*mut T, usize),
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this function requires the instruction set, and all elements on both sides.
    unsafe {
        match isa {
            Isa::Avx512 => x86::transpose_512(from, column, columns, to.cast(), row_stride),
            Isa::Avx2 => x86::transpose_256(from, column, columns, to.cast(), row_stride),
            Isa::Portable => {}
        }
    }
    let _ = (isa, from, column, columns, to, row_stride);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::{bf16, f16};

    use super::same;

    /// Whether `load` supports the element type.
    pub(crate) fn reads<S: 'static>() -> bool {
        same::<S, f32>() || same::<S, f16>() || same::<S, bf16>()
    }

    /// The offsets of blocks of `block` elements. The last block ends with the last element, so it may overlap
    /// the one before.
    #[inline(always)]
    fn blocks(len: usize, block: usize) -> impl Iterator<Item = usize> {
        let count = if len < block { 0 } else { len.div_ceil(block) };
        (0..count).map(move |index| (index * block).min(len - block))
    }

    /// How many elements these blocks cover.
    fn done(len: usize, block: usize) -> usize {
        if len < block { 0 } else { len }
    }

    /// 16 elements.
    ///
    /// # Safety
    /// The processor has AVX-512; 16 elements are readable, of a type that `reads` accepts.
    #[inline(always)]
    unsafe fn load_512<S: 'static>(from: *const S) -> __m512 {
        // SAFETY: this function requires the instructions and the elements, whose type `reads` accepts.
        unsafe {
            if same::<S, f32>() {
                _mm512_loadu_ps(from.cast())
            } else if same::<S, f16>() {
                _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))
            } else {
                let high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(high))
            }
        }
    }

    /// 8 elements.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C; 8 elements are readable, of a type that `reads` accepts.
    #[inline(always)]
    unsafe fn load_256<S: 'static>(from: *const S) -> __m256 {
        // SAFETY: this function requires the instructions and the elements, whose type `reads` accepts.
        unsafe {
            if same::<S, f32>() {
                _mm256_loadu_ps(from.cast())
            } else if same::<S, f16>() {
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))
            } else {
                let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high))
            }
        }
    }

    /// Rounds to the upper half of the bits, ties to even. Written so that the compiler vectorizes it.
    ///
    /// # Safety
    /// `len` values are readable, and as many elements writable.
    #[inline(always)]
    pub(crate) unsafe fn truncate(from: *const f32, to: *mut bf16, len: usize) -> usize {
        const TOGETHER: usize = 16;
        let whole = len - len % TOGETHER;
        for i in (0..whole).step_by(TOGETHER) {
            // SAFETY: this function requires `len` values and elements.
            unsafe {
                let bits = from.add(i).cast::<[u32; TOGETHER]>().read_unaligned();
                let mut elements = [0_u16; TOGETHER];
                for (element, bits) in elements.iter_mut().zip(bits) {
                    let nearest = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
                    let nan = (bits >> 16) | 0x40;
                    *element = (if bits & 0x7FFF_FFFF > 0x7F80_0000 { nan } else { nearest }) as u16;
                }
                to.add(i).cast::<[u16; TOGETHER]>().write_unaligned(elements);
            }
        }
        whole
    }

    /// Defines functions that convert contiguous elements in blocks of one register, and return how many they
    /// converted.
    macro_rules! by_blocks {
        ($(fn $name:ident $(<$s:ident>)? ($from:ident: *const $element:ty, $to:ident: *mut $result:ty) of $lanes:literal $block:block)*) => { $(
            #[inline(always)]
            pub(crate) unsafe fn $name $(<$s: 'static>)? (from: *const $element, to: *mut $result, len: usize) -> usize {
                for i in blocks(len, $lanes) {
                    // SAFETY: callers guarantee the instructions and `len` elements on both sides, which
                    // include the block.
                    unsafe {
                        let ($from, $to) = (from.add(i), to.add(i));
                        $block
                    }
                }
                done(len, $lanes)
            }
        )* };
    }

    by_blocks! {
        fn widen_512<S>(from: *const S, to: *mut f32) of 16 {
            _mm512_storeu_ps(to, load_512(from))
        }

        fn widen_256<S>(from: *const S, to: *mut f32) of 8 {
            _mm256_storeu_ps(to, load_256(from))
        }

        fn halve_512(from: *const f32, to: *mut f16) of 16 {
            let halves = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm512_loadu_ps(from));
            _mm256_storeu_si256(to.cast(), halves)
        }

        fn halve_256(from: *const f32, to: *mut f16) of 8 {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from));
            _mm_storeu_si128(to.cast(), halves)
        }

        // As `truncate`.
        fn truncate_512(from: *const f32, to: *mut bf16) of 16 {
            let values = _mm512_loadu_ps(from);
            let bits = _mm512_castps_si512(values);
            let upper = _mm512_srli_epi32::<16>(bits);
            let odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
            let nearest = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half));
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
            let elements = _mm512_mask_or_epi32(nearest, is_nan, upper, _mm512_set1_epi32(0x40));
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(elements))
        }

        // As `truncate`.
        fn truncate_256(from: *const f32, to: *mut bf16) of 8 {
            let values = _mm256_loadu_ps(from);
            let bits = _mm256_castps_si256(values);
            let upper = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
            let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
            let nearest = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
            let nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
            let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
            let elements = _mm256_blendv_epi8(nearest, nan, is_nan);
            // The lower halves of both packed quarters.
            let packed = _mm256_permute4x64_epi64::<0x08>(_mm256_packus_epi32(elements, elements));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed))
        }
    }

    /// Transposes up to 16 columns of 16 elements into rows; missing columns are zero.
    ///
    /// # Safety
    /// The processor has AVX-512. 16 elements of each of up to 16 columns are readable, of a type that
    /// `reads` accepts, and 16 rows of 16 values writable.
    #[inline(always)]
    pub(crate) unsafe fn transpose_512<S: 'static>(
        from: *const S,
        column: usize,
        columns: usize,
        to: *mut f32,
        row_stride: usize,
    ) {
        // SAFETY: this function requires the instructions, and 16 elements of each column.
        let mut a = unsafe {
            let mut a = [_mm512_setzero_ps(); 16];
            if columns >= 16 {
                for (j, register) in a.iter_mut().enumerate() {
                    *register = load_512(from.add(j * column));
                }
            } else {
                for (j, register) in a.iter_mut().enumerate() {
                    if j < columns {
                        *register = load_512(from.add(j * column));
                    }
                }
            }
            a
        };
        // SAFETY: this function requires the instructions.
        unsafe {
            // Pairs of columns, then groups of four, in each quarter of the registers.
            let mut b = [_mm512_setzero_ps(); 16];
            for i in 0..8 {
                b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
                b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
            }
            for i in 0..4 {
                let (w, x) = (_mm512_castps_pd(b[4 * i]), _mm512_castps_pd(b[4 * i + 1]));
                let (y, z) = (_mm512_castps_pd(b[4 * i + 2]), _mm512_castps_pd(b[4 * i + 3]));
                a[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(w, y));
                a[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(w, y));
                a[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, z));
                a[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, z));
            }
        }
        // a[4 i + r] has rows r, r + 4, r + 8 and r + 12 of columns 4 i to 4 i + 3: the quarters are combined.
        // SAFETY: this function requires the instructions, and room for 16 rows.
        unsafe {
            for r in 0..4 {
                let even = _mm512_shuffle_f32x4::<0x88>(a[r], a[4 + r]);
                let odd = _mm512_shuffle_f32x4::<0xDD>(a[r], a[4 + r]);
                let even_end = _mm512_shuffle_f32x4::<0x88>(a[8 + r], a[12 + r]);
                let odd_end = _mm512_shuffle_f32x4::<0xDD>(a[8 + r], a[12 + r]);
                _mm512_storeu_ps(to.add(r * row_stride), _mm512_shuffle_f32x4::<0x88>(even, even_end));
                _mm512_storeu_ps(to.add((r + 8) * row_stride), _mm512_shuffle_f32x4::<0xDD>(even, even_end));
                _mm512_storeu_ps(to.add((r + 4) * row_stride), _mm512_shuffle_f32x4::<0x88>(odd, odd_end));
                _mm512_storeu_ps(to.add((r + 12) * row_stride), _mm512_shuffle_f32x4::<0xDD>(odd, odd_end));
            }
        }
    }

    /// Transposes up to 8 columns of 8 elements into rows; missing columns are zero.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C. 8 elements of each of up to 8 columns are readable, of a type that
    /// `reads` accepts, and 8 rows of 8 values writable.
    #[inline(always)]
    pub(crate) unsafe fn transpose_256<S: 'static>(
        from: *const S,
        column: usize,
        columns: usize,
        to: *mut f32,
        row_stride: usize,
    ) {
        // SAFETY: this function requires the instructions, and 8 elements of each column.
        let mut a = unsafe {
            let mut a = [_mm256_setzero_ps(); 8];
            for (j, register) in a.iter_mut().enumerate() {
                if j < columns {
                    *register = load_256(from.add(j * column));
                }
            }
            a
        };
        // SAFETY: this function requires the instructions, and room for 8 rows.
        unsafe {
            let mut b = [_mm256_setzero_ps(); 8];
            for i in 0..4 {
                b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
                b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
            }
            for i in 0..2 {
                let (w, x) = (_mm256_castps_pd(b[4 * i]), _mm256_castps_pd(b[4 * i + 1]));
                let (y, z) = (_mm256_castps_pd(b[4 * i + 2]), _mm256_castps_pd(b[4 * i + 3]));
                a[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(w, y));
                a[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(w, y));
                a[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, z));
                a[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, z));
            }
            for r in 0..4 {
                _mm256_storeu_ps(to.add(r * row_stride), _mm256_permute2f128_ps::<0x20>(a[r], a[4 + r]));
                _mm256_storeu_ps(
                    to.add((r + 4) * row_stride),
                    _mm256_permute2f128_ps::<0x31>(a[r], a[4 + r]),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::testing::{Function, each};

    /// Stores and loads again.
    #[derive(Clone, Copy)]
    struct Again<S>(std::marker::PhantomData<S>);

    impl<S: Stored> Function for Again<S> {
        #[inline(always)]
        fn of<V: Vector<Scalar = f32>>(self, x: V) -> V {
            let mut stored = [S::nearest(0.0_f32); MAX_LANES];
            // SAFETY: a vector exists only on a processor with its instructions, and none has more lanes than the array.
            unsafe {
                store(x, stored.as_mut_ptr());
                load(stored.as_ptr())
            }
        }
    }

    fn vectors_are_stored_as<S: Stored>() {
        // Every exponent and sign, with ties and their neighbours in both types, infinities and NaN.
        let ends =
            [0, 1, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0x1_7FFF, 0x1_8000];
        let bits = (0..1 << 9).flat_map(|upper| ends.map(|lower| (upper << 23) | lower));
        let values: Vec<f32> = bits.map(f32::from_bits).collect();
        for isa in Isa::available() {
            let got = each(*isa, Again::<S>(std::marker::PhantomData), &values);
            for (value, got) in values.iter().zip(got) {
                let expected: f32 = S::nearest(*value).value();
                let are_nan = expected.is_nan() && got.is_nan();
                assert!(
                    are_nan || expected.to_bits() == got.to_bits(),
                    "{value:e} is {got:e} at {isa:?}, expected {expected:e}"
                );
            }
        }
    }

    #[test]
    fn vectors_are_stored_like_single_elements() {
        vectors_are_stored_as::<f16>();
        vectors_are_stored_as::<bf16>();
        vectors_are_stored_as::<f32>();
        vectors_are_stored_as::<f64>();
    }
}
