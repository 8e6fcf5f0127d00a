//! Rows of any dtype: those of [`RowConverter`], 64-bit integers, and elements smaller than a byte.

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::packed_bits::{load_bits, store_bits};
use crate::kernel::Refusal;
use crate::simd::stored::{E2m1, E2m3, E3m2, E8m0, Int4};
use crate::simd::vector::Float;
use crate::tensor::row_converter::RowConverter;

/// How many elements smaller than a byte are unpacked at once.
const CODES: usize = 64;

/// Reads and writes rows of one dtype, starting at any bit.
pub(crate) struct RowCodec<T> {
    /// Bits of an element.
    pub(crate) bits: usize,
    /// The conversion of whole bytes: of an element, or of the code of a smaller one.
    row: RowConverter<T>,
}

impl<T> Clone for RowCodec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RowCodec<T> {}

impl<T: Float> RowCodec<T> {
    /// The codec for a dtype.
    pub(crate) fn of(data_type: DataType) -> Result<Self, Refusal> {
        let (bits, row) = match data_type {
            DataType::Int4 => (4, RowConverter::stored::<Int4>()),
            DataType::Fp4E2m1 => (4, RowConverter::stored::<E2m1>()),
            DataType::Fp6E2m3 => (6, RowConverter::stored::<E2m3>()),
            DataType::Fp6E3m2 => (6, RowConverter::stored::<E3m2>()),
            DataType::Fp8E8m0 => (8, RowConverter::stored::<E8m0>()),
            DataType::Int64 => (64, RowConverter::stored::<i64>()),
            other => {
                let row = RowConverter::of_number(other)?;
                (8 * row.size, row)
            }
        };
        Ok(Self { bits, row })
    }

    /// Reads `len` elements with this stride from element `index` on.
    ///
    /// # Safety
    /// The elements are readable and `to` is writable for `len` values, without overlap.
    pub(crate) unsafe fn load(&self, base: *const u8, index: usize, stride: usize, to: *mut T, len: usize) {
        // SAFETY: this function requires the elements and the room.
        unsafe {
            if self.bits >= 8 {
                return (self.row.load)(base.add(index * self.row.size), stride, to, len);
            }
            let mut codes = [0; CODES];
            for at in (0..len).step_by(CODES) {
                let codes = &mut codes[..CODES.min(len - at)];
                let first = index + at * stride;
                if self.bits == 4 {
                    unpack::<4>(base, first, stride, codes);
                } else {
                    unpack::<6>(base, first, stride, codes);
                }
                (self.row.load)(codes.as_ptr(), 1, to.add(at), codes.len());
            }
        }
    }

    /// Writes `len` elements with this stride from element `index` on; other bits in their bytes stay
    /// unchanged.
    ///
    /// # Safety
    /// The bytes with the elements are readable and writable, and `from` is readable for `len` values.
    pub(crate) unsafe fn store(
        &self,
        from: *const T,
        base: *mut u8,
        index: usize,
        stride: usize,
        len: usize,
    ) {
        // SAFETY: this function requires the elements and the values.
        unsafe {
            if self.bits >= 8 {
                return (self.row.store)(from, base.add(index * self.row.size), stride, len);
            }
            let mut codes = [0; CODES];
            for at in (0..len).step_by(CODES) {
                let codes = &mut codes[..CODES.min(len - at)];
                (self.row.store)(from.add(at), codes.as_mut_ptr(), 1, codes.len());
                let first = index + at * stride;
                if self.bits == 4 {
                    pack::<4>(codes, base, first, stride);
                } else {
                    pack::<6>(codes, base, first, stride);
                }
            }
        }
    }
}

/// How many codes of a row are in groups of eight, which take `BITS` whole bytes.
fn grouped<const BITS: usize>(index: usize, stride: usize, len: usize) -> usize {
    if stride == 1 && (index * BITS).is_multiple_of(8) { len - len % 8 } else { 0 }
}

/// # Safety
/// As for [`RowCodec::load`].
unsafe fn unpack<const BITS: usize>(base: *const u8, index: usize, stride: usize, codes: &mut [u8]) {
    let (groups, rest) = codes.split_at_mut(grouped::<BITS>(index, stride, codes.len()));
    let grouped = groups.len();
    for (group, codes) in groups.chunks_exact_mut(8).enumerate() {
        let mut word = [0; 8];
        // SAFETY: this function requires the group's elements.
        let bytes = unsafe { base.add(index * BITS / 8 + group * BITS).cast::<[u8; BITS]>().read() };
        word[..BITS].copy_from_slice(&bytes);
        let word = u64::from_le_bytes(word);
        for (index, code) in codes.iter_mut().enumerate() {
            *code = (word >> (index * BITS)) as u8 & ((1 << BITS) - 1);
        }
    }
    for (at, code) in rest.iter_mut().enumerate() {
        // SAFETY: this function requires the element.
        *code = unsafe { load_bits::<BITS>(base, index + (grouped + at) * stride) };
    }
}

/// # Safety
/// As for [`RowCodec::store`].
unsafe fn pack<const BITS: usize>(codes: &[u8], base: *mut u8, index: usize, stride: usize) {
    let (groups, rest) = codes.split_at(grouped::<BITS>(index, stride, codes.len()));
    for (group, codes) in groups.chunks_exact(8).enumerate() {
        let word = codes.iter().rev().fold(0_u64, |word, code| word << BITS | u64::from(*code));
        let bytes = &word.to_le_bytes()[..BITS];
        // SAFETY: this function requires the group's elements.
        unsafe { base.add(index * BITS / 8 + group * BITS).copy_from(bytes.as_ptr(), BITS) };
    }
    for (at, code) in rest.iter().enumerate() {
        // SAFETY: this function requires the element.
        unsafe { store_bits::<BITS>(base, index + (groups.len() + at) * stride, *code) };
    }
}
