//! Elements smaller than a byte, one after the other.

/// The byte and bit where an element of `BITS` bits, 4 or 6, begins.
fn position<const BITS: usize>(index: usize) -> (usize, usize) {
    // Eight elements take BITS bytes. Nothing overflows: BITS is less than 8.
    let bit = index % 8 * BITS;
    (index / 8 * BITS + bit / 8, bit % 8)
}

/// Reads element `index` of a stream of elements of `BITS` bits, the first in the lowest bits.
///
/// # Safety
/// The bytes with the element are readable.
pub(crate) unsafe fn load_bits<const BITS: usize>(base: *const u8, index: usize) -> u8 {
    let (byte, shift) = position::<BITS>(index);
    // SAFETY: this function requires the bytes; the second is read only if the element reaches into it.
    let word = unsafe {
        let low = u16::from(base.add(byte).read());
        if shift + BITS > 8 { low | u16::from(base.add(byte + 1).read()) << 8 } else { low }
    };
    (word >> shift) as u8 & ((1 << BITS) - 1)
}

/// Writes an element of such a stream and leaves its neighbours unchanged.
///
/// # Safety
/// The bytes with the element are readable and writable.
pub(crate) unsafe fn store_bits<const BITS: usize>(base: *mut u8, index: usize, code: u8) {
    let (byte, shift) = position::<BITS>(index);
    let mask = ((1_u16 << BITS) - 1) << shift;
    let bits = u16::from(code) << shift & mask;
    // SAFETY: this function requires the bytes; the second is used only if the element reaches into it.
    unsafe {
        let low = base.add(byte);
        low.write(low.read() & !(mask as u8) | bits as u8);
        if shift + BITS > 8 {
            let high = base.add(byte + 1);
            high.write(high.read() & !((mask >> 8) as u8) | (bits >> 8) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_elements_are_packed() {
        let mut bytes = [0xFF_u8; 5];
        // SAFETY: six elements of 6 bits are 36 bits.
        unsafe {
            for index in 0..6 {
                store_bits::<6>(bytes.as_mut_ptr(), index, 1 << index);
                assert_eq!(load_bits::<6>(bytes.as_ptr(), index), 1 << index);
            }
        }
        let stream = (0..6).fold(0_u64, |bits, index| bits | 1 << (7 * index)) | 0xF << 36;
        assert_eq!(bytes, stream.to_le_bytes()[..5]);
        let mut bytes = [0xAB_u8; 2];
        // SAFETY: three elements of 4 bits are 12 bits.
        unsafe {
            store_bits::<4>(bytes.as_mut_ptr(), 0, 1);
            store_bits::<4>(bytes.as_mut_ptr(), 2, 3);
            assert_eq!((bytes, load_bits::<4>(bytes.as_ptr(), 1)), ([0xA1, 0xA3], 0xA));
        }
    }
}
