//! Online softmax: scores become powers, and powers an operand.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles and statistics are in tables made with the kernel, of the sizes that loops run over"
)]

use super::Scale;
use super::dropout::aligned;
use super::forward::Forward;
use super::layout::Passing;
use super::plan::Plan;
use super::plan::Staging;
use super::staging::Rows;
use crate::builder::Builder;
use crate::form::{Binary, Memory, Order, Role, Tile, Unary, Value};
use crate::scalar::Scalar;

impl Forward<'_> {
    /// Turns the scores of a tile's row into powers, and their sums into what they are worth so far.
    pub(super) fn weigh(
        &self,
        b: &mut Builder,
        number: usize,
        first_key: Value,
        passed: &[Tile],
        scratch: Option<&Rows>,
    ) {
        let Plan { shape, sizes, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator).cloned() else { return };
        let (query_size, key_size) = layout.sizes(shape);
        let first = b.add(self.first_query, self.own_query);
        let first = b.add(first, number * query_size);
        let last = b.add(first, query_size - 1);
        let end = b.add(first_key, sizes.keys);
        let whole = self.context.is_whole(b, [first, last, first_key, end]);
        let first_own = b.add(first, self.lane_query);
        let key_own = b.add(first_key, self.lane_key);
        let each = |b: &mut Builder, modified: bool| {
            for (column, tile) in self.scores[number].iter().enumerate() {
                for (slot, place) in fragment.slots.iter().enumerate() {
                    let score = b.tile_get(*tile, slot);
                    let score = if modified {
                        let (query, key) = layout.axes(*place);
                        let query = b.add(first_own, query);
                        let key = b.add(key_own, column * key_size + key);
                        self.context.modified(b, score, query, key)
                    } else {
                        b.mul(score, self.context.scale)
                    };
                    b.tile_set(*tile, slot, score);
                }
            }
        };
        // Where registers are few: the maximum is scaled instead of each score.
        let has_few = self.plan.staging == Staging::Turns;
        let folded = has_few && self.scale_is_positive() && b.constant_of(whole).is_none();
        let scale = if folded {
            let scale = b.local(shape.sum, self.context.scale);
            b.if_else(
                whole,
                |_| (),
                |b| {
                    each(b, true);
                    b.set(scale, 1.0);
                },
            );
            Some(b.get(scale))
        } else {
            b.if_else(whole, |b| each(b, false), |b| each(b, true));
            None
        };
        let slots_of = |own: &usize| -> Vec<usize> {
            let all = 0..fragment.slots.len();
            all.filter(|slot| layout.axes(fragment.slots[*slot]).0 == *own).collect()
        };
        let mut maxima = Vec::with_capacity(self.rows.len());
        for (row, own) in self.rows.iter().enumerate() {
            let before = b.get(self.statistics[number][row][0]);
            let mut greatest = if folded { b.float(f64::NEG_INFINITY, shape.sum) } else { before };
            for tile in &self.scores[number] {
                for slot in slots_of(own) {
                    let score = b.tile_get(*tile, slot);
                    greatest = b.max_number(greatest, score);
                }
            }
            if let Some(scale) = scale {
                greatest = b.mul(greatest, scale);
                greatest = b.max_number(before, greatest);
            }
            maxima.push(greatest);
        }
        self.across(b, number, &mut maxima, Builder::max_number);
        let mut factors = Vec::with_capacity(self.rows.len());
        let mut grown: Option<Value> = None;
        for (row, (own, greatest)) in self.rows.iter().zip(maxima).enumerate() {
            let slots = slots_of(own);
            let [maximum, sum] = self.statistics[number][row];
            let before = b.get(maximum);
            // Most blocks have no larger score, and outputs stay as they are.
            if has_few {
                let grows = b.not_equal(greatest, before);
                grown = Some(match grown {
                    Some(others) => b.or(others, grows),
                    None => grows,
                });
            }
            b.set(maximum, greatest);
            let nothing = b.equal(greatest, f64::NEG_INFINITY);
            let base = b.select(nothing, 0.0, greatest);
            let less = b.sub(before, base);
            let factor = b.unary(Unary::Exp2, less);
            let old = b.get(sum);
            let mut total = b.mul(old, factor);
            let negative = b.unary(Unary::Neg, base);
            for (column, tile) in self.scores[number].iter().enumerate() {
                let kept = self.context.dropping.as_ref().map(|dropping| {
                    let query = b.add(first_own, *own);
                    let key = b.add(key_own, column * key_size);
                    let offsets: Vec<usize> =
                        slots.iter().map(|slot| layout.axes(fragment.slots[*slot]).1).collect();
                    let (_, part) = layout.parts(&fragment);
                    dropping.kept(b, [query, key], &offsets, aligned(part))
                });
                for (place, slot) in slots.iter().enumerate() {
                    let score = b.tile_get(*tile, *slot);
                    let less = match scale {
                        Some(scale) => b.fma(score, scale, negative),
                        None => b.sub(score, base),
                    };
                    let mut power = b.unary(Unary::Exp2, less);
                    total = b.add(total, power);
                    if let Some(kept) = &kept {
                        power = kept[place].of(b, power);
                    }
                    b.tile_set(*tile, *slot, power);
                }
            }
            b.set(sum, total);
            factors.push((slots, factor));
        }
        let rescale = |b: &mut Builder| {
            for (slots, factor) in &factors {
                for tile in &self.outputs[number] {
                    for slot in slots {
                        let value = b.tile_get(*tile, *slot);
                        let value = b.mul(value, *factor);
                        b.tile_set(*tile, *slot, value);
                    }
                }
            }
        };
        match grown {
            Some(grown) => b.when(grown, rescale),
            None => rescale(b),
        }
        self.pass(b, number, passed, scratch);
    }

    /// Whether the largest product has the largest score.
    fn scale_is_positive(&self) -> bool {
        matches!(self.attention.scale, Scale::Value(scale) if scale > 0.0)
    }

    /// Combines numbers of a tile's rows across the lanes that share them.
    pub(super) fn across(
        &self,
        b: &mut Builder,
        number: usize,
        numbers: &mut [Value],
        join: impl Fn(&mut Builder, Value, Value) -> Value,
    ) {
        let Plan { shape, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator) else { return };
        let (_, part) = layout.parts(fragment);
        let Some(exchange) = self.exchange.map(Memory::Shared) else {
            for own in numbers.iter_mut() {
                for bit in 0..part.modulus.ilog2() {
                    let other = b.shuffle_xor(*own, part.divisor << bit);
                    *own = join(b, *own, other);
                }
            }
            return;
        };
        let threads = self.threads(b);
        let first = number * self.rows.len() * threads;
        let at = |b: &mut Builder, thread: Value, row: usize| b.add(thread, first + row * threads);
        for (row, own) in numbers.iter().enumerate() {
            let place = at(b, self.thread, row);
            b.store(exchange, place, *own);
        }
        b.barrier();
        for lane in 1..part.modulus {
            let mask = b.number((lane * part.divisor) as usize);
            let thread = b.binary(Binary::Xor, self.thread, mask);
            for (row, own) in numbers.iter_mut().enumerate() {
                let place = at(b, thread, row);
                let other = b.load(exchange, place);
                *own = join(b, *own, other);
            }
        }
    }

    /// Makes powers an operand.
    fn pass(&self, b: &mut Builder, number: usize, passed: &[Tile], scratch: Option<&Rows>) {
        let Plan { shape, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator).cloned() else { return };
        let [role, _] = layout.roles();
        let count = shape.fragment(role).map_or(1, |fragment| fragment.slots.len());
        let (query_size, key_size) = layout.sizes(shape);
        let slots = fragment.slots.len();
        let operand = shape.operand;
        let low = (layout.passing == Passing::Halves).then(|| b.less(self.lane, 16));
        for (column, tile) in self.scores[number].iter().enumerate() {
            for slot in (0..slots).step_by(2.min(slots)) {
                let width = 2.min(slots);
                let parts: Vec<Value> = (slot..slot + width).map(|slot| b.tile_get(*tile, slot)).collect();
                let pair = b.build(&parts);
                let pair = b.convert(pair, operand);
                match (&layout.passing, low, scratch) {
                    (Passing::Halves, Some(low), _) => {
                        let bits = b.bits(pair, Scalar::I32);
                        let other = b.shuffle_xor(bits, 16);
                        let [first, second] = [b.select(low, bits, other), b.select(low, other, bits)];
                        for (half, bits) in [first, second].into_iter().enumerate() {
                            let pair = b.bits(bits, operand.by(2));
                            for lane in 0..width {
                                let part = b.extract(pair, lane);
                                b.tile_set(passed[column], half * slots + slot + lane, part);
                            }
                        }
                    }
                    (Passing::Shared, _, Some(scratch)) => {
                        for lane in 0..width {
                            let (query, key) = layout.axes(fragment.slots[slot + lane]);
                            let row = b.add(self.own_query, self.lane_query);
                            let row = b.add(row, number * query_size + query);
                            let row = b.mul(row, scratch.stride);
                            let key = b.add(self.lane_key, column * key_size + key);
                            let at = b.add(row, key);
                            let part = b.extract(pair, lane);
                            b.store(Memory::Shared(scratch.array), at, part);
                        }
                    }
                    _ => {
                        for lane in 0..width {
                            let target = column * slots + slot + lane;
                            let part = b.extract(pair, lane);
                            b.tile_set(passed[target / count], target % count, part);
                        }
                    }
                }
            }
        }
    }

    /// Loads powers from shared memory as operands.
    pub(super) fn take(&self, b: &mut Builder, powers: &[Tile], scratch: &Rows, near: Value) {
        let (size, _) = self.plan.layout.sizes(&self.plan.shape);
        for (number, tile) in powers.iter().enumerate() {
            let row = b.add(self.own_query, number * size);
            let row = b.mul(row, scratch.stride);
            let first = b.add(row, near);
            self.load(b, *tile, scratch, first, Order::Rows);
        }
    }
}
