//! How a workgroup brings parts of the operands to shared memory.

use super::engine::{Along, Engine, Stage};
use crate::builder::Builder;
use crate::form::{Local, Memory, Value};
use crate::scalar::Scalar;

/// What is done with the own index and the k of a vector, and the condition of fetching it.
type Fetch<'a> = dyn FnMut(&mut Builder, Value, Value, Option<Value>) + 'a;

/// Vectors of 16 bytes that make up a line of the cache.
const LINE: usize = 8;

/// A vector of zeros.
fn zeros(b: &mut Builder, scalar: Scalar, lanes: usize) -> Value {
    let zero = if scalar.is_float() { b.float(0.0, scalar) } else { b.int(0, scalar) };
    b.build(&vec![zero; lanes])
}

impl Engine<'_> {
    /// How many threads share a line of both sources, if both have their own index along a line: each thread then meets the same few
    /// k in both, whose places are computed once.
    fn sharers(&self, threads: usize) -> Option<usize> {
        let mut most = LINE;
        for (source, stage) in self.sources.iter().zip(&self.stages) {
            let across = stage.own / source.vector;
            while most > 1 && !across.is_multiple_of(most) {
                most /= 2;
            }
            if source.along != Along::Own {
                return None;
            }
        }
        let lines = threads / most;
        (threads.is_multiple_of(most) && self.tiling.depth.is_multiple_of(lines)).then_some(most)
    }

    /// Calls `each` for every vector that a thread fetches, with its own index and its k in the stage.
    fn vectors(&self, b: &mut Builder, which: usize, each: &mut Fetch<'_>) {
        let (Some(source), Some(stage)) = (self.sources.get(which), self.stages.get(which)) else { return };
        let threads = b.target().subgroup as usize * self.tiling.groups.iter().product::<usize>();
        let depth = self.tiling.depth;
        let vector = source.vector;
        let across = if source.along == Along::K { depth / vector } else { stage.own / vector };
        if let Some(sharers) = self.sharers(threads) {
            let (line, near) = b.div_rem(self.thread, sharers);
            for first in (0..depth).step_by(threads / sharers) {
                let k = b.add(line, first);
                for beside in (0..across).step_by(sharers) {
                    let own = b.add(near, beside);
                    let own = b.mul(own, vector);
                    each(b, own, k, None);
                }
            }
            return;
        }
        let count = stage.own * depth / vector;
        for round in 0..count.div_ceil(threads) {
            let index = b.add(self.thread, round * threads);
            let (line, own) = b.div_rem(index, across);
            let near = b.mul(own, vector);
            let inside = ((round + 1) * threads > count).then(|| b.less(index, count));
            let (own, k) = if source.along == Along::K { (line, near) } else { (near, line) };
            each(b, own, k, inside);
        }
    }

    /// Where an element of the source is, and whether it is there.
    fn element(
        &self,
        b: &mut Builder,
        which: usize,
        [own, k, first_k]: [Value; 3],
    ) -> (Value, Option<Value>) {
        let Some(source) = self.sources.get(which) else { return (own, None) };
        let index = b.add(source.first, own);
        let place = b.add(first_k, k);
        let (at, condition) = (source.place)(b, index, place);
        let mut all = condition;
        let stage_own = self.stages.get(which).map_or(1, |stage| stage.own);
        let mut need = |b: &mut Builder, holds: Value| {
            all = Some(match all {
                Some(before) => b.and(before, holds),
                None => holds,
            });
        };
        if !source.length.is_multiple_of(stage_own) {
            let inside = b.less(index, source.length);
            need(b, inside);
        }
        if self.ragged {
            let inside = b.less(place, self.end_k);
            need(b, inside);
        }
        (at, all)
    }

    /// The place of an element in shared memory.
    pub(super) fn shared_place(
        &self,
        b: &mut Builder,
        stage: &Stage,
        own: Value,
        k: Value,
        first: Value,
    ) -> Value {
        let (line, near) = if stage.along == Along::K { (own, k) } else { (k, own) };
        let line = b.mul(line, stage.stride);
        let place = b.add(line, near);
        b.add(first, place)
    }

    /// Copies a stage beside other work. Later stages than the last are asked for, too.
    pub(super) fn copy(&self, b: &mut Builder, first_k: Value, slot: Value) {
        let there = b.less(first_k, self.end_k);
        b.when(there, |b| self.copy_stage(b, first_k, slot));
        b.async_commit();
    }

    fn copy_stage(&self, b: &mut Builder, first_k: Value, slot: Value) {
        for (which, (source, stage)) in self.sources.iter().zip(&self.stages).enumerate() {
            let first = b.mul(slot, stage.size);
            self.vectors(b, which, &mut |b, own, k, inside| {
                let body = |b: &mut Builder| {
                    let (at, there) = self.element(b, which, [own, k, first_k]);
                    let to = self.shared_place(b, stage, own, k, first);
                    let bytes = source.vector * source.scalar.size();
                    // An index that is not read may be anywhere, but not a pointer of another object.
                    let at = match there {
                        Some(there) => b.select(there, at, 0),
                        None => at,
                    };
                    b.async_copy_again((stage.array, to), (source.pointer, at), bytes, there, source.near);
                };
                match inside {
                    Some(inside) => b.when(inside, body),
                    None => body(b),
                }
            });
        }
    }

    /// Loads a stage into variables. Later stages than the last are asked for, too.
    pub(super) fn fetch(&self, b: &mut Builder, first_k: Value) -> [Vec<Local>; 2] {
        [0, 1].map(|which| {
            let mut all = Vec::new();
            let Some(source) = self.sources.get(which) else { return all };
            self.vectors(b, which, &mut |b, own, k, inside| {
                let type_ = source.scalar.by(source.vector as u8);
                let nothing = zeros(b, source.scalar, source.vector);
                let local = b.local(type_, nothing);
                let (at, there) = self.element(b, which, [own, k, first_k]);
                // A ragged stage's elements are compared with the end already.
                let begun = (!self.ragged).then(|| b.less(first_k, self.end_k));
                let there =
                    [there, inside, begun].into_iter().flatten().reduce(|before, holds| b.and(before, holds));
                let load = |b: &mut Builder| {
                    let value = b.load_vector(Memory::Global(source.pointer), at, source.vector);
                    b.set(local, value);
                };
                match there {
                    Some(there) => b.when(there, load),
                    None => load(b),
                }
                all.push(local);
            });
            all
        })
    }

    /// Stores fetched variables into a stage.
    pub(super) fn keep(&self, b: &mut Builder, fetched: &[Vec<Local>; 2], slot: Value) {
        let operand = self.tiling.shape.operand;
        for (which, (source, stage)) in self.sources.iter().zip(&self.stages).enumerate() {
            let first = b.mul(slot, stage.size);
            let mut locals = fetched.get(which).into_iter().flatten();
            self.vectors(b, which, &mut |b, own, k, inside| {
                let Some(local) = locals.next() else { return };
                let body = |b: &mut Builder| {
                    let value = b.get(*local);
                    // A vector of larger elements may exceed 16 bytes.
                    let together = source.vector.min(16 / operand.size());
                    if stage.along == source.along {
                        let to = self.shared_place(b, stage, own, k, first);
                        for first in (0..source.vector).step_by(together) {
                            let to = b.add(to, first);
                            let part = if together == source.vector {
                                b.convert(value, operand)
                            } else {
                                let parts: Vec<Value> = (first..first + together)
                                    .map(|lane| {
                                        let element = b.extract(value, lane);
                                        b.convert(element, operand)
                                    })
                                    .collect();
                                b.build(&parts)
                            };
                            b.store(Memory::Shared(stage.array), to, part);
                        }
                        return;
                    }
                    for lane in 0..source.vector {
                        let (own, k) = match source.along {
                            Along::K => (own, b.add(k, lane)),
                            Along::Own => (b.add(own, lane), k),
                        };
                        let to = self.shared_place(b, stage, own, k, first);
                        let element = b.extract(value, lane);
                        let element = b.convert(element, operand);
                        b.store(Memory::Shared(stage.array), to, element);
                    }
                };
                match inside {
                    Some(inside) => b.when(inside, body),
                    None => body(b),
                }
            });
        }
    }
}
