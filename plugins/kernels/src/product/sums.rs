//! The sums of parts of dot products, which a second kernel adds, always in the same order.

use super::engine::{self, store};
use super::parts::{Adder, Parts};
use crate::builder::Builder;
use crate::form::{Index, Local, Memory, Pointer, Value};
use crate::scalar::Scalar;
use crate::target::Target;

/// The memory of the parts' sums: for each part and each index of the batch a dense matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) scalar: Scalar,
    pub(crate) parts: Parts,
    pub(crate) batches: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
}

/// What is done with a batch index, a row, a column, and the results from there on.
pub(crate) type Finish<'a> = dyn FnMut(&mut Builder, Value, Value, Value, &[Value]) + 'a;

/// How many sums a thread loads before it adds them.
const TOGETHER: usize = 8;
/// Threads of a workgroup that adds, and the most of them that share a result.
const THREADS: usize = 256;
const SHARERS: usize = 16;
/// Threads of a compute unit that hide the time of loads.
const BUSY: usize = 1024;

impl Sums {
    /// The elements of one part.
    fn of_part(&self) -> usize {
        self.batches * self.m * self.n
    }

    /// All elements.
    pub(crate) fn count(&self) -> usize {
        self.parts.count * self.of_part()
    }

    /// Neighbours that are stored and loaded together.
    pub(crate) fn width(&self) -> usize {
        let mut most = 16 / self.scalar.size();
        while !self.n.is_multiple_of(most) {
            most /= 2;
        }
        most
    }

    /// Keeps sums of a part.
    pub(crate) fn keep(
        &self,
        b: &mut Builder,
        to: Pointer,
        [part, batch]: [Value; 2],
        at: [Value; 2],
        sums: &[Value],
    ) {
        let [row, column] = at;
        let place = b.mul(part, self.batches);
        let place = b.add(place, batch);
        let place = b.mul(place, self.m);
        let place = b.add(place, row);
        let place = b.mul(place, self.n);
        let place = b.add(place, column);
        store(b, to, place, sums, self.scalar);
    }

    /// Adds the parts of each result, in order; returns the grid. The results of a thread are up to `width` neighbours.
    ///
    /// # Errors
    /// Too many results.
    pub(crate) fn add(
        &self,
        b: &mut Builder,
        from: Pointer,
        width: usize,
        finish: &mut Finish<'_>,
    ) -> Result<[u32; 3], String> {
        let (mut width, count) = (width.min(self.width()), self.parts.count);
        // Where a thread adds all parts of a result, more threads have fewer results each.
        while self.parts.adder == Adder::Thread
            && width > 1
            && self.of_part() / width < b.target().units_or_usual() * BUSY
        {
            width /= 2;
        }
        let vectors = self.of_part() / width;
        let sharers = self.sharers(b.target(), vectors);
        let across = Self::threads(b.target()) / sharers;
        let (group, grid) = engine::groups(b, vectors.div_ceil(across))?;
        let thread = b.index(Index::Thread);
        let (own, lane) = b.div_rem(thread, across);
        let first = b.mul(group, across);
        let vector = b.add(first, lane);
        let ragged = !vectors.is_multiple_of(across);
        // Threads beyond the last compute its results, so that all reach the barrier.
        let place = if ragged { b.min(vector, vectors - 1) } else { vector };
        let place = b.mul(place, width);
        let zero = if self.scalar.is_float() { b.float(0.0, self.scalar) } else { b.int(0, self.scalar) };
        let totals: Vec<Local> = (0..width).map(|_| b.local(self.scalar, zero)).collect();
        let rounds = count.div_ceil(sharers);
        b.for_range(0, rounds, TOGETHER, |b, round| {
            let loads: Vec<(Value, Option<Value>)> = (0..TOGETHER.min(rounds))
                .map(|next| {
                    let part = b.add(round, next);
                    let part = b.mul(part, sharers);
                    let part = b.add(part, own);
                    let all = rounds.is_multiple_of(TOGETHER.min(rounds)) && count.is_multiple_of(sharers);
                    let there = (!all).then(|| b.less(part, count));
                    let part = if all { part } else { b.min(part, count - 1) };
                    let at = b.mul(part, self.of_part());
                    let at = b.add(at, place);
                    (b.load_vector(Memory::Global(from), at, width), there)
                })
                .collect();
            for (whole, there) in loads {
                for (lane, total) in totals.iter().enumerate() {
                    let element = b.extract(whole, lane);
                    let element = there.map_or(element, |there| b.select(there, element, zero));
                    let before = b.get(*total);
                    let sum = b.add(before, element);
                    b.set(*total, sum);
                }
            }
        });
        let mut values: Vec<Value> = totals.iter().map(|total| b.get(*total)).collect();
        let mut last = |b: &mut Builder, values: &[Value]| {
            let (row, column) = b.div_rem(place, self.n);
            let (batch, row) = if self.batches == 1 { (b.number(0), row) } else { b.div_rem(row, self.m) };
            finish(b, batch, row, column, values);
        };
        let mut writes = ragged.then(|| b.less(vector, vectors));
        if sharers > 1 {
            let shared = b.shared(self.scalar, THREADS * width);
            let at = b.mul(thread, width);
            let whole = b.build(&values);
            b.store(Memory::Shared(shared), at, whole);
            b.barrier();
            let is_first = b.equal(own, 0);
            writes = Some(writes.map_or(is_first, |inside| b.and(inside, is_first)));
            let mut rest = |b: &mut Builder| {
                for other in 1..sharers {
                    let at = b.add(lane, other * across);
                    let at = b.mul(at, width);
                    let whole = b.load_vector(Memory::Shared(shared), at, width);
                    for (lane, value) in values.iter_mut().enumerate() {
                        let element = b.extract(whole, lane);
                        *value = b.add(*value, element);
                    }
                }
                last(b, &values);
            };
            if let Some(writes) = writes {
                b.when(writes, &mut rest);
            }
            return Ok(grid);
        }
        match writes {
            Some(writes) => b.when(writes, |b| last(b, &values)),
            None => last(b, &values),
        }
        Ok(grid)
    }

    /// The threads of a workgroup.
    pub(crate) fn threads(target: &Target) -> usize {
        THREADS.min(target.threads as usize)
    }

    /// How many threads share a result, where there are few results and many parts.
    fn sharers(&self, target: &Target, vectors: usize) -> usize {
        if self.parts.adder == Adder::Thread {
            return 1;
        }
        let wanted = target.units_or_usual() * BUSY;
        let mut sharers = 1;
        while sharers < SHARERS && vectors * sharers < wanted && self.parts.count >= 4 * sharers {
            sharers *= 2;
        }
        sharers
    }
}
