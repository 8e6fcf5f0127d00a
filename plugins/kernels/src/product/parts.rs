//! Parts of dot products, whose sums are added.

use crate::builder::Builder;
use crate::form::Value;

/// Who computes the parts of dot products and adds their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adder {
    /// Workgroups share the parts; threads of another kernel share a result's sums where there are few results.
    Threads,
    /// Workgroups share the parts; another kernel adds the sums of a result in order.
    Thread,
    /// A workgroup computes one part after the other, and adds their sums in order: the bits are those of [`Adder::Thread`].
    Workgroup,
}

/// The parts of dot products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The length of dot products.
    pub k: usize,
    /// The number of parts.
    pub count: usize,
    /// The length of all parts but the last, which is not longer. Whole stages.
    pub length: usize,
    /// Who adds them.
    pub adder: Adder,
}

impl Parts {
    /// At most `wanted` parts of whole stages, none of them empty, which workgroups share.
    pub fn of(k: usize, depth: usize, wanted: usize) -> Self {
        let stages = k.div_ceil(depth);
        let each = stages.div_ceil(wanted.clamp(1, stages.max(1)));
        let count = stages.div_ceil(each.max(1)).max(1);
        Self { k, count, length: each * depth, adder: Adder::Threads }
    }

    /// How many workgroups share a dot product.
    pub fn sharers(&self) -> usize {
        if self.adder == Adder::Workgroup { 1 } else { self.count }
    }

    /// Whether a workgroup computes several parts.
    pub fn in_turn(&self) -> bool {
        self.count > self.sharers()
    }

    /// The first k of a workgroup, which computes this part or all of them, and the one after its last.
    pub(super) fn range(&self, b: &mut Builder, part: Value) -> (Value, Value) {
        if self.sharers() == 1 {
            return (b.number(0), b.number(self.k));
        }
        let first = b.mul(part, self.length);
        let end = b.add(first, self.length);
        let end = if self.k.is_multiple_of(self.length) { end } else { b.min(end, self.k) };
        (first, end)
    }
}
