//! Real numbers of 16 bits: pairs of them are words of 32 bits, which are converted at once.

use rspirv::dr::Operand;
use rspirv::spirv::{Capability, GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{F32, Kind, U32};
use crate::form::Value;
use crate::scalar::Scalar;

/// The bits of a word's upper half.
const UPPER: i64 = 0xffff_0000;

impl Printer<'_> {
    /// Whether the device rounds floats to halves to the nearest, ties to even.
    pub(super) fn rounds_halves(&self) -> bool {
        self.features.shader_float16 && self.features.shader_rounding_mode_rte_float16
    }

    /// A half of a word as a float, by its type.
    pub(super) fn float_of_half(&mut self, scalar: Scalar, word: Word, place: u32) -> Word {
        // Drivers leave out a conversion to halves and back: NVIDIA's does on an H200.
        if let Some(float) = self.origins.get(&word).and_then(|floats| floats.get(place as usize)).copied() {
            return self.rounded_float(scalar, float);
        }
        if scalar == Scalar::Bf16 {
            let bits = match place {
                0 => self.whole(Op::ShiftLeftLogical, word, 16),
                _ => self.whole(Op::BitwiseAnd, word, UPPER),
            };
            return self.op(Op::Bitcast, F32, &[bits]);
        }
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

    /// Declares the use of bfloats as a type.
    pub(super) fn need_bfloats(&mut self) {
        if !self.extensions.contains(&"SPV_KHR_bfloat16") {
            self.extensions.push("SPV_KHR_bfloat16");
        }
        self.need(Capability::BFloat16TypeKHR);
    }

    /// Two floats rounded to the halves of a word, by their type.
    fn word_of_floats(&mut self, scalar: Scalar, low: Word, high: Word) -> Word {
        if scalar == Scalar::Bf16 && self.features.shader_bfloat16_type {
            self.need_bfloats();
            let pair = self.op(Op::CompositeConstruct, Kind::Pair(32), &[low, high]);
            let bfloats = self.op(Op::FConvert, Kind::BfloatPair, &[pair]);
            let word = self.op(Op::Bitcast, U32, &[bfloats]);
            self.origins.insert(word, [low, high]);
            return word;
        }
        if scalar == Scalar::Bf16 {
            let [low, high] = [low, high].map(|x| self.rounded_bfloat(x));
            let low = self.whole(Op::ShiftRightLogical, low, 16);
            let high = self.whole(Op::BitwiseAnd, high, UPPER);
            return self.op(Op::BitwiseOr, U32, &[low, high]);
        }
        self.need(Capability::Float16);
        self.need(Capability::RoundingModeRTE);
        let pair = self.op(Op::CompositeConstruct, Kind::Pair(32), &[low, high]);
        let halves = self.op(Op::FConvert, Kind::Pair(16), &[pair]);
        let word = self.op(Op::Bitcast, U32, &[halves]);
        self.origins.insert(word, [low, high]);
        word
    }

    /// A float rounded to the nearest half or bfloat, ties to even, in operations that no compiler leaves out.
    fn rounded_float(&mut self, scalar: Scalar, x: Word) -> Word {
        if scalar == Scalar::Bf16 {
            let bits = self.rounded_bfloat(x);
            let bits = self.whole(Op::BitwiseAnd, bits, UPPER);
            return self.op(Op::Bitcast, F32, &[bits]);
        }
        let bits = self.op(Op::Bitcast, U32, &[x]);
        let sign = self.whole(Op::BitwiseAnd, bits, 0x8000_0000);
        // A sum with 2^13 times the power of two below it is rounded where halves are; for subnormal ones with 2^-1.
        let power = self.whole(Op::BitwiseAnd, bits, 0x7f80_0000);
        let [least, most] = [0x3880_0000, 0x4780_0000].map(|number| self.int(number));
        let power = self.glsl(GlslStd450Op::UClamp, U32, &[power, least, most]);
        let power = self.whole(Op::IAdd, power, 13 << 23);
        let large = self.op(Op::BitwiseOr, U32, &[power, sign]);
        let large = self.op(Op::Bitcast, F32, &[large]);
        let sum = self.op(Op::FAdd, F32, &[x, large]);
        let sum = self.exact(sum);
        let near = self.op(Op::FSub, F32, &[sum, large]);
        let near = self.exact(near);
        let size = self.glsl(GlslStd450Op::FAbs, F32, &[near]);
        let last = self.real(F32, 65504.0);
        let is_beyond = self.op(Op::FOrdGreaterThan, Kind::Bool, &[size, last]);
        let own = self.op(Op::Bitcast, U32, &[near]);
        let infinity = self.int(0x7f80_0000);
        let own = self.op(Op::Select, U32, &[is_beyond, infinity, own]);
        // Also of a zero.
        let own = self.op(Op::BitwiseOr, U32, &[own, sign]);
        self.op(Op::Bitcast, F32, &[own])
    }

    /// A float rounded to a half or a bfloat.
    pub(super) fn half_of_float(&mut self, scalar: Scalar, x: Word) -> Word {
        if scalar == Scalar::Bf16 && !self.features.shader_bfloat16_type {
            let bits = self.rounded_bfloat(x);
            return self.whole(Op::ShiftRightLogical, bits, 16);
        }
        let zero = self.real(F32, 0.0);
        self.word_of_floats(scalar, x, zero)
    }

    /// Bits whose upper half is a float's, rounded to the nearest, ties to even; a NaN stays one.
    fn rounded_bfloat(&mut self, x: Word) -> Word {
        let bits = self.op(Op::Bitcast, U32, &[x]);
        let [place, one] = [16, 1].map(|number| self.int(number));
        let last = self.op(Op::BitFieldUExtract, U32, &[bits, place, one]);
        let half = self.whole(Op::IAdd, last, 0x7fff);
        let rounded = self.op(Op::IAdd, U32, &[bits, half]);
        let is_nan = self.is_nan(F32, x);
        let nan = self.int(i64::from(f32::NAN.to_bits()));
        self.op(Op::Select, U32, &[is_nan, nan, rounded])
    }

    /// Converts pairs of halves at once where it can, and tells whether it did.
    pub(super) fn convert_halves(&mut self, out: Value, x: Value) -> bool {
        let (from, to) = (self.type_of(x), self.type_of(out));
        match (from.scalar, to.scalar) {
            (half @ (Scalar::F16 | Scalar::Bf16), Scalar::F32) => {
                let lanes = u32::from(from.lanes);
                let places: Vec<(Word, u32)> = match (self.packed.get(&x.0), self.halves.get(&x.0)) {
                    (Some(words), _) => {
                        let word = |lane: u32| words.get(lane as usize / 2).copied().unwrap_or_default();
                        (0..lanes).map(|lane| (word(lane), lane % 2)).collect()
                    }
                    (None, Some(place)) => vec![*place],
                    (None, None) => return false,
                };
                let elements =
                    places.into_iter().map(|(word, place)| self.float_of_half(half, word, place)).collect();
                self.assign(out, elements);
                true
            }
            (Scalar::F32, half) if half == Scalar::Bf16 || (half == Scalar::F16 && self.rounds_halves()) => {
                let floats = self.value(x);
                match *floats.as_slice() {
                    // Two that are stored together are rounded together.
                    [float] => {
                        self.rounded.insert(out.0, float);
                    }
                    _ => {
                        let words = self.words_of_floats(half, &floats);
                        self.assign_words(out, words);
                    }
                }
                true
            }
            _ => false,
        }
    }

    fn words_of_floats(&mut self, scalar: Scalar, floats: &[Word]) -> Vec<Word> {
        let word = |pair: &[Word]| match *pair {
            [low, high, ..] => self.word_of_floats(scalar, low, high),
            [low] => self.half_of_float(scalar, low),
            [] => 0,
        };
        floats.chunks(2).map(word).collect()
    }

    /// Makes a vector of halves that were each rounded from a float; tells whether they were.
    pub(super) fn build_halves(&mut self, out: Value, parts: &[Value]) -> bool {
        let floats: Option<Vec<Word>> = parts.iter().map(|part| self.rounded.get(&part.0).copied()).collect();
        match floats {
            Some(floats) if floats.len() > 1 => {
                let words = self.words_of_floats(self.type_of(out).scalar, &floats);
                self.assign_words(out, words);
                true
            }
            _ => false,
        }
    }

    /// Remembers of an element which word it is from.
    pub(super) fn note_half(&mut self, out: Value, x: Value, lane: u8) {
        if !matches!(self.type_of(x).scalar, Scalar::F16 | Scalar::Bf16) {
            return;
        }
        let lane = u32::from(lane);
        if let Some(word) = self.packed.get(&x.0).and_then(|words| words.get(lane as usize / 2)) {
            self.halves.insert(out.0, (*word, lane % 2));
        }
    }
}
