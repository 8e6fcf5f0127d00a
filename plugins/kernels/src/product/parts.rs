//! Dot products that workgroups share: each computes a part.

use crate::builder::Builder;
use crate::form::Value;

/// The parts of dot products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The length of dot products.
    pub k: usize,
    /// The number of parts.
    pub count: usize,
    /// The length of all parts but the last, which is not longer. Whole stages.
    pub length: usize,
}

impl Parts {
    /// At most `wanted` parts of whole stages, none of them empty.
    pub fn of(k: usize, depth: usize, wanted: usize) -> Self {
        let stages = k.div_ceil(depth);
        let each = stages.div_ceil(wanted.clamp(1, stages.max(1)));
        Self { k, count: stages.div_ceil(each.max(1)).max(1), length: each * depth }
    }

    /// The first k of a part, and the one after its last.
    pub(super) fn range(&self, b: &mut Builder, part: Value) -> (Value, Value) {
        if self.count == 1 {
            return (b.number(0), b.number(self.k));
        }
        let first = b.mul(part, self.length);
        let end = b.add(first, self.length);
        let end = if self.k.is_multiple_of(self.length) { end } else { b.min(end, self.k) };
        (first, end)
    }
}
