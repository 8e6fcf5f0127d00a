//! What one kernel computes: numbers that depend on each other, and the memory that they come from and go to.

use hipdnn_plugin_planner::layout::MAX_RANK;
use hipdnn_plugin_sdk::graph::DataType;

use super::strip::Strip;
use crate::Refusal;

/// The type that numbers are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// For the compute types float, half and bfloat16.
    Single,
    /// For the compute type double.
    Double,
}

impl Real {
    /// The type for a node's compute type.
    pub fn of(data_type: DataType) -> Result<Self, Refusal> {
        match data_type {
            DataType::Float | DataType::Half | DataType::Bfloat16 => Ok(Self::Single),
            DataType::Double => Ok(Self::Double),
            other => {
                Err(format!("compute type is {}, expected float, double, half or bfloat16", other.name()))
            }
        }
    }

    /// Its name in the source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "float",
            Self::Double => "double",
        }
    }

    /// A number as it stands in the source.
    pub fn literal(self, number: f64) -> String {
        let number = if number.is_nan() {
            "float_of(0x7fc00000u)".to_owned()
        } else if number.is_infinite() {
            format!("float_of(0x{}f800000u)", if number > 0.0 { "7" } else { "f" })
        } else {
            format!("{number:?}")
        };
        format!("({}){number}", self.name())
    }

    /// Whether every element of a type is a number of this one, and a number of this type becomes an element unchanged.
    pub fn holds(self, data_type: DataType) -> bool {
        matches!((self, data_type), (_, DataType::Double) | (Self::Single, DataType::Float))
    }
}

/// The name that a type of elements has in the source.
pub fn element(data_type: DataType) -> Result<&'static str, Refusal> {
    Ok(match data_type {
        DataType::Float => "f32",
        DataType::Double => "f64",
        DataType::Half => "f16",
        DataType::Bfloat16 => "bf16",
        DataType::Int64 => "i64",
        DataType::Int32 => "i32",
        DataType::Int8 => "i8",
        DataType::Uint8 => "u8",
        DataType::Boolean => "truth",
        DataType::Fp8E4m3 => "e4m3",
        DataType::Fp8E5m2 => "e5m2",
        other => {
            return Err(format!(
                "data type is {}, expected float, double, half, bfloat16, fp8_e4m3, fp8_e5m2, an integer of 8, 32 or 64 bits, or boolean",
                other.name()
            ));
        }
    })
}

/// Where the elements of an [`Access`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the memory of this tensor.
    Memory(i64),
    /// Passed by value with each execution: the tensor's only element.
    Argument(i64),
    /// Nowhere: the element is the offset itself.
    Offset,
}

/// A tensor spread over the domain of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where the elements are.
    pub place: Place,
    /// Their type.
    pub data_type: DataType,
    /// The distance between elements along each dimension of the domain; 0 where the tensor repeats.
    pub strides: [usize; MAX_RANK],
    /// The alignment in bytes of the first element.
    pub alignment: usize,
}

/// For what there is one of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Each element of the domain.
    Element,
    /// Each row: the elements that are reduced together.
    Row,
}

/// How a number comes about.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// It is read.
    Load(usize),
    /// It is computed from other numbers, named `v0`, `v1` and so on in the text.
    Compute {
        /// The expression.
        text: String,
        /// The numbers in it.
        inputs: Vec<usize>,
    },
    /// It is made of all numbers of a row.
    Reduce {
        /// The function of two numbers.
        join: &'static str,
        /// What no number at all would give.
        start: f64,
        /// The number of each element.
        input: usize,
    },
    /// It is gathered from whole tensors, by a function of the element's indices.
    Gather {
        /// The tensors, with the names that they have in the function.
        whole: Vec<(&'static str, usize)>,
        /// Accesses whose offsets are the indices, `i0`, `i1` and so on in the function.
        indices: Vec<usize>,
        /// The statements of the function.
        body: String,
        /// The strip that it makes at once, where it makes more than a number.
        strip: Option<Box<Strip>>,
    },
}

/// A number, named by its place in the list of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// For what there is one of it.
    pub level: Level,
    /// Its type.
    pub real: Real,
    /// How many passes over the row come before it can be computed.
    pub pass: usize,
    /// How it comes about.
    pub origin: Origin,
}

/// A number that is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// The tensor.
    pub uid: i64,
    /// The number.
    pub value: usize,
    /// Where it goes to.
    pub access: Access,
}
