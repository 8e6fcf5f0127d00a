//! The tolerance of a result.

use crate::data_type::DataType;

/// The tolerance of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the element.
    pub relative: f64,
    /// Relative to the largest element.
    pub of_largest: f64,
    /// Added in any case.
    pub absolute: f64,
}

/// Half a step of a type at 1, and its smallest number above 0.
pub fn steps(data_type: DataType) -> (f64, f64) {
    let power = |exponent: i32| f64::from(exponent).exp2();
    match data_type {
        DataType::Double => (power(-53), 0.0),
        DataType::Float | DataType::Unset => (power(-24), power(-149)),
        DataType::Half => (power(-11), power(-24)),
        DataType::Bfloat16 => (power(-8), power(-133)),
        DataType::Fp8E4m3 => (power(-4), power(-9)),
        DataType::Fp8E4m3Fnuz => (power(-4), power(-10)),
        DataType::Fp8E5m2 => (power(-3), power(-16)),
        DataType::Fp8E5m2Fnuz => (power(-3), power(-17)),
        DataType::Fp6E2m3 => (power(-4), power(-3)),
        DataType::Fp6E3m2 => (power(-3), power(-4)),
        DataType::Fp4E2m1 => (power(-2), power(-1)),
        DataType::Fp8E8m0 => (power(-2), power(-127)),
        DataType::Uint8
        | DataType::Int32
        | DataType::Int8
        | DataType::Int4
        | DataType::Int64
        | DataType::Boolean => (0.0, 0.0),
    }
}

impl Tolerance {
    /// Multiplies the tolerance.
    pub fn times(self, factor: f64) -> Self {
        Self {
            relative: self.relative * factor,
            of_largest: self.of_largest * factor,
            absolute: self.absolute * factor,
        }
    }
}
