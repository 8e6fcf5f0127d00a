//! Modifications of an attention's scores.

use std::ops::Range;

use super::shape::Integers;
use crate::problem::Operand;
use crate::problem::batchnorm::Scalar;

/// The scale of the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// A number in the graph.
    Value(f32),
    /// A number in memory.
    Tensor(Scalar),
}

/// A tensor broadcast to the scores [B, H, Sq, Skv].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The tensor.
    pub operand: Operand,
    /// Its strides along the four dimensions: 0 where it is broadcast.
    pub strides: [usize; 4],
}

/// The keys visible to a query, relative to its position on the diagonal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// Number of keys before the diagonal.
    pub left: Option<u64>,
    /// Number of keys after the diagonal.
    pub right: Option<u64>,
    /// Whether the diagonal ends at the last query and key of the sequence, instead of beginning at the
    /// first.
    pub bottom_right: bool,
}

impl Band {
    /// A query's position among the keys, for a sequence of this many queries and keys.
    pub fn diagonal(&self, queries: usize, keys: usize, query: usize) -> i128 {
        let offset = if self.bottom_right { keys as i128 - queries as i128 } else { 0 };
        query as i128 + offset
    }

    /// The keys visible to a query, for a sequence of this many queries and keys. Both ends are nondecreasing
    /// in the query.
    pub fn keys(&self, queries: usize, keys: usize, query: usize) -> Range<usize> {
        let (diagonal, keys) = (self.diagonal(queries, keys, query), keys as i128);
        let begin = self.left.map_or(0, |left| (diagonal - i128::from(left)).clamp(0, keys));
        let end = self.right.map_or(keys, |right| (diagonal + i128::from(right) + 1).clamp(0, keys));
        begin as usize..end as usize
    }
}

/// Which probabilities dropout drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dropout {
    /// Chosen by the random number generator.
    Random {
        /// The probability of dropping, from 0 to 1.
        probability: f32,
        /// The generator's key, one `int32` or `int64`.
        seed: Integers,
        /// The upper half of the generator's counter, one `int32` or `int64`.
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

/// The tiles of scores that are computed, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMask {
    /// Its index among the kernel's pointers.
    pub slot: usize,
    /// Strides in bytes along [B, H, query tiles, key tiles / 8]: 0 where it is broadcast.
    pub strides: [usize; 4],
}

impl BlockMask {
    /// Number of queries and of keys in a tile.
    pub const TILE: usize = 128;
}

/// A scale per sequence and head, or broadcast over them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadFactor {
    /// The tensor.
    pub operand: Operand,
    /// Number of distinct heads: a divisor of the query heads.
    pub heads: usize,
    /// Strides in elements between sequences and between heads: 0 where it is broadcast.
    pub strides: [usize; 2],
}

/// Modifications of the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The scale of the scores.
    pub scale: Scale,
    /// Added to the scores or, if it is boolean, selects them.
    pub mask: Option<Spread>,
    /// Which keys are visible to a query.
    pub band: Band,
    /// Whether ALiBi lowers scores by distance, with a slope per head.
    pub alibi: bool,
    /// The lengths of the query and key sequences.
    pub lengths: Option<[Integers; 2]>,
    /// Which probabilities dropout drops.
    pub dropout: Option<Dropout>,
}
