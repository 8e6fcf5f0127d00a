//! Backward attention: recomputes scores block by block; saved statistics turn them into probabilities.
//!
//! P are the probabilities and dP = dO · Vᵀ, both with a row per key and a column per query. dS = P (dP - Σ
//! dO · O), dV = P · dO, dK = dS · Q, dQ = dSᵀ · K. One worker computes a key head with all query heads that
//! read it, query after query, so results do not depend on the number of workers.

use std::ops::Range;

use crate::attention::dropout::{Drop, Dropout};
use crate::attention::forward::{KEYS, MAX_DEPTH};
use crate::attention::gemm::{PanelGemm, WeightedRows};
use crate::attention::rows::{At, Matrix, Rows};
use crate::attention::scales::ScaleSource;
use crate::attention::scores::{MAX_COLUMNS, ScoreBlock, Scores, VisibleKeys};
use crate::attention::shared::sequences::{Lengths, Sequence};
use crate::attention::slopes::{Dot, Slopes};
use crate::attention::softmax::WEIGHT;
use crate::attention::softmax::{CheckedScaling, LEAST, Scaling};
use crate::gemm::context::Context;
use crate::gemm::kernel::fused;
use crate::gemm::tile::Order;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::functions::Functions;
use crate::problem::attention::AttentionGradients;
use crate::problem::attention::shape::{Sequences, Shape};
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::view::Pointers;
use crate::threading::partition::{Threads, Workers, part};

/// A planned backward attention.
pub(crate) struct Backward<T: 'static> {
    pub(crate) shape: Shape,
    pub(crate) lengths: Lengths,
    pub(crate) isa: Isa,
    pub(crate) kernel: Context<T>,
    pub(crate) factor: ScaleSource<T>,
    pub(crate) scores: Scores<T>,
    pub(crate) dropout: Option<Dropout<T>>,
    pub(crate) q: Rows<T>,
    pub(crate) k: Rows<T>,
    pub(crate) v: Rows<T>,
    pub(crate) o: Rows<T>,
    pub(crate) d_o: Rows<T>,
    pub(crate) stats: Rows<T>,
    pub(crate) dq: Rows<T>,
    pub(crate) dk: Rows<T>,
    pub(crate) dv: Rows<T>,
    /// Panels of a head.
    pub(crate) panels: usize,
    /// Elements of a query or key, and of a value, rounded up to whole vectors.
    pub(crate) widths: [usize; 2],
    pub(crate) workers: Workers,
}

/// The most keys, whose gradients each worker has room for; beyond, the reference computes.
pub(crate) const MAX_KEYS: usize = 1 << 20;

/// Number of areas of a worker.
pub(crate) const AREAS: usize = 13;

/// A worker's memory.
pub(crate) struct ScratchLayout<T> {
    /// The queries and the gradients of results, as rows and as columns, and the results.
    pub(crate) q: *mut T,
    pub(crate) q_columns: *mut T,
    pub(crate) d_o: *mut T,
    pub(crate) d_o_columns: *mut T,
    pub(crate) o: *mut T,
    /// A block of keys and of values.
    pub(crate) k: *mut T,
    pub(crate) v: *mut T,
    /// Scores, which become probabilities, and their gradients.
    pub(crate) scores: *mut T,
    pub(crate) slopes: *mut T,
    /// The bias of scores.
    pub(crate) added: *mut T,
    /// Statistics of each query, and Σ dO · O.
    pub(crate) known: *mut T,
    /// The gradients of a panel's queries, and of all keys and values.
    pub(crate) dq: *mut T,
    pub(crate) of_keys: *mut T,
}

/// A key head.
pub(crate) struct Head<'a> {
    pub(crate) tensors: &'a [*mut u8],
    pub(crate) sequence: Sequence,
    /// The query heads that read it.
    pub(crate) heads: Range<usize>,
    /// Whether values may be infinite or NaN.
    pub(crate) any: bool,
}

impl<T: Functions> Backward<T> {
    pub(crate) fn plan(gradients: &AttentionGradients, isa: Isa, threads: Threads) -> Result<Self, Refusal> {
        let shape = gradients.shape;
        refuse(gradients)?;
        let kernel = Context::<T>::of(isa);
        let rows = |name: &'static str, sequences: &Sequences| Rows::of(name, sequences, &kernel);
        let vectors = kernel.vectors.min(MAX_COLUMNS / kernel.lanes);
        let scores = shape.scores().iter().map(|dim| *dim as f64).product::<f64>();
        let terms = (3 * shape.depth + 2 * shape.value_depth) as f64;
        let work = scores * (terms * fused::<T>(isa) + 2.0 * WEIGHT);
        Ok(Self {
            lengths: Lengths::new(shape, gradients.options.lengths, 1),
            factor: ScaleSource::of(&gradients.options.scale)?,
            scores: Scores::of(&gradients.options, &shape)?,
            dropout: gradients.options.dropout.as_ref().map(|of| Dropout::of(of, &shape)).transpose()?,
            q: rows("q", &gradients.q)?,
            k: rows("k", &gradients.k)?,
            v: rows("v", &gradients.v)?,
            o: rows("o", &gradients.o)?,
            d_o: rows("do", &gradients.d_o)?,
            stats: rows("stats", &gradients.stats)?,
            dq: rows("dq", &gradients.dq)?,
            dk: rows("dk", &gradients.dk)?,
            dv: rows("dv", &gradients.dv)?,
            panels: shape.queries.div_ceil(kernel.lanes).div_ceil(vectors),
            widths: [shape.depth, shape.value_depth].each(|depth| depth.next_multiple_of(kernel.lanes)),
            workers: threads.workers(work, shape.batch * shape.key_heads),
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

    /// The scratch memory of each worker.
    pub(crate) fn layout(&self) -> ([(usize, usize); AREAS], usize) {
        let mut scratch = Scratch::default();
        let Shape { depth, value_depth, keys, .. } = self.shape;
        let (columns, [width, value_width], block) = (self.columns(), self.widths, KEYS.min(keys));
        let sizes = [
            columns * width,
            columns * depth,
            columns * value_width,
            columns * value_depth,
            columns * value_width,
            block * width,
            block * value_width,
            block * columns,
            block * columns,
            if self.scores.has_mask() || self.dropout.is_some() { block * columns } else { 0 },
            2 * columns,
            columns * width,
            keys * (width + value_width),
        ];
        (sizes.each(|size| (scratch.area::<T>(size, self.workers.count()), size)), scratch.size())
    }

    pub(crate) fn areas(&self, scratch: *mut u8, worker: usize) -> ScratchLayout<T> {
        let [q, q_columns, d_o, d_o_columns, o, k, v, scores, slopes, added, known, dq, of_keys] =
            self.layout().0.map(|(area, size)| Scratch::of_worker(scratch, area, worker, size));
        ScratchLayout { q, q_columns, d_o, d_o_columns, o, k, v, scores, slopes, added, known, dq, of_keys }
    }

    pub(crate) fn at(&self, of: &Head<'_>, head: usize, row: usize) -> At {
        At { sequence: of.sequence, head, heads: self.shape.heads, row }
    }

    /// Computes everything of a key head; returns whether all results are finite.
    ///
    /// # Safety
    /// The tensors and the lengths are those of the operation, and the areas are a worker's.
    pub(crate) unsafe fn head(&self, of: &Head<'_>, areas: &ScratchLayout<T>) -> bool {
        let Shape { keys, .. } = self.shape;
        let [width, value_width] = self.widths;
        let with = (self.isa, of.tensors);
        // SAFETY: the areas have room for all keys, and the tensors a row for each.
        unsafe {
            let (dk, dv) = (areas.of_keys, areas.of_keys.add(keys * width));
            areas.of_keys.write_bytes(0, keys * (width + value_width));
            let mut is_finite = true;
            for head in of.heads.clone() {
                for index in 0..self.panels {
                    is_finite &= self.panel(of, head, index, areas);
                }
            }
            let at = self.at(of, of.heads.start, 0);
            for (factor, values, width, rows) in
                [(self.factor.get(of.tensors), dk, width, &self.dk), (T::ONE, dv, value_width, &self.dv)]
            {
                let scaling = Scaling { factors: &raw const factor, rows: 1, values, width: keys * width };
                is_finite &= self.isa.run(CheckedScaling(scaling));
                let keys = if rows.has_padding() { keys } else { of.sequence.keys };
                rows.write(with, at, keys, values.cast_const(), width);
            }
            is_finite
        }
    }

    /// Processes a panel of queries, and writes their gradients; returns whether these are finite.
    ///
    /// # Safety
    /// As [`Backward::head`].
    pub(crate) unsafe fn panel(
        &self,
        of: &Head<'_>,
        head: usize,
        index: usize,
        areas: &ScratchLayout<T>,
    ) -> bool {
        let (lanes, [width, value_width]) = (self.kernel.lanes, self.widths);
        let vectors = part(self.shape.queries.div_ceil(lanes), self.panels, index);
        let all = vectors.start * lanes..(vectors.end * lanes).min(self.shape.queries);
        let queries = all.start.min(of.sequence.queries)..all.end.min(of.sequence.queries);
        let (columns, count) = (vectors.len() * lanes, queries.len());
        let (with, at) = ((self.isa, of.tensors), self.at(of, head, all.start));
        // SAFETY: the area has room for a panel, and the factor is a tensor of the operation.
        let factor = unsafe {
            areas.dq.write_bytes(0, columns * width);
            self.factor.get(of.tensors)
        };
        if count > 0 {
            // SAFETY: the areas have room for a panel, and the tensors a row for each query.
            unsafe {
                self.q.copy(with, at, count, areas.q, width);
                self.q.copy_turned(with, at, count, areas.q_columns, (columns, columns));
                let (factors, values) = (&raw const factor, areas.q_columns);
                let width = columns * self.shape.depth;
                self.isa.run(Scaling { factors, rows: 1, values, width });
                self.d_o.copy(with, at, count, areas.d_o, value_width);
                self.d_o.copy_turned(with, at, count, areas.d_o_columns, (columns, columns));
                self.o.copy(with, at, count, areas.o, value_width);
            }
            // SAFETY: the area has two values for each column.
            let known = unsafe { std::slice::from_raw_parts_mut(areas.known, 2 * columns) };
            known.fill(T::ZERO);
            let (stats, deltas) = known.split_at_mut(columns);
            // SAFETY: the tensor has an element for each query, and a column is one of them or more.
            unsafe { self.stats.copy(with, at, count, stats.as_mut_ptr(), 1) };
            for (row, delta) in deltas.iter_mut().take(count).enumerate() {
                let [a, b] =
                    [areas.d_o, areas.o].each(|rows| rows.wrapping_add(row * value_width).cast_const());
                // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
                *delta = unsafe { self.isa.run(Dot { a, b, len: value_width }) };
            }
            let seen = self.scores.seen(&of.sequence, queries.clone());
            let of_all = seen.by(0..count);
            for first in of_all.clone().step_by(KEYS) {
                let keys = first..(first + KEYS).min(of_all.end);
                let panel = Panel { head, queries: queries.clone(), columns, seen: &seen };
                // SAFETY: the keys are of the sequence, and the areas hold the panel.
                unsafe { self.keys(of, &panel, keys, areas) };
            }
        }
        let (factors, values) = (&raw const factor, areas.dq);
        let scaling = Scaling { factors, rows: 1, values, width: count * width };
        // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
        let is_finite = unsafe { self.isa.run(CheckedScaling(scaling)) };
        let written = if self.dq.has_padding() { all.len() } else { count };
        // SAFETY: the tensor has so many rows, and the area holds as many.
        unsafe { self.dq.write(with, at, written, areas.dq.cast_const(), width) };
        is_finite
    }

    /// Processes a block of keys.
    ///
    /// # Safety
    /// As [`Backward::head`]; the keys are of the sequence.
    pub(crate) unsafe fn keys(
        &self,
        of: &Head<'_>,
        panel: &Panel<'_>,
        keys: Range<usize>,
        areas: &ScratchLayout<T>,
    ) {
        let Panel { head, queries, columns, seen } = panel;
        let (columns, count, with) = (*columns, queries.len(), (self.isa, of.tensors));
        let (Shape { keys: all_keys, depth, value_depth, .. }, [width, value_width]) =
            (self.shape, self.widths);
        let at = self.at(of, *head, keys.start);
        let ScratchLayout { scores, slopes, .. } = *areas;
        // SAFETY: the areas have room for a block, and the tensors a row for each key.
        let (k, v) = unsafe {
            let k = match self.k.is_plain(self.kernel.lanes) {
                true => self.k.in_place(of.tensors, at),
                false => self.k.copy(with, at, keys.len(), areas.k, width),
            };
            let v = match self.v.is_plain(1) {
                true => self.v.in_place(of.tensors, at),
                false => self.v.copy(with, at, keys.len(), areas.v, value_width),
            };
            (k, v)
        };
        let (isa, kernel) = (self.isa, self.kernel);
        let block = ScoreBlock {
            scores,
            row_stride: columns,
            columns,
            queries: queries.clone(),
            keys: keys.clone(),
            added: areas.added,
        };
        // SAFETY: the block has a row of scores and one of slopes for each key, and the areas hold the panel's columns.
        unsafe {
            let right = areas.q_columns.cast_const();
            PanelGemm { isa, kernel, seen, columns, depth, right, dots: None }.of(&keys, k, scores);
            self.scores.apply(isa, of.tensors, &of.sequence, *head, seen, &block);
            let right = areas.d_o_columns.cast_const();
            PanelGemm { isa, kernel, seen, columns, depth: value_depth, right, dots: None }
                .of(&keys, v, slopes);
        }
        let least = if of.any { T::from_f64(LEAST) } else { T::ZERO };
        let (stats, deltas) = (areas.known.cast_const(), areas.known.wrapping_add(columns).cast_const());
        let len = keys.len() * columns;
        let factors = areas.added.cast_const();
        if let Some(dropout) = &self.dropout {
            // SAFETY: the block has room for a factor of each score.
            unsafe { dropout.factors(isa, of.tensors, &of.sequence, *head, &block) };
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe { isa.run(Drop { values: slopes, factors, len }) };
        }
        // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
        unsafe { isa.run(Slopes { scores, slopes, columns, rows: keys.len(), stats, deltas, least }) };
        if self.dropout.is_some() {
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe { isa.run(Drop { values: scores, factors, len }) };
        }
        let dk = areas.of_keys.wrapping_add(keys.start * width);
        let dv = areas.of_keys.wrapping_add(all_keys * width + keys.start * value_width);
        let (q, d_o) = (areas.q.cast_const(), areas.d_o.cast_const());
        let (q, d_o) =
            (Matrix { first: q, row_stride: width }, Matrix { first: d_o, row_stride: value_width });
        // SAFETY: the scores and slopes have a row for each key and a column for each query, the panel a row for each query, and the sums
        // a row for each key and query.
        unsafe {
            let add = |a: *mut T, order, (rows, depth), b: Matrix<T>, (to, width)| {
                let a = Matrix { first: a.cast_const(), row_stride: columns };
                let gemm = WeightedRows { a, order, b, depth, to, width };
                match of.any {
                    true => gemm.add_with_any(rows, |weight| weight == T::ZERO),
                    false => gemm.add(&self.kernel, rows),
                }
            };
            add(slopes, Order::Rows, (keys.len(), count), q, (dk, width));
            add(scores, Order::Rows, (keys.len(), count), d_o, (dv, value_width));
            add(slopes, Order::Panel, (count, keys.len()), k, (areas.dq, width));
        }
    }
}

/// Refuses what only the reference computes.
pub(crate) fn refuse(gradients: &AttentionGradients) -> Result<(), Refusal> {
    let Shape { keys, depth, value_depth, key_heads, value_heads, .. } = gradients.shape;
    for (name, depth) in [("q", depth), ("v", value_depth)] {
        if depth > MAX_DEPTH {
            return Err(format!("{name}: has rows of {depth} values, expected at most {MAX_DEPTH}"));
        }
    }
    if keys > MAX_KEYS {
        return Err(format!("k: has {keys} keys, expected at most {MAX_KEYS}"));
    }
    if key_heads != value_heads {
        return Err(format!("v: has {value_heads} heads, expected {key_heads} as k has"));
    }
    if gradients.dbias.is_some() {
        return Err("dbias: given, expected none".to_owned());
    }
    Ok(())
}

/// Queries of a head that are computed together.
pub(crate) struct Panel<'a> {
    pub(crate) head: usize,
    pub(crate) queries: Range<usize>,
    pub(crate) columns: usize,
    pub(crate) seen: &'a VisibleKeys,
}

impl<T: Functions> Kernel for Backward<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "attention gradients by panels",
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
        for rows in [&self.q, &self.o, &self.d_o, &self.stats, &self.dq] {
            rows.check(tensors, &self.lengths, |sequence| sequence.queries)?;
        }
        for rows in [&self.k, &self.v, &self.dk, &self.dv] {
            rows.check(tensors, &self.lengths, |sequence| sequence.keys)?;
        }
        Ok(())
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Shape { batch, heads, key_heads, .. } = self.shape;
        let (all, scratch, group) = (Tensors(tensors), Shared([scratch]), heads / key_heads);
        self.workers.for_each_part(batch * key_heads, |worker, index| {
            let areas = self.areas(scratch.get(0), worker);
            let (batch, head) = (index / key_heads, index % key_heads);
            let tensors = all.all();
            // SAFETY: the tensors are those of the operation; no two heads have a key or a query in
            // common, and every worker has its areas.
            unsafe {
                let sequence = self.lengths.sequence(Pointers::new(tensors), batch);
                let heads = head * group..(head + 1) * group;
                let of = Head { tensors, sequence, heads, any: false };
                if !self.head(&of, &areas) {
                    self.head(&Head { any: true, ..of }, &areas);
                }
            }
        });
    }
}
