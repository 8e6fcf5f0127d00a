//! Attention forward: o = softmax(scale · q · kᵀ + …) · v, by online softmax.
//!
//! A workgroup computes a block of queries of one head, and each of its subgroups some of them. Keys and values go through shared
//! memory block by block; scores, their row's statistics and the output stay in registers.

mod dropout;
mod factor;
mod forward;
pub mod gradients;
mod layout;
mod multiply;
mod output;
pub mod parts;
mod plan;
mod pointers;
mod scores;
mod sequence;
mod staging;
mod weigh;

use crate::scalar::Scalar;

pub use forward::write;

/// A tensor [batch, heads, sequence, elements].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The type of elements.
    pub scalar: Scalar,
    /// The distances along the four dimensions, in elements.
    pub strides: [usize; 4],
    /// What its address is a multiple of, in bytes.
    pub alignment: usize,
    /// Where its sequences begin.
    pub start: Start,
}

/// Where the sequences of a tensor begin. What integers in memory say is limited to what lies in the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At even distances.
    #[default]
    Even,
    /// At offsets, a parameter behind the tensor.
    Ragged {
        /// Their type and distance.
        offsets: (Scalar, usize),
        /// Elements of a unit.
        multiplier: usize,
        /// Elements of the tensor.
        extent: usize,
    },
    /// In pages, which a table \[sequence, page\] of `I32` lists, a parameter behind the tensor.
    Paged {
        /// Rows of a page.
        rows: usize,
        /// Pages of the tensor, and of a sequence.
        pages: [usize; 2],
        /// The distances in the table.
        strides: [usize; 2],
    },
    /// Behind each other, along the rows.
    Packed,
}

/// Where the scale of the scores is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// In the kernel.
    Value(f64),
    /// In memory, a parameter.
    Memory(Scalar),
    /// Passed at execution, as an `F64`.
    Passed,
}

/// What is added to the scores, or excludes some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The tensor, broadcast to [batch, heads, queries, keys]. If it is of `Bool`, 0 excludes; else it is added.
    pub tensor: Tensor,
}

/// The keys that a query sees, relative to its diagonal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// Keys before the diagonal.
    pub left: Option<usize>,
    /// Keys after it.
    pub right: Option<usize>,
    /// Whether the diagonal ends at the last query and key.
    pub bottom_right: bool,
}

/// Which probabilities are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dropout {
    /// By Philox 4x32-10, numbered as the scores. Parameters: seed and offset.
    Random {
        /// The probability.
        probability: f64,
        /// The types of seed and offset: `I32` or `I64`.
        scalars: [Scalar; 2],
    },
    /// Those where a mask is 0; others are multiplied by it and the scale. Parameters: mask and scale.
    Mask {
        /// The mask, broadcast as [`Mask`].
        mask: Tensor,
        /// The scale.
        scale: Scale,
    },
}

/// A number for each of some heads of each sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadFactor {
    /// Its type.
    pub scalar: Scalar,
    /// The heads, a divisor of those of queries.
    pub heads: usize,
    /// The distances of sequences and of heads.
    pub strides: [usize; 2],
}

/// An attention. The kernel's parameters are, in this order and as far as they are there: q, k, v, o, scale, mask, the lengths of queries
/// and of keys, dropout's, the mask of blocks, the factors of q and k, the sink, stats, max, sum of powers, the factor of v, those of results, the two largest.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Sequences.
    pub batch: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys, a divisor.
    pub key_heads: usize,
    /// Heads of values, a divisor.
    pub value_heads: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub depth: usize,
    /// Elements of a value.
    pub value_depth: usize,
    /// The queries.
    pub q: Tensor,
    /// The keys, of the queries' type.
    pub k: Tensor,
    /// The values, of the queries' type.
    pub v: Tensor,
    /// The output.
    pub o: Tensor,
    /// The scale.
    pub scale: Scale,
    /// The mask.
    pub mask: Option<Mask>,
    /// Which keys are seen.
    pub band: Band,
    /// Whether distance lowers scores: the slope of each head.
    pub slopes: Option<Vec<f64>>,
    /// The type and the distance of the lengths of queries and of keys.
    pub lengths: Option<[(Scalar, usize); 2]>,
    /// The type and the distance of a score per head that has no value.
    pub sink: Option<(Scalar, usize)>,
    /// Receives ln Σ eˢ, the maximum, and Σ e^(s − maximum) of each row.
    pub statistics: [Option<Tensor>; 3],
    /// Which probabilities are dropped.
    pub dropout: Option<Dropout>,
    /// A bit for each block of 128 queries and 128 keys, 0 if no query there sees a key: the distances of sequences, heads, rows of blocks
    /// and bytes.
    pub block_mask: Option<[usize; 4]>,
    /// Factors of q, k and v.
    pub factors: [Option<HeadFactor>; 3],
    /// Factors of the output: two before its largest element is noted, and one behind.
    pub scales: [Option<Scale>; 3],
    /// Receives the largest probability and the largest magnitude of the output of each row, `F32` \[batch, heads, queries\] without gaps.
    pub largest: [bool; 2],
    /// Whether keys are divided into the same blocks for any number of queries, whose bits then do not depend on it.
    pub is_invariant: bool,
}

impl Attention {
    /// The type that matrices are multiplied in: 8-bit floats are halves there, without loss.
    pub fn operand(&self) -> Scalar {
        if self.q.scalar.size() == 1 { Scalar::F16 } else { self.q.scalar }
    }
}

impl Tensor {
    /// The distances of sequences, heads and rows; where sequences begin anywhere, what that is a multiple of.
    fn steps(&self) -> [usize; 3] {
        let [batch, head, row, _] = self.strides;
        let begin = match self.start {
            Start::Even | Start::Paged { .. } => batch,
            Start::Ragged { multiplier, .. } => multiplier,
            Start::Packed => row,
        };
        [begin, head, row]
    }
}

#[cfg(test)]
mod limits;
#[cfg(test)]
pub(crate) mod tests;
