//! The loops around the tiles.

use std::ops::Range;

use super::super::lanes::{Lanes, Threads};
use super::super::level::Level;
use super::super::matmul::pack::{Copy, Pack, copies_of};
use super::super::matmul::products::{fused, part};
use super::super::matmul::tile::{Tile, TileKernel};
use super::super::pointwise::Functions;
use super::super::real::{Run, all_finite};
use super::super::scratch::{Scratch, Shared, Tensors};
use super::scores::{RowOfScores, Scores};
use super::softmax::{Finish, Row, STEP, Softmax, Weight};
use crate::kernel::{Kernel, Refusal};
use crate::problem::Operand;
use crate::problem::attention::Attention;
use crate::problem::attention::options::Scale;
use crate::problem::attention::shape::{Sequences, Shape};
use crate::reference::{Lengths, Sequence};

/// Keys of a block: with 64 numbers each, they and their values stay in a processor's second cache, and the scores of a few
/// queries in the first. A multiple of every level's columns of a tile and of [`STEP`].
const KEYS: usize = 384;
/// Queries for which a block of keys is copied: the more, the less the copies take.
const QUERIES: usize = 256;
/// The fewest, where there is little else to divide.
const FEWEST_QUERIES: usize = 32;
/// As many parts are worth copying keys more often.
const PARTS: usize = 8;
/// Numbers of a query, key or value above which the reference computes.
const MOST_DEPTH: usize = 2048;
/// Nanoseconds that the weight of a score takes, about.
const WEIGHT: f64 = 0.2;

/// Where the rows of a tensor lie.
struct Rows {
    slot: usize,
    /// Bytes of an element.
    size: usize,
    heads: usize,
    strides: [usize; 4],
}

impl Rows {
    fn of<T: Functions>(name: &str, sequences: &Sequences) -> Result<(Self, Run<T>), Refusal> {
        let run = Run::of(sequences.operand.data_type).map_err(|refusal| format!("{name}: {refusal}"))?;
        let Operand { slot, .. } = sequences.operand;
        let (heads, strides) = (sequences.dims()[1], sequences.strides());
        Ok((Self { slot, size: run.size, heads, strides }, run))
    }

    /// A row of the head that one of `heads` heads reads.
    ///
    /// # Safety
    /// The row is in the tensor.
    unsafe fn row(
        &self,
        tensors: &[*mut u8],
        place: usize,
        [head, heads]: [usize; 2],
        row: usize,
    ) -> *mut u8 {
        let head = head / (heads / self.heads);
        let at = place * self.strides[0] + head * self.strides[1] + row * self.strides[2];
        // SAFETY: the caller promises the row.
        unsafe { tensors[self.slot].add(at * self.size) }
    }
}

/// What the scores are multiplied by.
enum Factor<T> {
    Value(T),
    Tensor(usize, Run<T>),
}

/// An attention with every decision made.
pub(super) struct Forward<T: 'static> {
    shape: Shape,
    lengths: Lengths,
    level: Level,
    kernel: TileKernel<T>,
    factor: Factor<T>,
    scores: Scores<T>,
    /// One more score of each head: its slot, run and distance.
    sink: Option<(usize, Run<T>, usize)>,
    q: (Rows, Pack<T>),
    k: (Rows, Pack<T>),
    v: (Rows, Pack<T>),
    o: (Rows, Run<T>),
    /// Statistics, maxima and sums.
    kept: [Option<(Rows, Run<T>)>; 3],
    /// Queries of a block.
    queries: usize,
    /// Distance of copied queries.
    pitch: usize,
    /// Numbers of a value, and of a result, with what fills the last vector.
    width: usize,
    lanes: Lanes,
}

/// A lane's memory.
struct Areas<T> {
    q: *mut T,
    k: *mut T,
    v: *mut T,
    scores: *mut T,
    added: *mut T,
    results: *mut T,
    rows: *mut Row<T>,
}

/// Queries of one head.
struct Block<'a> {
    tensors: &'a [*mut u8],
    sequence: Sequence,
    head: usize,
    queries: Range<usize>,
}

impl<T: Weight> Forward<T> {
    pub(super) fn plan(attention: &Attention, level: Level, threads: Threads) -> Result<Self, Refusal> {
        let shape = attention.shape;
        for (name, depth) in [("q", shape.depth), ("v", shape.value_depth)] {
            if depth > MOST_DEPTH {
                return Err(format!("{name}: has rows of {depth} numbers, expected at most {MOST_DEPTH}"));
            }
        }
        let factor = match &attention.options.scale {
            Scale::Value(value) => Factor::Value(T::from_f64(f64::from(*value))),
            Scale::Tensor(scalar) => Factor::Tensor(scalar.slot, Run::of_number(scalar.data_type)?),
        };
        let sink = attention.sink.as_ref().map(|sink| {
            let run = Run::of(sink.data_type).map_err(|refusal| format!("sink_token: {refusal}"));
            run.map(|run| (sink.slot, run, sink.stride))
        });
        let read = |name, sequences: &Sequences| -> Result<(Rows, Pack<T>), Refusal> {
            let (rows, _) = Rows::of::<T>(name, sequences)?;
            Ok((rows, copies_of(name, sequences.operand.data_type)?.0))
        };
        let written = |name, sequences: &Option<Sequences>| {
            sequences.as_ref().map(|sequences| Rows::of::<T>(name, sequences)).transpose()
        };
        let kernel = TileKernel::<T>::of(level);
        let heads = shape.batch * shape.heads;
        let mut queries = QUERIES;
        while queries > FEWEST_QUERIES && heads * shape.queries.div_ceil(queries) < PARTS {
            queries /= 2;
        }
        let queries = queries.min(shape.queries.next_multiple_of(kernel.rows));
        let scores = shape.scores().iter().map(|dim| *dim as f64).product::<f64>();
        let work = scores * ((shape.depth + shape.value_depth) as f64 * fused::<T>(level) + WEIGHT);
        // Rows that are a multiple of a page apart would share few places of the first cache.
        let pitch = if (shape.depth * size_of::<T>()).is_multiple_of(1024) {
            shape.depth + STEP
        } else {
            shape.depth
        };
        Ok(Self {
            lengths: Lengths { shape, lengths: attention.options.lengths },
            factor,
            scores: Scores::of(attention)?,
            sink: sink.transpose()?,
            q: read("q", &attention.q)?,
            k: read("k", &attention.k)?,
            v: read("v", &attention.v)?,
            o: Rows::of("o", &attention.o)?,
            kept: [
                written("stats", &attention.stats)?,
                written("max", &attention.max)?,
                written("sum_exp", &attention.sum_exp)?,
            ],
            queries,
            pitch,
            width: shape.value_depth.next_multiple_of(kernel.lanes),
            lanes: threads.lanes(work, heads * shape.queries.div_ceil(queries)),
            level,
            kernel,
            shape,
        })
    }

    /// The scratch memory: for each lane a block of queries, of keys and of values, scores, and results.
    fn layout(&self) -> ([(usize, usize); 7], usize) {
        let mut scratch = Scratch::default();
        let keys = KEYS.min(self.shape.keys.next_multiple_of(self.kernel.columns()));
        let sizes = [
            self.queries * self.pitch,
            keys * self.shape.depth,
            keys * self.width,
            self.kernel.rows * KEYS,
            KEYS,
            self.queries * self.width,
            2 * self.queries,
        ];
        (sizes.map(|size| (scratch.area::<T>(size, self.lanes.count()), size)), scratch.size())
    }

    fn areas(&self, scratch: *mut u8, lane: usize) -> Areas<T> {
        let [q, k, v, scores, added, results, rows] = self.layout().0.map(|(offset, size)| {
            scratch.wrapping_add(offset).cast::<T>().wrapping_add(lane * Scratch::padded::<T>(size))
        });
        Areas { q, k, v, scores, added, results, rows: rows.cast() }
    }

    /// Computes a block of queries.
    ///
    /// # Safety
    /// The tensors and the lengths are those of the operation, the areas those of a lane.
    unsafe fn block(&self, tensors: &[*mut u8], place: usize, head: usize, number: usize, areas: &Areas<T>) {
        let Shape { queries, depth, heads, .. } = self.shape;
        let start = number * self.queries;
        let end = (start + self.queries).min(queries);
        // SAFETY: the rows are in the tensors, and the areas have room for them.
        unsafe {
            let sequence = self.lengths.sequence(tensors, place);
            let known = end.min(sequence.queries).max(start);
            let nothing = -(T::ONE / T::ZERO);
            if known < end {
                areas.results.write_bytes(0, self.width);
                let block = Block { tensors, sequence, head, queries: known..end };
                for row in 0..end - known {
                    self.write(&block, row, areas.results, &Row { max: nothing, sum: T::ZERO });
                }
            }
            if known == start {
                return;
            }
            let block = Block { tensors, sequence, head, queries: start..known };
            let count = known - start;
            let (rows, pack) = &self.q;
            let copy = Copy {
                from: rows.row(tensors, place, [head, heads], start),
                rows: count,
                row: rows.strides[2],
                columns: depth,
                column: rows.strides[3],
                width: depth,
                pitch: self.pitch,
            };
            pack(self.level, &copy, areas.q);
            let factor = match &self.factor {
                Factor::Value(value) => *value,
                Factor::Tensor(slot, run) => read(run, tensors[*slot]),
            };
            if factor != T::ONE {
                for row in 0..count {
                    let query = std::slice::from_raw_parts_mut(areas.q.add(row * self.pitch), depth);
                    query.iter_mut().for_each(|number| *number = *number * factor);
                }
            }
            let sink = self.sink.as_ref().map(|(slot, run, stride)| {
                let at = tensors[*slot].add(head * stride * run.size);
                read(run, at)
            });
            for row in 0..count {
                areas.rows.add(row).write(Row::beginning(sink));
            }
            areas.results.write_bytes(0, count * self.width);
            let first = self.scores.keys(&sequence, start).start;
            let last = self.scores.keys(&sequence, known - 1).end;
            for keys in (first / KEYS * KEYS..last).step_by(KEYS) {
                self.keys(&block, keys..(keys + KEYS).min(last), areas);
            }
            let rows = std::slice::from_raw_parts(areas.rows, count);
            self.level.run(Finish { rows, results: areas.results, result: self.width });
            for (number, row) in rows.iter().enumerate() {
                self.write(&block, number, areas.results.add(number * self.width), row);
            }
        }
    }

    /// Writes the result of a block's row, and what is kept of it.
    ///
    /// # Safety
    /// The row is of the block, and the result is there.
    unsafe fn write(&self, block: &Block<'_>, row: usize, result: *const T, known: &Row<T>) {
        let Shape { heads, value_depth, .. } = self.shape;
        let query = block.queries.start + row;
        let (place, heads) = (block.sequence.place, [block.head, heads]);
        // SAFETY: the tensors have a row for every query.
        unsafe {
            let (rows, run) = &self.o;
            (run.store)(result, rows.row(block.tensors, place, heads, query), rows.strides[3], value_depth);
            let Row { max, sum } = *known;
            let stats = if sum == T::ZERO { max } else { max + sum.ln() };
            for (kept, number) in self.kept.iter().zip([stats, max, sum]) {
                if let Some((rows, run)) = kept {
                    (run.store)(&raw const number, rows.row(block.tensors, place, heads, query), 1, 1);
                }
            }
        }
    }

    /// Goes on with a block of keys.
    ///
    /// # Safety
    /// As for [`Forward::block`]; the keys are of the sequence.
    unsafe fn keys(&self, block: &Block<'_>, keys: Range<usize>, areas: &Areas<T>) {
        let Shape { heads, depth, value_depth, .. } = self.shape;
        let TileKernel { rows: most_rows, lanes, vectors, .. } = self.kernel;
        let columns = self.kernel.columns();
        let Block { tensors, sequence, head, queries } = block;
        let (place, shared) = (sequence.place, [*head, heads]);
        // SAFETY: the keys and values are in their tensors, and the areas have room for a block of them.
        unsafe {
            let (rows, pack) = &self.k;
            for start in keys.clone().step_by(columns) {
                let count = (keys.end - start).min(columns);
                let width = count.next_multiple_of(lanes);
                let copy = Copy {
                    from: rows.row(tensors, place, shared, start),
                    rows: depth,
                    row: rows.strides[3],
                    columns: count,
                    column: rows.strides[2],
                    width,
                    pitch: width,
                };
                pack(self.level, &copy, areas.k.add((start - keys.start) * depth));
            }
            let (rows, pack) = &self.v;
            let copy = Copy {
                from: rows.row(tensors, place, shared, keys.start),
                rows: keys.len(),
                row: rows.strides[2],
                columns: value_depth,
                column: rows.strides[3],
                width: self.width,
                pitch: self.width,
            };
            pack(self.level, &copy, areas.v);
            let finite = all_finite(areas.v, keys.len() * self.width);
            for first in (0..queries.len()).step_by(most_rows) {
                let count = (queries.len() - first).min(most_rows);
                // The keys that any of these queries sees.
                let query = queries.start + first;
                let begin = self.scores.keys(sequence, query).start.max(keys.start);
                let end = self.scores.keys(sequence, query + count - 1).end.min(keys.end);
                if begin >= end {
                    continue;
                }
                let begin = (begin - keys.start) / columns * columns;
                let end = end - keys.start;
                for panel in (begin..end).step_by(columns) {
                    let whole = (keys.len() - panel).min(columns).next_multiple_of(lanes);
                    let tile = Tile {
                        a: areas.q.add(first * self.pitch).cast_const(),
                        a_pitch: self.pitch,
                        b: areas.k.add(panel * depth).cast_const(),
                        b_pitch: whole,
                        keep: std::ptr::null_mut(),
                        depth,
                        from: std::ptr::null(),
                        from_pitch: 0,
                        add: std::ptr::null(),
                        to: areas.scores.add(panel - begin),
                        to_pitch: KEYS,
                    };
                    self.kernel.run(&tile, count, (end - panel).min(columns).div_ceil(lanes).min(vectors));
                }
                let width = (end - begin).next_multiple_of(STEP);
                for row in 0..count {
                    let row_of_scores = RowOfScores {
                        scores: areas.scores.add(row * KEYS),
                        width,
                        first: keys.start + begin,
                        added: areas.added,
                    };
                    self.scores.apply(self.level, tensors, sequence, [*head, query + row], &row_of_scores);
                }
                let results = areas.results.add(first * self.width);
                let rows = std::slice::from_raw_parts_mut(areas.rows.add(first), count);
                self.softmax(areas.scores, width, rows, results, finite);
                let values = areas.v.add(begin * self.width);
                if finite {
                    self.add_values(values, end - begin, areas.scores, results, count);
                } else {
                    self.add_any_values(values, end - begin, areas.scores, results, count);
                }
            }
        }
    }

    /// Makes scores weights, and scales the results so far.
    ///
    /// # Safety
    /// There are rows of `width` scores and of results.
    unsafe fn softmax(
        &self,
        scores: *mut T,
        width: usize,
        rows: &mut [Row<T>],
        results: *mut T,
        finite: bool,
    ) {
        let least = if finite { T::ZERO } else { T::from_f64(LEAST) };
        let (pitch, result) = (KEYS, self.width);
        // SAFETY: the level is one that the processor has, all but the first have fused instructions.
        unsafe {
            if self.level == Level::Portable {
                let work = Softmax::<T, false> { scores, pitch, width, rows, results, result, least };
                self.level.run(work);
            } else {
                let work = Softmax::<T, true> { scores, pitch, width, rows, results, result, least };
                self.level.run(work);
            }
        }
    }

    /// Adds values with their weights.
    ///
    /// # Safety
    /// There are `keys` values and `count` rows of weights and of results.
    #[inline(always)]
    unsafe fn add_values(
        &self,
        values: *const T,
        keys: usize,
        weights: *const T,
        results: *mut T,
        count: usize,
    ) {
        let TileKernel { lanes, vectors, .. } = self.kernel;
        let all = self.width / lanes;
        let parts = all.div_ceil(vectors);
        for number in 0..parts {
            let vectors = part(all, parts, number);
            // SAFETY: the vectors are in the rows.
            unsafe {
                let to = results.add(vectors.start * lanes);
                let tile = Tile {
                    a: weights,
                    a_pitch: KEYS,
                    b: values.add(vectors.start * lanes),
                    b_pitch: self.width,
                    keep: std::ptr::null_mut(),
                    depth: keys,
                    from: to.cast_const(),
                    from_pitch: self.width,
                    add: std::ptr::null(),
                    to,
                    to_pitch: self.width,
                };
                self.kernel.run(&tile, count, vectors.len());
            }
        }
    }

    /// The same where infinities or NaN are among the values: a key that does not count has no part, whatever its value is.
    ///
    /// # Safety
    /// As for [`Forward::add_values`].
    unsafe fn add_any_values(
        &self,
        values: *const T,
        keys: usize,
        weights: *const T,
        results: *mut T,
        count: usize,
    ) {
        for row in 0..count {
            // SAFETY: as the caller promises.
            unsafe {
                let weights = std::slice::from_raw_parts(weights.add(row * KEYS), keys);
                let results = std::slice::from_raw_parts_mut(results.add(row * self.width), self.width);
                for (key, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != T::ZERO) {
                    let value = std::slice::from_raw_parts(values.add(key * self.width), self.width);
                    for (result, number) in results.iter_mut().zip(value) {
                        *result = weight.fused(*number, *result);
                    }
                }
            }
        }
    }
}

/// A weight that is nothing beside others, but whose product with infinity is infinite.
const LEAST: f64 = 1e-37;

/// A number in memory.
///
/// # Safety
/// It is readable.
unsafe fn read<T: Functions>(run: &Run<T>, from: *const u8) -> T {
    let mut number = T::ZERO;
    // SAFETY: passed on.
    unsafe { (run.load)(from, 1, &raw mut number, 1) };
    number
}

impl<T: Weight> Kernel for Forward<T> {
    fn scratch_size(&self) -> usize {
        self.layout().1
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: passed on.
        unsafe { self.lengths.check(tensors) }
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Shape { batch, heads, queries, .. } = self.shape;
        let blocks = queries.div_ceil(self.queries);
        let (all, scratch) = (Tensors(tensors), Shared([scratch]));
        self.lanes.deal(batch * heads * blocks, |lane, number| {
            let areas = self.areas(scratch.get(0), lane);
            // The last queries see the most keys where not all see all: what takes longest comes first.
            let (head, block) = (number / blocks, blocks - 1 - number % blocks);
            // SAFETY: the tensors are those of the operation; no two blocks have a query in common, and every lane has its areas.
            unsafe { self.block(all.all(), head / heads, head % heads, block, &areas) };
        });
    }
}
