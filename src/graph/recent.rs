//! The graphs that a thread was last given as bytes, so that equal bytes are not verified again.
//!
//! Each thread has its own, because what all threads have in common, and be it a reference count, makes them wait for each other.

use std::sync::Arc;

use super::VerifiedGraph;

/// The number of graphs that a thread remembers.
const GRAPHS: usize = 16;
/// Larger graphs are not remembered, which bounds a thread's memory.
const LARGEST: usize = 1 << 16;

/// The graphs that one thread remembers.
#[derive(Default)]
pub struct Recent {
    graphs: [Option<Arc<VerifiedGraph>>; GRAPHS],
    /// The index of the graph that came last.
    last: usize,
    /// The index of the graph that was remembered last; the oldest follows.
    newest: usize,
}

impl Recent {
    /// The graph with these bytes, if it is the last one or followed the last one before: programs repeat sequences.
    #[inline]
    pub fn guess(&mut self, bytes: &[u8]) -> Option<Arc<VerifiedGraph>> {
        [self.last + 1, self.last].into_iter().find_map(|place| self.at(place, |graph| graph.bytes == bytes))
    }

    /// The graph with these bytes, whose hash is `hash`.
    pub fn find(&mut self, hash: u64, bytes: &[u8]) -> Option<Arc<VerifiedGraph>> {
        (0..GRAPHS).find_map(|place| self.at(place, |graph| graph.hash == hash && graph.bytes == bytes))
    }

    #[inline]
    fn at(&mut self, place: usize, is_it: impl Fn(&VerifiedGraph) -> bool) -> Option<Arc<VerifiedGraph>> {
        let place = place % GRAPHS;
        let graph = self.graphs.get(place)?.as_ref().filter(|graph| is_it(graph))?;
        self.last = place;
        Some(Arc::clone(graph))
    }

    /// Remembers a graph in place of the oldest.
    pub fn remember(&mut self, graph: &Arc<VerifiedGraph>) {
        let place = (self.newest + 1) % GRAPHS;
        if graph.bytes.len() <= LARGEST
            && let Some(oldest) = self.graphs.get_mut(place)
        {
            *oldest = Some(Arc::clone(graph));
            (self.newest, self.last) = (place, place);
        }
    }
}

/// A fast hash of bytes, not collision-resistant: callers must compare the bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    // Any odd numbers work.
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
    fn every_byte_and_the_length_count() {
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
