//! The scores of an attention with all its options, and what dropout leaves of the probabilities.

use hipdnn_plugin_planner::problem::attention::options::{
    Band, BlockMask, Dropout, HeadFactor, Options, Scale, Spread,
};
use hipdnn_plugin_planner::problem::attention::shape::{Integers, Shape};
use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::Element;
use crate::kernel::Refusal;
use crate::reference::attention::philox::uniform;
use crate::reference::attention::sequences::{Bound, Rows, Sequence, integer};
use crate::reference::memory::{Memory, Single};

/// A tensor that is spread over the scores.
struct Over {
    memory: Memory<f64>,
    strides: [usize; 4],
    is_boolean: bool,
}

impl Over {
    fn of(name: &str, spread: &Spread) -> Result<Self, Refusal> {
        let is_boolean = spread.operand.data_type == DataType::Boolean;
        let memory = if is_boolean {
            let element = Element::of(DataType::Boolean).map_err(|refusal| format!("{name}: {refusal}"))?;
            Memory { slot: spread.operand.slot, element }
        } else {
            Memory::of(name, &spread.operand)?
        };
        Ok(Self { memory, strides: spread.strides, is_boolean })
    }

    /// # Safety
    /// As for [`Memory::bind`]; the indices are those of a score.
    unsafe fn get(&self, tensors: &[*mut u8], indices: [usize; 4]) -> f64 {
        let at = indices.iter().zip(self.strides).map(|(index, stride)| index * stride).sum();
        // SAFETY: passed on; the tensor spreads over the scores.
        unsafe { self.memory.bind(tensors).get(at) }
    }
}

/// A factor of the heads.
pub(crate) struct Heads {
    memory: Memory<f64>,
    heads: usize,
    strides: [usize; 2],
}

impl Heads {
    pub(crate) fn of(name: &str, factor: Option<&HeadFactor>) -> Result<Option<Self>, Refusal> {
        let Some(factor) = factor else { return Ok(None) };
        let memory = Memory::of(name, &factor.operand)?;
        Ok(Some(Self { memory, heads: factor.heads, strides: factor.strides }))
    }

    /// # Safety
    /// As for [`Memory::bind`]; the sequence and the head, one of `heads`, are of the operation.
    pub(crate) unsafe fn get(
        &self,
        tensors: &[*mut u8],
        sequence: &Sequence,
        head: usize,
        heads: usize,
    ) -> f64 {
        let at = sequence.place * self.strides[0] + head / (heads / self.heads) * self.strides[1];
        // SAFETY: passed on; the factors are a divisor of the heads.
        unsafe { self.memory.bind(tensors).get(at) }
    }
}

enum Factor {
    Value(f64),
    Tensor(Single<f64>),
}

enum Drop {
    Random { probability: f64, seed: Integers, offset: Integers },
    Mask { mask: Over, scale: Single<f64> },
}

/// The options of an attention, ready to run.
pub(crate) struct Scores {
    pub(crate) shape: Shape,
    q: Rows,
    k: Rows,
    scale: Factor,
    descales: [Option<Heads>; 2],
    mask: Option<Over>,
    block_mask: Option<BlockMask>,
    band: Band,
    alibi: bool,
    drop: Option<Drop>,
}

impl Scores {
    pub(crate) fn new(shape: Shape, q: Rows, k: Rows, options: &Options) -> Result<Self, Refusal> {
        Ok(Self {
            shape,
            q,
            k,
            scale: match &options.scale {
                Scale::Value(value) => Factor::Value(f64::from(*value)),
                Scale::Tensor(scalar) => Factor::Tensor(Single::of("scale", scalar)?),
            },
            descales: [None, None],
            mask: options.mask.as_ref().map(|mask| Over::of("attn_mask", mask)).transpose()?,
            block_mask: None,
            band: options.band,
            alibi: options.alibi,
            drop: match &options.dropout {
                None => None,
                Some(Dropout::Random { probability, seed, offset }) => {
                    Some(Drop::Random { probability: f64::from(*probability), seed: *seed, offset: *offset })
                }
                Some(Dropout::Mask { mask, scale }) => Some(Drop::Mask {
                    mask: Over::of("dropout_mask", mask)?,
                    scale: Single::of("dropout_scale", scale)?,
                }),
            },
        })
    }

    /// The same with what only the forward direction has.
    pub(crate) fn with(mut self, descales: [Option<Heads>; 2], block_mask: Option<BlockMask>) -> Self {
        self.descales = descales;
        self.block_mask = block_mask;
        self
    }

    /// Whether the rows of queries and keys lie in their tensors.
    ///
    /// # Safety
    /// `tensors` are the pointers of the operation; lengths were checked.
    pub(crate) unsafe fn check(
        &self,
        tensors: &[*mut u8],
        sequence: impl Fn(usize) -> Sequence,
    ) -> Result<(), Refusal> {
        // SAFETY: the function called requires what this one requires.
        unsafe {
            self.q.check(tensors, self.shape.batch, |place| sequence(place).queries)?;
            self.k.check(tensors, self.shape.batch, |place| sequence(place).keys)
        }
    }

    /// # Safety
    /// `tensors` are the pointers of the operation, and what they say was checked.
    pub(crate) unsafe fn bind<'a>(&'a self, tensors: &'a [*mut u8]) -> BoundScores<'a> {
        // SAFETY: the function called requires what this one requires.
        unsafe {
            BoundScores {
                q: self.q.bind(tensors),
                k: self.k.bind(tensors),
                scale: match &self.scale {
                    Factor::Value(value) => *value,
                    Factor::Tensor(single) => single.get(tensors),
                },
                drop: match &self.drop {
                    None => BoundDrop::Nothing,
                    Some(Drop::Random { probability, seed, offset }) => BoundDrop::Random {
                        probability: *probability,
                        seed: integer(seed, tensors, 0, 0),
                        offset: integer(offset, tensors, 0, 0),
                    },
                    Some(Drop::Mask { mask, scale }) => BoundDrop::Mask { mask, scale: scale.get(tensors) },
                },
                scores: self,
                tensors,
            }
        }
    }
}

enum BoundDrop<'a> {
    Nothing,
    Random { probability: f64, seed: i64, offset: i64 },
    Mask { mask: &'a Over, scale: f64 },
}

/// The same during a run.
pub(crate) struct BoundScores<'a> {
    scores: &'a Scores,
    tensors: &'a [*mut u8],
    pub(crate) q: Bound<'a>,
    pub(crate) k: Bound<'a>,
    pub(crate) scale: f64,
    drop: BoundDrop<'a>,
}

impl BoundScores<'_> {
    /// The keys that a query may see, as far as lengths and band say.
    pub(crate) fn keys(&self, sequence: &Sequence, query: usize) -> std::ops::Range<usize> {
        self.scores.band.keys(sequence.queries, sequence.keys, query)
    }

    /// The score of a query and a key, -∞ where the key does not count.
    ///
    /// # Safety
    /// The query is one of the sequence, the key one of [`BoundScores::keys`].
    pub(crate) unsafe fn score(&self, sequence: &Sequence, head: usize, query: usize, key: usize) -> f64 {
        let Scores { shape, descales, mask, block_mask, alibi, .. } = self.scores;
        // SAFETY: the indices are valid, as this function requires.
        unsafe {
            let mut score = f64::NEG_INFINITY;
            if let Some(block_mask) = block_mask
                && !self.block_counts(block_mask, [sequence.place, head, query, key])
            {
                return score;
            }
            let added = mask.as_ref().map_or(0.0, |mask| {
                let added = mask.get(self.tensors, [sequence.place, head, query, key]);
                match mask.is_boolean {
                    true if added == 0.0 => f64::NEG_INFINITY,
                    true => 0.0,
                    false => added,
                }
            });
            if added != f64::NEG_INFINITY {
                let q = self.q.row(sequence, head, query);
                let k = self.k.shared(sequence, head, shape.heads, key);
                score = q.dot(&k) * self.scale;
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
    }

    /// # Safety
    /// The indices are those of a score.
    unsafe fn block_counts(&self, mask: &BlockMask, [place, head, query, key]: [usize; 4]) -> bool {
        let tile = key / BlockMask::TILE;
        let indices = [place, head, query / BlockMask::TILE, tile / 8];
        let at: usize = indices.iter().zip(mask.strides).map(|(index, stride)| index * stride).sum();
        // SAFETY: the mask has a bit for every tile of scores.
        let byte = unsafe { *self.tensors.get_unchecked(mask.slot).add(at) };
        byte >> (tile % 8) & 1 == 1
    }

    /// What the probability of a score is multiplied by: 0 where it is dropped.
    ///
    /// # Safety
    /// The indices are those of a score.
    pub(crate) unsafe fn kept(&self, sequence: &Sequence, head: usize, query: usize, key: usize) -> f64 {
        match &self.drop {
            BoundDrop::Nothing => 1.0,
            BoundDrop::Random { probability, seed, offset } => {
                let shape = &self.scores.shape;
                let row = (sequence.place * shape.heads + head) * shape.queries + sequence.first + query;
                let index = row * shape.keys + key;
                if uniform(*seed, *offset, index as u64) >= *probability {
                    1.0 / (1.0 - probability)
                } else {
                    0.0
                }
            }
            // SAFETY: the function called requires what this one requires.
            BoundDrop::Mask { mask, scale } => unsafe {
                mask.get(self.tensors, [sequence.place, head, query, key]) * scale
            },
        }
    }
}

/// The slope of a head: 2^(-8 (h+1) / n) where the number n of heads is a power of two. Otherwise the first heads have the
/// slopes of the next smaller power of two, and the rest every other slope of twice that power.
pub(crate) fn slope(head: usize, heads: usize) -> f64 {
    let power = 1 << heads.ilog2();
    let (step, of) = if head < power { (head + 1, power) } else { (2 * (head - power) + 1, 2 * power) };
    f64::exp2(-8.0 * step as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn slopes_are_those_of_the_paper() {
        let slopes = |heads| (0..heads).map(|head| slope(head, heads)).collect::<Vec<_>>();
        assert_eq!(slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        assert_eq!(slopes(1), [1.0 / 256.0]);
        // 12 heads: the 8 slopes of 8 heads, then the first, third, fifth and seventh of 16.
        let odd = [0.5, 1.5, 2.5, 3.5].map(|exponent| f64::exp2(-exponent));
        assert_eq!(slopes(12)[..8], slopes(8));
        assert_eq!(slopes(12)[8..], odd);
    }
}
