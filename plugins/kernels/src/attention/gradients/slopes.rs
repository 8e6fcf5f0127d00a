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
        let row = b.add(self.own_row, self.lane_row);
        match self.is_whole(b, block) {
            Some(whole) => b.if_else(
                whole,
                |b| self.each(b, |b, at| self.plain(b, block, at, row)),
                |b| self.each(b, |b, at| self.modified(b, block, at, row)),
            ),
            None => self.each(b, |b, at| self.modified(b, block, at, row)),
        }
        self.each(b, |b, at| self.leave(b, at, row, sums));
    }

    /// For each tile of the others and each of the own rows.
    fn each(&self, b: &mut Builder, mut each: impl FnMut(&mut Builder, [usize; 2])) {
        for place in 0..self.scores.first().map_or(0, Vec::len) {
            for number in 0..self.plan.tiles {
                each(b, [number, place]);
            }
        }
    }

    /// The thread's first own row of a tile and its first of the others.
    fn firsts(&self, b: &mut Builder, [number, place]: [usize; 2], row: Value) -> [Value; 2] {
        let shape = &self.plan.shape;
        let row = b.add(row, number * shape.m as usize);
        [row, b.add(self.lane_column, place * shape.n as usize)]
    }

    /// The statistics and row sums of a tile's slots.
    fn statistics_of_slots(
        &self,
        b: &mut Builder,
        block: &Block<'_>,
        [row, column]: [Value; 2],
    ) -> Vec<[Value; 2]> {
        let mut known: Vec<(u32, [Value; 2])> = Vec::new();
        let mut all = Vec::with_capacity(self.fragment.slots.len());
        for (r, c) in &self.fragment.slots {
            let (first, offset) = if Self::has_queries(self.of) { (row, *r) } else { (column, *c) };
            let own = known.iter().find(|(own, _)| *own == offset).map(|(_, values)| *values);
            all.push(own.unwrap_or_else(|| {
                let query = b.add(first, offset);
                let query = b.add(query, block.statistics);
                let own = self.statistics.map(|array| b.load(Memory::Shared(array), query));
                known.push((offset, own));
                own
            }));
        }
        all
    }

    /// The probabilities of a tile, or their gradients, where every query sees every key.
    fn plain(&self, b: &mut Builder, block: &Block<'_>, at: [usize; 2], row: Value) {
        let [number, place] = at;
        let tile = self.scores[number][place];
        let firsts = self.firsts(b, at, row);
        let statistics = self.statistics_of_slots(b, block, firsts);
        for (slot, [stats, sum]) in statistics.into_iter().enumerate() {
            let score = b.tile_get(tile, slot);
            let less = b.unary(Unary::Neg, stats);
            let less = b.fma(score, block.context.scale, less);
            let power = b.unary(Unary::Exp2, less);
            let value = match self.products.get(number) {
                None => power,
                Some(products) => {
                    let product = b.tile_get(products[place], slot);
                    let less = b.sub(product, sum);
                    b.mul(power, less)
                }
            };
            b.tile_set(tile, slot, value);
        }
    }

    /// The same where masks, distances or dropout matter.
    fn modified(&self, b: &mut Builder, block: &Block<'_>, at: [usize; 2], row: Value) {
        let [number, place] = at;
        let tile = self.scores[number][place];
        let [row, first] = self.firsts(b, at, row);
        let statistics = self.statistics_of_slots(b, block, [row, first]);
        let kept = self.kept(b, block, [row, first]);
        for (slot, ((r, c), [stats, sum])) in self.fragment.slots.iter().zip(statistics).enumerate() {
            let score = b.tile_get(tile, slot);
            let own = b.add(row, *r);
            let own = b.add(block.first, own);
            let other = b.add(first, *c);
            let other = b.add(block.other, other);
            let (query, key) = if Self::has_queries(self.of) { (own, other) } else { (other, own) };
            let score = block.context.modified(b, score, query, key);
            let unseen = b.equal(score, f64::NEG_INFINITY);
            let empty = b.equal(stats, f64::INFINITY);
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
            let value = match self.products.get(number) {
                None => drop(b, power),
                Some(products) => {
                    let product = b.tile_get(products[place], slot);
                    let product = drop(b, product);
                    let less = b.sub(product, sum);
                    b.mul(power, less)
                }
            };
            let value = b.select(hidden, 0.0, value);
            b.tile_set(tile, slot, value);
        }
    }

    /// Leaves a tile's results where they are summed.
    fn leave(&self, b: &mut Builder, at: [usize; 2], row: Value, sums: &[Vec<Tile>]) {
        let [number, place] = at;
        let shape = &self.plan.shape;
        let [row, first] = self.firsts(b, at, row);
        let slots = self.fragment.slots.len();
        let values: Vec<Value> =
            (0..slots).map(|slot| b.tile_get(self.scores[number][place], slot)).collect();
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

    /// Whether every query of a block sees every key; nothing where that is not asked.
    fn is_whole(&self, b: &mut Builder, block: &Block<'_>) -> Option<Value> {
        if block.context.dropping.is_some() {
            return None;
        }
        let last = b.add(block.first, self.plan.rows());
        let end = b.add(block.other, self.plan.others);
        let whole = if Self::has_queries(self.of) {
            let last = b.sub(last, 1);
            block.context.is_whole(b, [block.first, last, block.other, end])
        } else {
            let last_query = b.sub(end, 1);
            block.context.is_whole(b, [block.other, last_query, block.first, last])
        };
        match b.constant_of(whole) {
            None => Some(whole),
            Some(_) => None,
        }
    }
}
