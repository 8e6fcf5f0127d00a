//! Maps keyed by the provider's own numbers and views, hashed without the standard library's defence against chosen keys: planning
//! looks up thousands of them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map with the fast hasher.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// A set with the fast hasher.
pub type Set<K> = HashSet<K, BuildHasherDefault<Mixer>>;

/// An odd number whose bits are spread evenly.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rotates, mixes in and multiplies, word by word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_ne_bytes(*word));
        }
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        // Tables take the lowest bits for the place and the highest ones to compare.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_spread() {
        let mut places = Set::default();
        for number in 0_u64..4096 {
            let mut mixer = Mixer::default();
            mixer.write_u64(number);
            places.insert(mixer.finish() & 4095);
        }
        assert!(places.len() > 2000, "{} places of 4096", places.len());
        let mut map = Map::default();
        for number in 0..1000_i64 {
            map.insert(vec![number, -number], number);
        }
        assert_eq!(map.get(&vec![77, -77]), Some(&77));
    }
}
