//! Forward attention: the loops over panels of queries and blocks of keys.

use std::ops::Range;

use hipdnn_plugin_planner::in_own_frame;

use crate::attention::dropout::{Drop, Dropout};
use crate::attention::gemm::{PanelGemm, WeightedRows, dots_for};
use crate::attention::panel::{Panel, Part};
use crate::attention::rows::{At, Matrix, Rows};
use crate::attention::scales::{ScaleSource, Scales, read};
use crate::attention::scores::{MAX_COLUMNS, ScoreBlock, Scores};
use crate::attention::shared::sequences::Lengths;
use crate::attention::softmax::{RowStatistics, Scaling, Softmax, Weight, work};
use crate::gemm::context::Context;
use crate::gemm::dots::Dots;
use crate::gemm::tile::Order;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::functions::Functions;
use crate::problem::attention::Attention;
use crate::problem::attention::shape::{Sequences, Shape};
use crate::simd::isa::Isa;
use crate::tensor::combine::{Combine, LargestMagnitude};
use crate::tensor::row_converter::RowConverter;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::view::Pointers;
use crate::threading::partition::{Threads, Workers, part};

/// Keys per block: the scores of a panel stay in the L1 cache, with 64 scores per key. A multiple of every
/// instruction set's tile height. Blocks begin at multiples of it, whatever the queries, so that sums keep their order.
pub(crate) const KEYS: usize = 128;

/// The most panels that share a packed block of keys: the more panels, the less packing costs.
pub(crate) const PANELS: usize = 5;

/// With this many parts, packing keys more often pays.
pub(crate) const PARTS: usize = 8;

/// The most elements of a query, key or value; beyond, the reference computes.
pub(crate) const MAX_DEPTH: usize = 2048;

/// A planned forward attention.
pub(crate) struct Forward<T: 'static> {
    pub(crate) shape: Shape,
    pub(crate) lengths: Lengths,
    pub(crate) isa: Isa,
    pub(crate) kernel: Context<T>,
    pub(crate) factor: ScaleSource<T>,
    pub(crate) factors: Scales<T>,
    pub(crate) scores: Scores<T>,
    pub(crate) dropout: Option<Dropout<T>>,
    /// The sink, an additional score of each head: its slot, conversion and stride.
    pub(crate) sink: Option<(usize, RowConverter<T>, usize)>,
    pub(crate) q: Rows<T>,
    pub(crate) k: Rows<T>,
    pub(crate) v: Rows<T>,
    pub(crate) o: Rows<T>,
    /// Where statistics, maxima and sums are written.
    pub(crate) statistics: [Option<Rows<T>>; 3],
    /// Whether keys and values are read in place.
    pub(crate) in_place: [bool; 2],
    /// Computes the scores of single queries.
    pub(crate) dots: Option<Dots<T>>,
    /// Panels of a head, and parts into which they are divided for the workers.
    pub(crate) panels: usize,
    pub(crate) parts: usize,
    /// Elements of a value and of a result, rounded up to whole vectors.
    pub(crate) width: usize,
    pub(crate) workers: Workers,
}

/// A worker's memory.
pub(crate) struct ScratchLayout<T> {
    pub(crate) q: *mut T,
    pub(crate) k: *mut T,
    pub(crate) v: *mut T,
    pub(crate) scores: *mut T,
    pub(crate) added: *mut T,
    pub(crate) results: *mut T,
    pub(crate) statistics: RowStatistics<T>,
    /// The largest probability and the largest result of the worker's parts so far.
    pub(crate) largest: *mut [T; 2],
}

/// What to do with a block of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Applies weights relative to the largest score so far to the values (online softmax).
    All,
    /// Only sums weights.
    Statistics,
    /// Applies rounded probabilities to the values.
    Rounded,
}

impl<T: Weight> Forward<T> {
    pub(crate) fn plan(
        attention: &Attention,
        isa: Isa,
        threads: Threads,
        by_dots: bool,
    ) -> Result<Self, Refusal> {
        let shape = attention.shape;
        for (name, depth) in [("q", shape.depth), ("v", shape.value_depth)] {
            if depth > MAX_DEPTH {
                return Err(format!("{name}: has rows of {depth} values, expected at most {MAX_DEPTH}"));
            }
        }
        let sink = attention.sink.as_ref().map(|sink| {
            let run = RowConverter::of(sink.data_type).map_err(|refusal| format!("sink_token: {refusal}"));
            run.map(|run| (sink.slot, run, sink.stride))
        });
        let kernel = Context::<T>::of(isa);
        let statistics = |name, sequences: &Option<Sequences>| {
            sequences.as_ref().map(|sequences| Rows::of(name, sequences, &kernel)).transpose()
        };
        let (k, v) = (Rows::of("k", &attention.k, &kernel)?, Rows::of("v", &attention.v, &kernel)?);
        let in_place = [k.is_plain(1), v.is_plain(kernel.lanes)];
        let heads = shape.batch * shape.heads;
        let vectors = kernel.vectors.min(MAX_COLUMNS / kernel.lanes);
        let panels = shape.queries.div_ceil(kernel.lanes).div_ceil(vectors);
        let mut together = if in_place == [true; 2] { 1 } else { PANELS };
        while together > 1 && heads * panels.div_ceil(together) < PARTS {
            together -= 1;
        }
        let parts = panels.div_ceil(together);
        let work = work::<T>(&shape, isa);
        // Each in its own stack frame, which is gone when the next begins.
        let scores = in_own_frame(|| Scores::of(&attention.options, &shape))?;
        let dropout = attention.options.dropout.as_ref();
        let dropout = in_own_frame(|| dropout.map(|of| Dropout::of(of, &shape)).transpose())?;
        let [q, o] = in_own_frame(|| -> Result<_, Refusal> {
            Ok([Rows::of("q", &attention.q, &kernel)?, Rows::of("o", &attention.o, &kernel)?])
        })?;
        let statistics = in_own_frame(|| -> Result<_, Refusal> {
            Ok([
                statistics("stats", &attention.stats)?,
                statistics("max", &attention.max)?,
                statistics("sum_exp", &attention.sum_exp)?,
            ])
        })?;
        Ok(Self {
            lengths: Lengths::new(shape, attention.options.lengths, attention.rows_of_query),
            factor: ScaleSource::of(&attention.options.scale)?,
            factors: Scales::of(attention)?,
            scores,
            dropout,
            sink: sink.transpose()?,
            q,
            k,
            v,
            o,
            statistics,
            in_place,
            dots: if by_dots { dots_for::<T>(shape.depth, isa) } else { None },
            panels,
            parts,
            width: shape.value_depth.next_multiple_of(kernel.lanes),
            workers: threads.workers(work, heads * parts),
            isa,
            kernel,
            shape,
        })
    }

    /// Columns of the largest panel.
    pub(crate) fn columns(&self) -> usize {
        let lanes = self.kernel.lanes;
        self.shape.queries.div_ceil(lanes).div_ceil(self.panels) * lanes
    }

    /// The scratch memory of each worker: for each of some panels the queries, results and statistics; a block
    /// of keys, of values, and of scores; and the largest values.
    pub(crate) fn layout(&self) -> ([(usize, usize); 8], usize) {
        let mut scratch = Scratch::default();
        let keys = KEYS.min(self.shape.keys);
        let (columns, together) = (self.columns(), self.panels.div_ceil(self.parts));
        let [of_keys, of_values] = self.in_place.map(|in_place| if in_place { 0 } else { keys });
        let sizes = [
            together * columns * self.shape.depth,
            of_keys * self.shape.depth,
            of_values * self.width,
            keys * columns,
            if self.scores.has_mask() || self.dropout.is_some() { keys * columns } else { 0 },
            together * columns * self.width,
            together * columns * 3,
            2,
        ];
        (sizes.map(|size| (scratch.area::<T>(size, self.workers.count()), size)), scratch.size())
    }

    pub(crate) fn areas(&self, scratch: *mut u8, worker: usize) -> ScratchLayout<T> {
        let [q, k, v, scores, added, results, statistics, largest] =
            self.layout().0.map(|(area, size)| Scratch::of_worker::<T>(scratch, area, worker, size));
        let all = self.panels.div_ceil(self.parts) * self.columns();
        let statistics = RowStatistics {
            max: statistics,
            sum: statistics.wrapping_add(all),
            factor: statistics.wrapping_add(2 * all),
        };
        ScratchLayout { q, k, v, scores, added, results, statistics, largest: largest.cast() }
    }

    /// One of a part's panels, limited to queries of the sequence.
    pub(crate) fn panel(&self, part_: &Part<'_>, index: usize, areas: &ScratchLayout<T>) -> Panel<T> {
        let lanes = self.kernel.lanes;
        let vectors = part(self.shape.queries.div_ceil(lanes), self.panels, index);
        let of = |query: usize| query.min(part_.sequence.queries);
        let queries = of(vectors.start * lanes)..of(vectors.end * lanes);
        let before = (index - part_.panels.start) * self.columns();
        let statistics = areas.statistics;
        Panel {
            seen: self.scores.seen(&part_.sequence, queries.clone()),
            queries,
            columns: vectors.len() * lanes,
            q: areas.q.wrapping_add(before * self.shape.depth),
            results: areas.results.wrapping_add(before * self.width),
            statistics: RowStatistics {
                max: statistics.max.wrapping_add(before),
                sum: statistics.sum.wrapping_add(before),
                factor: statistics.factor.wrapping_add(before),
            },
        }
    }

    /// Computes a part of a head; returns whether all results are finite. If not, values are infinite or NaN,
    /// and the part must be computed again with `any`.
    ///
    /// # Safety
    /// The tensors and the lengths are those of the operation, and the areas are a worker's.
    pub(crate) unsafe fn part(&self, part: &Part<'_>, areas: &ScratchLayout<T>, any: bool) -> bool {
        let Part { tensors, panels, .. } = part;
        let panels: [Option<Panel<T>>; PANELS] = std::array::from_fn(|index| {
            let index = panels.start + index;
            let panel = (index < panels.end).then(|| self.panel(part, index, areas));
            panel.filter(|panel| !panel.queries.is_empty())
        });
        let panels = panels.iter().flatten();
        let (mut begin, mut end) = (usize::MAX, 0);
        for panel in panels.clone() {
            // SAFETY: the areas have room for the panel, and the tensors a row for each query.
            unsafe { self.begin(part, panel) };
            let seen = panel.seen.by(0..panel.queries.len());
            (begin, end) = (begin.min(seen.start), end.max(seen.end));
        }
        let rounds = self.factors.rounding.is_some();
        // Rounding probabilities requires the final sums.
        for pass in if rounds { &[Pass::Statistics, Pass::Rounded][..] } else { &[Pass::All] } {
            for first in (begin / KEYS * KEYS..end).step_by(KEYS) {
                let keys = first..(first + KEYS).min(end);
                let at = self.at(part, first);
                let with = (self.isa, *tensors);
                // SAFETY: the keys are of the sequence, and the areas have room for so many.
                unsafe {
                    let k = match self.in_place[0] {
                        true => self.k.in_place(tensors, at),
                        false => self.k.copy(with, at, keys.len(), areas.k, self.shape.depth),
                    };
                    let v = match self.in_place[1] {
                        _ if *pass == Pass::Statistics => Matrix { first: std::ptr::null(), row_stride: 0 },
                        true => self.v.in_place(tensors, at),
                        false => self.v.copy(with, at, keys.len(), areas.v, self.width),
                    };
                    for panel in panels.clone() {
                        if panel.seen.touches(0..panel.queries.len(), &keys) {
                            self.keys(part, panel, &keys, (k, v), areas, (*pass, any));
                        }
                    }
                }
            }
            if *pass == Pass::Statistics {
                // SAFETY: the loop has gone over all keys of the sequence, which completes every panel's statistics.
                panels.clone().for_each(|panel| unsafe { self.divide(part, panel) });
            }
        }
        let mut is_finite = true;
        for panel in panels {
            // SAFETY: the panel's results are there, and the tensors have a row for each query.
            is_finite &= unsafe { self.epilogue(part, panel, areas) };
        }
        is_finite
    }

    pub(crate) fn at(&self, part: &Part<'_>, row: usize) -> At {
        At { sequence: part.sequence, head: part.head, heads: self.shape.heads, row }
    }

    /// Packs the queries of a panel, and initialises its results.
    ///
    /// # Safety
    /// As [`Forward::part`].
    pub(crate) unsafe fn begin(&self, part: &Part<'_>, panel: &Panel<T>) {
        let Part { tensors, head, .. } = part;
        let (at, count) = (self.at(part, panel.queries.start), panel.queries.len());
        // SAFETY: `Self::areas` gives a worker's panels room for `panel.columns` columns of queries and results.
        unsafe {
            let width = (panel.columns, panel.columns);
            self.q.copy_turned((self.isa, tensors), at, count, panel.q, width);
            let factor = self.factor.get(tensors) * self.factors.of_scores(tensors, &part.sequence, *head);
            let (factors, width) = (&raw const factor, self.shape.depth * panel.columns);
            self.isa.run(Scaling { factors, rows: 1, values: panel.q, width });
            let sink = self.sink.as_ref().map(|(slot, run, stride)| {
                let at = tensors[*slot].add(head * stride * run.size);
                read(run, at)
            });
            let (max, sum) = match sink {
                // The sink has a weight but no value.
                Some(score) if score != -(T::ONE / T::ZERO) => (score, T::ONE),
                _ => (-(T::ONE / T::ZERO), T::ZERO),
            };
            std::slice::from_raw_parts_mut(panel.statistics.max, panel.columns).fill(max);
            std::slice::from_raw_parts_mut(panel.statistics.sum, panel.columns).fill(sum);
            panel.results.write_bytes(0, count * self.width);
        }
    }

    /// Processes a block of keys.
    ///
    /// # Safety
    /// As [`Forward::part`]; the keys are of the sequence, and they and their values are where the matrices
    /// say.
    pub(crate) unsafe fn keys(
        &self,
        part_: &Part<'_>,
        panel: &Panel<T>,
        keys: &Range<usize>,
        (k, v): (Matrix<T>, Matrix<T>),
        areas: &ScratchLayout<T>,
        (pass, any): (Pass, bool),
    ) {
        let Panel { queries, columns, seen, statistics, .. } = panel;
        let (count, columns, lanes) = (queries.len(), *columns, self.kernel.lanes);
        let of_panel = seen.by(0..count);
        let keys_seen = of_panel.start.max(keys.start)..of_panel.end.min(keys.end);
        let (k, v) = (k.skip(keys_seen.start - keys.start), v.skip(keys_seen.start - keys.start));
        let keys = keys_seen;
        let (isa, kernel, right) = (self.isa, self.kernel, panel.q.cast_const());
        let dots = self.dots.map(|dots| (dots, count));
        let gemm = PanelGemm { isa, kernel, seen, columns, depth: self.shape.depth, right, dots };
        let block = ScoreBlock {
            scores: areas.scores,
            row_stride: columns,
            columns,
            queries: queries.clone(),
            keys: keys.clone(),
            added: areas.added,
        };
        let Part { tensors, sequence, head, .. } = part_;
        // SAFETY: the area has a row of scores for each key, and the matrix the keys.
        unsafe {
            gemm.of(&keys, k, areas.scores);
            self.scores.apply(self.isa, tensors, sequence, *head, seen, &block);
        }
        let softmax = Softmax {
            scores: areas.scores,
            row_stride: columns,
            keys: keys.len(),
            columns,
            statistics: *statistics,
        };
        // SAFETY: the scores of all keys are there, and the statistics of all columns.
        unsafe {
            match (pass, any) {
                (Pass::Rounded, true) => softmax.known_with_any(),
                (Pass::Rounded, false) => softmax.known(self.isa, lanes),
                (_, true) => softmax.run_with_any(),
                (_, false) => softmax.run(self.isa, lanes),
            }
        }
        if pass == Pass::Statistics {
            return;
        }
        if let Some(dropout) = &self.dropout {
            // SAFETY: the block has room for a factor of each weight.
            unsafe { dropout.factors(self.isa, tensors, sequence, *head, &block) };
            let (values, factors) = (areas.scores, areas.added.cast_const());
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe { self.isa.run(Drop { values, factors, len: keys.len() * columns }) };
        }
        if pass == Pass::Rounded {
            // SAFETY: the area holds so many weights.
            unsafe { self.round(areas.scores, keys.len() * columns, any) };
        } else if keys.start > of_panel.start {
            let (factors, values) = (statistics.factor.cast_const(), panel.results);
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe { self.isa.run(Scaling { factors, rows: count, values, width: self.width }) };
        }
        let (most_rows, _) = self.kernel.largest_for(self.width / lanes);
        for first in (0..count).step_by(most_rows) {
            let rows = (count - first).min(most_rows);
            let seen = seen.by(first..first + rows);
            let seen = seen.start.max(keys.start)..seen.end.min(keys.end);
            if seen.is_empty() {
                continue;
            }
            let skipped = seen.start - keys.start;
            let weights = areas.scores.wrapping_add(skipped * columns + first).cast_const();
            // SAFETY: the weights of the keys that are left are there, and so are their values, and the results of the queries.
            unsafe {
                let values = WeightedRows {
                    a: Matrix { first: weights, row_stride: columns },
                    order: Order::Panel,
                    b: v.skip(skipped),
                    depth: seen.len(),
                    to: panel.results.add(first * self.width),
                    width: self.width,
                };
                if any && pass == Pass::Rounded {
                    values.add_with_any(rows, is_hidden);
                } else if any {
                    values.add_with_any(rows, |weight| weight == T::ZERO);
                } else {
                    values.add(&self.kernel, rows);
                }
            }
        }
    }
}

/// Whether a probability is -0, which marks masked scores.
pub(crate) fn is_hidden<T: Functions>(probability: T) -> bool {
    probability == T::ZERO && T::ONE / probability < T::ZERO
}

impl<T: Weight> Kernel for Forward<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "attention by panels",
            self.workers.threads(),
            [self.kernel.rows, self.kernel.columns()],
            1,
        )
    }

    fn scratch_size(&self) -> usize {
        self.layout().1
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: the tensors are those of the operation, among which the lengths are.
        let tensors = unsafe { Pointers::new(tensors) };
        self.lengths.check(tensors)?;
        for rows in [&self.k, &self.v] {
            rows.check(tensors, &self.lengths, |sequence| sequence.keys)?;
        }
        let mut of_queries = [&self.q, &self.o].into_iter().chain(self.statistics.iter().flatten());
        of_queries.try_for_each(|rows| rows.check(tensors, &self.lengths, |sequence| sequence.queries))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Shape { batch, heads, .. } = self.shape;
        let (all, scratch) = (Tensors(tensors), Shared([scratch]));
        let largest = |worker: usize| self.areas(scratch.get(0), worker).largest;
        for worker in 0..self.workers.count() {
            // SAFETY: the trait requires scratch memory of `scratch_size`, which has areas for each worker.
            unsafe { largest(worker).write([T::ZERO; 2]) };
        }
        self.workers.for_each_part(batch * heads * self.parts, |worker, index| {
            let areas = self.areas(scratch.get(0), worker);
            // With a causal mask the last queries see the most keys: start with the longest parts.
            let (head, index) = (index / self.parts, self.parts - 1 - index % self.parts);
            let tensors = all.all();
            // SAFETY: the tensors are those of the operation; no two parts have a query in common, and
            // every worker has its areas.
            unsafe {
                let sequence = self.lengths.sequence(Pointers::new(tensors), head / heads);
                let panels = part(self.panels, self.parts, index);
                let part = Part { tensors, sequence, head: head % heads, panels };
                let before = areas.largest.read();
                if !self.part(&part, &areas, false) {
                    areas.largest.write(before);
                    self.part(&part, &areas, true);
                }
                self.pad(&part, &areas);
            }
        });
        // SAFETY: all workers are done, and the tensors are those of the operation.
        unsafe {
            let all = (0..self.workers.count()).map(|worker| largest(worker).read());
            let merge = |most: [T; 2], of: [T; 2]| [0, 1].map(|i| LargestMagnitude::merge(of[i], most[i]));
            let largest = all.fold([T::ZERO; 2], merge);
            self.factors.write_largest(tensors, largest);
        }
    }
}
