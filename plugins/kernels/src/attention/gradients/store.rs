//! The results of a gradient's kernel.

#![expect(clippy::indexing_slicing, reason = "each tile of rows has as many tiles of sums")]

use super::super::sequence::{Sequence, base};
use super::super::{Attention, Start, Tensor};
use super::Of;
use super::sweep::Sweep;
use crate::builder::Builder;
use crate::form::{Memory, Tile, Value};
use crate::product::engine;

impl Sweep<'_> {
    /// Stores sums. Rows of padding are 0.
    pub(super) fn store(
        &self,
        b: &mut Builder,
        result: &Tensor,
        [sequence, head, first, column]: [Value; 4],
        sums: &[Vec<Tile>],
    ) {
        let factor = self.factor(b);
        let bound = &self.pointers.result;
        let (of_head, limit) = match result.start {
            Start::Even => (base(b, result, sequence, head), None),
            _ => {
                let attention = &self.gradients.attention;
                let sequence = Sequence::new(b, attention, self.pointers.options.lengths, sequence);
                let rows = if Self::has_queries(self.of) { sequence.queries } else { sequence.keys };
                (bound.of_head(b, &sequence, head, rows).base, Some(rows))
            }
        };
        let own = b.add(self.own_row, self.lane_row);
        let [rows, columns] = self.limits();
        let (count, size) = (self.plan.rows(), self.plan.shape.n as usize);
        let [_, _, line, element] = result.strides;
        let passed = Memory::Shared(self.passed);
        let width = self.width(result, columns);
        // By way of shared memory: neighbours are stored by neighbouring threads, and with one branch.
        for place in 0..sums.first().map_or(0, Vec::len) {
            for (number, tiles) in sums.iter().enumerate() {
                for (slot, (r, c)) in self.fragment.slots.iter().enumerate() {
                    let mut sum = b.tile_get(tiles[place], slot);
                    if let Some(factor) = factor {
                        sum = b.mul(sum, factor);
                    }
                    let row = b.add(own, number * self.plan.shape.m as usize + *r as usize);
                    let line = b.mul(row, size + 1);
                    let column = b.add(self.lane_column, *c);
                    let at = b.add(line, column);
                    b.store(passed, at, sum);
                }
            }
            b.barrier();
            b.for_range(self.thread, count * size / width, self.plan.threads(), |b, index| {
                let (row, near) = if element <= line {
                    b.div_rem(index, size / width)
                } else {
                    let (near, row) = b.div_rem(index, count);
                    (row, near)
                };
                let near = b.mul(near, width);
                let from = b.mul(row, size + 1);
                let from = b.add(from, near);
                let row = b.add(first, row);
                let near = b.add(near, place * size);
                let near = if self.of == Of::Mask { b.add(column, near) } else { near };
                let inside = match limit {
                    Some(limit) => b.less(row, limit),
                    None => b.less(row, rows),
                };
                let within = b.less(near, columns);
                let inside = b.and(inside, within);
                b.when(inside, |b| {
                    let sums: Vec<Value> = (0..width)
                        .map(|next| {
                            let from = b.add(from, next);
                            b.load(passed, from)
                        })
                        .collect();
                    let line = b.mul(row, line);
                    let along = b.mul(near, element);
                    let at = b.add(of_head, line);
                    let at = b.add(at, along);
                    engine::store(b, bound.data, at, &sums, result.scalar);
                });
            });
            b.barrier();
        }
    }

    /// How many neighbours are stored together.
    fn width(&self, result: &Tensor, columns: usize) -> usize {
        let size = result.scalar.size();
        let fits = |width: usize| {
            result.strides[3] == 1
                && result.alignment.is_multiple_of(width * size)
                && result.steps().iter().all(|step| step.is_multiple_of(width))
                && columns.is_multiple_of(width)
        };
        // A vector is of one tile.
        let mut width = (16 / size).min(1 << self.plan.shape.n.trailing_zeros());
        while width > 1 && !fits(width) {
            width /= 2;
        }
        width
    }

    /// Rows and columns of the result.
    fn limits(&self) -> [usize; 2] {
        let Attention { queries, keys, depth, value_depth, .. } = self.gradients.attention;
        match self.of {
            Of::Queries => [queries, depth],
            Of::Keys => [keys, depth],
            Of::Values => [keys, value_depth],
            Of::Mask => [queries, keys],
        }
    }

    /// What sums are multiplied by.
    fn factor(&self, b: &mut Builder) -> Option<Value> {
        if !matches!(self.of, Of::Queries | Of::Keys) {
            return None;
        }
        let real = self.plan.shape.sum;
        Some(self.pointers.options.scale(b, &self.gradients.attention, 1.0, real))
    }
}
