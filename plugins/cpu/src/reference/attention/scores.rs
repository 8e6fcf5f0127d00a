//! The scores of an attention with all its options, and dropout of the probabilities.

use hipdnn_plugin_planner::problem::attention::options;
use hipdnn_plugin_planner::problem::attention::options::{
    Band, BlockMask, Dropout, HeadFactor, Options, Scale,
};
use hipdnn_plugin_planner::problem::attention::shape::{Integers, Shape};
use hipdnn_plugin_sdk::graph::DataType;

use crate::attention::shared::philox::uniform;
use crate::attention::shared::sequences::{Bound, Rows, Sequence};
use crate::kernel::Refusal;
use crate::problem::attention::alibi::slope;
use crate::tensor::view::{Memory, Pointers, Spread};

/// A tensor that is broadcast over the scores.
fn over(name: &str, spread: &options::Spread) -> Result<Spread<f64, 4>, Refusal> {
    let is_boolean = spread.operand.data_type == DataType::Boolean;
    let memory = if is_boolean { Memory::of_any } else { Memory::of };
    Ok(Spread { memory: memory(name, &spread.operand)?, strides: spread.strides })
}

/// A factor per head.
pub(crate) struct Heads {
    spread: Spread<f64, 2>,
    heads: usize,
}

impl Heads {
    pub(crate) fn of(name: &str, factor: Option<&HeadFactor>) -> Result<Option<Self>, Refusal> {
        let Some(factor) = factor else { return Ok(None) };
        let spread = Spread { memory: Memory::of(name, &factor.operand)?, strides: factor.strides };
        Ok(Some(Self { spread, heads: factor.heads }))
    }

    /// The factor of one of `heads` heads.
    pub(crate) fn get(&self, tensors: Pointers<'_>, sequence: &Sequence, head: usize, heads: usize) -> f64 {
        self.spread.get(tensors, [sequence.index, head / (heads / self.heads)])
    }
}

enum Factor {
    Value(f64),
    Tensor(Memory<f64>),
}

enum Drop {
    Random { probability: f64, seed: Integers, offset: Integers },
    Mask { mask: Spread<f64, 4>, scale: Memory<f64> },
}

/// The options of an attention, ready to run.
pub(crate) struct Scores {
    pub(crate) shape: Shape,
    q: Rows,
    k: Rows,
    scale: Factor,
    descales: [Option<Heads>; 2],
    mask: Option<Spread<f64, 4>>,
    is_boolean: bool,
    block_mask: Option<Spread<f64, 4>>,
    band: Band,
    alibi: bool,
    drop: Option<Drop>,
}

impl Scores {
    #[inline(never)]
    pub(crate) fn new(shape: Shape, q: Rows, k: Rows, options: &Options) -> Result<Self, Refusal> {
        let mask = options.mask.as_ref();
        Ok(Self {
            shape,
            q,
            k,
            scale: match &options.scale {
                Scale::Value(value) => Factor::Value(f64::from(*value)),
                Scale::Tensor(scalar) => Factor::Tensor(Memory::of_scalar("scale", scalar)?),
            },
            descales: [None, None],
            is_boolean: mask.is_some_and(|mask| mask.operand.data_type == DataType::Boolean),
            mask: mask.map(|mask| over("attn_mask", mask)).transpose()?,
            block_mask: None,
            band: options.band,
            alibi: options.alibi,
            drop: match &options.dropout {
                None => None,
                Some(Dropout::Random { probability, seed, offset }) => {
                    Some(Drop::Random { probability: f64::from(*probability), seed: *seed, offset: *offset })
                }
                Some(Dropout::Mask { mask, scale }) => Some(Drop::Mask {
                    mask: over("dropout_mask", mask)?,
                    scale: Memory::of_scalar("dropout_scale", scale)?,
                }),
            },
        })
    }

    /// Adds the options of the forward direction.
    pub(crate) fn with(
        mut self,
        descales: [Option<Heads>; 2],
        block_mask: Option<BlockMask>,
    ) -> Result<Self, Refusal> {
        self.descales = descales;
        if let Some(BlockMask { slot, strides }) = block_mask {
            let [batch, heads, queries, keys] = self.shape.scores();
            let tiles = [queries, keys].map(|len| len.div_ceil(BlockMask::TILE));
            let dims = [batch, heads, tiles[0], tiles[1].div_ceil(8)];
            self.block_mask = Some(Spread { memory: Memory::of_bytes(slot, &dims, &strides)?, strides });
        }
        Ok(self)
    }

    /// Checks that the rows of queries and keys lie in their tensors.
    pub(crate) fn check(
        &self,
        tensors: Pointers<'_>,
        sequence: impl Fn(usize) -> Sequence,
    ) -> Result<(), Refusal> {
        self.q.check(tensors, self.shape.batch, |batch| sequence(batch).queries)?;
        self.k.check(tensors, self.shape.batch, |batch| sequence(batch).keys)
    }

    /// Binds them to tensors that were checked.
    pub(crate) fn bind<'a>(&'a self, tensors: Pointers<'a>) -> BoundScores<'a> {
        BoundScores {
            q: self.q.bind(tensors),
            k: self.k.bind(tensors),
            scale: match &self.scale {
                Factor::Value(value) => *value,
                Factor::Tensor(scale) => scale.get(tensors, 0),
            },
            scores: self,
            tensors,
        }
    }
}

/// [`Scores`] during a run.
pub(crate) struct BoundScores<'a> {
    scores: &'a Scores,
    tensors: Pointers<'a>,
    pub(crate) q: Bound<'a>,
    pub(crate) k: Bound<'a>,
    pub(crate) scale: f64,
}

impl BoundScores<'_> {
    /// The keys that a query sees according to lengths and band.
    pub(crate) fn keys(&self, sequence: &Sequence, query: usize) -> std::ops::Range<usize> {
        self.scores.band.keys(sequence.queries, sequence.keys, query)
    }

    /// The score of a query and one of its [`BoundScores::keys`]; -∞ if the key is masked.
    pub(crate) fn score(&self, sequence: &Sequence, head: usize, query: usize, key: usize) -> f64 {
        let Scores { shape, descales, mask, is_boolean, block_mask, alibi, .. } = self.scores;
        let index = [sequence.index, head, query, key];
        if let Some(block_mask) = block_mask {
            let tile = key / BlockMask::TILE;
            let byte =
                block_mask.get(self.tensors, [sequence.index, head, query / BlockMask::TILE, tile / 8]);
            if byte as u8 >> (tile % 8) & 1 == 0 {
                return f64::NEG_INFINITY;
            }
        }
        let added = mask.as_ref().map_or(0.0, |mask| match (is_boolean, mask.get(self.tensors, index)) {
            (true, 0.0) => f64::NEG_INFINITY,
            (true, _) => 0.0,
            (false, added) => added,
        });
        let mut score = f64::NEG_INFINITY;
        if added != f64::NEG_INFINITY {
            let k = self.k.shared(sequence, head, shape.heads, key);
            score = self.q.row(sequence, head, query).dot(&k) * self.scale;
            for descale in descales.iter().flatten() {
                score *= descale.get(self.tensors, sequence, head, shape.heads);
            }
            score += added;
        }
        if *alibi {
            let diagonal = self.scores.band.diagonal(sequence.queries, sequence.keys, query);
            let distance = (diagonal - key as i128).abs();
            score -= slope(head, shape.heads) * distance as f64;
        }
        score
    }

    /// Whether there is dropout.
    pub(crate) fn drops(&self) -> bool {
        self.scores.drop.is_some()
    }

    /// The factor by which dropout multiplies the probability of a score; 0 if it is dropped.
    pub(crate) fn kept(&self, sequence: &Sequence, head: usize, query: usize, key: usize) -> f64 {
        match &self.scores.drop {
            None => 1.0,
            Some(Drop::Random { probability, seed, offset }) => {
                let shape = &self.scores.shape;
                let row = (sequence.index * shape.heads + head) * shape.queries + sequence.first + query;
                let [seed, offset] = [seed, offset].map(|integer| self.tensors.integer(integer, [0, 0]));
                if uniform(seed, offset, (row * shape.keys + key) as u64) >= *probability {
                    1.0 / (1.0 - probability)
                } else {
                    0.0
                }
            }
            Some(Drop::Mask { mask, scale }) => {
                mask.get(self.tensors, [sequence.index, head, query, key]) * scale.get(self.tensors, 0)
            }
        }
    }
}
