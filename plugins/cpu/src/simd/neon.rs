//! The registers of NEON.

use std::arch::aarch64::*;

use crate::simd::array;
use crate::simd::isa::{Isa, IsaTask, run_portable};
use crate::simd::vector::{Lanewise, PartialVector, Vector, implement_vector, of_values};

implement_vector!(
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
        Lanewise::Relu => vbslq_f32(vclezq_f32(x), vdupq_n_f32(0.0), x),
        Lanewise::Identity => x,
        Lanewise::Sqrt => vsqrtq_f32(x),
        Lanewise::NotBelow => vbslq_f32(vcltq_f32(x, y), y, x),
        Lanewise::NotAbove => vbslq_f32(vcgtq_f32(x, y), y, x),
        Lanewise::Scale => {
            // In two steps, because subnormal and the largest results are more than one power of 2 away.
            let exponent = vcvtnq_s32_f32(y);
            let first = vshrq_n_s32::<1>(exponent);
            let biased = vaddq_s32(first, vdupq_n_s32(127));
            let rest = vaddq_s32(vsubq_s32(exponent, first), vdupq_n_s32(127));
            let [first, second] =
                array::map([biased, rest], |bits| vreinterpretq_f32_s32(vshlq_n_s32::<23>(bits)));
            vmulq_f32(vmulq_f32(x, first), second)
        }
    },
    |c, yes, no| vbslq_f32(vcgtzq_f32(c), yes, no),
    |v, distance| match distance {
        2 => vextq_f32::<2>(v, v),
        _ => vrev64q_f32(v),
    }
);

implement_vector!(
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
        Lanewise::Relu => vbslq_f64(vclezq_f64(x), vdupq_n_f64(0.0), x),
        Lanewise::Identity => x,
        Lanewise::Sqrt => vsqrtq_f64(x),
        Lanewise::NotBelow => vbslq_f64(vcltq_f64(x, y), y, x),
        Lanewise::NotAbove => vbslq_f64(vcgtq_f64(x, y), y, x),
        Lanewise::Scale => {
            // In two steps, because subnormal and the largest results are more than one power of 2 away.
            let exponent = vcvtnq_s64_f64(y);
            let first = vshrq_n_s64::<1>(exponent);
            let biased = vaddq_s64(first, vdupq_n_s64(1023));
            let rest = vaddq_s64(vsubq_s64(exponent, first), vdupq_n_s64(1023));
            let [first, second] =
                array::map([biased, rest], |bits| vreinterpretq_f64_s64(vshlq_n_s64::<52>(bits)));
            vmulq_f64(vmulq_f64(x, first), second)
        }
    },
    |c, yes, no| vbslq_f64(vcgtzq_f64(c), yes, no),
    |v, _distance| vextq_f64::<1>(v, v)
);

/// Runs a task with NEON.
///
/// # Safety
/// Every processor of the target has the instructions.
#[inline(always)]
unsafe fn run_neon<W: IsaTask>(work: W) -> W::Output {
    // Every processor of the target has the instructions.
    run_portable(work)
}

/// Zeros.
///
/// # Safety
/// Every processor of the target has the instructions.
#[inline(always)]
unsafe fn zero_f32() -> float32x4_t {
    // SAFETY: every processor of the target has the instruction.
    unsafe { vdupq_n_f32(0.0) }
}

/// Zeros.
///
/// # Safety
/// Every processor of the target has the instructions.
#[inline(always)]
unsafe fn zero_f64() -> float64x2_t {
    // SAFETY: every processor of the target has the instruction.
    unsafe { vdupq_n_f64(0.0) }
}

/// `a · b + c`; the intrinsic takes the summand first.
///
/// # Safety
/// Every processor of the target has the instructions.
#[inline(always)]
unsafe fn fused_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
    // SAFETY: every processor of the target has the instruction.
    unsafe { vfmaq_f32(c, a, b) }
}

/// `a · b + c`.
///
/// # Safety
/// Every processor of the target has the instructions.
#[inline(always)]
unsafe fn fused_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
    // SAFETY: every processor of the target has the instruction.
    unsafe { vfmaq_f64(c, a, b) }
}

macro_rules! partial_vector {
    ($name:ident, $scalar:ty, $unzip:ident, $unzip_odd:ident, $zip:ident, $zip_high:ident, $ext:ident, $min:ident, $max:ident,
        |$x:ident, $than:ident| $larger:expr, $select:ident) => {
        // SAFETY: every processor of the target has the instructions.
        unsafe impl PartialVector for $name {
            type Scalar = $scalar;
            type Half = Self;
            type Lanes = (usize, usize);

            #[inline(always)]
            unsafe fn lanes(low: usize, high: usize) -> (usize, usize) {
                (low, high)
            }

            #[inline(always)]
            unsafe fn load_lanes(from: *const $scalar, (low, high): (usize, usize)) -> Self {
                let mut values = [0.0; Self::LANES];
                // SAFETY: the lanes' elements are valid, as the trait requires.
                unsafe {
                    for i in low..high {
                        values[i] = from.wrapping_add(i).read_unaligned();
                    }
                    Self::load(values.as_ptr())
                }
            }

            #[inline(always)]
            unsafe fn store_lanes(self, to: *mut $scalar, (low, high): (usize, usize)) {
                let mut values = [0.0; Self::LANES];
                // SAFETY: the lanes' elements are valid, as the trait requires.
                unsafe {
                    self.store(values.as_mut_ptr());
                    for i in low..high {
                        to.wrapping_add(i).write_unaligned(values[i]);
                    }
                }
            }

            of_values! {
                fn unzip(self: Self, next: Self) -> (Self, Self) {
                    (Self($unzip(self.0, next.0)), Self($unzip_odd(self.0, next.0)))
                }
                fn zip(self: Self, other: Self) -> (Self, Self) {
                    (Self($zip(self.0, other.0)), Self($zip_high(self.0, other.0)))
                }
                fn following(self: Self) -> Self { Self($ext::<1>(self.0, self.0)) }
                // NaN if one is NaN.
                fn clamp(self: Self, low: Self, high: Self) -> Self { Self($min(high.0, $max(low.0, self.0))) }
                fn where_larger(self: Self, than: Self, yes: Self, no: Self) -> Self {
                    match (self.0, than.0) { ($x, $than) => Self($select($larger, yes.0, no.0)) }
                }
            }
        }
    };
}

partial_vector!(
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

partial_vector!(
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
