//! Keys that workgroups share where there are few queries: each workgroup leaves the output, the maximum and the sum of its part of the
//! keys, and a second kernel combines them in order.

use super::forward::{self, Forward};
use super::plan::Plan;
use super::{Attention, Start, Tensor};
use crate::builder::Builder;
use crate::form::{Index, Local, Memory, Pointer, Unary, Value};
use crate::product::{Launch, engine};
use crate::scalar::Scalar;
use crate::target::Target;

/// The kernels of an attention whose keys workgroups share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Has the attention's parameters, where the output is that of parts, and of statistics there are maxima and sums of parts.
    pub first: Launch,
    /// Combines. Its parameters: the outputs, maxima and sums of parts, then the output and the statistics.
    pub second: Launch,
}

/// The most parts, and the most bytes that they leave.
const MOST: usize = 32;
const MOST_BYTES: usize = 32 << 20;
/// Bytes of keys and values that a part is worth: less is read sooner than a second kernel starts.
const LEAST_BYTES: usize = 64 << 10;
/// Subgroups of a unit that together wait for memory most of the time.
const BUSY: usize = 8;
/// Threads that combine, and the parts that a thread loads before it adds them.
const THREADS: u32 = 256;
const TOGETHER: usize = 8;

impl Attention {
    fn rows(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Outputs, maxima and sums of so many parts, each \[part and sequence, head, query, element\] without gaps.
    pub fn between(&self, parts: usize, real: Scalar) -> [(Tensor, [usize; 4]); 3] {
        let of = |elements: usize| {
            let dims = [parts * self.batch, self.heads, self.queries, elements];
            let row = self.queries * elements;
            let strides = [self.heads * row, row, elements, 1];
            (Tensor { scalar: real, strides, alignment: 16, start: Start::Even }, dims)
        };
        [of(self.value_depth), of(1), of(1)]
    }
}

/// How many workgroups should share the keys of a query, from a model of the device: 1 where there are enough workgroups, where results
/// do not lie at even distances, and where bits must not depend on the number of queries.
pub fn count(attention: &Attention, target: &Target) -> usize {
    let results = [Some(&attention.o)].into_iter().chain(attention.statistics.iter().map(Option::as_ref));
    let is_even = results.flatten().all(|tensor| tensor.start == Start::Even);
    let Some(plan) = Plan::of(attention, target) else { return 1 };
    if target.wants_small_kernels() || attention.is_invariant || attention.largest != [false; 2] || !is_even {
        return 1;
    }
    let groups = attention.batch * attention.heads * attention.queries.div_ceil(plan.queries());
    let wanted = (target.units_or_usual() * BUSY / plan.sizes.groups).div_ceil(groups.max(1));
    let of_key =
        attention.depth * attention.k.scalar.size() + attention.value_depth * attention.v.scalar.size();
    let of_part = attention.rows() * (attention.value_depth + 2) * plan.shape.sum.size();
    let most = (attention.keys * of_key / LEAST_BYTES).min(MOST_BYTES / of_part.max(1)).min(MOST);
    let blocks = attention.keys.div_ceil(plan.sizes.keys).max(1);
    // None is empty.
    blocks.div_ceil(blocks.div_ceil(wanted.min(most).clamp(1, blocks)))
}

/// Writes the kernels of an attention whose keys so many workgroups share.
///
/// # Errors
/// What is not supported.
pub fn write(attention: &Attention, target: &Target, name: &str, parts: usize) -> Result<Shared, String> {
    let real = if attention.operand() == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let [(o, _), (maxima, _), (sums, _)] = attention.between(parts, real);
    let of_parts = Attention { o, statistics: [None, Some(maxima), Some(sums)], ..attention.clone() };
    let mut first = forward::written(&of_parts, target, name, parts)?;
    let mut second = combining(attention, real, target, &format!("{name}_sum"), parts)?;
    for launch in [&mut first, &mut second] {
        launch.kernel.parts = parts as u32;
    }
    Ok(Shared { first, second })
}

/// The kernel that combines.
fn combining(
    attention: &Attention,
    real: Scalar,
    target: &Target,
    name: &str,
    parts: usize,
) -> Result<Launch, String> {
    let Attention { heads, queries, value_depth, o, .. } = *attention;
    let rows = attention.rows();
    let threads = THREADS.min(target.threads);
    let mut b = Builder::new(name, threads, target);
    let [outputs, maxima, sums] = [(); 3].map(|()| Memory::Global(b.pointer(real)));
    let to = b.output(o.scalar);
    let statistics: Vec<Option<(Pointer, Tensor)>> = attention
        .statistics
        .iter()
        .map(|tensor| tensor.map(|tensor| (b.output(tensor.scalar), tensor)))
        .collect();
    let width = width(attention, real);
    let of_row = value_depth / width;
    let vectors = rows * of_row;
    let (group, grid) = engine::groups(&mut b, vectors.div_ceil(threads as usize))?;
    let b = &mut b;
    let thread = b.index(Index::Thread);
    let first = b.mul(group, threads as usize);
    let vector = b.add(first, thread);
    let inside = b.less(vector, vectors);
    let vector = b.min(vector, vectors - 1);
    let (row, column) = b.div_rem(vector, of_row);
    let element = b.mul(column, width);
    let together = parts.min(TOGETHER);
    let ragged = !parts.is_multiple_of(together);
    // The number of a part, and whether there is one.
    let part_of = |b: &mut Builder, first: Value, next: usize| {
        let part = b.add(first, next);
        let there = ragged.then(|| b.less(part, parts));
        (if ragged { b.min(part, parts - 1) } else { part }, there)
    };
    let of_row_and_part = |b: &mut Builder, part: Value| {
        let at = b.mul(part, rows);
        b.add(at, row)
    };
    let greatest = b.local(real, f64::NEG_INFINITY);
    b.for_range(0, parts, together, |b, first| {
        let all: Vec<Value> = (0..together)
            .map(|next| {
                let (part, _) = part_of(b, first, next);
                let at = of_row_and_part(b, part);
                b.load(maxima, at)
            })
            .collect();
        let before = b.get(greatest);
        let own = all.into_iter().fold(before, |before, own| b.max_number(before, own));
        b.set(greatest, own);
    });
    let greatest = b.get(greatest);
    let nothing = b.equal(greatest, f64::NEG_INFINITY);
    let base = b.select(nothing, 0.0, greatest);
    let total = b.local(real, 0.0);
    let values: Vec<Local> = (0..width).map(|_| b.local(real, 0.0)).collect();
    b.for_range(0, parts, together, |b, first| {
        // All loads are there before the first is used.
        let all: Vec<[Value; 3]> = (0..together)
            .map(|next| {
                let (part, there) = part_of(b, first, next);
                let at = of_row_and_part(b, part);
                let (maximum, sum) = (b.load(maxima, at), b.load(sums, at));
                let sum = there.map_or(sum, |there| b.select(there, sum, 0.0));
                let at = b.mul(at, value_depth);
                let at = b.add(at, element);
                [maximum, sum, b.load_vector(outputs, at, width)]
            })
            .collect();
        for [maximum, sum, own] in all {
            let less = b.sub(maximum, base);
            let less = b.mul(less, std::f64::consts::LOG2_E);
            let power = b.unary(Unary::Exp2, less);
            let weight = b.mul(power, sum);
            let before = b.get(total);
            let after = b.add(before, weight);
            b.set(total, after);
            for (lane, value) in values.iter().enumerate() {
                let own = if width == 1 { own } else { b.extract(own, lane) };
                let before = b.get(*value);
                let after = b.fma(own, weight, before);
                b.set(*value, after);
            }
        }
    });
    let total = b.get(total);
    let values: Vec<Value> = values.into_iter().map(|value| b.get(value)).collect();
    let empty = b.equal(total, 0.0);
    let inverse = b.unary(Unary::Reciprocal, total);
    let inverse = b.select(empty, 0.0, inverse);
    let values: Vec<Value> = values.into_iter().map(|value| b.mul(value, inverse)).collect();
    let (which, query) = b.div_rem(row, queries);
    let (sequence, head) = b.div_rem(which, heads);
    let place = |b: &mut Builder, tensor: &Tensor, last: Value| {
        let mut at = b.mul(last, tensor.strides[3]);
        for (index, stride) in [sequence, head, query].into_iter().zip(tensor.strides) {
            let own = b.mul(index, stride);
            at = b.add(at, own);
        }
        at
    };
    b.when(inside, |b| {
        let at = place(b, &o, element);
        engine::store(b, to, at, &values, o.scalar);
        let leads = b.equal(element, 0);
        b.when(leads, |b| {
            let log = b.unary(Unary::Log, total);
            let both = b.add(greatest, log);
            let both = b.select(nothing, f64::NEG_INFINITY, both);
            for (own, value) in statistics.iter().zip([both, greatest, total]) {
                if let Some((pointer, tensor)) = own {
                    let at = place(b, tensor, element);
                    let value = b.convert(value, tensor.scalar);
                    b.store(Memory::Global(*pointer), at, value);
                }
            }
        });
    });
    let kernel = std::mem::replace(b, Builder::new(name, threads, target)).finish();
    Ok(Launch { kernel, grid })
}

/// How many neighbours of an output are combined and stored together.
fn width(attention: &Attention, real: Scalar) -> usize {
    let o = &attention.o;
    let mut width = 16 / real.size().max(o.scalar.size());
    let fits = |width: usize| {
        o.strides[3] == 1
            && o.alignment.is_multiple_of(width * o.scalar.size())
            && o.steps().iter().all(|step| step.is_multiple_of(width))
            && attention.value_depth.is_multiple_of(width)
    };
    while width > 1 && !fits(width) {
        width /= 2;
    }
    width
}

impl Forward<'_> {
    /// The keys that any query of the workgroup sees, or the workgroup's part of them.
    pub(super) fn range(&self, b: &mut Builder) -> (Value, Value) {
        let keys = self.plan.sizes.keys;
        let zero = b.number(0);
        let (mut begin, mut end) = (zero, self.context.keys);
        let band = &self.attention.band;
        if let Some(right) = band.right {
            let last = b.add(self.first_query, self.plan.queries() + right);
            let last = b.add(last, self.context.diagonal);
            let last = b.max(last, 0);
            end = b.min(end, last);
        }
        if let Some(left) = band.left {
            let first = b.add(self.first_query, self.context.diagonal);
            let first = b.sub(first, left);
            let first = b.max(first, 0);
            let block = b.div(first, keys);
            begin = b.mul(block, keys);
        }
        if self.attention.lengths.is_some() {
            let any = b.less(self.first_query, self.sequence.queries);
            end = b.select(any, end, 0);
        }
        let Some((part, parts)) = self.part else { return (begin, end) };
        let span = b.sub(end, begin);
        let span = b.max(span, 0);
        let up = |b: &mut Builder, number: Value, by: usize| {
            let more = b.add(number, by - 1);
            b.div(more, by)
        };
        let blocks = up(b, span, keys);
        let each = up(b, blocks, parts);
        let length = b.mul(each, keys);
        let own = b.mul(part, length);
        let begin = b.add(begin, own);
        let last = b.add(begin, length);
        (begin, b.min(end, last))
    }
}

#[cfg(test)]
mod tests;
