//! Conversions between types.

use hipdnn_plugin_sdk::rounding::{to_bfloat16, to_half};
use rspirv::spirv::{GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{F32, F64, Kind, U32, U64};
use crate::form::Value;
use crate::scalar::Scalar;

/// The bits of a constant of a small type.
pub(super) fn bits_of(number: f64, scalar: Scalar) -> u64 {
    match scalar {
        Scalar::F16 => to_half(number).to_bits().into(),
        Scalar::Bf16 => to_bfloat16(number).to_bits().into(),
        // Kernels have only zeros of these types.
        Scalar::Fp8E4m3 | Scalar::Fp8E5m2 => 0,
        _ => (number as i64).cast_unsigned() & u64::from(u32::MAX),
    }
}

impl Printer<'_> {
    /// An element in another type.
    pub(super) fn convert(&mut self, from: Scalar, to: Scalar, x: Word) -> Result<Word, String> {
        if from == to {
            return Ok(x);
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => {
                let (kind, x) = self.decode(from, x);
                Ok(self.encode(to, kind, x))
            }
            (true, false) => {
                let (kind, x) = self.decode(from, x);
                Ok(self.whole_from_real(to, kind, x))
            }
            (false, true) => {
                let target = if to == Scalar::F64 { self.kind(to) } else { F32 };
                self.need_kind(target);
                let x = self.widened(from, x);
                let x = self.op(Op::ConvertSToF, target, &[x]);
                Ok(self.encode(to, target, x))
            }
            (false, false) => Ok(self.whole_to_whole(from, to, x)),
        }
    }

    /// A whole number in 32 or 64 bits.
    fn widened(&mut self, from: Scalar, x: Word) -> Word {
        if from == Scalar::Bool { self.as_bits(x, from) } else { x }
    }

    fn whole_to_whole(&mut self, from: Scalar, to: Scalar, x: Word) -> Word {
        let x = self.widened(from, x);
        let is_wide = from == Scalar::I64;
        let kind = if is_wide { U64 } else { U32 };
        match to {
            Scalar::Bool => {
                let zero = self.constant(kind, 0);
                self.op(Op::INotEqual, Kind::Bool, &[x, zero])
            }
            Scalar::I64 => {
                let op = if from == Scalar::U8 { Op::UConvert } else { Op::SConvert };
                self.op(op, U64, &[x])
            }
            Scalar::I32 if is_wide => self.op(Op::UConvert, U32, &[x]),
            Scalar::I8 | Scalar::U8 => {
                let narrow = if is_wide { self.op(Op::UConvert, U32, &[x]) } else { x };
                let [zero, eight] = [0, 8].map(|number| self.int(number));
                let op = if to == Scalar::I8 { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
                self.op(op, U32, &[narrow, zero, eight])
            }
            _ => x,
        }
    }

    /// A real number of a small type as a float, others as they are.
    pub(super) fn decode(&mut self, from: Scalar, x: Word) -> (Kind, Word) {
        match from {
            Scalar::F16 | Scalar::Bf16 => (F32, self.float_of_half(from, x, 0)),
            Scalar::Fp8E5m2 => {
                let half = self.whole(Op::ShiftLeftLogical, x, 8);
                self.decode(Scalar::F16, half)
            }
            Scalar::Fp8E4m3 => self.decode_e4m3(x),
            other => {
                let kind = self.kind(other);
                self.need_kind(kind);
                (kind, x)
            }
        }
    }

    /// The exponent is moved into that of a half with the bias 15 rather than 7; the only NaN has all bits set.
    fn decode_e4m3(&mut self, x: Word) -> (Kind, Word) {
        let size = self.whole(Op::BitwiseAnd, x, 0x7f);
        let half = self.whole(Op::ShiftLeftLogical, size, 7);
        let (_, small) = self.decode(Scalar::F16, half);
        let scale = self.real(F32, 256.0);
        let scaled = self.op(Op::FMul, F32, &[small, scale]);
        let most = self.int(0x7f);
        let is_nan = self.op(Op::IEqual, Kind::Bool, &[size, most]);
        let nan = self.constant(F32, u64::from(f32::NAN.to_bits()));
        let value = self.op(Op::Select, F32, &[is_nan, nan, scaled]);
        let sign = self.whole(Op::BitwiseAnd, x, 0x80);
        let sign = self.whole(Op::ShiftLeftLogical, sign, 24);
        let own = self.op(Op::Bitcast, U32, &[value]);
        let own = self.op(Op::BitwiseOr, U32, &[own, sign]);
        (F32, self.op(Op::Bitcast, F32, &[own]))
    }

    /// A float or double as an element of a type.
    pub(super) fn encode(&mut self, to: Scalar, kind: Kind, x: Word) -> Word {
        let target = self.kind(to);
        match to {
            Scalar::F32 | Scalar::F64 if target == kind => x,
            Scalar::F32 | Scalar::F64 => {
                self.need_kind(target);
                self.op(Op::FConvert, target, &[x])
            }
            _ => {
                let x = if kind == F64 { self.rounded_to_odd(x) } else { x };
                if to == Scalar::Bf16 || (to == Scalar::F16 && self.rounds_halves()) {
                    return self.half_of_float(to, x);
                }
                let own = self.op(Op::Bitcast, U32, &[x]);
                match to {
                    Scalar::F16 => self.encode_small(own, Small::HALF),
                    Scalar::Fp8E5m2 => self.encode_small(own, Small::E5M2),
                    _ => self.encode_small(own, Small::E4M3),
                }
            }
        }
    }

    /// A double as the float beside it whose last bit tells whether it is inexact: rounding that is rounding the double.
    fn rounded_to_odd(&mut self, x: Word) -> Word {
        let near = self.op(Op::FConvert, F32, &[x]);
        let back = self.op(Op::FConvert, F64, &[near]);
        let bits = self.op(Op::Bitcast, U32, &[near]);
        let [far, own] = [back, x].map(|it| self.glsl(GlslStd450Op::FAbs, F64, &[it]));
        let is_beyond = self.op(Op::FOrdGreaterThan, Kind::Bool, &[far, own]);
        let is_inexact = self.op(Op::FOrdNotEqual, Kind::Bool, &[far, own]);
        let [one, zero] = [1, 0].map(|number| self.int(number));
        let back = self.op(Op::Select, U32, &[is_beyond, one, zero]);
        let odd = self.op(Op::Select, U32, &[is_inexact, one, zero]);
        let below = self.op(Op::ISub, U32, &[bits, back]);
        let marked = self.op(Op::BitwiseOr, U32, &[below, odd]);
        self.op(Op::Bitcast, F32, &[marked])
    }

    /// A float's bits as those of a smaller type, to the nearest, ties to even.
    fn encode_small(&mut self, bits: Word, small: Small) -> Word {
        let size = self.whole(Op::BitwiseAnd, bits, 0x7fff_ffff);
        let mut kept = size;
        if small.saturates {
            let most = self.int(i64::from(small.most.to_bits()));
            kept = self.glsl(GlslStd450Op::UMin, U32, &[kept, most]);
        }
        let drop = 23 - i64::from(small.mantissa);
        // Normal results: rounded in whole numbers, then with the other bias.
        let last = self.whole(Op::ShiftRightLogical, kept, drop);
        let last = self.whole(Op::BitwiseAnd, last, 1);
        let half = self.whole(Op::IAdd, last, (1 << (drop - 1)) - 1);
        let rounded = self.op(Op::IAdd, U32, &[kept, half]);
        let normal = self.whole(Op::ShiftRightLogical, rounded, drop);
        let normal = self.whole(Op::ISub, normal, i64::from((127 - small.bias) << small.mantissa));
        // Subnormal results: adding a number whose last bit has their weight rounds to them.
        let shift = f32::from_bits((128 - small.bias + 23 - small.mantissa) << 23);
        let [shift_bits, shift] = [self.int(i64::from(shift.to_bits())), self.real(F32, f64::from(shift))];
        let real = self.op(Op::Bitcast, F32, &[kept]);
        let sum = self.op(Op::FAdd, F32, &[real, shift]);
        let sum = self.exact(sum);
        let sum = self.op(Op::Bitcast, U32, &[sum]);
        let subnormal = self.op(Op::ISub, U32, &[sum, shift_bits]);
        let least = self.int(i64::from((128 - small.bias) << 23));
        let is_small = self.op(Op::ULessThan, Kind::Bool, &[kept, least]);
        let mut result = self.op(Op::Select, U32, &[is_small, subnormal, normal]);
        let infinity = self.int(i64::from(small.infinity));
        if !small.saturates {
            result = self.glsl(GlslStd450Op::UMin, U32, &[result, infinity]);
        }
        let nan = self.int(i64::from(small.nan));
        let all = self.int(0x7f80_0000);
        let is_nan = self.op(Op::UGreaterThan, Kind::Bool, &[size, all]);
        let result = self.op(Op::Select, U32, &[is_nan, nan, result]);
        let places = 31 - i64::from(small.bits - 1);
        let sign = self.whole(Op::ShiftRightLogical, bits, places);
        let sign = self.whole(Op::BitwiseAnd, sign, 1 << (small.bits - 1));
        self.op(Op::BitwiseOr, U32, &[result, sign])
    }

    /// A real number as a whole one: toward zero, saturated, 0 for a NaN.
    fn whole_from_real(&mut self, to: Scalar, kind: Kind, x: Word) -> Word {
        if to == Scalar::Bool {
            let zero = self.real(kind, 0.0);
            return self.op(Op::FUnordNotEqual, Kind::Bool, &[x, zero]);
        }
        // The largest number of the kind that is in range, and what is above it.
        let (least, most, target) = match to {
            Scalar::I8 => (-128, 127, U32),
            Scalar::U8 => (0, 255, U32),
            Scalar::I64 => (i64::MIN, i64::MAX, U64),
            _ => (i64::from(i32::MIN), i64::from(i32::MAX), U32),
        };
        let is_wide = target == U64;
        let (below, above) =
            (least as f64, if is_wide { 9_223_372_036_854_775_808.0 } else { (most + 1) as f64 });
        let [low, high, zero] = [below, above, 0.0].map(|number| self.real(kind, number));
        let is_low = self.op(Op::FOrdLessThanEqual, Kind::Bool, &[x, low]);
        let is_high = self.op(Op::FOrdGreaterThanEqual, Kind::Bool, &[x, high]);
        let is_nan = self.is_nan(kind, x);
        let outside = self.op(Op::LogicalOr, Kind::Bool, &[is_low, is_high]);
        let outside = self.op(Op::LogicalOr, Kind::Bool, &[outside, is_nan]);
        let inside = self.op(Op::Select, kind, &[outside, zero, x]);
        let whole = self.op(Op::ConvertFToS, target, &[inside]);
        let mask = if is_wide { u64::MAX } else { u64::from(u32::MAX) };
        let [least, most, none] = [least, most, 0].map(|n| self.constant(target, n.cast_unsigned() & mask));
        let whole = self.op(Op::Select, target, &[is_low, least, whole]);
        let whole = self.op(Op::Select, target, &[is_high, most, whole]);
        self.op(Op::Select, target, &[is_nan, none, whole])
    }

    /// The bits of elements as those of another type.
    pub(super) fn bits(&mut self, out: Value, x: Value) -> Result<(), String> {
        let (from, to) = (self.type_of(x), self.type_of(out));
        if from.scalar.size() != to.scalar.size() {
            return Err(format!(
                "the bits of {} as {} have no form in SPIR-V",
                from.scalar.name(),
                to.scalar.name()
            ));
        }
        let elements = self.value(x);
        let mut result = Vec::with_capacity(elements.len());
        for element in elements {
            let bits = self.as_bits(element, from.scalar);
            let kind = self.kind(to.scalar);
            self.need_kind(kind);
            result.push(match (to.scalar, kind) {
                (_, Kind::Float(_)) => self.op(Op::Bitcast, kind, &[bits]),
                (Scalar::I8, _) => {
                    let [zero, eight] = [0, 8].map(|number| self.int(number));
                    self.op(Op::BitFieldSExtract, U32, &[bits, zero, eight])
                }
                (_, _) if to.scalar.size() == 1 => self.whole(Op::BitwiseAnd, bits, 0xff),
                _ => bits,
            });
        }
        self.assign(out, result);
        Ok(())
    }
}

/// A small type of real numbers.
#[derive(Clone, Copy)]
struct Small {
    bits: u32,
    mantissa: u32,
    bias: u32,
    infinity: u32,
    nan: u32,
    saturates: bool,
    most: f32,
}

impl Small {
    const HALF: Self = Self {
        bits: 16,
        mantissa: 10,
        bias: 15,
        infinity: 0x7c00,
        nan: 0x7e00,
        saturates: false,
        most: 65504.0,
    };
    const E5M2: Self =
        Self { bits: 8, mantissa: 2, bias: 15, infinity: 0x7c, nan: 0x7f, saturates: true, most: 57344.0 };
    const E4M3: Self =
        Self { bits: 8, mantissa: 3, bias: 7, infinity: 0x7f, nan: 0x7f, saturates: true, most: 448.0 };
}
