//! The values of one kernel, which depend on each other, and the memory that is loaded and stored.

use hipdnn_plugin_planner::layout::MAX_RANK;
use hipdnn_plugin_sdk::graph::DataType;

use crate::Refusal;

/// The type of values.
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

    /// A constant in the source.
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

    /// Whether every element of a type can be represented in this one, and converted back unchanged.
    pub fn holds(self, data_type: DataType) -> bool {
        matches!((self, data_type), (_, DataType::Double) | (Self::Single, DataType::Float))
    }
}

/// The source's name of an element type.
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
    /// Passed by value at execution: the tensor's only element.
    Argument(i64),
    /// Nowhere: the element is the offset itself.
    Offset,
}

/// A tensor broadcast to the domain of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where the elements are.
    pub place: Place,
    /// Their type.
    pub data_type: DataType,
    /// Stride of each dimension of the domain; 0 where the tensor is broadcast.
    pub strides: [usize; MAX_RANK],
    /// The alignment in bytes of the first element.
    pub alignment: usize,
}

/// What a value exists for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Each element of the domain.
    Element,
    /// Each row: the elements that are reduced together.
    Row,
}

/// How a value is obtained.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// It is loaded.
    Load(usize),
    /// It is computed from other values, which the text calls `v0`, `v1` and so on.
    Compute {
        /// The expression.
        text: String,
        /// The values that it refers to.
        inputs: Vec<usize>,
    },
    /// It combines the values of all elements in a row.
    Reduce {
        /// The binary function.
        join: &'static str,
        /// The result for no elements.
        start: f64,
        /// The value of each element.
        input: usize,
    },
    /// A function of the element's indices gathers it from whole tensors.
    Gather {
        /// The tensors, with their names in the function.
        whole: Vec<(&'static str, usize)>,
        /// Accesses whose offsets are the indices, which the function calls `i0`, `i1` and so on.
        indices: Vec<usize>,
        /// The statements of the function.
        body: String,
    },
}

/// A value, identified by its index in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What it exists for.
    pub level: Level,
    /// Its type.
    pub real: Real,
    /// How many passes over the row precede its computation.
    pub pass: usize,
    /// How it is obtained.
    pub origin: Origin,
}

/// A value that is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// The tensor.
    pub uid: i64,
    /// The value.
    pub value: usize,
    /// The destination.
    pub access: Access,
}
