//! Element types.

use hipdnn::graph::DataType;

/// An ONNX type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit float.
    Float,
    /// 8-bit unsigned integer.
    Uint8,
    /// 8-bit integer.
    Int8,
    /// 16-bit unsigned integer.
    Uint16,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Boolean.
    Bool,
    /// 16-bit float.
    Half,
    /// 64-bit float.
    Double,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit unsigned integer.
    Uint64,
    /// bfloat16.
    Bfloat16,
    /// 8-bit float without infinities.
    Float8E4m3,
    /// The same, with one zero.
    Float8E4m3Fnuz,
    /// 8-bit float with infinities.
    Float8E5m2,
    /// 8-bit float with one zero, without infinities.
    Float8E5m2Fnuz,
    /// 4-bit unsigned integer, two in a byte.
    Uint4,
    /// 4-bit integer, two in a byte.
    Int4,
}

impl Element {
    /// The type with a number in ONNX.
    pub fn from_onnx(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Float,
            2 => Self::Uint8,
            3 => Self::Int8,
            4 => Self::Uint16,
            5 => Self::Int16,
            6 => Self::Int32,
            7 => Self::Int64,
            9 => Self::Bool,
            10 => Self::Half,
            11 => Self::Double,
            12 => Self::Uint32,
            13 => Self::Uint64,
            16 => Self::Bfloat16,
            17 => Self::Float8E4m3,
            18 => Self::Float8E4m3Fnuz,
            19 => Self::Float8E5m2,
            20 => Self::Float8E5m2Fnuz,
            21 => Self::Uint4,
            22 => Self::Int4,
            _ => return None,
        })
    }

    /// Its number in ONNX.
    pub fn onnx(self) -> i32 {
        (1..=22).find(|number| Self::from_onnx(*number) == Some(self)).unwrap_or(0)
    }

    /// The bytes of elements; none if there are too many.
    pub fn bytes(self, count: usize) -> Option<usize> {
        if self.is_of_4_bits() { Some(count.div_ceil(2)) } else { count.checked_mul(self.size()) }
    }

    /// Whether two elements share a byte.
    pub fn is_of_4_bits(self) -> bool {
        matches!(self, Self::Uint4 | Self::Int4)
    }

    /// Whether its elements have fewer bits than those that are computed with.
    pub fn is_small(self) -> bool {
        self.is_of_4_bits() || self.is_float_of_8_bits()
    }

    /// Whether it is a float of 8 bits.
    pub fn is_float_of_8_bits(self) -> bool {
        matches!(self, Self::Float8E4m3 | Self::Float8E4m3Fnuz | Self::Float8E5m2 | Self::Float8E5m2Fnuz)
    }

    /// The size of an element in bytes, or of two.
    pub fn size(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool | Self::Uint4 | Self::Int4 => 1,
            Self::Float8E4m3 | Self::Float8E4m3Fnuz | Self::Float8E5m2 | Self::Float8E5m2Fnuz => 1,
            Self::Uint16 | Self::Int16 | Self::Half | Self::Bfloat16 => 2,
            Self::Float | Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Double | Self::Uint64 => 8,
        }
    }

    /// hipDNN's type, if it has it.
    pub fn data_type(self) -> Option<DataType> {
        Some(match self {
            Self::Float => DataType::Float,
            Self::Uint8 => DataType::Uint8,
            Self::Int8 => DataType::Int8,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Bool => DataType::Boolean,
            Self::Half => DataType::Half,
            Self::Double => DataType::Double,
            Self::Bfloat16 => DataType::Bfloat16,
            Self::Uint16 | Self::Int16 | Self::Uint32 | Self::Uint64 | Self::Uint4 | Self::Int4 => {
                return None;
            }
            Self::Float8E4m3 | Self::Float8E4m3Fnuz | Self::Float8E5m2 | Self::Float8E5m2Fnuz => return None,
        })
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float | Self::Half | Self::Double | Self::Bfloat16)
    }

    /// Its name in ONNX.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Bool => "bool",
            Self::Half => "float16",
            Self::Double => "double",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Bfloat16 => "bfloat16",
            Self::Float8E4m3 => "float8e4m3fn",
            Self::Float8E4m3Fnuz => "float8e4m3fnuz",
            Self::Float8E5m2 => "float8e5m2",
            Self::Float8E5m2Fnuz => "float8e5m2fnuz",
            Self::Uint4 => "uint4",
            Self::Int4 => "int4",
        }
    }
}

/// The compute type of nodes with operands and results of these types: it holds all of their elements. Integers are summed as integers.
pub fn compute_type(elements: &[Element]) -> DataType {
    let is_integer = |element: &Element| matches!(element, Element::Int8 | Element::Uint8 | Element::Int32);
    if elements.iter().all(is_integer) && elements.contains(&Element::Int32) {
        DataType::Int32
    } else if elements.iter().any(|element| matches!(element, Element::Double | Element::Int32)) {
        DataType::Double
    } else {
        DataType::Float
    }
}

/// The value of a 16-bit float.
pub fn half_to_f64(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// One of the two integers of a byte, the first of which is in the lower bits, as a byte.
pub fn nibble(byte: u8, at: usize, is_signed: bool) -> u8 {
    let bits = if at == 0 { byte & 15 } else { byte >> 4 };
    if is_signed && bits > 7 { bits | 0xf0 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24)), (0x7bff, 65504.0)] {
            assert_eq!(half_to_f64(bits), value);
        }
        assert!(half_to_f64(0x7e00).is_nan() && half_to_f64(0xfc00) == f64::NEG_INFINITY);
    }

    #[test]
    fn integers_of_4_bits_have_signs() {
        assert_eq!([nibble(0xe7, 0, true), nibble(0xe7, 1, true), nibble(0xe7, 1, false)], [7, 0xfe, 14]);
    }
}
