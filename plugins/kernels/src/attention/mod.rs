//! Attention forward: o = softmax(scale · q · kᵀ + …) · v, by online softmax.
//!
//! A workgroup computes a block of queries of one head, and each of its subgroups some of them. Keys and values go through shared
//! memory block by block; scores, their row's statistics and the output stay in registers.

mod forward;
pub mod gradients;
mod layout;
mod output;
mod plan;
mod scores;
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

/// An attention. The kernel's parameters are, in this order and as far as they are there: q, k, v, o, scale, mask, the lengths of queries
/// and of keys, the sink, stats, max, sum of powers.
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
}

#[cfg(test)]
mod tests;
