//! Conversion of rows: elements of any dtype are read as values of the compute type, and written from them.

use std::any::TypeId;

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;

use crate::kernel::Refusal;
use crate::simd::array;
use crate::simd::convert;
use crate::simd::isa::Isa;
use crate::simd::stored::*;
use crate::simd::vector::{Float, Vector, VectorTask};

/// Floats of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float16 {
    /// `half`.
    Half,
    /// `bfloat16`.
    Bfloat16,
}

/// Reads and writes rows of one dtype.
pub(crate) struct RowConverter<T> {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Whether the dtype is the compute type.
    pub(crate) same: bool,
    /// Whether the dtype represents every value of the compute type.
    pub(crate) wider: bool,
    /// Which 16-bit float the dtype is, if it is one.
    pub(crate) float16: Option<Float16>,
    /// Reads `len` elements with this stride.
    pub(crate) load: unsafe fn(from: *const u8, stride: usize, to: *mut T, len: usize),
    /// Writes `len` elements with this stride.
    pub(crate) store: unsafe fn(from: *const T, to: *mut u8, stride: usize, len: usize),
}

impl<T> Clone for RowConverter<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RowConverter<T> {}

/// Whether a dtype is the compute type.
pub(crate) fn is_compute_type<T: Float>(data_type: DataType) -> bool {
    RowConverter::<T>::of(data_type).is_ok_and(|run| run.same)
}

impl<T: Float> RowConverter<T> {
    /// The conversion of a floating-point dtype.
    pub(crate) fn of(data_type: DataType) -> Result<Self, Refusal> {
        with_float!(data_type, S => Ok(Self::stored::<S>()), other => Err(not_a_float(other)))
    }

    /// The conversion of a dtype of floats, integers of up to 32 bits, or booleans.
    pub(crate) fn of_number(data_type: DataType) -> Result<Self, Refusal> {
        match data_type {
            DataType::Int8 => Ok(Self::stored::<i8>()),
            DataType::Uint8 => Ok(Self::stored::<u8>()),
            DataType::Int32 => Ok(Self::stored::<i32>()),
            DataType::Boolean => Ok(Self::stored::<Boolean>()),
            other => Self::of(other),
        }
    }

    /// Rounds values to the dtype, in place.
    ///
    /// # Safety
    /// The values are readable and writable, and an element is no larger than a value.
    pub(crate) unsafe fn round(&self, values: *mut T, len: usize) {
        const TOGETHER: usize = 128;
        let mut stored = [T::ZERO; TOGETHER];
        let mut at = 0;
        while at < len {
            let part = TOGETHER.min(len - at);
            // SAFETY: the part ends at `len`, up to which this function requires the values, and has room in the buffer.
            unsafe {
                (self.store)(values.add(at), stored.as_mut_ptr().cast(), 1, part);
                (self.load)(stored.as_ptr().cast(), 1, values.add(at), part);
            }
            at += part;
        }
    }

    /// The conversion of a type of elements.
    pub(crate) fn stored<S: Stored>() -> Self {
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

/// Why a dtype is unsupported.
pub(crate) fn not_a_float(data_type: DataType) -> Refusal {
    format!("data type is {}, expected float, double, half, bfloat16 or a float of 8 bits", data_type.name())
}

/// Elements that are converted at once: rows of images are often shorter than one iteration of an automatically vectorized loop.
const TOGETHER: usize = 8;

/// From this many elements on, `memcpy` is faster.
const COPIED: usize = 12;

/// How many elements with stride 2 are read at once.
const HALVES: usize = 8;

/// Reads `len` elements with a stride of `stride` elements.
///
/// # Safety
/// The elements are readable and `to` is writable for `len` values, without overlap.
#[inline(always)]
pub(crate) unsafe fn load_run<S: Stored, T: Float>(from: *const u8, stride: usize, to: *mut T, len: usize) {
    let from = from.cast::<S>();
    let mut i = 0;
    if stride == 1 && len >= COPIED && TypeId::of::<S>() == TypeId::of::<T>() {
        // SAFETY: both runs are as long and do not overlap; as bytes, since they may be unaligned.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), len * size_of::<T>()) };
        return;
    }
    if stride == 1 && has_vectors::<S, T>() {
        // SAFETY: the processor supports the instruction set, and both runs have `len` elements.
        i = unsafe { Isa::detect().run_vectors(Widen(from, to, len)) };
    }
    while stride == 2 && i + HALVES < len {
        // SAFETY: the element after the last one used is still in the run.
        unsafe {
            let elements = from.add(2 * i).cast::<[S; 2 * HALVES]>().read_unaligned();
            let values = array::from_fn(|at| elements[2 * at].value());
            to.add(i).cast::<[T; HALVES]>().write_unaligned(values);
        }
        i += HALVES;
    }
    // SAFETY: indices stay below `len`, up to which this function requires both runs.
    unsafe {
        while stride == 1 && i + TOGETHER <= len {
            let elements = from.add(i).cast::<[S; TOGETHER]>().read_unaligned();
            to.add(i).cast::<[T; TOGETHER]>().write_unaligned(array::map(elements, S::value::<T>));
            i += TOGETHER;
        }
        while TypeId::of::<S>() == TypeId::of::<T>() && i + TOGETHER <= len {
            let values = array::from_fn(|at| from.add((i + at) * stride).read_unaligned().value::<T>());
            to.add(i).cast::<[T; TOGETHER]>().write_unaligned(values);
            i += TOGETHER;
        }
        // So few at a time that the compiler makes no second vector loop of it.
        while i < len {
            let count = (len - i).min(TOGETHER);
            for at in 0..count {
                to.add(i + at).write(from.add((i + at) * stride).read_unaligned().value());
            }
            i += count;
        }
    }
}

/// Writes `len` elements with a stride of `stride` elements.
///
/// # Safety
/// The elements are writable and `from` is readable for `len` values, without overlap.
#[inline(always)]
pub(crate) unsafe fn store_run<S: Stored, T: Float>(from: *const T, to: *mut u8, stride: usize, len: usize) {
    if stride == 1 && len >= COPIED && TypeId::of::<S>() == TypeId::of::<T>() {
        // SAFETY: both runs are as long and do not overlap; as bytes, since they may be unaligned.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, len * size_of::<T>()) };
        return;
    }
    let to = to.cast::<S>();
    let mut i = 0;
    // SAFETY: both runs are valid, as this function requires.
    unsafe {
        if stride == 1 && has_vectors::<S, T>() {
            i = Isa::detect().run_vectors(Narrow(from, to, len));
        }
        while stride == 1 && i + TOGETHER <= len {
            let values = from.add(i).cast::<[T; TOGETHER]>().read_unaligned();
            to.add(i).cast::<[S; TOGETHER]>().write_unaligned(array::map(values, S::nearest::<T>));
            i += TOGETHER;
        }
    }
    // SAFETY: indices stay below `len`, up to which this function requires both runs.
    unsafe {
        while TypeId::of::<S>() == TypeId::of::<T>() && i + TOGETHER <= len {
            let values = from.add(i).cast::<[T; TOGETHER]>().read_unaligned();
            for (at, value) in values.into_iter().enumerate() {
                to.add((i + at) * stride).write_unaligned(S::nearest(value));
            }
            i += TOGETHER;
        }
        // So few at a time that the compiler makes no second vector loop of it.
        while i < len {
            let count = (len - i).min(TOGETHER);
            for at in 0..count {
                to.add((i + at) * stride).write_unaligned(S::nearest(from.add(i + at).read()));
            }
            i += count;
        }
    }
}

/// Whether [`convert`] has vector instructions for these types.
#[inline(always)]
fn has_vectors<S: Stored, T: Float>() -> bool {
    (S::IN_LINE || TypeId::of::<S>() == TypeId::of::<f16>() || TypeId::of::<S>() == TypeId::of::<bf16>())
        && TypeId::of::<T>() == TypeId::of::<f32>()
        && Isa::detect() != Isa::Portable
}

/// Converts elements to values with vector instructions; returns how many are done.
struct Widen<S, T>(*const S, *mut T, usize);

impl<S: Stored, T: Float> VectorTask<f32> for Widen<S, T> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) -> usize {
        // SAFETY: made for valid runs, and run with the vector's instructions.
        unsafe { convert::widen(V::ISA, self.0, self.1, self.2) }
    }
}

/// Converts values to elements.
struct Narrow<S, T>(*const T, *mut S, usize);

impl<S: Stored, T: Float> VectorTask<f32> for Narrow<S, T> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) -> usize {
        // SAFETY: made for valid runs, and run with the vector's instructions.
        unsafe { convert::narrow(V::ISA, self.0, self.1, self.2) }
    }
}

/// Whether all of `len` values are finite.
///
/// # Safety
/// `values` is readable for `len` values, at any alignment.
pub(crate) unsafe fn all_finite<T: Float>(values: *const T, len: usize) -> bool {
    // NaN and infinity times 0 are NaN. Several sums, so that the loop is vectorized.
    let mut sums = [T::ZERO; 32];
    let mut at = 0;
    while at + sums.len() <= len {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `len` values are valid, as this function requires.
            *sum = *sum + unsafe { values.add(at + i).read_unaligned() } * T::ZERO;
        }
        at += sums.len();
    }
    let mut sum = sums.into_iter().fold(T::ZERO, |sum, value| sum + value);
    for i in at..len {
        // SAFETY: `len` values are valid, as this function requires.
        sum = sum + unsafe { values.add(i).read_unaligned() } * T::ZERO;
    }
    sum == T::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares rows with element-by-element conversion: `of` makes an element from bits, `bits` is its
    /// inverse.
    fn convert<S: Stored>(of: fn(u16) -> S, bits: fn(S) -> u16) {
        let elements: Vec<S> = (0..=u16::MAX).map(of).collect();
        let read: Vec<f32> = elements.iter().map(|element| element.value()).collect();
        for skipped in [0, 1, 5] {
            let from = &elements[skipped..];
            let mut values = vec![0.0_f32; from.len()];
            // SAFETY: both slices have this length.
            unsafe { load_run::<S, f32>(from.as_ptr().cast(), 1, values.as_mut_ptr(), from.len()) };
            for (expected, value) in read[skipped..].iter().zip(&values) {
                assert!(expected == value || (expected.is_nan() && value.is_nan()), "{expected} is {value}");
            }
        }
        // Values between all neighbours, at ties, above the largest and below the smallest.
        let values: Vec<f32> = (0..1 << 20).map(|i| f32::from_bits((i << 12) | (i & 0xfff))).collect();
        let ties = read.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
        for values in [values, ties.collect()] {
            let mut stored = vec![of(0); values.len()];
            // SAFETY: both slices have this length.
            unsafe {
                store_run::<S, f32>(values.as_ptr(), stored.as_mut_ptr().cast(), 1, values.len());
            }
            for (value, stored) in values.iter().zip(&stored) {
                let (expected, again) = (S::nearest(*value), stored.value::<f32>());
                let same = bits(expected) == bits(*stored) || (value.is_nan() && again.is_nan());
                assert!(same, "{value} is stored as {again}, expected {}", expected.value::<f32>());
            }
        }
    }

    #[test]
    fn halves_are_converted_like_single_elements() {
        convert(f16::from_bits, f16::to_bits);
        convert(bf16::from_bits, bf16::to_bits);
    }

    #[test]
    fn codes_are_converted_like_single_elements() {
        convert(|bits| E4m3(bits as u8), |code| code.0.into());
        convert(|bits| E5m2(bits as u8), |code| code.0.into());
        convert(|bits| E4m3Fnuz(bits as u8), |code| code.0.into());
        convert(|bits| E5m2Fnuz(bits as u8), |code| code.0.into());
    }

    #[test]
    fn every_second_element_is_read() {
        let elements: Vec<f32> = (0_u8..80).map(f32::from).collect();
        let halves: Vec<f16> = elements.iter().map(|element| f16::from_f32(*element)).collect();
        for len in 1..=40 {
            let expected: Vec<f32> = elements.iter().copied().step_by(2).take(len).collect();
            let (mut values, mut wider) = (vec![0.0_f32; len], vec![0.0_f32; len]);
            // What lies behind the last element is not read.
            let (elements, halves) = (elements[..2 * len - 1].to_vec(), halves[..2 * len - 1].to_vec());
            // SAFETY: the runs end with their last element, and there is room for as many values.
            unsafe {
                load_run::<f32, f32>(elements.as_ptr().cast(), 2, values.as_mut_ptr(), len);
                load_run::<f16, f32>(halves.as_ptr().cast(), 2, wider.as_mut_ptr(), len);
            }
            assert_eq!([&values, &wider], [&expected; 2]);
        }
    }
}
