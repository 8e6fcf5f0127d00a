//! Probabilities and the gradients of scores.

#![expect(
    clippy::indexing_slicing,
    reason = "sums and products have a tile for each of the scores, and arrays of statistics have two parts"
)]

use super::super::dropout::{Kept, aligned};
use super::Of;
use super::sweep::{Block, Sweep};
use crate::builder::Builder;
use crate::form::{Memory, Tile, Unary, Value};

impl Sweep<'_> {
    /// Turns scores into probabilities or, with the products, into their gradients, and leaves them where they are summed.
    pub(super) fn slopes(&self, b: &mut Builder, block: &Block<'_>, sums: &[Tile]) {
        let shape = &self.plan.shape;
        let row = b.add(self.own_row, self.lane_row);
        let of_queries = Self::has_queries(self.of);
        let statistics = self.statistics.map(Memory::Shared);
        let whole = self.is_whole(b, block);
        for (place, tile) in self.scores.iter().enumerate() {
            let modify = |b: &mut Builder, modified: bool| {
                for (slot, (r, c)) in self.fragment.slots.iter().enumerate() {
                    let score = b.tile_get(*tile, slot);
                    let score = if modified {
                        let own = b.add(row, *r);
                        let own = b.add(block.first, own);
                        let other = b.add(self.lane_column, place * shape.n as usize + *c as usize);
                        let other = b.add(block.other, other);
                        let (query, key) = if of_queries { (own, other) } else { (other, own) };
                        block.context.modified(b, score, query, key)
                    } else {
                        b.mul(score, block.context.scale)
                    };
                    b.tile_set(*tile, slot, score);
                }
            };
            b.if_else(whole, |b| modify(b, false), |b| modify(b, true));
            let kept = self.kept(b, block, [row, self.lane_column], place);
            for (slot, (r, c)) in self.fragment.slots.iter().enumerate() {
                let own = b.add(row, *r);
                let other = b.add(self.lane_column, place * shape.n as usize + *c as usize);
                let query = if of_queries { own } else { other };
                let stats = b.load(statistics[0], query);
                let score = b.tile_get(*tile, slot);
                let [unseen, empty] = [score, stats].map(|own| b.equal(own, f64::NEG_INFINITY));
                let hidden = b.or(unseen, empty);
                let less = b.sub(score, stats);
                let power = b.unary(Unary::Exp2, less);
                let mut own_value = power;
                let drop = |b: &mut Builder, number: Value| match (kept.get(slot), &block.context.dropping) {
                    (Some(kept), Some(dropping)) => {
                        let own = b.mul(number, dropping.factor);
                        kept.of(b, own)
                    }
                    _ => number,
                };
                if self.of == Of::Values {
                    own_value = drop(b, power);
                }
                if let Some(products) = self.products.get(place) {
                    let sum = b.load(statistics[1], query);
                    let product = b.tile_get(*products, slot);
                    let product = drop(b, product);
                    let less = b.sub(product, sum);
                    own_value = b.mul(power, less);
                }
                let own_value = b.select(hidden, 0.0, own_value);
                match &self.scratch {
                    Some(scratch) => {
                        let part = b.convert(own_value, shape.operand);
                        let line = b.mul(own, scratch.stride);
                        let at = b.add(line, other);
                        b.store(Memory::Shared(scratch.array), at, part);
                    }
                    None => {
                        let so_far = b.tile_get(sums[place], slot);
                        let sum = b.add(so_far, own_value);
                        b.tile_set(sums[place], slot, sum);
                    }
                }
            }
        }
    }

    /// What happens to the probabilities of a tile's slots; nothing without dropout.
    fn kept(&self, b: &mut Builder, block: &Block<'_>, [row, column]: [Value; 2], place: usize) -> Vec<Kept> {
        let Some(dropping) = &block.context.dropping else { return Vec::new() };
        let of_queries = Self::has_queries(self.of);
        let slots = &self.fragment.slots;
        let axes =
            |(r, c): (u32, u32)| if of_queries { (r as usize, c as usize) } else { (c as usize, r as usize) };
        let row = b.add(block.first, row);
        let column = b.add(column, place * self.plan.shape.n as usize);
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
