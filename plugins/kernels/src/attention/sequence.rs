//! Where the rows of sequences lie, which integers in memory say.

use super::{Attention, Start, Tensor};
use crate::builder::Builder;
use crate::form::{Memory, Pointer, Value};
use crate::scalar::Scalar;

/// A number between 0 and `most`, which may be a value.
pub(super) fn length(
    b: &mut Builder,
    pointer: Pointer,
    stride: usize,
    sequence: Value,
    most: usize,
) -> Value {
    let at = b.mul(sequence, stride);
    let own = b.load(Memory::Global(pointer), at);
    let own = b.max(own, 0);
    let own = b.min(own, most);
    b.convert(own, Scalar::I32)
}

/// The offset of a sequence's head.
pub(super) fn base(b: &mut Builder, tensor: &Tensor, sequence: Value, head: Value) -> Value {
    let sequence = b.mul(sequence, tensor.strides[0]);
    let head = b.mul(head, tensor.strides[1]);
    b.add(sequence, head)
}

/// A sequence.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    pub(super) index: Value,
    /// How many queries and keys it has.
    pub(super) queries: Value,
    pub(super) keys: Value,
    /// Its first query, where those of all sequences are behind each other.
    pub(super) first: Value,
}

impl Sequence {
    pub(super) fn new(
        b: &mut Builder,
        attention: &Attention,
        lengths: Option<[Pointer; 2]>,
        index: Value,
    ) -> Self {
        let zero = b.number(0);
        let (Some([of_queries, of_keys]), Some([(_, q), (_, k)])) = (lengths, attention.lengths) else {
            let [queries, keys] = [b.number(attention.queries), b.number(attention.keys)];
            return Self { index, queries, keys, first: zero };
        };
        let mut queries = length(b, of_queries, q, index, attention.queries);
        let keys = length(b, of_keys, k, index, attention.keys);
        let mut first = zero;
        if attention.q.start == Start::Packed {
            let local = b.local(Scalar::I32, 0);
            b.for_range(0, index, 1, |b, earlier| {
                let own = length(b, of_queries, q, earlier, attention.queries);
                let so_far = b.get(local);
                let sum = b.add(so_far, own);
                let sum = b.min(sum, attention.queries);
                b.set(local, sum);
            });
            first = b.get(local);
            let all = b.number(attention.queries);
            let rest = b.sub(all, first);
            queries = b.min(queries, rest);
        }
        Self { index, queries, keys, first }
    }
}

/// A tensor of sequences as parameters.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) tensor: Tensor,
    pub(super) data: Pointer,
    /// Its offsets or page table.
    start: Option<Pointer>,
    heads: usize,
    pub(super) elements: usize,
}

impl Bound {
    /// A tensor of so many heads and elements.
    pub(super) fn new(
        b: &mut Builder,
        tensor: &Tensor,
        [heads, elements]: [usize; 2],
        written: bool,
    ) -> Self {
        let data = if written { b.output(tensor.scalar) } else { b.pointer(tensor.scalar) };
        let start = match tensor.start {
            Start::Even | Start::Packed => None,
            Start::Ragged { offsets: (scalar, _), .. } => Some(b.pointer(scalar)),
            Start::Paged { .. } => Some(b.pointer(Scalar::I32)),
        };
        Self { tensor: *tensor, data, start, heads, elements }
    }

    /// The rows of a sequence's head, of which there are `rows`.
    pub(super) fn of_head(&self, b: &mut Builder, sequence: &Sequence, head: Value, rows: Value) -> Source {
        let [_, of_head, of_row, of_element] = self.tensor.strides;
        let own = b.mul(head, of_head);
        let (base, table) = match (self.tensor.start, self.start) {
            (Start::Ragged { offsets: (_, stride), multiplier, extent }, Some(offsets)) => {
                let at = b.mul(sequence.index, stride);
                let begin = b.load(Memory::Global(offsets), at);
                let begin = b.convert(begin, Scalar::I64);
                let begin = b.max(begin, 0);
                let begin = b.min(begin, extent);
                let begin = b.mul(begin, multiplier);
                // All rows lie in the tensor. Offsets are multiples of the multiplier, on which vectors rely.
                let few = b.sub(rows, 1);
                let lines = b.mul(few, of_row);
                let reach = b.add(lines, (self.heads - 1) * of_head + (self.elements - 1) * of_element + 1);
                let all = b.number(extent);
                let most = b.sub(all, reach);
                let most = b.max(most, 0);
                let unit = 1 << multiplier.trailing_zeros().min(4);
                let (units, _) = b.div_rem(most, unit);
                let most = b.mul(units, unit);
                let most = b.convert(most, Scalar::I64);
                let begin = b.min(begin, most);
                let begin = b.convert(begin, Scalar::I32);
                (b.add(begin, own), None)
            }
            (Start::Paged { strides, .. }, Some(_)) => (own, Some(b.mul(sequence.index, strides[0]))),
            (Start::Packed, _) => {
                let begin = b.mul(sequence.first, of_row);
                (b.add(begin, own), None)
            }
            _ => (base(b, &self.tensor, sequence.index, head), None),
        };
        Source { bound: *self, base, table, valid: rows }
    }

    /// How many rows are written of a result whose sequences have `rows` of at most `most`: those of padding, too, where there are some.
    pub(super) fn limit(
        &self,
        b: &mut Builder,
        sequence: &Sequence,
        rows: Value,
        [batch, most]: [usize; 2],
    ) -> Value {
        let all = b.number(most);
        match self.tensor.start {
            Start::Even | Start::Paged { .. } => all,
            Start::Ragged { .. } => rows,
            Start::Packed => {
                // Those behind the last sequence.
                let rest = b.sub(all, sequence.first);
                let last = b.equal(sequence.index, batch - 1);
                b.select(last, rest, rows)
            }
        }
    }
}

/// Rows of a sequence's head in memory.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) bound: Bound,
    /// The first element; in the first page, if there are pages.
    pub(super) base: Value,
    /// The first entry of the sequence in the page table.
    table: Option<Value>,
    /// How many rows there are.
    pub(super) valid: Value,
}

impl Source {
    /// Rows of a page.
    pub(super) fn page(&self) -> Option<usize> {
        match self.bound.tensor.start {
            Start::Paged { rows, .. } => Some(rows),
            _ => None,
        }
    }

    /// The place of a row, which need not be there, relative to the base.
    pub(super) fn line(&self, b: &mut Builder, row: Value) -> Value {
        let [of_page, _, of_row, _] = self.bound.tensor.strides;
        match (self.bound.tensor.start, self.bound.start, self.table) {
            (
                Start::Paged { rows, pages: [pages, columns], strides: [_, stride] },
                Some(table),
                Some(first),
            ) => {
                let (page, within) = b.div_rem(row, rows);
                let page = b.min(page, columns - 1);
                let at = b.mul(page, stride);
                let at = b.add(first, at);
                let entry = b.load(Memory::Global(table), at);
                let entry = b.max(entry, 0);
                let entry = b.min(entry, pages - 1);
                let page = b.mul(entry, of_page);
                let line = b.mul(within, of_row);
                b.add(page, line)
            }
            _ => b.mul(row, of_row),
        }
    }
}

#[cfg(test)]
mod tests;
