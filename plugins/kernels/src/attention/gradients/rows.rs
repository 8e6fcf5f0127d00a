//! Rows on their way to shared memory and into tiles.

#![expect(clippy::indexing_slicing, reason = "both operands have a table of held tiles")]

use super::super::plan::Staging;
use super::super::scores::LOG2_E;
use super::super::sequence::Source;
use super::super::staging::{Copy, Rows, copy};
use super::Of;
use super::sweep::{Side, Sweep};
use crate::builder::{At, Builder};
use crate::form::{Local, Memory, Order, Tile, Value};

impl Sweep<'_> {
    /// Copies rows from `first` on, their elements from `start` on, to shared memory.
    pub(super) fn stage(&self, b: &mut Builder, side: &Side, first: Value, rows: usize, start: usize) {
        let to = self.rows_of(side, rows, start);
        self.stage_into(b, side, first, &to, start);
    }

    fn stage_into(&self, b: &mut Builder, side: &Side, first: Value, to: &Rows, start: usize) {
        let (source, threads) = (&side.source, self.plan.threads());
        let own = Copy { thread: self.thread, threads, first, source, from: start, to };
        copy(b, &own, &|_, row| row);
    }

    /// Where rows are in shared memory.
    pub(super) fn rows_of(&self, side: &Side, rows: usize, start: usize) -> Rows {
        let elements = self.plan.part.map_or(side.padded, |part| part.min(side.padded - start));
        Rows::within(side.array, self.plan.shape.operand, rows, elements, false)
    }

    /// Loads the statistics and sums of queries from `first` on into shared memory.
    pub(super) fn stage_statistics(&self, b: &mut Builder, rows: &[Source; 2], first: Value, count: usize) {
        b.for_range(self.thread, count, self.plan.threads(), |b, place| {
            let loaded = self.load_statistics(b, rows, first, place);
            self.store_statistics(b, &loaded, place);
        });
    }

    /// Loads the statistics and sums of the others into registers, beside other work.
    pub(super) fn fetch_statistics(
        &self,
        b: &mut Builder,
        rows: &[Source; 2],
        first: Value,
    ) -> Vec<[Local; 2]> {
        let mut all = Vec::new();
        self.rounds(b, &mut |b, place| all.push(self.load_statistics(b, rows, first, place)));
        all
    }

    /// Stores what [`Sweep::fetch_statistics`] loaded, from a place on.
    pub(super) fn keep_statistics(&self, b: &mut Builder, fetched: &[[Local; 2]], begin: Value) {
        let mut all = fetched.iter();
        self.rounds(b, &mut |b, place| {
            let at = b.add(begin, place);
            if let Some(loaded) = all.next() {
                self.store_statistics(b, loaded, at);
            }
        });
    }

    /// Calls `each` with the number of each of the others that this thread loads statistics of.
    fn rounds(&self, b: &mut Builder, each: &mut dyn FnMut(&mut Builder, Value)) {
        let (count, threads) = (self.plan.others, self.plan.threads());
        for round in 0..count.div_ceil(threads) {
            let place = b.add(self.thread, round * threads);
            if (round + 1) * threads > count {
                let inside = b.less(place, count);
                b.when(inside, |b| each(b, place));
            } else {
                each(b, place);
            }
        }
    }

    fn load_statistics(&self, b: &mut Builder, rows: &[Source; 2], first: Value, place: Value) -> [Local; 2] {
        let real = self.plan.shape.sum;
        let query = b.add(first, place);
        let [stats, sums] = rows;
        let counts = b.less(query, stats.valid);
        let numbers = [f64::NEG_INFINITY, 0.0].map(|otherwise| b.local(real, otherwise));
        b.when(counts, |b| {
            for (rows, number) in [stats, sums].into_iter().zip(numbers) {
                let line = rows.line(b, query);
                let at = b.add(rows.base, line);
                let own = b.load(Memory::Global(rows.bound.data), at);
                let own = b.convert(own, real);
                b.set(number, own);
            }
        });
        numbers
    }

    /// Statistics are in powers of two. Those of queries that see nothing or do not count become ∞, which makes their probabilities 0.
    fn store_statistics(&self, b: &mut Builder, [stats, sum]: &[Local; 2], place: Value) {
        let own = b.get(*stats);
        let nothing = b.equal(own, f64::NEG_INFINITY);
        let own = b.mul(own, LOG2_E);
        let own = b.select(nothing, f64::INFINITY, own);
        b.store(Memory::Shared(self.statistics[0]), place, own);
        let own = b.get(*sum);
        b.store(Memory::Shared(self.statistics[1]), place, own);
    }

    /// How the others' rows of a side are copied, from `first` on, where whole rows stay.
    fn of_others<'a>(&self, side: &'a Side, to: &'a Rows, first: Value) -> Copy<'a> {
        Copy { thread: self.thread, threads: self.plan.threads(), first, source: &side.source, from: 0, to }
    }

    /// Loads a side's rows into registers, beside other work.
    pub(super) fn fetch(&self, b: &mut Builder, side: &Side, first: Value) -> Vec<Local> {
        let to = self.rows_of(side, self.plan.others, 0);
        self.of_others(side, &to, first).fetch(b)
    }

    /// Stores what [`Sweep::fetch`] loaded.
    pub(super) fn keep(&self, b: &mut Builder, side: &Side, first: Value, fetched: &[Local]) {
        let to = self.rows_of(side, self.plan.others, 0);
        self.of_others(side, &to, first).keep(b, fetched, &|_, row| row);
    }

    /// Starts copies of the others' rows from `first` on into one of two arrays.
    pub(super) fn stage_beside(&self, b: &mut Builder, others: &[Side; 2], first: Value) {
        for side in others {
            let to = self.others_of(b, side, first);
            self.stage_into(b, side, first, &to, 0);
        }
        b.async_commit();
    }

    /// Where whole rows of the others from `first` on are in shared memory.
    pub(super) fn others_of(&self, b: &mut Builder, side: &Side, first: Value) -> Rows {
        let to = self.rows_of(side, self.plan.others, 0);
        if self.plan.staging != Staging::Beside {
            return to;
        }
        let turn = self.turn(b, first);
        let begin = b.mul(turn, to.length());
        Rows { begin: Some(begin), ..to }
    }

    /// Which of two arrays has the others from `first` on, a multiple of a block.
    pub(super) fn turn(&self, b: &mut Builder, first: Value) -> Value {
        let turn = b.div(first, self.plan.others);
        b.and(turn, 1)
    }

    /// Where the statistics of the queries at hand begin in shared memory.
    pub(super) fn statistics_of(&self, b: &mut Builder, first: Value) -> Value {
        if self.plan.staging != Staging::Beside || Self::has_queries(self.of) {
            return b.number(0);
        }
        let turn = self.turn(b, first);
        b.mul(turn, self.plan.others)
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
        let index = rows.at(b, index);
        let memory = Memory::Shared(rows.array);
        b.tile_load(tile, At { memory, index, stride, order, aligned: self.aligned() });
    }
}
