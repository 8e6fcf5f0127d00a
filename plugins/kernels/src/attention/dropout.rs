//! Dropout of probabilities.

use super::factor::scaled;
use super::sequence::{Sequence, base};
use super::{Attention, Dropout, Tensor};
use crate::builder::Builder;
use crate::form::{Binary, Local, Memory, Pointer, Value};
use crate::scalar::Scalar;
use crate::target::LanePart;

/// What Philox multiplies by, and what it adds to the keys.
const FACTORS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const STEPS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;
/// Counters in a loop: a thread has registers for no more.
const TOGETHER: usize = 4;

/// How probabilities of a sequence's head are dropped.
pub(super) struct Dropping<'a> {
    attention: &'a Attention,
    own: Own,
    /// What those that stay are multiplied by, apart from a mask.
    pub(super) factor: Value,
}

enum Own {
    Random {
        /// The halves of the seed and of the offset.
        seed: [Value; 2],
        offset: [Value; 2],
        /// The number of the first query among all rows.
        row: Value,
        /// Words below this drop.
        least: i64,
    },
    Mask {
        pointer: Pointer,
        tensor: Tensor,
        base: Value,
    },
}

/// Whether a probability stays, and a mask's factor of it.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    stays: Value,
    factor: Option<Value>,
}

impl Kept {
    /// A number times the mask's factor, or 0.
    pub(super) fn of(self, b: &mut Builder, number: Value) -> Value {
        let own = match self.factor {
            Some(factor) => b.mul(number, factor),
            None => number,
        };
        b.select(self.stays, own, 0.0)
    }
}

/// What a lane's part of a tile is a multiple of, up to 4. Tiles begin at multiples of that.
pub(super) fn aligned(part: LanePart) -> usize {
    if part.modulus == 1 || part.factor == 0 { 4 } else { 1 << part.factor.trailing_zeros().min(2) }
}

/// The lower and the upper half of a whole number.
fn halves(b: &mut Builder, number: Value) -> [Value; 2] {
    let upper = b.binary(Binary::Shr, number, 32);
    [number, upper].map(|own| b.convert(own, Scalar::I32))
}

/// A word as a whole number without a sign.
fn unsigned(b: &mut Builder, word: Value) -> Value {
    let wide = b.convert(word, Scalar::I64);
    b.and(wide, 0xFFFF_FFFF_i64)
}

/// The four words of each counter under a key. A loop: compilers take seconds for so many rounds in a row.
fn philox(b: &mut Builder, counters: &[[Value; 4]], key: [Value; 2]) -> Vec<[Value; 4]> {
    let words: Vec<[Local; 4]> =
        counters.iter().map(|counter| counter.map(|word| b.local(Scalar::I32, word))).collect();
    let keys = key.map(|word| {
        let wide = unsigned(b, word);
        b.local(Scalar::I64, wide)
    });
    b.for_range(0, ROUNDS, 1, |b, _| {
        let own = keys.map(|key| b.get(key));
        let [key_x, key_z] = own.map(|key| b.convert(key, Scalar::I32));
        for words in &words {
            let [x, y, z, w] = words.map(|word| b.get(word));
            let [first, second] = [(x, FACTORS[0]), (z, FACTORS[1])].map(|(word, factor)| {
                let wide = unsigned(b, word);
                let product = b.mul(wide, factor);
                halves(b, product)
            });
            let upper = |b: &mut Builder, product: Value, word: Value, key: Value| {
                let own = b.binary(Binary::Xor, product, word);
                b.binary(Binary::Xor, own, key)
            };
            let next = [upper(b, second[1], y, key_x), second[0], upper(b, first[1], w, key_z), first[0]];
            for (word, next) in words.iter().zip(next) {
                b.set(*word, next);
            }
        }
        for ((key, own), step) in keys.iter().zip(own).zip(STEPS) {
            let next = b.add(own, step);
            let next = b.and(next, 0xFFFF_FFFF_i64);
            b.set(*key, next);
        }
    });
    words.into_iter().map(|words| words.map(|word| b.get(word))).collect()
}

impl<'a> Dropping<'a> {
    pub(super) fn new(
        b: &mut Builder,
        attention: &'a Attention,
        [first, second]: [Option<Pointer>; 2],
        sequence: &Sequence,
        head: Value,
    ) -> Option<Self> {
        let real = if attention.q.scalar == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
        let (own, factor) = match attention.dropout? {
            Dropout::Random { probability, .. } => {
                let [seed, offset] = [first?, second?].map(|pointer| {
                    let own = b.load(Memory::Global(pointer), 0);
                    let own = b.convert(own, Scalar::I64);
                    halves(b, own)
                });
                let row = b.mul(sequence.index, attention.heads);
                let row = b.add(row, head);
                let row = b.convert(row, Scalar::I64);
                let row = b.mul(row, attention.queries);
                let first = b.convert(sequence.first, Scalar::I64);
                let row = b.add(row, first);
                // A word w drops if w / 2³² is below the probability; the product is exact.
                let least = (probability * 2.0_f64.powi(32)).ceil() as i64;
                let factor = if probability < 1.0 { 1.0 / (1.0 - probability) } else { 0.0 };
                (Own::Random { seed, offset, row, least }, b.float(factor, real))
            }
            Dropout::Mask { mask, scale } => {
                let base = base(b, &mask, sequence.index, head);
                let factor = scaled(b, (scale, second), 1.0, real);
                (Own::Mask { pointer: first?, tensor: mask, base }, factor)
            }
        };
        Some(Self { attention, own, factor })
    }

    /// What happens to the probabilities of a query and of the keys `first` and later by these offsets. `first` is a multiple of `aligned`.
    pub(super) fn kept(
        &self,
        b: &mut Builder,
        [query, first]: [Value; 2],
        offsets: &[usize],
        aligned: usize,
    ) -> Vec<Kept> {
        match &self.own {
            Own::Mask { pointer, tensor, base } => {
                let each = |key: &usize| {
                    let key = b.add(first, *key);
                    let [inside, within] =
                        [b.less(query, self.attention.queries), b.less(key, self.attention.keys)];
                    let inside = b.and(inside, within);
                    let row = b.mul(query, tensor.strides[2]);
                    let column = b.mul(key, tensor.strides[3]);
                    let at = b.add(*base, row);
                    let at = b.add(at, column);
                    let at = b.select(inside, at, 0);
                    let own = b.load(Memory::Global(*pointer), at);
                    let own = b.convert(own, b.type_of(self.factor).scalar);
                    Kept { stays: b.not_equal(own, 0.0), factor: Some(own) }
                };
                offsets.iter().map(each).collect()
            }
            Own::Random { seed, offset, row, least } => {
                let keys = self.attention.keys;
                let query = b.convert(query, Scalar::I64);
                let number = b.add(*row, query);
                let number = b.mul(number, keys);
                let wide = b.convert(first, Scalar::I64);
                let number = b.add(number, wide);
                // Four neighbours share a counter. Keys share one where that does not depend on the thread.
                let together = keys.is_multiple_of(4);
                let step = if together { aligned.min(4) } else { 1 };
                let counters =
                    |own: usize| -> Vec<usize> { (0..4).step_by(step).map(|at| (at + own) / 4).collect() };
                let mut known: Vec<Vec<usize>> = Vec::new();
                let mut asked = Vec::new();
                let mut each = Vec::with_capacity(offsets.len());
                for own in offsets {
                    let number = b.add(number, *own);
                    let counter = counters(*own);
                    let shared = known.iter().position(|of| together && *of == counter);
                    let place = shared.unwrap_or_else(|| {
                        let quarter = b.binary(Binary::Shr, number, 2);
                        let [lower, upper] = halves(b, quarter);
                        asked.push([lower, upper, offset[0], offset[1]]);
                        known.push(counter);
                        known.len() - 1
                    });
                    each.push((*own, number, place));
                }
                let words: Vec<[Value; 4]> =
                    asked.chunks(TOGETHER).flat_map(|some| philox(b, some, *seed)).collect();
                let mut all = Vec::with_capacity(offsets.len());
                for (own, number, counter) in each {
                    let Some(words) = words.get(counter) else { continue };
                    let place = b.convert(number, Scalar::I32);
                    let place = b.and(place, 3);
                    let mut word = None;
                    for at in (0..4).step_by(step).map(|at| (at + own) % 4) {
                        let here = words.get(at).copied();
                        word = match (word, here) {
                            (Some(before), Some(here)) => {
                                let is_here = b.equal(place, at);
                                Some(b.select(is_here, here, before))
                            }
                            (before, here) => before.or(here),
                        };
                    }
                    let stays = match word {
                        Some(word) => {
                            let word = unsigned(b, word);
                            b.greater_equal(word, *least)
                        }
                        None => b.int(0, Scalar::Bool),
                    };
                    all.push(Kept { stays, factor: None });
                }
                all
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::{Argument, run};
    use crate::target::Target;

    /// The known answers that the authors of the generator publish.
    #[test]
    fn words_are_those_of_philox() {
        let mut b = Builder::new("words", 1, &Target::of("sm_90").unwrap());
        let (from, to) = (b.pointer(Scalar::I32), b.output(Scalar::I32));
        let mut own = |at: usize| b.load(Memory::Global(from), at);
        let (counter, key) = ([own(0), own(1), own(2), own(3)], [own(4), own(5)]);
        for (at, word) in philox(&mut b, &[counter], key)[0].into_iter().enumerate() {
            b.store(Memory::Global(to), at, word);
        }
        let kernel = b.finish();
        let known: [([u32; 6], [u32; 4]); 3] = [
            ([0; 6], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([!0; 6], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344, 0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (given, expected) in known {
            let mut given = given.map(u32::to_le_bytes).concat();
            let mut got = vec![0; 16];
            run(&kernel, [1; 3], &mut [Argument::Memory(&mut given), Argument::Memory(&mut got)]).unwrap();
            assert_eq!(got, expected.map(u32::to_le_bytes).concat());
        }
    }
}
