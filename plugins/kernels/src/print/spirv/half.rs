//! Halves: pairs of them are words of 32 bits, which devices convert at once.

use rspirv::dr::Operand;
use rspirv::spirv::{Capability, GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{F32, Kind, U32};
use crate::form::Value;
use crate::scalar::Scalar;

impl Printer<'_> {
    /// Whether the device rounds floats to halves to the nearest, ties to even.
    pub(super) fn rounds_halves(&self) -> bool {
        self.features.shader_float16 && self.features.shader_rounding_mode_rte_float16
    }

    /// A half of a word as a float.
    pub(super) fn float_of_half(&mut self, word: Word, place: u32) -> Word {
        let pair = self.glsl(GlslStd450Op::UnpackHalf2x16, Kind::Pair(32), &[word]);
        self.part(F32, pair, place)
    }

    /// An element of a vector.
    pub(super) fn part(&mut self, kind: Kind, vector: Word, place: u32) -> Word {
        let type_ = self.type_id(kind);
        let operands = vec![Operand::IdRef(vector), Operand::LiteralBit32(place)];
        self.op_typed(Op::CompositeExtract, type_, operands)
    }

    /// A half of a word.
    pub(super) fn half_of(&mut self, word: Word, place: u32) -> Word {
        self.need(Capability::Float16);
        let halves = self.op(Op::Bitcast, Kind::Pair(16), &[word]);
        self.part(Kind::Float(16), halves, place)
    }

    /// The word whose lower half this is; the other is 0.
    pub(super) fn word_of_half(&mut self, half: Word) -> Word {
        self.need(Capability::Float16);
        let zero = self.constant(Kind::Float(16), 0);
        let halves = self.op(Op::CompositeConstruct, Kind::Pair(16), &[half, zero]);
        self.op(Op::Bitcast, U32, &[halves])
    }

    /// Two floats rounded to the halves of a word.
    fn word_of_floats(&mut self, low: Word, high: Word) -> Word {
        self.need(Capability::Float16);
        self.need(Capability::RoundingModeRTE);
        let pair = self.op(Op::CompositeConstruct, Kind::Pair(32), &[low, high]);
        let halves = self.op(Op::FConvert, Kind::Pair(16), &[pair]);
        self.op(Op::Bitcast, U32, &[halves])
    }

    /// A float rounded to a half.
    pub(super) fn half_of_float(&mut self, x: Word) -> Word {
        let zero = self.real(F32, 0.0);
        self.word_of_floats(x, zero)
    }

    /// Converts pairs of halves at once where it can, and tells whether it did.
    pub(super) fn convert_halves(&mut self, out: Value, x: Value) -> bool {
        let (from, to) = (self.type_of(x), self.type_of(out));
        match (from.scalar, to.scalar) {
            (Scalar::F16, Scalar::F32) => {
                let lanes = u32::from(from.lanes);
                let places: Vec<(Word, u32)> = match (self.packed.get(&x.0), self.halves.get(&x.0)) {
                    (Some(words), _) => {
                        let word = |lane: u32| words.get(lane as usize / 2).copied().unwrap_or_default();
                        (0..lanes).map(|lane| (word(lane), lane % 2)).collect()
                    }
                    (None, Some(half)) => vec![*half],
                    (None, None) => return false,
                };
                let elements =
                    places.into_iter().map(|(word, place)| self.float_of_half(word, place)).collect();
                self.assign(out, elements);
                true
            }
            (Scalar::F32, Scalar::F16) if self.rounds_halves() => {
                let floats = self.value(x);
                match *floats.as_slice() {
                    // Two that are stored together are rounded together.
                    [float] => {
                        self.rounded.insert(out.0, float);
                    }
                    _ => {
                        let words = self.words_of_floats(&floats);
                        self.assign_words(out, words);
                    }
                }
                true
            }
            _ => false,
        }
    }

    fn words_of_floats(&mut self, floats: &[Word]) -> Vec<Word> {
        let word = |pair: &[Word]| match *pair {
            [low, high, ..] => self.word_of_floats(low, high),
            [low] => self.half_of_float(low),
            [] => 0,
        };
        floats.chunks(2).map(word).collect()
    }

    /// Makes a vector of halves that were each rounded from a float; tells whether they were.
    pub(super) fn build_halves(&mut self, out: Value, parts: &[Value]) -> bool {
        let floats: Option<Vec<Word>> = parts.iter().map(|part| self.rounded.get(&part.0).copied()).collect();
        match floats {
            Some(floats) if floats.len() > 1 => {
                let words = self.words_of_floats(&floats);
                self.assign_words(out, words);
                true
            }
            _ => false,
        }
    }

    /// Remembers of an element which word it is from.
    pub(super) fn note_half(&mut self, out: Value, x: Value, lane: u8) {
        if self.type_of(x).scalar != Scalar::F16 {
            return;
        }
        let lane = u32::from(lane);
        if let Some(word) = self.packed.get(&x.0).and_then(|words| words.get(lane as usize / 2)) {
            self.halves.insert(out.0, (*word, lane % 2));
        }
    }
}
