//! The sizes of an attention, and the layout of its sequences.

use hipdnn_plugin_sdk::graph::DataType;

use crate::Refusal;
use crate::problem::Operand;

/// The sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of sequences, each with its own queries and keys.
    pub batch: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key heads, a divisor of `heads`.
    pub key_heads: usize,
    /// Number of value heads, a divisor of `heads`.
    pub value_heads: usize,
    /// Maximum number of queries of a sequence; the total number if `packed`.
    pub queries: usize,
    /// Maximum number of keys of a sequence.
    pub keys: usize,
    /// Number of elements of a query and of a key.
    pub depth: usize,
    /// Number of elements of a value.
    pub value_depth: usize,
    /// Whether the queries of all sequences are concatenated along one dimension, with the given lengths.
    pub packed: bool,
}

impl Shape {
    /// The dimensions of the scores.
    pub fn scores(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    /// Dimension 0 of the queries.
    pub fn batch_of_queries(&self) -> usize {
        if self.packed { 1 } else { self.batch }
    }
}

/// Integers that are read at execution, in one or two dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integers {
    /// Their index among the kernel's pointers.
    pub slot: usize,
    /// `int32` or `int64`.
    pub data_type: DataType,
    /// Their number along each dimension.
    pub dims: [usize; 2],
    /// Strides in elements.
    pub strides: [usize; 2],
}

/// Where the sequences of a tensor begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Evenly spaced by the stride of dimension 0.
    Even,
    /// At offsets in elements times the multiplier. There is one more offset than there are sequences.
    Ragged {
        /// The offsets.
        offsets: Integers,
        /// The unit of the offsets.
        multiplier: usize,
    },
    /// In pages of as many elements as dimension 2 has, located by a table [sequence, block].
    Paged(Integers),
    /// Directly after the previous one, along dimension 2.
    Packed,
}

/// A tensor [B, heads, S, elements] of sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequences {
    /// The tensor; if it has three dimensions, the last one is missing.
    pub operand: Operand,
    /// Where its sequences begin.
    pub start: Start,
}

impl Sequences {
    /// Strides in elements along the four dimensions.
    pub fn strides(&self) -> [usize; 4] {
        four(self.operand.layout.strides(), 0)
    }

    /// Number of elements along the four dimensions.
    pub fn dims(&self) -> [usize; 4] {
        four(self.operand.layout.dims(), 1)
    }
}

/// Four numbers, padded with `missing`.
pub(super) fn four(numbers: &[usize], missing: usize) -> [usize; 4] {
    let mut four = [missing; 4];
    for (to, from) in four.iter_mut().zip(numbers) {
        *to = *from;
    }
    four
}

/// Refuses an operand with other dims.
pub(super) fn expect_dims(name: &str, operand: &Operand, dims: &[usize]) -> Result<(), Refusal> {
    if operand.layout.dims() == dims {
        Ok(())
    } else {
        Err(format!("{name}: dims are {:?}, expected {dims:?}", operand.layout.dims()))
    }
}
