//! The shapes of an attention, and where its sequences lie.

use hipdnn_plugin_sdk::graph::DataType;

use crate::Refusal;
use crate::problem::Operand;

/// The numbers of the shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences, each with its own queries and keys.
    pub batch: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys, a divisor of `heads`.
    pub key_heads: usize,
    /// Heads of the values, a divisor of `heads`.
    pub value_heads: usize,
    /// The most queries of a sequence; those of all together where `packed`.
    pub queries: usize,
    /// The most keys of a sequence.
    pub keys: usize,
    /// Numbers of a query and of a key.
    pub depth: usize,
    /// Numbers of a value.
    pub value_depth: usize,
    /// Whether the queries of all sequences lie one after the other along one dimension, as many of each as its length says.
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
    /// Their place among the pointers that a kernel gets.
    pub slot: usize,
    /// `int32` or `int64`.
    pub data_type: DataType,
    /// How many there are along each dimension.
    pub dims: [usize; 2],
    /// Distances in elements along each dimension.
    pub strides: [usize; 2],
}

/// Where the sequences of a tensor begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Each as far from the one before as the stride of dimension 0 says.
    Even,
    /// At an offset of their own, in elements, times the multiplier. There is one more offset than there are sequences.
    Ragged {
        /// The offsets.
        offsets: Integers,
        /// What they are multiplied by.
        multiplier: usize,
    },
    /// In blocks of as many elements as dimension 2 has, wherever a table [sequence, block] says.
    Paged(Integers),
    /// Right after the one before, along dimension 2.
    Packed,
}

/// A tensor [B, heads, S, numbers] of sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequences {
    /// The tensor; where it has three dimensions, the last one is missing.
    pub operand: Operand,
    /// Where its sequences begin.
    pub start: Start,
}

impl Sequences {
    /// Distances in elements along the four dimensions.
    pub fn strides(&self) -> [usize; 4] {
        four(self.operand.layout.strides(), 0)
    }

    /// Number of elements along the four dimensions.
    pub fn dims(&self) -> [usize; 4] {
        four(self.operand.layout.dims(), 1)
    }
}

/// The numbers along four dimensions, `missing` where there are fewer.
pub(super) fn four(numbers: &[usize], missing: usize) -> [usize; 4] {
    let mut four = [missing; 4];
    for (to, from) in four.iter_mut().zip(numbers) {
        *to = *from;
    }
    four
}

/// Refuses an operand whose dims differ.
pub(super) fn expect_dims(name: &str, operand: &Operand, dims: &[usize]) -> Result<(), Refusal> {
    if operand.layout.dims() == dims {
        Ok(())
    } else {
        Err(format!("{name}: dims are {:?}, expected {dims:?}", operand.layout.dims()))
    }
}
