//! The output and the statistics of rows.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles and statistics are in tables made with the kernel, of the sizes that loops run over"
)]

use super::factor::{of_head, scaled};
use super::forward::Forward;
use super::plan::Plan;
use super::{Attention, Start};
use crate::builder::Builder;
use crate::form::{Memory, Pointer, Role, Unary, Value};
use crate::product::engine;
use crate::scalar::Scalar;

impl Forward<'_> {
    /// Divides by the sums, and stores the output and the statistics.
    pub(super) fn finish(&self, b: &mut Builder, number: usize) {
        let Plan { shape, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator).cloned() else { return };
        let (query_size, key_size) = layout.sizes(shape);
        let (_, part) = layout.parts(&fragment);
        let first = b.add(self.first_query, self.own_query);
        let first = b.add(first, number * query_size);
        let first = b.add(first, self.lane_query);
        let Attention { batch, queries, .. } = *self.attention;
        let (o, bound) = (&self.attention.o, &self.pointers.o);
        let sequence = &self.sequence;
        let of_head = bound.of_head(b, &self.to, self.head, sequence.queries).base;
        let limit = bound.limit(b, sequence, sequence.queries, [batch, queries]);
        let factor = self.factor(b);
        let last = self.attention.scales[2]
            .map(|scale| scaled(b, (scale, self.pointers.scales[2]), 1.0, self.plan.shape.sum));
        let mut sums: Vec<Value> = self.statistics[number].iter().map(|[_, sum]| b.get(*sum)).collect();
        self.across(b, number, &mut sums, |b, x, y| b.add(x, y));
        let slots_of = |own: usize| -> Vec<usize> {
            (0..fragment.slots.len()).filter(|slot| layout.axes(fragment.slots[*slot]).0 == own).collect()
        };
        let mut inverses = Vec::with_capacity(sums.len());
        for total in &sums {
            let nothing = b.equal(*total, 0.0);
            let inverse = b.unary(Unary::Reciprocal, *total);
            inverses.push((nothing, b.select(nothing, 0.0, inverse)));
        }
        let multiplied = |b: &mut Builder, inverse: Value| match factor {
            Some(factor) => b.mul(inverse, factor),
            None => inverse,
        };
        let mut largest = Vec::new();
        if self.pointers.largest[1].is_some() {
            for (own, (_, inverse)) in self.rows.iter().zip(&inverses) {
                let inverse = multiplied(b, *inverse);
                let mut most = b.float(0.0, shape.sum);
                for tile in &self.outputs[number] {
                    for slot in slots_of(*own) {
                        let value = b.tile_get(*tile, slot);
                        let value = b.mul(value, inverse);
                        let value = b.unary(Unary::Abs, value);
                        most = b.max(most, value);
                    }
                }
                largest.push(most);
            }
            if self.exchange.is_some() {
                // Others may still read sums there.
                b.barrier();
            }
            self.across(b, number, &mut largest, |b, x, y| b.max(x, y));
        }
        for (row, (own, total)) in self.rows.iter().zip(sums).enumerate() {
            let maximum = b.get(self.statistics[number][row][0]);
            let query = b.add(first, *own);
            let counts = b.less(query, sequence.queries);
            let (nothing, inverse) = inverses[row];
            let stored = b.less(query, queries);
            let leader = b.equal(self.lane_key, 0);
            let leads = b.and(stored, leader);
            b.when(leads, |b| {
                self.store_statistics(b, query, counts, maximum, total);
                // The largest score has the power 1.
                let all = [Some(inverse), largest.get(row).copied()];
                for (pointer, value) in self.pointers.largest.into_iter().zip(all) {
                    if let (Some(pointer), Some(value)) = (pointer, value) {
                        self.store_largest(b, pointer, query, counts, value);
                    }
                }
            });
            let inverse = multiplied(b, inverse);
            let inverse = match last {
                Some(last) => b.mul(inverse, last),
                None => inverse,
            };
            let line = b.mul(query, o.strides[2]);
            let line = b.add(of_head, line);
            let slots = slots_of(*own);
            let stored = b.less(query, limit);
            b.when(stored, |b| {
                for (column, tile) in self.outputs[number].iter().enumerate() {
                    for (run, width) in self.runs(&fragment.slots, &slots, part.factor as usize) {
                        let (_, element) = layout.axes(fragment.slots[run]);
                        let element = b.add(self.lane_key, column * key_size + element);
                        let values: Vec<Value> = (run..run + width)
                            .map(|slot| {
                                let value = b.tile_get(*tile, slot);
                                let value = b.mul(value, inverse);
                                let value = b.select(nothing, 0.0, value);
                                b.select(counts, value, 0.0)
                            })
                            .collect();
                        let along = b.mul(element, o.strides[3]);
                        let at = b.add(line, along);
                        let inside = b.less(element, self.attention.value_depth);
                        b.when(inside, |b| engine::store(b, bound.data, at, &values, o.scalar));
                    }
                }
            });
        }
    }

    /// What outputs are multiplied by before the largest is noted.
    fn factor(&self, b: &mut Builder) -> Option<Value> {
        let real = self.plan.shape.sum;
        let mut all: Vec<Value> = self.context.dropping.iter().map(|dropping| dropping.factor).collect();
        if let (Some(factor), Some(pointer)) = (self.attention.factors[2], self.pointers.factor) {
            let place = [self.sequence.index, self.head];
            all.push(of_head(b, (factor, pointer), place, self.attention.heads, real));
        }
        for (scale, pointer) in self.attention.scales.into_iter().zip(self.pointers.scales).take(2) {
            if let Some(scale) = scale {
                all.push(scaled(b, (scale, pointer), 1.0, real));
            }
        }
        all.into_iter().reduce(|product, own| b.mul(product, own))
    }

    /// Slots whose elements are neighbours in the output and may be stored together.
    fn runs(&self, places: &[(u32, u32)], slots: &[usize], factor: usize) -> Vec<(usize, usize)> {
        let o = &self.attention.o;
        let fits = |width: usize| {
            o.strides[3] == 1
                && o.alignment.is_multiple_of(width * o.scalar.size())
                && width * o.scalar.size() <= 16
                && o.steps().iter().all(|step| step.is_multiple_of(width))
                && self.attention.value_depth.is_multiple_of(width)
                && factor.is_multiple_of(width)
        };
        let mut runs = Vec::new();
        let mut next = 0;
        while let Some(slot) = slots.get(next) {
            let (_, element) = self.plan.layout.axes(places[*slot]);
            let follows = |i: usize| {
                slots.get(next + i).is_some_and(|other| {
                    *other == slot + i && self.plan.layout.axes(places[*other]).1 == element + i
                })
            };
            let mut width = 8;
            while width > 1 && !(fits(width) && element.is_multiple_of(width) && (1..width).all(follows)) {
                width /= 2;
            }
            runs.push((*slot, width));
            next += width;
        }
        runs
    }

    fn store_statistics(&self, b: &mut Builder, query: Value, counts: Value, maximum: Value, total: Value) {
        let natural = b.mul(maximum, std::f64::consts::LN_2);
        let log = b.unary(Unary::Log, total);
        let both = b.add(natural, log);
        let nothing = b.equal(maximum, f64::NEG_INFINITY);
        let both = b.select(nothing, f64::NEG_INFINITY, both);
        let all = [(both, f64::NEG_INFINITY), (natural, f64::NEG_INFINITY), (total, 0.0)];
        for (which, (value, otherwise)) in all.into_iter().enumerate() {
            let Some(bound) = self.pointers.statistics[which] else { continue };
            let value = b.select(counts, value, otherwise);
            let value = b.convert(value, bound.tensor.scalar);
            let sequence = &self.sequence;
            let Attention { batch, queries, .. } = *self.attention;
            let rows = bound.of_head(b, &self.to, self.head, sequence.queries);
            let line = rows.line(b, query);
            let at = b.add(rows.base, line);
            let limit = bound.limit(b, sequence, sequence.queries, [batch, queries]);
            let stored = b.less(query, limit);
            let write = |b: &mut Builder| b.store(Memory::Global(bound.data), at, value);
            // The caller compared with all queries.
            if bound.tensor.start == Start::Even { write(b) } else { b.when(stored, write) }
        }
    }

    fn store_largest(&self, b: &mut Builder, pointer: Pointer, query: Value, counts: Value, value: Value) {
        let Attention { heads, queries, .. } = *self.attention;
        let row = b.mul(self.sequence.index, heads);
        let row = b.add(row, self.head);
        let row = b.mul(row, queries);
        let at = b.add(row, query);
        let value = b.select(counts, value, 0.0);
        let value = b.convert(value, Scalar::F32);
        b.store(Memory::Global(pointer), at, value);
    }
}
