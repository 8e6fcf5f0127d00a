//! Numbers to compute with and the elements that tensors store.

use std::any::TypeId;

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::Real;
use crate::dtype::small_float;
use crate::kernel::Refusal;
use crate::simd::convert;
use crate::simd::isa::{Isa, IsaTask};
#[cfg(not(target_arch = "aarch64"))]
use crate::simd::vector::PortableVector;
use crate::simd::vector::Vector;
#[cfg(target_arch = "aarch64")]
use crate::simd::vector::{F32x4, F64x2};
#[cfg(target_arch = "x86_64")]
use crate::simd::vector::{F32x8, F32x16, F64x4, F64x8};

/// A [`Real`] that fast kernels compute in.
pub(crate) trait Float: Real {
    /// The vector of [`crate::simd::isa::Isa::Portable`].
    type Portable: Vector<Scalar = Self>;
    /// The vector of [`crate::simd::isa::Isa::Avx2`].
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Scalar = Self>;
    /// The vector of [`crate::simd::isa::Isa::Avx512`].
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Scalar = Self>;

    /// `self * factor + summand`, rounded once where the target can do that in one instruction.
    fn fused(self, factor: Self, summand: Self) -> Self;
    /// `self` times 2 to the power of a whole number. Where the result has fewer bits than usual, it may be rounded twice.
    fn scaled(self, exponent: Self) -> Self;
    /// Of a number above 0 one from 0.75 to 1.5 and a whole one, the power of 2 that it is to be multiplied by. Of infinity and
    /// of what is not above 0 these are any two.
    fn parted(self) -> (Self, Self);

    /// From single precision.
    fn from_single(stored: f32) -> Self;
    /// From double precision.
    fn from_double(stored: f64) -> Self;
    /// From half precision.
    fn from_half(stored: f16) -> Self;
    /// From bfloat16.
    fn from_bfloat16(stored: bf16) -> Self;
    /// To the nearest of single precision.
    fn into_single(self) -> f32;
    /// To the nearest of double precision.
    fn into_double(self) -> f64;
    /// To the nearest of half precision.
    fn into_half(self) -> f16;
    /// To the nearest of bfloat16.
    fn into_bfloat16(self) -> bf16;
}

/// What RELU makes of a number: 0 unless it is above, the largest one of infinity, and NaN of NaN.
#[inline(always)]
pub(crate) fn relu<T: Real>(number: T) -> T {
    let bounded = if number >= T::LARGEST { T::LARGEST } else { number };
    if number <= T::ZERO { T::ZERO } else { bounded }
}

macro_rules! fast_real {
    ($real:ident, $portable:ty, $avx2:ty, $avx512:ty, $from_half:ident, $to_half:ident, $whole:expr, $bias:literal) => {
        impl Float for $real {
            type Portable = $portable;
            #[cfg(target_arch = "x86_64")]
            type Avx2 = $avx2;
            #[cfg(target_arch = "x86_64")]
            type Avx512 = $avx512;

            #[inline(always)]
            fn fused(self, factor: Self, summand: Self) -> Self {
                if cfg!(target_arch = "aarch64") {
                    self.mul_add(factor, summand)
                } else {
                    self * factor + summand
                }
            }
            #[inline(always)]
            fn scaled(self, exponent: Self) -> Self {
                // Added to a number, this leaves no room for a fraction; the whole number is then in the lowest bits.
                let whole: $real = $whole;
                let exponent =
                    (exponent + whole).to_bits().cast_signed().wrapping_sub(whole.to_bits().cast_signed());
                // In two steps, as neither subnormal results nor the largest ones are one power of 2 away.
                let first = exponent >> 1;
                let power = |exponent| {
                    let biased = $bias.wrapping_add_signed(exponent);
                    $real::from_bits(biased << ($real::MANTISSA_DIGITS - 1))
                };
                self * power(first) * power(exponent.wrapping_sub(first))
            }
            #[inline(always)]
            fn parted(self) -> (Self, Self) {
                const DIGITS: u32 = $real::MANTISSA_DIGITS;
                let (normal, less) = if self < $real::MIN_POSITIVE {
                    (self * (1_u64 << DIGITS) as $real, DIGITS as $real)
                } else {
                    (self, 0.0)
                };
                let lowest: $real = 0.75;
                let bits = normal.to_bits();
                let power = bits.wrapping_sub(lowest.to_bits()).cast_signed() >> (DIGITS - 1);
                let part = $real::from_bits(bits.wrapping_sub((power << (DIGITS - 1)).cast_unsigned()));
                (part, power as $real - less)
            }
            #[inline(always)]
            fn from_single(stored: f32) -> Self {
                stored as $real
            }
            #[inline(always)]
            fn from_double(stored: f64) -> Self {
                stored as $real
            }
            #[inline(always)]
            fn from_half(stored: f16) -> Self {
                stored.$from_half()
            }
            #[inline(always)]
            fn from_bfloat16(stored: bf16) -> Self {
                stored.$from_half()
            }
            #[inline(always)]
            fn into_single(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn into_double(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn into_half(self) -> f16 {
                f16::$to_half(self)
            }
            #[inline(always)]
            fn into_bfloat16(self) -> bf16 {
                bf16::$to_half(self)
            }
        }
    };
}

#[cfg(not(target_arch = "aarch64"))]
fast_real!(f32, PortableVector<f32, 4>, F32x8, F32x16, to_f32, from_f32, 12_582_912.0, 127_u32);
#[cfg(not(target_arch = "aarch64"))]
fast_real!(f64, PortableVector<f64, 2>, F64x4, F64x8, to_f64, from_f64, 6_755_399_441_055_744.0, 1023_u64);
// Every processor of this target has NEON.
#[cfg(target_arch = "aarch64")]
fast_real!(f32, F32x4, F32x8, F32x16, to_f32, from_f32, 12_582_912.0, 127_u32);
#[cfg(target_arch = "aarch64")]
fast_real!(f64, F64x2, F64x4, F64x8, to_f64, from_f64, 6_755_399_441_055_744.0, 1023_u64);

/// An element as a tensor stores it.
pub(crate) trait Stored: Copy + Send + Sync + 'static {
    /// The number.
    fn number<T: Float>(self) -> T;
    /// The element nearest to a number.
    fn nearest<T: Float>(number: T) -> Self;

    /// Whether loops over [`Stored::in_line`] and [`Stored::nearest`] of single precision become vectors.
    const IN_LINE: bool = false;

    /// The number, where many are read one after the other.
    #[inline(always)]
    fn in_line<T: Float>(self) -> T {
        self.number()
    }
}

macro_rules! stored {
    ($stored:ident, $from:ident, $into:ident) => {
        impl Stored for $stored {
            #[inline(always)]
            fn number<T: Float>(self) -> T {
                T::$from(self)
            }
            #[inline(always)]
            fn nearest<T: Float>(number: T) -> Self {
                number.$into()
            }
        }
    };
}

stored!(f32, from_single, into_single);
stored!(f64, from_double, into_double);
stored!(f16, from_half, into_half);
stored!(bf16, from_bfloat16, into_bfloat16);

macro_rules! stored_integer {
    ($stored:ident) => {
        impl Stored for $stored {
            #[inline(always)]
            fn number<T: Float>(self) -> T {
                T::from_f64(f64::from(self))
            }
            #[inline(always)]
            fn nearest<T: Float>(number: T) -> Self {
                number.to_f64() as $stored
            }
        }
    };
}

stored_integer!(i8);
stored_integer!(u8);
stored_integer!(i32);

macro_rules! stored_code {
    ($stored:ident, $format:ident) => {
        #[doc = concat!("An element of the format `", stringify!($format), "`.")]
        #[derive(Clone, Copy)]
        pub(crate) struct $stored(u8);

        impl Stored for $stored {
            #[inline(always)]
            fn number<T: Float>(self) -> T {
                static NUMBERS: small_float::DecodeTable = small_float::$format.numbers();
                T::from_single(NUMBERS.of(self.0))
            }

            const IN_LINE: bool = true;

            #[inline(always)]
            fn in_line<T: Float>(self) -> T {
                T::from_single(small_float::$format.decode_single(self.0))
            }

            #[inline(always)]
            fn nearest<T: Float>(number: T) -> Self {
                // In double precision a number may be rounded to single precision first, and then again.
                if TypeId::of::<T>() == TypeId::of::<f32>() {
                    Self(small_float::$format.encode_single(number.into_single()))
                } else {
                    Self(small_float::$format.encode(number.to_f64()))
                }
            }
        }
    };
}

stored_code!(E4m3, E4M3);
stored_code!(E5m2, E5M2);
stored_code!(E4m3Fnuz, E4M3_FNUZ);
stored_code!(E5m2Fnuz, E5M2_FNUZ);

/// A byte that is read as 0 or 1, and written as 1 where the number is not zero.
#[derive(Clone, Copy)]
pub(crate) struct Boolean(u8);

impl Stored for Boolean {
    #[inline(always)]
    fn number<T: Float>(self) -> T {
        if self.0 == 0 { T::ZERO } else { T::ONE }
    }
    #[inline(always)]
    fn nearest<T: Float>(number: T) -> Self {
        Self(u8::from(number != T::ZERO))
    }
}

/// Calls a generic function with the element of a data type as its type argument `$s`; `$other` gets the data type where
/// it is no float of at least 16 bits.
macro_rules! with_stored {
    ($data_type:expr, $s:ident => $call:expr, $other:ident => $refuse:expr) => {
        match $data_type {
            ::hipdnn_plugin_sdk::graph::DataType::Float => {
                type $s = f32;
                $call
            }
            ::hipdnn_plugin_sdk::graph::DataType::Double => {
                type $s = f64;
                $call
            }
            ::hipdnn_plugin_sdk::graph::DataType::Half => {
                type $s = ::half::f16;
                $call
            }
            ::hipdnn_plugin_sdk::graph::DataType::Bfloat16 => {
                type $s = ::half::bf16;
                $call
            }
            $other => $refuse,
        }
    };
}
pub(crate) use with_stored;

/// The same, with floats of 8 bits.
macro_rules! with_float {
    ($data_type:expr, $s:ident => $call:expr, $other:ident => $refuse:expr) => {
        $crate::simd::real::with_stored!($data_type, $s => $call, other => match other {
            ::hipdnn_plugin_sdk::graph::DataType::Fp8E4m3 => {
                type $s = $crate::simd::real::E4m3;
                $call
            }
            ::hipdnn_plugin_sdk::graph::DataType::Fp8E5m2 => {
                type $s = $crate::simd::real::E5m2;
                $call
            }
            ::hipdnn_plugin_sdk::graph::DataType::Fp8E4m3Fnuz => {
                type $s = $crate::simd::real::E4m3Fnuz;
                $call
            }
            ::hipdnn_plugin_sdk::graph::DataType::Fp8E5m2Fnuz => {
                type $s = $crate::simd::real::E5m2Fnuz;
                $call
            }
            $other => $refuse,
        })
    };
}
pub(crate) use with_float;

/// Floats of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float16 {
    /// `half`.
    Half,
    /// `bfloat16`.
    Bfloat16,
}

/// Reads and writes runs of elements of one data type.
pub(crate) struct RowConverter<T> {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Whether an element is a number of this type.
    pub(crate) same: bool,
    /// Whether an element holds every number of this type.
    pub(crate) wider: bool,
    /// Which floats of 16 bits the elements are, if they are.
    pub(crate) float16: Option<Float16>,
    /// Reads `len` elements that are `stride` elements apart.
    pub(crate) load: unsafe fn(from: *const u8, stride: usize, to: *mut T, len: usize),
    /// Writes `len` elements that are `stride` elements apart.
    pub(crate) store: unsafe fn(from: *const T, to: *mut u8, stride: usize, len: usize),
}

impl<T> Clone for RowConverter<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RowConverter<T> {}

/// Whether elements of a data type are the numbers that are computed with.
pub(crate) fn is_number<T: Float>(data_type: DataType) -> bool {
    RowConverter::<T>::of(data_type).is_ok_and(|run| run.same)
}

impl<T: Float> RowConverter<T> {
    /// The runs of a data type whose elements are floats.
    pub(crate) fn of(data_type: DataType) -> Result<Self, Refusal> {
        with_float!(data_type, S => Ok(Self::stored::<S>()), other => Err(not_a_float(other)))
    }

    /// The runs of a data type whose elements are floats, integers of up to 32 bits, or truth values.
    pub(crate) fn of_number(data_type: DataType) -> Result<Self, Refusal> {
        match data_type {
            DataType::Int8 => Ok(Self::stored::<i8>()),
            DataType::Uint8 => Ok(Self::stored::<u8>()),
            DataType::Int32 => Ok(Self::stored::<i32>()),
            DataType::Boolean => Ok(Self::stored::<Boolean>()),
            other => Self::of(other),
        }
    }

    /// Makes numbers what they are when they have been stored.
    ///
    /// # Safety
    /// The numbers are readable and writable, and an element is no larger than a number.
    pub(crate) unsafe fn round(&self, numbers: *mut T, len: usize) {
        const TOGETHER: usize = 128;
        let mut stored = [T::ZERO; TOGETHER];
        let mut at = 0;
        while at < len {
            let part = TOGETHER.min(len - at);
            // SAFETY: the caller promises the numbers; there is room for a part.
            unsafe {
                (self.store)(numbers.add(at), stored.as_mut_ptr().cast(), 1, part);
                (self.load)(stored.as_ptr().cast(), 1, numbers.add(at), part);
            }
            at += part;
        }
    }

    fn stored<S: Stored>() -> Self {
        let sixteens = [(TypeId::of::<f16>(), Float16::Half), (TypeId::of::<bf16>(), Float16::Bfloat16)];
        Self {
            float16: sixteens.into_iter().find(|(id, _)| *id == TypeId::of::<S>()).map(|(_, of)| of),
            size: size_of::<S>(),
            same: TypeId::of::<S>() == TypeId::of::<T>(),
            wider: TypeId::of::<S>() == TypeId::of::<f64>(),
            load: load_run::<S, T>,
            store: store_run::<S, T>,
        }
    }
}

/// The refusal of a data type.
pub(crate) fn not_a_float(data_type: DataType) -> Refusal {
    format!("data type is {}, expected float, double, half, bfloat16 or a float of 8 bits", data_type.name())
}

/// Elements that are moved at once: rows of images are often only a few elements long, for which a loop that the compiler
/// makes vectors of has not even begun.
const TOGETHER: usize = 8;
/// Elements from which on those that need not be converted are left to the function of the system that copies memory.
const COPIED: usize = 12;

/// Reads `len` elements that are `stride` elements apart.
///
/// # Safety
/// The elements are readable and `to` is writable for `len` numbers, elsewhere.
#[inline(always)]
pub(crate) unsafe fn load_run<S: Stored, T: Float>(from: *const u8, stride: usize, to: *mut T, len: usize) {
    let from = from.cast::<S>();
    let mut i = 0;
    // SAFETY: the caller promises both runs, which do not lie in each other.
    unsafe {
        if stride == 1 && len >= COPIED && TypeId::of::<S>() == TypeId::of::<T>() {
            // As bytes, whatever the alignment.
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), len * size_of::<T>());
            return;
        }
        if stride == 1 && has_vectors::<S, T>() {
            i = Isa::detect().run(Widen(from, to, len));
        }
        if stride == 1 {
            while i + TOGETHER <= len {
                let elements = from.add(i).cast::<[S; TOGETHER]>().read_unaligned();
                let mut numbers = [T::ZERO; TOGETHER];
                for (number, element) in numbers.iter_mut().zip(&elements) {
                    *number = element.number();
                }
                to.add(i).cast::<[T; TOGETHER]>().write_unaligned(numbers);
                i += TOGETHER;
            }
        }
        while i < len {
            to.add(i).write(from.add(i * stride).read_unaligned().number());
            i += 1;
        }
    }
}

/// Writes `len` elements that are `stride` elements apart.
///
/// # Safety
/// The elements are writable and `from` is readable for `len` numbers.
#[inline(always)]
pub(crate) unsafe fn store_run<S: Stored, T: Float>(from: *const T, to: *mut u8, stride: usize, len: usize) {
    let to = to.cast::<S>();
    let mut i = 0;
    // SAFETY: the caller promises both runs.
    unsafe {
        if stride == 1 && has_vectors::<S, T>() {
            i = Isa::detect().run(Narrow(from, to, len));
        }
        if stride == 1 {
            while i + TOGETHER <= len {
                let numbers = from.add(i).cast::<[T; TOGETHER]>().read_unaligned();
                let mut elements = [S::nearest(T::ZERO); TOGETHER];
                for (element, number) in elements.iter_mut().zip(&numbers) {
                    *element = S::nearest(*number);
                }
                to.add(i).cast::<[S; TOGETHER]>().write_unaligned(elements);
                i += TOGETHER;
            }
        }
        while i < len {
            to.add(i * stride).write_unaligned(S::nearest(from.add(i).read()));
            i += 1;
        }
    }
}

/// Whether [`convert`] has instructions of this processor for the elements and numbers.
#[inline(always)]
fn has_vectors<S: Stored, T: Float>() -> bool {
    (S::IN_LINE || TypeId::of::<S>() == TypeId::of::<f16>() || TypeId::of::<S>() == TypeId::of::<bf16>())
        && TypeId::of::<T>() == TypeId::of::<f32>()
        && Isa::detect() != Isa::Portable
}

/// Elements that become numbers at the processor's level; yields how many are done.
struct Widen<S, T>(*const S, *mut T, usize);

impl<S: Stored, T: Float> IsaTask for Widen<S, T> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        // SAFETY: made where both runs are valid, and run at the processor's level.
        unsafe { convert::widen(Isa::detect(), self.0, self.1, self.2) }
    }
}

/// Numbers that become elements, likewise.
struct Narrow<S, T>(*const T, *mut S, usize);

impl<S: Stored, T: Float> IsaTask for Narrow<S, T> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        // SAFETY: as above.
        unsafe { convert::narrow(Isa::detect(), self.0, self.1, self.2) }
    }
}

/// Whether `len` numbers are finite, all of them.
///
/// # Safety
/// The numbers are readable.
pub(crate) unsafe fn all_finite<T: Float>(numbers: *const T, len: usize) -> bool {
    // A finite number times zero is zero, everything else is NaN. Several sums, so that they can be vectors.
    let mut sums = [T::ZERO; 32];
    let mut at = 0;
    while at + sums.len() <= len {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises `len` numbers.
            *sum = *sum + unsafe { numbers.add(at + i).read_unaligned() } * T::ZERO;
        }
        at += sums.len();
    }
    let mut sum = sums.into_iter().fold(T::ZERO, |sum, number| sum + number);
    for i in at..len {
        // SAFETY: the caller promises `len` numbers.
        sum = sum + unsafe { numbers.add(i).read_unaligned() } * T::ZERO;
    }
    sum == T::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares what is read and written at once with what is converted number by number: `of` makes an element of its bits, `bits`
    /// gives these.
    fn convert<S: Stored>(of: fn(u16) -> S, bits: fn(S) -> u16) {
        let elements: Vec<S> = (0..=u16::MAX).map(of).collect();
        let read: Vec<f32> = elements.iter().map(|element| element.number()).collect();
        for skipped in [0, 1, 5] {
            let from = &elements[skipped..];
            let mut numbers = vec![0.0_f32; from.len()];
            // SAFETY: both have as many.
            unsafe { load_run::<S, f32>(from.as_ptr().cast(), 1, numbers.as_mut_ptr(), from.len()) };
            for (expected, number) in read[skipped..].iter().zip(&numbers) {
                assert!(
                    expected == number || (expected.is_nan() && number.is_nan()),
                    "{expected} is {number}"
                );
            }
        }
        // Between all neighbours, at ties, beyond the largest and below the smallest.
        let numbers: Vec<f32> = (0..1 << 20).map(|i| f32::from_bits((i << 12) | (i & 0xfff))).collect();
        let ties = read.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
        for numbers in [numbers, ties.collect()] {
            let mut stored = vec![of(0); numbers.len()];
            // SAFETY: both have as many.
            unsafe {
                store_run::<S, f32>(numbers.as_ptr(), stored.as_mut_ptr().cast(), 1, numbers.len());
            }
            for (number, stored) in numbers.iter().zip(&stored) {
                let (expected, again) = (S::nearest(*number), stored.number::<f32>());
                let same = bits(expected) == bits(*stored) || (number.is_nan() && again.is_nan());
                assert!(same, "{number} is stored as {again}, expected {}", expected.number::<f32>());
            }
        }
    }

    #[test]
    fn halves_are_converted_as_one_by_one() {
        convert(f16::from_bits, f16::to_bits);
        convert(bf16::from_bits, bf16::to_bits);
    }

    #[test]
    fn codes_are_converted_as_one_by_one() {
        convert(|bits| E4m3(bits as u8), |code| code.0.into());
        convert(|bits| E5m2(bits as u8), |code| code.0.into());
        convert(|bits| E4m3Fnuz(bits as u8), |code| code.0.into());
        convert(|bits| E5m2Fnuz(bits as u8), |code| code.0.into());
    }
}
