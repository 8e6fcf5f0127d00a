//! Mutates inputs without coverage feedback.

/// Boundary values.
const EDGES: [i64; 10] = [0, 1, -1, 7, 127, 255, 65_535, i32::MAX as i64, i32::MIN as i64, i64::MIN];

/// Pseudorandom numbers (xorshift).
pub struct Random(u64);

impl Random {
    /// Starts with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }
}

/// A seed with a few changes, sometimes with a piece of another seed.
pub fn mutate(seeds: &[Vec<u8>], random: &mut Random, into: &mut Vec<u8>) {
    into.clear();
    if let Some(seed) = seeds.get(random.below(seeds.len())) {
        into.extend(seed);
    }
    for _ in 0..1 + random.below(6) {
        let at = random.below(into.len() + 1);
        match random.below(8) {
            0 | 1 => {
                if let Some(byte) = into.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => {
                if let Some(byte) = into.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
            3 | 4 => {
                // A number, often at an aligned offset.
                let width = 1 << random.below(4);
                let at = if random.below(2) == 0 { at } else { at / width * width };
                let number = EDGES[random.below(EDGES.len())].to_le_bytes();
                for (to, from) in into.iter_mut().skip(at).zip(&number[..width]) {
                    *to = *from;
                }
            }
            5 => into.truncate(at),
            6 => {
                let end = (at + random.below(32)).min(into.len());
                let piece = into[at..end].to_vec();
                into.splice(at..at, piece);
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let end = (from + random.below(64)).min(other.len());
                into.splice(at..at, other[from..end].iter().copied());
            }
        }
    }
}
