//! Ids of types, constants and instructions.

use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Capability, FPEncoding, GlslStd450Op, Op, StorageClass, Word};

use super::Printer;
use crate::target::Role;

/// A type of values in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Void,
    Bool,
    /// Whole numbers of 8, 16, 32 or 64 bits. Signs are the instructions'.
    Int(u32),
    /// Elements of matrices with a sign, of 8 or 32 bits.
    Signed(u32),
    /// Real numbers of 32 or 64 bits; elements of matrices also of 16.
    Float(u32),
    /// Real numbers that are the upper half of a float.
    Bfloat,
    /// Two or four `Int(32)`.
    Words(u32),
    /// Two real numbers of 32 or 16 bits.
    Pair(u32),
    /// Two of `Bfloat`.
    BfloatPair,
    /// A cooperative matrix.
    Matrix(MatrixKind),
    /// An address of a kind in a storage class.
    Pointer(StorageClass, PointedTo),
}

/// The type of a cooperative matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MatrixKind {
    pub(super) element: Element,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) role: Role,
}

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Element {
    F16,
    Bf16,
    F32,
    I8,
    U8,
    I32,
    U32,
}

impl From<Element> for Kind {
    fn from(element: Element) -> Self {
        match element {
            Element::F16 => Self::Float(16),
            Element::Bf16 => Self::Bfloat,
            Element::F32 => F32,
            Element::I8 => Self::Signed(8),
            Element::U8 => Self::Int(8),
            Element::I32 => Self::Signed(32),
            Element::U32 => U32,
        }
    }
}

/// What a pointer points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PointedTo {
    Bool,
    Int(u32),
    Float(u32),
    Words(u32),
    /// Three `Int(32)`.
    Triple,
    /// A type made elsewhere.
    Other(Word),
}

impl From<PointedTo> for Option<Kind> {
    fn from(to: PointedTo) -> Self {
        match to {
            PointedTo::Bool => Some(Kind::Bool),
            PointedTo::Int(bits) => Some(Kind::Int(bits)),
            PointedTo::Float(bits) => Some(Kind::Float(bits)),
            PointedTo::Words(count) => Some(Kind::Words(count)),
            PointedTo::Triple => Some(Kind::Words(3)),
            PointedTo::Other(_) => None,
        }
    }
}

pub(super) const F32: Kind = Kind::Float(32);
pub(super) const F64: Kind = Kind::Float(64);
pub(super) const U32: Kind = Kind::Int(32);
pub(super) const U64: Kind = Kind::Int(64);

impl Printer<'_> {
    /// A new id.
    pub(super) fn id(&mut self) -> Word {
        self.last += 1;
        self.last
    }

    /// Declares that the module needs a capability.
    pub(super) fn need(&mut self, capability: Capability) {
        if !self.capabilities.contains(&capability) {
            self.capabilities.push(capability);
        }
    }

    /// The id of a type.
    pub(super) fn type_id(&mut self, kind: Kind) -> Word {
        if let Some(id) = self.types.get(&kind) {
            return *id;
        }
        let (op, operands) = match kind {
            Kind::Void => (Op::TypeVoid, Vec::new()),
            Kind::Bool => (Op::TypeBool, Vec::new()),
            Kind::Int(bits) => (Op::TypeInt, vec![Operand::LiteralBit32(bits), Operand::LiteralBit32(0)]),
            Kind::Signed(bits) => (Op::TypeInt, vec![Operand::LiteralBit32(bits), Operand::LiteralBit32(1)]),
            Kind::Float(bits) => (Op::TypeFloat, vec![Operand::LiteralBit32(bits)]),
            Kind::Bfloat => {
                let encoding = Operand::FPEncoding(FPEncoding::BFloat16KHR);
                (Op::TypeFloat, vec![Operand::LiteralBit32(16), encoding])
            }
            Kind::Matrix(matrix) => (Op::TypeCooperativeMatrixKHR, self.matrix_operands(matrix)),
            Kind::Words(count) => {
                let of = self.type_id(U32);
                (Op::TypeVector, vec![Operand::IdRef(of), Operand::LiteralBit32(count)])
            }
            Kind::Pair(bits) => {
                let of = self.type_id(Kind::Float(bits));
                (Op::TypeVector, vec![Operand::IdRef(of), Operand::LiteralBit32(2)])
            }
            Kind::BfloatPair => {
                let of = self.type_id(Kind::Bfloat);
                (Op::TypeVector, vec![Operand::IdRef(of), Operand::LiteralBit32(2)])
            }
            Kind::Pointer(class, to) => {
                let of = match (to.into(), to) {
                    (_, PointedTo::Other(id)) => id,
                    (Some(kind), _) => self.type_id(kind),
                    (None, _) => self.type_id(Kind::Void),
                };
                (Op::TypePointer, vec![Operand::StorageClass(class), Operand::IdRef(of)])
            }
        };
        let id = self.declare(op, None, operands);
        self.types.insert(kind, id);
        id
    }

    /// Adds an instruction outside the function.
    pub(super) fn declare(&mut self, op: Op, type_: Option<Word>, operands: Vec<Operand>) -> Word {
        let id = self.id();
        self.globals.push(Instruction::new(op, type_, Some(id), operands));
        id
    }

    /// A constant of a kind, by its bits.
    pub(super) fn constant(&mut self, kind: Kind, bits: u64) -> Word {
        if let Some(id) = self.constants.get(&(kind, bits)) {
            return *id;
        }
        let type_ = self.type_id(kind);
        let (op, operands) = match kind {
            Kind::Bool if bits == 0 => (Op::ConstantFalse, Vec::new()),
            Kind::Bool => (Op::ConstantTrue, Vec::new()),
            Kind::Int(64) | Kind::Float(64) => (Op::Constant, vec![Operand::LiteralBit64(bits)]),
            _ => (Op::Constant, vec![Operand::LiteralBit32(bits as u32)]),
        };
        let id = self.declare(op, Some(type_), operands);
        self.constants.insert((kind, bits), id);
        id
    }

    /// A constant whole number.
    pub(super) fn int(&mut self, number: i64) -> Word {
        self.constant(U32, u64::from(number as u32))
    }

    /// A constant real number of a kind.
    pub(super) fn real(&mut self, kind: Kind, number: f64) -> Word {
        let bits = if kind == F64 { number.to_bits() } else { u64::from((number as f32).to_bits()) };
        self.constant(kind, bits)
    }

    /// Adds an instruction with a result.
    pub(super) fn op(&mut self, op: Op, kind: Kind, ids: &[Word]) -> Word {
        let type_ = self.type_id(kind);
        self.op_typed(op, type_, ids.iter().map(|id| Operand::IdRef(*id)).collect())
    }

    /// The same with any operands.
    pub(super) fn op_typed(&mut self, op: Op, type_: Word, operands: Vec<Operand>) -> Word {
        let id = self.id();
        self.body.push(Instruction::new(op, Some(type_), Some(id), operands));
        id
    }

    /// Adds an instruction without a result.
    pub(super) fn act(&mut self, op: Op, operands: Vec<Operand>) {
        self.body.push(Instruction::new(op, None, None, operands));
    }

    /// Adds an instruction of the set `GLSL.std.450`.
    pub(super) fn glsl(&mut self, number: GlslStd450Op, kind: Kind, ids: &[Word]) -> Word {
        let type_ = self.type_id(kind);
        self.glsl_typed(number, type_, ids)
    }

    /// The same with a result of any type.
    pub(super) fn glsl_typed(&mut self, number: GlslStd450Op, type_: Word, ids: &[Word]) -> Word {
        let mut operands = vec![Operand::IdRef(self.glsl), Operand::LiteralExtInstInteger(number as u32)];
        operands.extend(ids.iter().map(|id| Operand::IdRef(*id)));
        self.op_typed(Op::ExtInst, type_, operands)
    }

    /// What a pointer to a kind points to.
    pub(super) fn pointed_to(&mut self, kind: Kind) -> PointedTo {
        match kind {
            Kind::Bool => PointedTo::Bool,
            Kind::Int(bits) => PointedTo::Int(bits),
            Kind::Float(bits) => PointedTo::Float(bits),
            Kind::Words(count) => PointedTo::Words(count),
            other => PointedTo::Other(self.type_id(other)),
        }
    }

    /// A variable of each thread.
    pub(super) fn variable(&mut self, kind: Kind) -> (Word, Kind) {
        let to = self.pointed_to(kind);
        let type_ = self.type_id(Kind::Pointer(StorageClass::Function, to));
        let id = self.id();
        let class = Operand::StorageClass(StorageClass::Function);
        self.variables.push(Instruction::new(Op::Variable, Some(type_), Some(id), vec![class]));
        (id, kind)
    }

    /// A variable's value.
    pub(super) fn get(&mut self, (id, kind): (Word, Kind)) -> Word {
        self.op(Op::Load, kind, &[id])
    }

    /// Assigns a variable.
    pub(super) fn set(&mut self, (id, _): (Word, Kind), value: Word) {
        self.act(Op::Store, vec![Operand::IdRef(id), Operand::IdRef(value)]);
    }
}
