//! Values computed from values.

use super::{Builder, Operand};
use crate::form::{Binary, Comparison, Constant, Instruction, Unary, Value};
use crate::scalar::{Scalar, Type};

macro_rules! binaries {
    ($($(#[$doc:meta])* $name:ident $op:ident;)+) => {
        $($(#[$doc])*
        pub fn $name(&mut self, x: impl Operand, y: impl Operand) -> Value {
            self.binary(Binary::$op, x, y)
        })+
    };
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $op:ident;)+) => {
        $($(#[$doc])*
        pub fn $name(&mut self, x: impl Operand, y: impl Operand) -> Value {
            self.compare(Comparison::$op, x, y)
        })+
    };
}

impl Builder {
    binaries! {
        /// x + y.
        add Add;
        /// x − y.
        sub Sub;
        /// x · y.
        mul Mul;
        /// x / y; whole numbers are not negative.
        div Div;
        /// The remainder of whole numbers that are not negative.
        rem Rem;
        /// The lesser.
        min Min;
        /// The greater.
        max Max;
        /// The greater; the other if one is a NaN.
        max_number MaxNumber;
        /// The lesser; the other if one is a NaN.
        min_number MinNumber;
        /// Both.
        and And;
        /// Either.
        or Or;
        /// x to the power y.
        pow Pow;
    }

    comparisons! {
        /// x = y.
        equal Equal;
        /// x ≠ y.
        not_equal NotEqual;
        /// x < y.
        less Less;
        /// x ≤ y.
        less_equal LessEqual;
        /// x > y.
        greater Greater;
        /// x ≥ y.
        greater_equal GreaterEqual;
    }

    fn pair(&mut self, x: impl Operand, y: impl Operand) -> (Value, Value, Type) {
        let type_ = x.own_type(self).or_else(|| y.own_type(self)).unwrap_or(Scalar::I32.into());
        let (x, y) = (x.of(self, type_), y.of(self, type_));
        debug_assert_eq!(self.type_of(x), self.type_of(y), "both operands have one type");
        (x, y, type_)
    }

    /// A function of two values. Whole numbers that are known are computed here, and steps that change nothing are left out.
    pub fn binary(&mut self, op: Binary, x: impl Operand, y: impl Operand) -> Value {
        let (x, y, type_) = self.pair(x, y);
        let int = |constant| match constant {
            Some(Constant::Int(number)) => Some(number),
            _ => None,
        };
        let (known_x, known_y) = (int(self.constant_of(x)), int(self.constant_of(y)));
        if let (Some(a), Some(b)) = (known_x, known_y)
            && let Some(number) = fold(op, a, b)
        {
            return self.int(number, type_.scalar);
        }
        match (op, known_x, known_y) {
            (Binary::Add | Binary::Or, Some(0), _) | (Binary::Mul, Some(1), _) => return y,
            (Binary::Add | Binary::Sub | Binary::Or | Binary::Shl | Binary::Shr, _, Some(0))
            | (Binary::Mul | Binary::Div, _, Some(1)) => return x,
            (Binary::Mul, Some(0), _) | (Binary::Mul, _, Some(0)) | (Binary::Rem, _, Some(1)) => {
                return self.int(0, type_.scalar);
            }
            (Binary::And, Some(1), _) if type_.scalar == Scalar::Bool => return y,
            (Binary::And, _, Some(1)) if type_.scalar == Scalar::Bool => return x,
            _ => {}
        }
        let out = self.value(type_);
        self.push(Instruction::Binary { out, op, x, y });
        out
    }

    /// A function of one value.
    pub fn unary(&mut self, op: Unary, x: Value) -> Value {
        let type_ = self.type_of(x);
        let out = self.value(type_);
        self.push(Instruction::Unary { out, op, x });
        out
    }

    /// x · y + z, rounded once.
    pub fn fma(&mut self, x: Value, y: impl Operand, z: impl Operand) -> Value {
        let type_ = self.type_of(x);
        let (y, z) = (y.of(self, type_), z.of(self, type_));
        let out = self.value(type_);
        self.push(Instruction::Fma { out, x, y, z });
        out
    }

    /// A comparison.
    pub fn compare(&mut self, op: Comparison, x: impl Operand, y: impl Operand) -> Value {
        let (x, y, _) = self.pair(x, y);
        if let (Some(Constant::Int(a)), Some(Constant::Int(b))) = (self.constant_of(x), self.constant_of(y)) {
            let holds = match op {
                Comparison::Equal => a == b,
                Comparison::NotEqual => a != b,
                Comparison::Less => a < b,
                Comparison::LessEqual => a <= b,
                Comparison::Greater => a > b,
                Comparison::GreaterEqual => a >= b,
            };
            return self.int(i64::from(holds), Scalar::Bool);
        }
        let out = self.value(Scalar::Bool);
        self.push(Instruction::Compare { out, op, x, y });
        out
    }

    /// x where the condition holds, else y.
    pub fn select(&mut self, condition: Value, x: impl Operand, y: impl Operand) -> Value {
        let (x, y, type_) = self.pair(x, y);
        match self.constant_of(condition) {
            Some(Constant::Int(0)) => y,
            Some(_) => x,
            None => {
                let out = self.value(type_);
                self.push(Instruction::Select { out, condition, x, y });
                out
            }
        }
    }

    /// x in another type.
    pub fn convert(&mut self, x: Value, scalar: Scalar) -> Value {
        let type_ = self.type_of(x);
        if type_.scalar == scalar {
            return x;
        }
        if let Some(Constant::Int(number)) = self.constant_of(x)
            && matches!(scalar, Scalar::I64 | Scalar::I32)
        {
            return self.int(number, scalar);
        }
        let out = self.value(scalar.by(type_.lanes));
        self.push(Instruction::Convert { out, x });
        out
    }

    /// The bits of x as another type of the same size.
    pub fn bits(&mut self, x: Value, type_: impl Into<Type>) -> Value {
        let out = self.value(type_);
        self.push(Instruction::Bits { out, x });
        out
    }

    /// A vector.
    pub fn build(&mut self, parts: &[Value]) -> Value {
        let [first, ..] = parts else { return self.number(0) };
        if parts.len() == 1 {
            return *first;
        }
        let type_ = self.type_of(*first).scalar.by(parts.len() as u8);
        let out = self.value(type_);
        self.push(Instruction::Build { out, parts: parts.to_vec() });
        out
    }

    /// An element of a vector.
    pub fn extract(&mut self, x: Value, lane: usize) -> Value {
        let type_ = self.type_of(x);
        if type_.lanes == 1 {
            return x;
        }
        let out = self.value(type_.scalar);
        self.push(Instruction::Extract { out, x, lane: lane as u8 });
        out
    }

    /// The value of the lane whose number differs in the bits of `mask`.
    pub fn shuffle_xor(&mut self, x: Value, mask: u32) -> Value {
        let type_ = self.type_of(x);
        let out = self.value(type_);
        self.push(Instruction::ShuffleXor { out, x, mask });
        out
    }

    /// The value of a lane.
    pub fn shuffle(&mut self, x: Value, lane: Value) -> Value {
        let type_ = self.type_of(x);
        let out = self.value(type_);
        self.push(Instruction::Shuffle { out, x, lane });
        out
    }

    /// The quotient and the remainder of a whole number that is not negative.
    pub fn div_rem(&mut self, x: Value, by: usize) -> (Value, Value) {
        if by == 1 {
            let zero = self.number(0);
            return (x, zero);
        }
        let quotient = self.div(x, by);
        let whole = self.mul(quotient, by);
        let rest = self.sub(x, whole);
        (quotient, rest)
    }
}

fn fold(op: Binary, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        Binary::Add => a.checked_add(b)?,
        Binary::Sub => a.checked_sub(b)?,
        Binary::Mul => a.checked_mul(b)?,
        Binary::Div if a >= 0 && b > 0 => a / b,
        Binary::Rem if a >= 0 && b > 0 => a % b,
        Binary::Min | Binary::MinNumber => a.min(b),
        Binary::Max | Binary::MaxNumber => a.max(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        _ => return None,
    })
}
