//! What happens to scores before their powers.

use super::staging::base;
use super::{Attention, Scale};
use crate::builder::Builder;
use crate::form::{Memory, Pointer, Unary, Value};
use crate::scalar::Scalar;
use crate::target::Language;

/// Values of a workgroup that scores depend on.
pub(super) struct Context<'a> {
    pub(super) attention: &'a Attention,
    /// The type of scores.
    pub(super) real: Scalar,
    /// The scale times log2 e.
    pub(super) scale: Value,
    pub(super) mask: Option<(Pointer, Value)>,
    /// The slope of this head times log2 e.
    pub(super) slope: Option<Value>,
    /// The keys of this sequence.
    pub(super) keys: Value,
    /// What is added to a query to be on the diagonal.
    pub(super) diagonal: Value,
}

pub(super) const LOG2_E: f64 = std::f64::consts::LOG2_E;

impl<'a> Context<'a> {
    /// The context of a sequence's head, with the scale and the mask if they are in memory.
    pub(super) fn new(
        b: &mut Builder,
        attention: &'a Attention,
        real: Scalar,
        [scale, mask]: [Option<Pointer>; 2],
        [sequence, head, keys, diagonal]: [Value; 4],
    ) -> Self {
        let scale = match (attention.scale, scale) {
            (Scale::Memory(_), Some(pointer)) => {
                let own = b.load(Memory::Global(pointer), 0);
                let own = b.convert(own, real);
                b.mul(own, LOG2_E)
            }
            (Scale::Passed, Some(pointer)) => {
                let own = b.passed_at(pointer);
                let own = b.convert(own, real);
                b.mul(own, LOG2_E)
            }
            (Scale::Value(scale), _) => b.float(scale * LOG2_E, real),
            _ => b.float(LOG2_E, real),
        };
        let mask = match (mask, attention.mask) {
            (Some(pointer), Some(mask)) => Some((pointer, base(b, &mask.tensor, sequence, head))),
            _ => None,
        };
        let slope = attention.slopes.as_ref().map(|slopes| {
            let mut slope = b.float(0.0, real);
            for (number, own) in slopes.iter().enumerate() {
                let here = b.equal(head, number);
                slope = b.select(here, own * LOG2_E, slope);
            }
            slope
        });
        Self { attention, real, scale, mask, slope, keys, diagonal }
    }

    /// Whether a block of keys needs no look at each score: an upper bound that is cheap to know.
    pub(super) fn is_whole(
        &self,
        b: &mut Builder,
        [first_query, last_query, first_key, end]: [Value; 4],
    ) -> Value {
        let Attention { band, mask, slopes, .. } = self.attention;
        // Compilers of CPUs take long for branches between barriers.
        if mask.is_some() || slopes.is_some() || b.target().language == Language::SpirV {
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
        b.select(seen, score, f64::NEG_INFINITY)
    }
}
