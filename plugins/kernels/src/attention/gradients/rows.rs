//! Rows on their way to shared memory and into tiles.

#![expect(clippy::indexing_slicing, reason = "both operands have a table of held tiles")]

use super::super::scores::LOG2_E;
use super::super::sequence::Sequence;
use super::super::staging::{Copy, Rows, copy};
use super::Of;
use super::sweep::{Side, Sweep};
use crate::builder::{At, Builder};
use crate::form::{Local, Memory, Order, Tile, Value};

impl Sweep<'_> {
    /// Copies rows from `first` on, their elements from `start` on, to shared memory.
    pub(super) fn stage(&self, b: &mut Builder, side: &Side, first: Value, rows: usize, start: usize) {
        let to = self.rows_of(side, rows, start);
        let (source, threads) = (&side.source, self.plan.threads());
        let own = Copy { thread: self.thread, threads, first, source, from: start, to: &to };
        copy(b, &own, &|_, row| row);
    }

    /// Where rows are in shared memory.
    pub(super) fn rows_of(&self, side: &Side, rows: usize, start: usize) -> Rows {
        let elements = self.plan.part.map_or(side.padded, |part| part.min(side.padded - start));
        Rows::within(side.array, self.plan.shape.operand, rows, elements, false)
    }

    /// Loads the statistics and sums of queries from `first` on. Those that do not count have a probability of 0.
    pub(super) fn stage_statistics(
        &self,
        b: &mut Builder,
        sequence: &Sequence,
        [head, first]: [Value; 2],
        count: usize,
    ) {
        let real = self.plan.shape.sum;
        let otherwise = [(f64::NEG_INFINITY, LOG2_E), (0.0, 1.0)];
        let all = self.pointers.rows.map(|bound| bound.of_head(b, sequence, head, sequence.queries));
        b.for_range(self.thread, count, self.plan.threads(), |b, place| {
            let query = b.add(first, place);
            let counts = b.less(query, sequence.queries);
            for ((rows, (otherwise, factor)), to) in all.iter().zip(otherwise).zip(self.statistics) {
                let number = b.local(real, otherwise);
                b.when(counts, |b| {
                    let line = rows.line(b, query);
                    let at = b.add(rows.base, line);
                    let own = b.load(Memory::Global(rows.bound.data), at);
                    let own = b.convert(own, real);
                    let own = b.mul(own, factor);
                    b.set(number, own);
                });
                let own = b.get(number);
                b.store(Memory::Shared(to), place, own);
            }
        });
    }

    /// How the others' rows of a side are copied, from `first` on, where whole rows stay.
    fn of_others<'a>(&self, side: &'a Side, to: &'a Rows, first: Value) -> Copy<'a> {
        Copy { thread: self.thread, threads: self.plan.threads(), first, source: &side.source, from: 0, to }
    }

    /// Loads the others' rows into registers, beside other work.
    pub(super) fn fetch(&self, b: &mut Builder, others: &[Side; 2], first: Value) -> [Vec<Local>; 2] {
        others.each_ref().map(|side| {
            let to = self.rows_of(side, self.plan.others, 0);
            self.of_others(side, &to, first).fetch(b)
        })
    }

    /// Stores what [`Sweep::fetch`] loaded.
    pub(super) fn keep(&self, b: &mut Builder, others: &[Side; 2], first: Value, fetched: &[Vec<Local>; 2]) {
        for (side, fetched) in others.iter().zip(fetched) {
            let to = self.rows_of(side, self.plan.others, 0);
            self.of_others(side, &to, first).keep(b, fetched, &|_, row| row);
        }
    }

    /// Loads the own rows into tiles that stay.
    pub(super) fn hold(&self, b: &mut Builder, own: &[Side; 2]) {
        let shape = &self.plan.shape;
        let count = if self.of == Of::Values { 1 } else { 2 };
        for (which, side) in own.iter().enumerate().take(count) {
            let from = self.rows_of(side, self.plan.rows(), 0);
            let line = b.mul(self.own_row, from.stride);
            for (step, tiles) in self.held[which].iter().enumerate() {
                for (number, tile) in tiles.iter().enumerate() {
                    let more = number * shape.m as usize * from.stride + step * shape.k as usize;
                    let at = b.add(line, more);
                    self.load(b, *tile, &from, at, Order::Rows);
                }
            }
        }
    }

    fn aligned(&self) -> usize {
        (16 / self.plan.shape.operand.size()).min(self.plan.shape.k as usize)
    }

    pub(super) fn load(&self, b: &mut Builder, tile: Tile, rows: &Rows, index: Value, order: Order) {
        let stride = b.number(rows.stride);
        let memory = Memory::Shared(rows.array);
        b.tile_load(tile, At { memory, index, stride, order, aligned: self.aligned() });
    }
}
