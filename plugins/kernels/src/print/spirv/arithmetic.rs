//! Arithmetic and comparisons of single elements.

use rspirv::spirv::{Capability, GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{F64, Kind, U32};
use crate::form::{Binary, Comparison, Unary};
use crate::scalar::Scalar;

impl Printer<'_> {
    /// Declares doubles where a kind is one.
    pub(super) fn need_kind(&mut self, kind: Kind) {
        if kind == F64 {
            self.need(Capability::Float64);
        }
    }

    pub(super) fn unary(&mut self, op: Unary, scalar: Scalar, elements: &[Word]) -> Result<Word, String> {
        let x = elements.first().copied().unwrap_or_default();
        let kind = self.kind(scalar);
        self.need_kind(kind);
        if !matches!(kind, Kind::Float(_)) {
            return match op {
                Unary::Neg => Ok(self.op(Op::SNegate, kind, &[x])),
                Unary::Abs => Ok(self.glsl(GlslStd450Op::SAbs, kind, &[x])),
                Unary::Not if kind == Kind::Bool => Ok(self.op(Op::LogicalNot, kind, &[x])),
                Unary::Not => Ok(self.op(Op::Not, kind, &[x])),
                _ => Err(format!("{op:?} of {} has no form in SPIR-V", scalar.name())),
            };
        }
        let one = self.real(kind, 1.0);
        Ok(match op {
            Unary::Neg => self.op(Op::FNegate, kind, &[x]),
            Unary::Abs => self.glsl(GlslStd450Op::FAbs, kind, &[x]),
            Unary::Sqrt => self.glsl(GlslStd450Op::Sqrt, kind, &[x]),
            Unary::Rsqrt => {
                let root = self.glsl(GlslStd450Op::Sqrt, kind, &[x]);
                self.op(Op::FDiv, kind, &[one, root])
            }
            Unary::Reciprocal => self.op(Op::FDiv, kind, &[one, x]),
            Unary::Floor => self.glsl(GlslStd450Op::Floor, kind, &[x]),
            Unary::Ceil => self.glsl(GlslStd450Op::Ceil, kind, &[x]),
            Unary::Exp2 => self.exp2(kind, x),
            Unary::Exp => self.exp(kind, x),
            Unary::Log => self.log(kind, x),
            Unary::Tanh => self.tanh(kind, x),
            Unary::Erf => self.erf(kind, x),
            Unary::Sin => self.sine(kind, x, false),
            Unary::Cos => self.sine(kind, x, true),
            Unary::Not => return Err("Not of a real number has no form in SPIR-V".to_owned()),
        })
    }

    pub(super) fn binary(&mut self, op: Binary, scalar: Scalar, elements: &[Word]) -> Result<Word, String> {
        let kind = self.kind(scalar);
        self.need_kind(kind);
        let [x, y] = *elements else { return Err("a function of two values has other operands".to_owned()) };
        if kind == Kind::Bool {
            let op = match op {
                Binary::And => Op::LogicalAnd,
                Binary::Or => Op::LogicalOr,
                Binary::Xor => Op::LogicalNotEqual,
                _ => return Err(format!("{op:?} of booleans has no form in SPIR-V")),
            };
            return Ok(self.op(op, kind, &[x, y]));
        }
        let is_float = matches!(kind, Kind::Float(_));
        let plain = match (op, is_float) {
            (Binary::Add, true) => Op::FAdd,
            (Binary::Sub, true) => Op::FSub,
            (Binary::Mul, true) => Op::FMul,
            (Binary::Div, true) => Op::FDiv,
            (Binary::Min, true) => return Ok(self.extreme(kind, Op::FOrdLessThan, x, y)),
            (Binary::Max, true) => return Ok(self.extreme(kind, Op::FOrdGreaterThan, x, y)),
            (Binary::MinNumber, true) => return Ok(self.glsl(GlslStd450Op::NMin, kind, &[x, y])),
            (Binary::MaxNumber, true) => return Ok(self.glsl(GlslStd450Op::NMax, kind, &[x, y])),
            (Binary::Pow, true) => {
                let log = self.log(kind, x);
                let scaled = self.op(Op::FMul, kind, &[y, log]);
                return Ok(self.exp(kind, scaled));
            }
            (Binary::Add, false) => Op::IAdd,
            (Binary::Sub, false) => Op::ISub,
            (Binary::Mul, false) => Op::IMul,
            // Both are at least 0.
            (Binary::Div, false) => Op::UDiv,
            (Binary::Rem, false) => Op::UMod,
            (Binary::Min | Binary::MinNumber, false) => {
                return Ok(self.glsl(GlslStd450Op::SMin, kind, &[x, y]));
            }
            (Binary::Max | Binary::MaxNumber, false) => {
                return Ok(self.glsl(GlslStd450Op::SMax, kind, &[x, y]));
            }
            (Binary::And, false) => Op::BitwiseAnd,
            (Binary::Or, false) => Op::BitwiseOr,
            (Binary::Xor, false) => Op::BitwiseXor,
            (Binary::Shl, false) => Op::ShiftLeftLogical,
            (Binary::Shr, false) => Op::ShiftRightLogical,
            (other, _) => return Err(format!("{other:?} of {} has no form in SPIR-V", scalar.name())),
        };
        Ok(self.op(plain, kind, &[x, y]))
    }

    /// The lesser or greater; a NaN if either is.
    fn extreme(&mut self, kind: Kind, better: Op, x: Word, y: Word) -> Word {
        let is_better = self.op(better, Kind::Bool, &[x, y]);
        let is_nan = self.is_nan(kind, x);
        let first = self.op(Op::LogicalOr, Kind::Bool, &[is_better, is_nan]);
        self.op(Op::Select, kind, &[first, x, y])
    }

    /// Whether a number is none: by its bits where a compiler may assume that comparisons see no NaN.
    pub(super) fn is_nan(&mut self, kind: Kind, x: Word) -> Word {
        let Kind::Float(bits) = kind else { return self.constant(Kind::Bool, 0) };
        if bits == 32 && self.features.signed_zero_inf_nan_preserve_float32 {
            return self.op(Op::FUnordNotEqual, Kind::Bool, &[x, x]);
        }
        let whole = Kind::Int(bits);
        let (mask, infinity) = if bits == 64 {
            (u64::MAX >> 1, f64::INFINITY.to_bits())
        } else {
            (u64::from(u32::MAX >> 1), u64::from(f32::INFINITY.to_bits()))
        };
        let (mask, infinity) = (self.constant(whole, mask), self.constant(whole, infinity));
        let own = self.op(Op::Bitcast, whole, &[x]);
        let size = self.op(Op::BitwiseAnd, whole, &[own, mask]);
        self.op(Op::UGreaterThan, Kind::Bool, &[size, infinity])
    }

    pub(super) fn fma(&mut self, scalar: Scalar, elements: &[Word]) -> Word {
        let kind = self.kind(scalar);
        self.need_kind(kind);
        match kind {
            Kind::Float(_) => self.glsl(GlslStd450Op::Fma, kind, elements),
            _ => {
                let (product, rest) = elements.split_at(elements.len().min(2));
                let product = self.op(Op::IMul, kind, product);
                let z = rest.first().copied().unwrap_or_default();
                self.op(Op::IAdd, kind, &[product, z])
            }
        }
    }

    pub(super) fn compare(&mut self, op: Comparison, scalar: Scalar, elements: &[Word]) -> Word {
        let kind = self.kind(scalar);
        self.need_kind(kind);
        let op = match (op, kind) {
            (Comparison::Equal, Kind::Bool) => Op::LogicalEqual,
            (_, Kind::Bool) => Op::LogicalNotEqual,
            (Comparison::Equal, Kind::Float(_)) => Op::FOrdEqual,
            (Comparison::NotEqual, Kind::Float(_)) => Op::FUnordNotEqual,
            (Comparison::Less, Kind::Float(_)) => Op::FOrdLessThan,
            (Comparison::LessEqual, Kind::Float(_)) => Op::FOrdLessThanEqual,
            (Comparison::Greater, Kind::Float(_)) => Op::FOrdGreaterThan,
            (Comparison::GreaterEqual, Kind::Float(_)) => Op::FOrdGreaterThanEqual,
            (Comparison::Equal, _) => Op::IEqual,
            (Comparison::NotEqual, _) => Op::INotEqual,
            (Comparison::Less, _) => Op::SLessThan,
            (Comparison::LessEqual, _) => Op::SLessThanEqual,
            (Comparison::Greater, _) => Op::SGreaterThan,
            (Comparison::GreaterEqual, _) => Op::SGreaterThanEqual,
        };
        self.op(op, Kind::Bool, elements)
    }

    /// A number in words of 32 bits: shifted, masked and the like.
    pub(super) fn whole(&mut self, op: Op, x: Word, y: i64) -> Word {
        let y = self.int(y);
        self.op(op, U32, &[x, y])
    }
}
