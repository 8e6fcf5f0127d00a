//! Probabilities and the gradients of scores.

#![expect(
    clippy::indexing_slicing,
    reason = "sums and products have a tile for each of the scores, and arrays of statistics have two parts"
)]

use super::super::dropout::{Kept, aligned};
use super::Of;
use super::sweep::{Block, Sweep};
use crate::builder::Builder;
use crate::form::{Memory, Role, Tile, Unary, Value};

impl Sweep<'_> {
    /// Turns scores into probabilities or, with the products, into their gradients, and leaves them where they are summed.
    pub(super) fn slopes(&self, b: &mut Builder, block: &Block<'_>, sums: &[Vec<Tile>]) {
        let whole = self.is_whole(b, block);
        let row = b.add(self.own_row, self.lane_row);
        for number in 0..self.plan.tiles {
            let row = b.add(row, number * self.plan.shape.m as usize);
            for place in 0..self.scores[number].len() {
                self.slopes_of(b, block, [number, place], [whole, row], sums);
            }
        }
    }

    /// The same of one tile, which begins at a row for this thread.
    fn slopes_of(
        &self,
        b: &mut Builder,
        block: &Block<'_>,
        [number, place]: [usize; 2],
        [whole, row]: [Value; 2],
        sums: &[Vec<Tile>],
    ) {
        let shape = &self.plan.shape;
        let of_queries = Self::has_queries(self.of);
        let statistics = self.statistics.map(Memory::Shared);
        let tile = self.scores[number][place];
        let products = self.products.get(number).map(|tiles| tiles[place]);
        let first = b.add(self.lane_column, place * shape.n as usize);
        let modify = |b: &mut Builder, modified: bool| {
            for (slot, (r, c)) in self.fragment.slots.iter().enumerate() {
                let score = b.tile_get(tile, slot);
                let score = if modified {
                    let own = b.add(row, *r);
                    let own = b.add(block.first, own);
                    let other = b.add(first, *c);
                    let other = b.add(block.other, other);
                    let (query, key) = if of_queries { (own, other) } else { (other, own) };
                    block.context.modified(b, score, query, key)
                } else {
                    b.mul(score, block.context.scale)
                };
                b.tile_set(tile, slot, score);
            }
        };
        b.if_else(whole, |b| modify(b, false), |b| modify(b, true));
        let kept = self.kept(b, block, [row, first]);
        let mut values = Vec::with_capacity(self.fragment.slots.len());
        for (slot, (r, c)) in self.fragment.slots.iter().enumerate() {
            let query = if of_queries { b.add(row, *r) } else { b.add(first, *c) };
            let stats = b.load(statistics[0], query);
            let score = b.tile_get(tile, slot);
            let [unseen, empty] = [score, stats].map(|own| b.equal(own, f64::NEG_INFINITY));
            let hidden = b.or(unseen, empty);
            let less = b.sub(score, stats);
            let power = b.unary(Unary::Exp2, less);
            let drop = |b: &mut Builder, number: Value| match (kept.get(slot), &block.context.dropping) {
                (Some(kept), Some(dropping)) => {
                    let own = b.mul(number, dropping.factor);
                    kept.of(b, own)
                }
                _ => number,
            };
            let value = match products {
                None => drop(b, power),
                Some(products) => {
                    let sum = b.load(statistics[1], query);
                    let product = b.tile_get(products, slot);
                    let product = drop(b, product);
                    let less = b.sub(product, sum);
                    b.mul(power, less)
                }
            };
            values.push(b.select(hidden, 0.0, value));
        }
        match &self.scratch {
            Some(scratch) => {
                for ((r, c), value) in self.fragment.slots.iter().zip(values) {
                    let part = b.convert(value, shape.operand);
                    let own = b.add(row, *r);
                    let line = b.mul(own, scratch.stride);
                    let other = b.add(first, *c);
                    let at = b.add(line, other);
                    b.store(Memory::Shared(scratch.array), at, part);
                }
            }
            None if self.of == Of::Mask => {
                for (slot, value) in values.into_iter().enumerate() {
                    let so_far = b.tile_get(sums[number][place], slot);
                    let sum = b.add(so_far, value);
                    b.tile_set(sums[number][place], slot, sum);
                }
            }
            None => {
                let slots = values.len();
                let count = shape.fragment(Role::A).map_or(1, |fragment| fragment.slots.len());
                let width = 2.min(slots);
                for (pair, parts) in values.chunks(width).enumerate() {
                    let parts = b.build(parts);
                    let parts = b.convert(parts, shape.operand);
                    for lane in 0..width {
                        let target = place * slots + pair * width + lane;
                        let part = b.extract(parts, lane);
                        b.tile_set(self.operands[number][target / count], target % count, part);
                    }
                }
            }
        }
    }

    /// What happens to the probabilities of a tile's slots; nothing without dropout.
    fn kept(&self, b: &mut Builder, block: &Block<'_>, [row, column]: [Value; 2]) -> Vec<Kept> {
        let Some(dropping) = &block.context.dropping else { return Vec::new() };
        let of_queries = Self::has_queries(self.of);
        let slots = &self.fragment.slots;
        let axes =
            |(r, c): (u32, u32)| if of_queries { (r as usize, c as usize) } else { (c as usize, r as usize) };
        let row = b.add(block.first, row);
        let column = b.add(block.other, column);
        let (first_query, first_key, part) =
            if of_queries { (row, column, self.fragment.column) } else { (column, row, self.fragment.row) };
        let mut all = vec![None; slots.len()];
        for slot in 0..slots.len() {
            if all[slot].is_some() {
                continue;
            }
            let (query, _) = axes(slots[slot]);
            let same: Vec<usize> = (0..slots.len()).filter(|other| axes(slots[*other]).0 == query).collect();
            let keys: Vec<usize> = same.iter().map(|slot| axes(slots[*slot]).1).collect();
            let query = b.add(first_query, query);
            let kept = dropping.kept(b, [query, first_key], &keys, aligned(part));
            for (slot, kept) in same.into_iter().zip(kept) {
                all[slot] = Some(kept);
            }
        }
        all.into_iter().flatten().collect()
    }

    fn is_whole(&self, b: &mut Builder, block: &Block<'_>) -> Value {
        let last = b.add(block.first, self.plan.rows());
        let end = b.add(block.other, self.plan.others);
        if Self::has_queries(self.of) {
            let last = b.sub(last, 1);
            block.context.is_whole(b, [block.first, last, block.other, end])
        } else {
            let last_query = b.sub(end, 1);
            block.context.is_whole(b, [block.other, last_query, block.first, last])
        }
    }
}
