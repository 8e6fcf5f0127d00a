//! The hash that identifies engines and detects damaged data, and the one of fast maps.

use std::hash::Hasher;

/// The 64-bit FNV-1a hash of bytes. Changing one byte always changes it.
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of no bytes.
    #[expect(clippy::new_without_default, reason = "a hash is computed, and has no default")]
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Appends bytes.
    #[must_use]
    pub const fn add(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut rest = bytes;
        while let [byte, tail @ ..] = rest {
            hash = (hash ^ *byte as u64).wrapping_mul(0x100_0000_01b3);
            rest = tail;
        }
        Self(hash)
    }

    /// The hash.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// An odd number whose bits are spread evenly.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a program's own numbers word by word (rotates, mixes in, multiplies), for maps without defence against chosen keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_ne_bytes(*word));
        }
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(FACTOR);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    #[inline]
    fn finish(&self) -> u64 {
        // Tables take the lowest bits for the place and the highest ones to compare.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_are_those_of_the_algorithm() {
        assert_eq!(Fnv1a::new().number(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv1a::new().add(b"a").number(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv1a::new().add(b"foo").add(b"bar").number(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn neighbours_are_spread() {
        let mut places = HashSet::new();
        for number in 0_u64..4096 {
            let mut mixer = Mixer::default();
            mixer.write_u64(number);
            places.insert(mixer.finish() & 4095);
        }
        assert!(places.len() > 2000, "{} places of 4096", places.len());
    }
}
