//! What happens to the scores of an attention.

use std::ops::Range;

use super::shape::Integers;
use crate::problem::Operand;
use crate::problem::batchnorm::Scalar;

/// What the scores are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// By a number that the graph has.
    Value(f32),
    /// By a number in memory.
    Tensor(Scalar),
}

/// A tensor that is spread over the scores [B, H, Sq, Skv].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The tensor.
    pub operand: Operand,
    /// Its strides along the four dimensions: 0 where it repeats.
    pub strides: [usize; 4],
}

/// The keys that a query sees, from its own place on the diagonal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// How many keys before the diagonal.
    pub left: Option<u64>,
    /// How many keys after the diagonal.
    pub right: Option<u64>,
    /// Whether the diagonal ends at the last query and the last key of the sequence, instead of beginning at the first.
    pub bottom_right: bool,
}

impl Band {
    /// Where a query is along the keys, in a sequence of so many queries and keys.
    pub fn diagonal(&self, queries: usize, keys: usize, query: usize) -> i128 {
        let offset = if self.bottom_right { keys as i128 - queries as i128 } else { 0 };
        query as i128 + offset
    }

    /// The keys that a query sees, in a sequence of so many queries and keys. Neither end falls from a query to the next.
    pub fn keys(&self, queries: usize, keys: usize, query: usize) -> Range<usize> {
        let (diagonal, keys) = (self.diagonal(queries, keys, query), keys as i128);
        let begin = self.left.map_or(0, |left| (diagonal - i128::from(left)).clamp(0, keys));
        let end = self.right.map_or(keys, |right| (diagonal + i128::from(right) + 1).clamp(0, keys));
        begin as usize..end as usize
    }
}

/// Which probabilities are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dropout {
    /// Whichever the generator says.
    Random {
        /// The share that is dropped, from 0 to 1.
        probability: f32,
        /// The key of the generator, one `int32` or `int64`.
        seed: Integers,
        /// The upper half of its counter, likewise.
        offset: Integers,
    },
    /// Those where the mask is 0; the others are multiplied by the mask and the scale.
    Mask {
        /// The mask.
        mask: Spread,
        /// The scale.
        scale: Scalar,
    },
}

/// Tiles of scores that count, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMask {
    /// Its place among the pointers that a kernel gets.
    pub slot: usize,
    /// Strides in bytes along [B, H, tiles of queries, eighths of tiles of keys]: 0 where it repeats.
    pub strides: [usize; 4],
}

impl BlockMask {
    /// Queries and keys of a tile.
    pub const TILE: usize = 128;
}

/// A factor for each sequence and each head, or for fewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadFactor {
    /// The tensor.
    pub operand: Operand,
    /// How many heads it tells apart: a divisor of the heads of the queries.
    pub heads: usize,
    /// Distances in elements from one sequence and from one of its heads to the next: 0 where it repeats.
    pub strides: [usize; 2],
}

/// What happens to the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What the scores are multiplied by.
    pub scale: Scale,
    /// What is added to them, or, where it is boolean, which of them count.
    pub mask: Option<Spread>,
    /// Which keys a query sees.
    pub band: Band,
    /// Whether scores fall with the distance, each head's by its own slope.
    pub alibi: bool,
    /// The lengths of the sequences of queries and of keys.
    pub lengths: Option<[Integers; 2]>,
    /// Which probabilities are dropped.
    pub dropout: Option<Dropout>,
}
