//! The output and the statistics of rows.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles and statistics are in tables made with the kernel, of the sizes that loops run over"
)]

use super::forward::Forward;
use super::plan::Plan;
use super::staging::base;
use crate::builder::Builder;
use crate::form::{Memory, Role, Unary, Value};
use crate::product::engine;

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
        let o = &self.attention.o;
        let of_head = base(b, o, self.sequence, self.head);
        let mut sums: Vec<Value> = self.statistics[number].iter().map(|[_, sum]| b.get(*sum)).collect();
        self.across(b, number, &mut sums, |b, x, y| b.add(x, y));
        for (row, (own, total)) in self.rows.iter().zip(sums).enumerate() {
            let maximum = b.get(self.statistics[number][row][0]);
            let query = b.add(first, *own);
            let counts = b.less(query, self.queries);
            let nothing = b.equal(total, 0.0);
            let inverse = b.unary(Unary::Reciprocal, total);
            let inverse = b.select(nothing, 0.0, inverse);
            let stored = b.less(query, self.attention.queries);
            let leader = b.equal(self.lane_key, 0);
            let leads = b.and(stored, leader);
            b.when(leads, |b| self.store_statistics(b, query, counts, maximum, total));
            let line = b.mul(query, o.strides[2]);
            let line = b.add(of_head, line);
            let slots: Vec<usize> = (0..fragment.slots.len())
                .filter(|slot| layout.axes(fragment.slots[*slot]).0 == *own)
                .collect();
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
                        b.when(inside, |b| engine::store(b, self.pointers.o, at, &values, o.scalar));
                    }
                }
            });
        }
    }

    /// Slots whose elements are neighbours in the output and may be stored together.
    fn runs(&self, places: &[(u32, u32)], slots: &[usize], factor: usize) -> Vec<(usize, usize)> {
        let o = &self.attention.o;
        let fits = |width: usize| {
            o.strides[3] == 1
                && o.alignment.is_multiple_of(width * o.scalar.size())
                && width * o.scalar.size() <= 16
                && o.strides[..3].iter().all(|stride| stride.is_multiple_of(width))
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
            let (Some(tensor), Some(pointer)) =
                (self.attention.statistics[which], self.pointers.statistics[which])
            else {
                continue;
            };
            let value = b.select(counts, value, otherwise);
            let value = b.convert(value, tensor.scalar);
            let of_head = base(b, &tensor, self.sequence, self.head);
            let line = b.mul(query, tensor.strides[2]);
            let at = b.add(of_head, line);
            b.store(Memory::Global(pointer), at, value);
        }
    }
}
