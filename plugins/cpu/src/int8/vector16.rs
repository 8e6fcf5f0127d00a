//! Sixteen values at once, 32-bit integers or single precision, for the epilogue of sums.

use std::marker::PhantomData;

use crate::simd::array;
use crate::simd::isa::{Isa, IsaTask};

/// The operations on sixteen values of an instruction set.
///
/// # Safety
/// An implementation's functions only need the instructions that `run` compiles for, and are
/// `#[inline(always)]`. Values exist only on a processor with these instructions, so functions that take them may use them.
pub(crate) unsafe trait Vector16 {
    type Ints: Copy;
    type Floats: Copy;
    /// Whether `fused` is as fast as a product.
    const IS_FUSED: bool;

    /// Sixteen integers.
    ///
    /// # Safety
    /// The processor has the instructions, and the elements are readable.
    unsafe fn load(from: *const i32) -> Self::Ints;
    /// Sixteen signed bytes.
    ///
    /// # Safety
    /// The processor has the instructions, and the bytes are readable.
    unsafe fn signed(from: *const u8) -> Self::Ints;
    /// Sixteen unsigned bytes.
    ///
    /// # Safety
    /// The processor has the instructions, and the bytes are readable.
    unsafe fn unsigned(from: *const u8) -> Self::Ints;
    /// The same integer sixteen times.
    ///
    /// # Safety
    /// The processor has the instructions that [`Vector16::run`] compiles for.
    unsafe fn ints(value: i32) -> Self::Ints;
    fn add(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// The sum, saturating.
    fn saturating_add(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// a − b · c.
    fn less_product(a: Self::Ints, b: Self::Ints, c: Self::Ints) -> Self::Ints;
    fn clamp(a: Self::Ints, low: Self::Ints, high: Self::Ints) -> Self::Ints;
    /// The entries at these offsets from the pointer, which may be negative.
    ///
    /// # Safety
    /// `entries` is aligned and readable at each of the sixteen offsets, and the processor has the instructions of [`Vector16::run`].
    unsafe fn looked_up(a: Self::Ints, entries: *const i32) -> Self::Ints;
    /// Stores sixteen integers.
    ///
    /// # Safety
    /// `to` is writable for sixteen integers, at any alignment.
    unsafe fn store(a: Self::Ints, to: *mut i32);
    /// Stores the lowest byte of each.
    ///
    /// # Safety
    /// `to` is writable for sixteen bytes.
    unsafe fn bytes(a: Self::Ints, to: *mut u8);
    /// Stores the lowest bytes of the first values, fewer than sixteen.
    ///
    /// # Safety
    /// `to` is writable for `count` bytes.
    #[inline(always)]
    unsafe fn first_bytes(a: Self::Ints, to: *mut u8, count: usize) {
        let mut buffer = [0; 16];
        // SAFETY: the buffer has sixteen bytes, and `to` the first ones, as this function requires.
        unsafe {
            Self::bytes(a, buffer.as_mut_ptr());
            to.copy_from_nonoverlapping(buffer.as_ptr(), count);
        }
    }

    /// Sixteen values.
    ///
    /// # Safety
    /// The processor has the instructions, and the elements are readable.
    unsafe fn load_floats(from: *const f32) -> Self::Floats;
    /// The same value sixteen times.
    ///
    /// # Safety
    /// The processor has the instructions that [`Vector16::run`] compiles for.
    unsafe fn floats(value: f32) -> Self::Floats;
    fn of_ints(a: Self::Ints) -> Self::Floats;
    fn plus(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn minus(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn times(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn over(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a · b + c, rounded once.
    fn fused(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Clamped to two bounds; NaN stays.
    fn clip(a: Self::Floats, low: Self::Floats, high: Self::Floats) -> Self::Floats;
    fn floor(a: Self::Floats) -> Self::Floats;
    /// To nearest, ties to even.
    fn nearest(a: Self::Floats) -> Self::Floats;
    /// Truncated, for magnitudes below 2³¹; NaN becomes 0.
    fn truncate(a: Self::Floats) -> Self::Ints;
    /// Stores sixteen values.
    ///
    /// # Safety
    /// The elements are writable.
    unsafe fn store_floats(a: Self::Floats, to: *mut f32);
    /// Whether all magnitudes are below a bound.
    fn are_below(a: Self::Floats, bound: Self::Floats) -> bool;

    /// Runs a task compiled for the instructions.
    ///
    /// # Safety
    /// The processor has the instructions of this type.
    unsafe fn run<W: IsaTask>(task: W) -> W::Output;
}

/// A task written over these operations.
pub(crate) trait Vector16Task {
    type Output;

    /// Runs with one instruction set, inlined into a function that is compiled for it.
    ///
    /// # Safety
    /// The processor has the instructions, and the task its memory.
    unsafe fn run<S: Vector16>(self) -> Self::Output;
}

/// A task with its set of operations.
struct With<W, S>(W, PhantomData<S>);

impl<W: Vector16Task, S: Vector16> IsaTask for With<W, S> {
    type Output = W::Output;

    #[inline(always)]
    fn run(self) -> W::Output {
        // SAFETY: only `run_at` makes it, which requires the instructions and the task's memory.
        unsafe { self.0.run::<S>() }
    }
}

/// Runs a task with the operations of an instruction set.
///
/// # Safety
/// The processor has the instruction set, and the task its memory.
pub(crate) unsafe fn run_at<W: Vector16Task>(isa: Isa, task: W) -> W::Output {
    // SAFETY: the processor has the instructions, as this function requires.
    unsafe {
        match isa {
            Isa::Portable => Portable::run(With::<W, Portable>(task, PhantomData)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::run(With::<W, Avx2>(task, PhantomData)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::run(With::<W, Avx512>(task, PhantomData)),
        }
    }
}

/// The bound beyond which quotients exceed any byte, with room for sums.
const BEYOND: f32 = 1_099_511_627_776.0;

/// Quotients as a division rounds them, except beyond 2⁴⁰, where they stay beyond. `inverse` is the nearest
/// inverse of the divisor, or 0 if that is too large or small. The products are faster than a division: if a
/// quotient is one of the two values around the exact one, its remainder is exact, and a product with the
/// inverse corrects it (Markstein 1990).
///
/// # Safety
/// The processor has the instructions that [`Vector16::run`] compiles for.
#[inline(always)]
pub(crate) unsafe fn quotient<S: Vector16>(a: S::Floats, divisor: f32, inverse: f32) -> S::Floats {
    // SAFETY: the processor has the instructions, as this function requires.
    unsafe {
        if !S::IS_FUSED || inverse == 0.0 {
            return S::over(a, S::floats(divisor));
        }
        let most = divisor.abs() * BEYOND;
        let a = S::clip(a, S::floats(-most), S::floats(most));
        let (inverse, less) = (S::floats(inverse), S::floats(-divisor));
        let first = S::times(a, inverse);
        let near = S::fused(S::fused(first, less, a), inverse, first);
        S::fused(S::fused(near, less, a), inverse, near)
    }
}

/// Defines trait functions, each by an expression.
macro_rules! functions {
    ($(fn $name:ident $(<$generic:ident: $bound:ident>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)? { $($body:tt)* })*) => { $(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "some bodies contain no unsafe operation")]
        unsafe fn $name $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
            // SAFETY: the processor has the instructions and memory is valid, as the trait requires of callers.
            unsafe { $($body)* }
        }
    )* };
}

/// The same for functions that take values and no pointers.
macro_rules! of_values {
    ($(fn $name:ident ($($argument:ident: $type:ty),*) -> $result:ty { $($body:tt)* })*) => { $(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "some bodies contain no unsafe operation")]
        fn $name ($($argument: $type),*) -> $result {
            // SAFETY: values exist only on a processor with the instructions; only arguments are accessed.
            unsafe { $($body)* }
        }
    )* };
}

/// The baseline of the target.
pub(crate) struct Portable;

// SAFETY: arrays only need the target's baseline.
unsafe impl Vector16 for Portable {
    type Ints = [i32; 16];
    type Floats = [f32; 16];
    const IS_FUSED: bool = false;

    functions! {
        fn load(from: *const i32) -> [i32; 16] { from.cast::<[i32; 16]>().read_unaligned() }
        fn signed(from: *const u8) -> [i32; 16] { array::map(from.cast::<[i8; 16]>().read_unaligned(), i32::from) }
        fn unsigned(from: *const u8) -> [i32; 16] { array::map(from.cast::<[u8; 16]>().read_unaligned(), i32::from) }
        fn ints(value: i32) -> [i32; 16] { [value; 16] }
        fn looked_up(a: [i32; 16], entries: *const i32) -> [i32; 16] {
            // SAFETY: this function requires the entries, as the trait requires.
            array::map(a, |at| unsafe { entries.offset(at as isize).read() })
        }
        fn store(a: [i32; 16], to: *mut i32) { to.cast::<[i32; 16]>().write_unaligned(a) }
        fn bytes(a: [i32; 16], to: *mut u8) { to.cast::<[u8; 16]>().write_unaligned(array::map(a, |value| value as u8)) }
        fn load_floats(from: *const f32) -> [f32; 16] { from.cast::<[f32; 16]>().read_unaligned() }
        fn floats(value: f32) -> [f32; 16] { [value; 16] }
        fn store_floats(a: [f32; 16], to: *mut f32) { to.cast::<[f32; 16]>().write_unaligned(a) }
        fn run<W: IsaTask>(task: W) -> W::Output { crate::simd::isa::run_portable(task) }
    }

    of_values! {
        fn add(a: [i32; 16], b: [i32; 16]) -> [i32; 16] { array::zip(a, b, i32::wrapping_add) }
        fn saturating_add(a: [i32; 16], b: [i32; 16]) -> [i32; 16] { array::zip(a, b, i32::saturating_add) }
        fn less_product(a: [i32; 16], b: [i32; 16], c: [i32; 16]) -> [i32; 16] {
            array::zip(a, array::zip(b, c, i32::wrapping_mul), i32::wrapping_sub)
        }
        fn clamp(a: [i32; 16], low: [i32; 16], high: [i32; 16]) -> [i32; 16] {
            array::zip(array::zip(a, low, i32::max), high, i32::min)
        }
        fn of_ints(a: [i32; 16]) -> [f32; 16] { array::map(a, |value| value as f32) }
        fn plus(a: [f32; 16], b: [f32; 16]) -> [f32; 16] { array::zip(a, b, |a, b| a + b) }
        fn minus(a: [f32; 16], b: [f32; 16]) -> [f32; 16] { array::zip(a, b, |a, b| a - b) }
        fn times(a: [f32; 16], b: [f32; 16]) -> [f32; 16] { array::zip(a, b, |a, b| a * b) }
        fn over(a: [f32; 16], b: [f32; 16]) -> [f32; 16] { array::zip(a, b, |a, b| a / b) }
        fn fused(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
            array::from_fn(|lane| a[lane].mul_add(b[lane], c[lane]))
        }
        fn clip(a: [f32; 16], low: [f32; 16], high: [f32; 16]) -> [f32; 16] {
            let raised = array::zip(a, low, |a, low| if low > a { low } else { a });
            array::zip(raised, high, |a, high| if high < a { high } else { a })
        }
        fn floor(a: [f32; 16]) -> [f32; 16] { array::map(a, f32::floor) }
        // Adding 3 · 2²² rounds to an integer; from 2²² on, the sum could be rounded too far.
        fn nearest(a: [f32; 16]) -> [f32; 16] {
            array::map(a, |a| if a.abs() < 4_194_304.0 { (a + 12_582_912.0) - 12_582_912.0 } else { a.round_ties_even() })
        }
        fn truncate(a: [f32; 16]) -> [i32; 16] { array::map(a, |value| value as i32) }
        fn are_below(a: [f32; 16], bound: [f32; 16]) -> bool { a.iter().zip(bound).all(|(a, bound)| a.abs() < bound) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::simd::array;

    use std::arch::x86_64::*;

    use super::Vector16;
    use crate::simd::isa::{IsaTask, run_avx2, run_avx512};

    /// AVX-512: a register.
    pub(crate) struct Avx512;

    type I = __m512i;
    type F = __m512;

    // SAFETY: `run` compiles for what the functions need.
    unsafe impl Vector16 for Avx512 {
        type Ints = I;
        type Floats = F;
        const IS_FUSED: bool = true;

        functions! {
            fn load(from: *const i32) -> I { _mm512_loadu_si512(from.cast()) }
            fn signed(from: *const u8) -> I { _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())) }
            fn unsigned(from: *const u8) -> I { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
            fn ints(value: i32) -> I { _mm512_set1_epi32(value) }
            fn looked_up(a: I, entries: *const i32) -> I { _mm512_i32gather_epi32::<4>(a, entries.cast()) }
            fn store(a: I, to: *mut i32) { _mm512_storeu_si512(to.cast(), a) }
            fn bytes(a: I, to: *mut u8) { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(a)) }
            fn first_bytes(a: I, to: *mut u8, count: usize) {
                _mm512_mask_cvtepi32_storeu_epi8(to.cast(), (1_u16 << count) - 1, a)
            }
            fn load_floats(from: *const f32) -> F { _mm512_loadu_ps(from) }
            fn floats(value: f32) -> F { _mm512_set1_ps(value) }
            fn store_floats(a: F, to: *mut f32) { _mm512_storeu_ps(to, a) }
            fn run<W: IsaTask>(task: W) -> W::Output { run_avx512(task) }
        }

        of_values! {
            fn add(a: I, b: I) -> I { _mm512_add_epi32(a, b) }
            fn saturating_add(a: I, b: I) -> I {
                let sum = _mm512_add_epi32(a, b);
                let left = _mm512_and_si512(_mm512_xor_si512(a, sum), _mm512_xor_si512(b, sum));
                let end = _mm512_xor_si512(_mm512_srai_epi32::<31>(a), _mm512_set1_epi32(i32::MAX));
                _mm512_mask_mov_epi32(sum, _mm512_movepi32_mask(left), end)
            }
            fn less_product(a: I, b: I, c: I) -> I { _mm512_sub_epi32(a, _mm512_mullo_epi32(b, c)) }
            fn clamp(a: I, low: I, high: I) -> I { _mm512_min_epi32(_mm512_max_epi32(a, low), high) }
            fn of_ints(a: I) -> F { _mm512_cvtepi32_ps(a) }
            fn plus(a: F, b: F) -> F { _mm512_add_ps(a, b) }
            fn minus(a: F, b: F) -> F { _mm512_sub_ps(a, b) }
            fn times(a: F, b: F) -> F { _mm512_mul_ps(a, b) }
            fn over(a: F, b: F) -> F { _mm512_div_ps(a, b) }
            fn fused(a: F, b: F, c: F) -> F { _mm512_fmadd_ps(a, b, c) }
            // If one operand is NaN, the instructions return the second.
            fn clip(a: F, low: F, high: F) -> F { _mm512_min_ps(high, _mm512_max_ps(low, a)) }
            fn floor(a: F) -> F { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a) }
            fn nearest(a: F) -> F { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
            fn truncate(a: F) -> I { _mm512_maskz_cvttps_epi32(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a), a) }
            fn are_below(a: F, bound: F) -> bool {
                _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(a), bound) == u16::MAX
            }
        }
    }

    /// AVX2: two registers.
    pub(crate) struct Avx2;

    type I2 = [__m256i; 2];
    type F2 = [__m256; 2];

    #[inline(always)]
    fn both<A: Copy, B: Copy, C>(a: [A; 2], b: [B; 2], f: impl Fn(A, B) -> C) -> [C; 2] {
        [f(a[0], b[0]), f(a[1], b[1])]
    }

    // SAFETY: `run` compiles for what the functions need.
    unsafe impl Vector16 for Avx2 {
        type Ints = I2;
        type Floats = F2;
        const IS_FUSED: bool = true;

        functions! {
            fn load(from: *const i32) -> I2 { array::map([0, 8], |at| _mm256_loadu_si256(from.add(at).cast())) }
            fn signed(from: *const u8) -> I2 {
                array::map([0, 8], |at| _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.add(at).cast())))
            }
            fn unsigned(from: *const u8) -> I2 {
                array::map([0, 8], |at| _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.add(at).cast())))
            }
            fn ints(value: i32) -> I2 { [_mm256_set1_epi32(value); 2] }
            fn looked_up(a: I2, entries: *const i32) -> I2 { array::map(a, |a| _mm256_i32gather_epi32::<4>(entries, a)) }
            fn store(a: I2, to: *mut i32) {
                _mm256_storeu_si256(to.cast(), a[0]);
                _mm256_storeu_si256(to.add(8).cast(), a[1]);
            }
            fn bytes(a: I2, to: *mut u8) {
                // The lowest byte of each, then halves of registers in order.
                let lowest = array::map(a, |a| _mm256_and_si256(a, _mm256_set1_epi32(0xff)));
                let packed = _mm256_packus_epi16(_mm256_packus_epi32(lowest[0], lowest[1]), _mm256_setzero_si256());
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                let ordered = _mm256_permutevar8x32_epi32(packed, order);
                _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(ordered));
            }
            fn load_floats(from: *const f32) -> F2 { array::map([0, 8], |at| _mm256_loadu_ps(from.add(at))) }
            fn floats(value: f32) -> F2 { [_mm256_set1_ps(value); 2] }
            fn store_floats(a: F2, to: *mut f32) {
                _mm256_storeu_ps(to, a[0]);
                _mm256_storeu_ps(to.add(8), a[1]);
            }
            fn run<W: IsaTask>(task: W) -> W::Output { run_avx2(task) }
        }

        of_values! {
            fn add(a: I2, b: I2) -> I2 { both(a, b, |a, b| _mm256_add_epi32(a, b)) }
            fn saturating_add(a: I2, b: I2) -> I2 {
                both(a, b, |a, b| {
                    let sum = _mm256_add_epi32(a, b);
                    let left = _mm256_and_si256(_mm256_xor_si256(a, sum), _mm256_xor_si256(b, sum));
                    let end = _mm256_xor_si256(_mm256_srai_epi32::<31>(a), _mm256_set1_epi32(i32::MAX));
                    _mm256_blendv_epi8(sum, end, _mm256_srai_epi32::<31>(left))
                })
            }
            fn less_product(a: I2, b: I2, c: I2) -> I2 {
                both(a, both(b, c, |b, c| _mm256_mullo_epi32(b, c)), |a, product| _mm256_sub_epi32(a, product))
            }
            fn clamp(a: I2, low: I2, high: I2) -> I2 {
                let raised = both(a, low, |a, low| _mm256_max_epi32(a, low));
                both(raised, high, |a, high| _mm256_min_epi32(a, high))
            }
            fn of_ints(a: I2) -> F2 { array::map(a, |a| _mm256_cvtepi32_ps(a)) }
            fn plus(a: F2, b: F2) -> F2 { both(a, b, |a, b| _mm256_add_ps(a, b)) }
            fn minus(a: F2, b: F2) -> F2 { both(a, b, |a, b| _mm256_sub_ps(a, b)) }
            fn times(a: F2, b: F2) -> F2 { both(a, b, |a, b| _mm256_mul_ps(a, b)) }
            fn over(a: F2, b: F2) -> F2 { both(a, b, |a, b| _mm256_div_ps(a, b)) }
            fn fused(a: F2, b: F2, c: F2) -> F2 { array::map([0, 1], |at| _mm256_fmadd_ps(a[at], b[at], c[at])) }
            fn clip(a: F2, low: F2, high: F2) -> F2 {
                // If one operand is NaN, the instructions return the second.
                let raised = both(low, a, |low, a| _mm256_max_ps(low, a));
                both(high, raised, |high, a| _mm256_min_ps(high, a))
            }
            fn floor(a: F2) -> F2 { array::map(a, |a| _mm256_floor_ps(a)) }
            fn nearest(a: F2) -> F2 {
                array::map(a, |a| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
            }
            fn truncate(a: F2) -> I2 {
                array::map(a, |a| {
                    let ordered = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_ORD_Q>(a, a));
                    _mm256_and_si256(_mm256_cvttps_epi32(a), ordered)
                })
            }
            fn are_below(a: F2, bound: F2) -> bool {
                let sign = _mm256_set1_ps(-0.0);
                let below =
                    both(a, bound, |a, bound| _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_andnot_ps(sign, a), bound));
                _mm256_movemask_ps(_mm256_and_ps(below[0], below[1])) == 0xff
            }
        }
    }
}
