//! What happens to scores before their powers.

use super::dropout::Dropping;
use super::factor::{number, of_head, scaled};
use super::sequence::{Sequence, base};
use super::{Attention, Dropout};
use crate::builder::Builder;
use crate::form::{Binary, Memory, Pointer, Unary, Value};
use crate::scalar::Scalar;

/// Parameters of what scores depend on.
pub(super) struct Options {
    scale: Option<Pointer>,
    mask: Option<Pointer>,
    pub(super) lengths: Option<[Pointer; 2]>,
    dropout: Option<[Option<Pointer>; 2]>,
    blocks: Option<Pointer>,
    factors: [Option<Pointer>; 2],
}

/// Queries and keys of a block of a mask.
const BLOCK: usize = 128;

impl Options {
    pub(super) fn new(b: &mut Builder, attention: &Attention) -> Self {
        let [of_q, of_k, _] = attention.factors;
        Self {
            scale: number(b, attention.scale),
            mask: attention.mask.map(|mask| b.pointer(mask.tensor.scalar)),
            lengths: attention.lengths.map(|lengths| lengths.map(|(scalar, _)| b.pointer(scalar))),
            dropout: attention.dropout.map(|dropout| match dropout {
                Dropout::Random { scalars, .. } => scalars.map(|scalar| Some(b.pointer(scalar))),
                Dropout::Mask { mask, scale } => [Some(b.pointer(mask.scalar)), number(b, scale)],
            }),
            blocks: attention.block_mask.map(|_| b.pointer(Scalar::U8)),
            factors: [of_q, of_k].map(|factor| factor.map(|factor| b.pointer(factor.scalar))),
        }
    }

    /// The scale of scores times a constant.
    pub(super) fn scale(&self, b: &mut Builder, attention: &Attention, factor: f64, real: Scalar) -> Value {
        scaled(b, (attention.scale, self.scale), factor, real)
    }
}

/// Values of a workgroup that scores depend on.
pub(super) struct Context<'a> {
    pub(super) attention: &'a Attention,
    /// The type of scores.
    pub(super) real: Scalar,
    /// The scale times log2 e.
    pub(super) scale: Value,
    pub(super) mask: Option<(Pointer, Value)>,
    blocks: Option<(Pointer, Value)>,
    /// The slope of this head times log2 e.
    pub(super) slope: Option<Value>,
    /// The keys of this sequence.
    pub(super) keys: Value,
    /// What is added to a query to be on the diagonal.
    pub(super) diagonal: Value,
    pub(super) dropping: Option<Dropping<'a>>,
}

pub(super) const LOG2_E: f64 = std::f64::consts::LOG2_E;

impl<'a> Context<'a> {
    /// The context of a sequence's head.
    pub(super) fn new(
        b: &mut Builder,
        attention: &'a Attention,
        real: Scalar,
        options: &Options,
        sequence: &Sequence,
        head: Value,
    ) -> Self {
        let mut scale = options.scale(b, attention, LOG2_E, real);
        for (factor, pointer) in attention.factors.into_iter().zip(options.factors) {
            if let (Some(factor), Some(pointer)) = (factor, pointer) {
                let own = of_head(b, (factor, pointer), [sequence.index, head], attention.heads, real);
                scale = b.mul(scale, own);
            }
        }
        let mask = match (options.mask, attention.mask) {
            (Some(pointer), Some(mask)) => Some((pointer, base(b, &mask.tensor, sequence.index, head))),
            _ => None,
        };
        let blocks = options.blocks.zip(attention.block_mask).map(|(pointer, [batch, of_head, ..])| {
            let first = b.mul(sequence.index, batch);
            let own = b.mul(head, of_head);
            (pointer, b.add(first, own))
        });
        let slope = attention.slopes.as_ref().map(|slopes| {
            let mut slope = b.float(0.0, real);
            for (number, own) in slopes.iter().enumerate() {
                let here = b.equal(head, number);
                slope = b.select(here, own * LOG2_E, slope);
            }
            slope
        });
        let diagonal = match attention.band.bottom_right {
            true => b.sub(sequence.keys, sequence.queries),
            false => b.number(0),
        };
        let dropping =
            options.dropout.and_then(|pointers| Dropping::new(b, attention, pointers, sequence, head));
        Self { attention, real, scale, mask, blocks, slope, keys: sequence.keys, diagonal, dropping }
    }

    /// Whether a block of keys needs no look at each score: an upper bound that is cheap to know.
    pub(super) fn is_whole(
        &self,
        b: &mut Builder,
        [first_query, last_query, first_key, end]: [Value; 4],
    ) -> Value {
        let Attention { band, mask, slopes, block_mask, .. } = self.attention;
        // Compilers of CPUs take long for branches between barriers.
        if mask.is_some() || slopes.is_some() || block_mask.is_some() || b.target().wants_small_kernels() {
            return b.int(0, Scalar::Bool);
        }
        let mut whole = b.less_equal(end, self.keys);
        if let Some(right) = band.right {
            let last = b.add(first_query, self.diagonal);
            let last = b.add(last, right + 1);
            let holds = b.less_equal(end, last);
            whole = b.and(whole, holds);
        }
        if let Some(left) = band.left {
            let first = b.add(last_query, self.diagonal);
            let first = b.sub(first, left);
            let holds = b.greater_equal(first_key, first);
            whole = b.and(whole, holds);
        }
        whole
    }

    /// A score in powers of two: scaled, with the mask and the distance, and −∞ if the key is not seen.
    pub(super) fn modified(&self, b: &mut Builder, score: Value, query: Value, key: Value) -> Value {
        let Attention { band, mask, queries, .. } = self.attention;
        let mut score = b.mul(score, self.scale);
        let mut seen = b.less(key, self.keys);
        let on_diagonal = b.add(query, self.diagonal);
        if let Some(right) = band.right {
            let last = b.add(on_diagonal, right);
            let holds = b.less_equal(key, last);
            seen = b.and(seen, holds);
        }
        if let Some(left) = band.left {
            let first = b.sub(on_diagonal, left);
            let holds = b.greater_equal(key, first);
            seen = b.and(seen, holds);
        }
        if let Some(slope) = self.slope {
            let distance = b.sub(on_diagonal, key);
            let distance = b.unary(Unary::Abs, distance);
            let distance = b.convert(distance, self.real);
            let lowered = b.mul(distance, slope);
            score = b.sub(score, lowered);
        }
        if let (Some((pointer, base)), Some(mask)) = (self.mask, mask) {
            let bounded = b.less(query, *queries);
            let inside = b.and(seen, bounded);
            let row = b.mul(query, mask.tensor.strides[2]);
            let column = b.mul(key, mask.tensor.strides[3]);
            let at = b.add(base, row);
            let at = b.add(at, column);
            // What lies outside is not used, but read somewhere: a branch for each score would take longer.
            let at = b.select(inside, at, 0);
            let own = b.load(Memory::Global(pointer), at);
            let own = b.convert(own, self.real);
            if mask.tensor.scalar == Scalar::Bool {
                let holds = b.not_equal(own, 0.0);
                seen = b.and(inside, holds);
            } else {
                score = b.fma(own, LOG2_E, score);
            }
        }
        if let (Some((pointer, base)), Some([_, _, of_row, of_byte])) =
            (self.blocks, self.attention.block_mask)
        {
            let bounded = b.less(query, *queries);
            let inside = b.and(seen, bounded);
            let row = b.div(query, BLOCK);
            let row = b.mul(row, of_row);
            let column = b.div(key, BLOCK);
            let (byte, bit) = b.div_rem(column, 8);
            let byte = b.mul(byte, of_byte);
            let at = b.add(base, row);
            let at = b.add(at, byte);
            let at = b.select(inside, at, 0);
            let own = b.load(Memory::Global(pointer), at);
            let own = b.convert(own, Scalar::I32);
            let own = b.binary(Binary::Shr, own, bit);
            let own = b.and(own, 1);
            let holds = b.not_equal(own, 0);
            seen = b.and(inside, holds);
        }
        b.select(seen, score, f64::NEG_INFINITY)
    }
}
