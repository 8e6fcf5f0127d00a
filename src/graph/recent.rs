//! The graphs that a thread was last given as bytes, so that equal bytes are not verified again.
//!
//! Each thread has its own, because what all threads have in common, and be it a reference count, makes them wait for each other.

use std::sync::Arc;

use super::VerifiedGraph;

/// How many graphs a thread remembers.
const GRAPHS: usize = 16;
/// Larger ones are not remembered, which bounds what a thread keeps.
const LARGEST: usize = 1 << 16;

/// What one thread remembers: each graph has one place where it may be.
#[derive(Default)]
pub struct Recent([Option<Arc<VerifiedGraph>>; GRAPHS]);

impl Recent {
    /// The graph with these bytes, whose number is `hash`.
    pub fn find(&self, hash: u64, bytes: &[u8]) -> Option<&Arc<VerifiedGraph>> {
        self.0.get(place(hash))?.as_ref().filter(|graph| graph.bytes == bytes)
    }

    /// Remembers a graph in place of an older one.
    pub fn remember(&mut self, hash: u64, graph: &Arc<VerifiedGraph>) {
        if graph.bytes.len() <= LARGEST
            && let Some(place) = self.0.get_mut(place(hash))
        {
            *place = Some(Arc::clone(graph));
        }
    }
}

fn place(hash: u64) -> usize {
    hash as usize % GRAPHS
}

/// A number for bytes, which differ where it does. Quick, and no more: who finds something by it compares the bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    // Any odd numbers do.
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
    let mix = |hash: u64, [a, b]: [u64; 2]| {
        let product = u128::from(a ^ FACTORS[0]) * u128::from(b ^ FACTORS[1]);
        hash.rotate_left(5) ^ (product as u64) ^ ((product >> 64) as u64)
    };
    let (pairs, rest) = bytes.as_chunks::<16>();
    let word =
        |bytes: &[u8; 16], at| u64::from_le_bytes(std::array::from_fn(|i| *bytes.get(at + i).unwrap_or(&0)));
    let mut hash =
        pairs.iter().fold(bytes.len() as u64, |hash, pair| mix(hash, [word(pair, 0), word(pair, 8)]));
    let mut last = [0; 16];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    hash = mix(hash, [word(&last, 0), word(&last, 8)]);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_and_their_number_count() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut seen = std::collections::HashSet::new();
        for length in 0..100 {
            assert!(seen.insert(hash(&bytes[..length])));
        }
        for at in 0..100 {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            assert!(seen.insert(hash(&other)), "byte {at}");
        }
    }
}
