//! Types of values.

/// The type of one element.
///
/// Arithmetic is on `F32`, `F64`, `I32`, `I64` and `Bool`. The others are storage: they are loaded, stored, converted, selected and
/// exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// IEEE half precision.
    F16,
    /// The upper half of a float.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// OFP8 with 4 bits of exponent: no infinities.
    Fp8E4m3,
    /// OFP8 with 5 bits of exponent.
    Fp8E5m2,
    /// 8 bits with a sign.
    I8,
    /// 8 bits without a sign.
    U8,
    /// 32 bits with a sign.
    I32,
    /// 64 bits with a sign.
    I64,
    /// True or false; a byte in memory.
    Bool,
}

impl Scalar {
    /// Bytes in memory.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Fp8E4m3 | Self::Fp8E5m2 | Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether it stands for a real number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64 | Self::Fp8E4m3 | Self::Fp8E5m2)
    }

    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Fp8E4m3 => "e4m3",
            Self::Fp8E5m2 => "e5m2",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Bool => "bool",
        }
    }

    /// One element, or several side by side.
    pub fn by(self, lanes: u8) -> Type {
        Type { scalar: self, lanes }
    }
}

/// The type of a value: one element or a short vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// The type of each element.
    pub scalar: Scalar,
    /// Number of elements: 1, 2, 4, 8 or 16. Vectors take at most 16 bytes.
    pub lanes: u8,
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Self {
        scalar.by(1)
    }
}
