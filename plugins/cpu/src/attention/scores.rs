//! Bias and mask of a block of scores.
//!
//! A row of a block belongs to a key and a column to a query.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::DataType;

use crate::attention::shared::sequences::Sequence;
use crate::gemm::pack::{Pack, PackSource, pack_of};
use crate::kernel::Refusal;
use crate::problem::attention::alibi::slope;
use crate::problem::attention::options::{Band, Options, Spread};
use crate::problem::attention::shape::Shape;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::Float;
use crate::tensor::row_converter::RowConverter;

/// A tensor that is broadcast over the scores.
pub(crate) struct Mask<T> {
    slot: usize,
    run: RowConverter<T>,
    pack: Pack<T>,
    strides: [usize; 4],
    is_boolean: bool,
}

/// Bias and mask of the scores.
pub(crate) struct Scores<T> {
    mask: Option<Mask<T>>,
    band: Band,
    /// The ALiBi slope of each head: how much a score falls per key of distance; empty without ALiBi.
    slopes: Vec<T>,
}

/// The most queries of a head that are computed together.
pub(crate) const MAX_COLUMNS: usize = 48;

/// The keys that each query of a panel may see.
pub(crate) struct VisibleKeys {
    keys: [(usize, usize); MAX_COLUMNS],
    count: usize,
}

impl VisibleKeys {
    /// The keys that any of these queries sees; empty if there are no such queries. Queries are numbered from
    /// the panel's first.
    pub(crate) fn by(&self, queries: Range<usize>) -> Range<usize> {
        let end = queries.end.min(self.count);
        if queries.start >= end { 0..0 } else { self.keys[queries.start].0..self.keys[end - 1].1 }
    }

    /// Whether any of these queries may see any of the keys, judged by the outermost queries.
    pub(crate) fn touches(&self, queries: Range<usize>, keys: &Range<usize>) -> bool {
        let seen = self.by(queries);
        seen.start < keys.end && keys.start < seen.end
    }

    /// Whether some key is masked for some query.
    fn hides(&self, keys: &Range<usize>) -> bool {
        self.keys[..self.count].iter().any(|(begin, end)| *begin > keys.start || *end < keys.end)
    }
}

/// A block of scores.
pub(crate) struct ScoreBlock<T> {
    /// The first score.
    pub(crate) scores: *mut T,
    /// Row stride.
    pub(crate) row_stride: usize,
    /// Columns, the first of which belong to queries.
    pub(crate) columns: usize,
    /// The queries.
    pub(crate) queries: Range<usize>,
    /// The keys.
    pub(crate) keys: Range<usize>,
    /// Room for as many values, for a mask tensor or dropout.
    pub(crate) added: *mut T,
}

impl<T: Float> Mask<T> {
    pub(crate) fn of(name: &str, mask: &Spread) -> Result<Self, Refusal> {
        let is_boolean = mask.operand.data_type == DataType::Boolean;
        // Any nonzero byte is true.
        let stored = if is_boolean { DataType::Uint8 } else { mask.operand.data_type };
        let run = if is_boolean { RowConverter::of_number(stored) } else { RowConverter::of(stored) };
        let run = run.map_err(|refusal| format!("{name}: {refusal}"))?;
        let pack = pack_of(name, stored)?;
        Ok(Self { slot: mask.operand.slot, run, pack, strides: mask.strides, is_boolean })
    }

    /// Loads a block's mask elements to where its bias goes; returns whether there is one per score, rather
    /// than one per key.
    ///
    /// # Safety
    /// As [`Scores::apply`].
    pub(crate) unsafe fn load(
        &self,
        isa: Isa,
        tensors: &[*mut u8],
        sequence: &Sequence,
        head: usize,
        block: &ScoreBlock<T>,
    ) -> bool {
        let ScoreBlock { row_stride, columns, queries, keys, added, .. } = block;
        let indices = [sequence.index, head, queries.start, keys.start];
        let at: usize = indices.iter().zip(self.strides).map(|(index, stride)| index * stride).sum();
        let each = self.strides[2] != 0;
        if keys.is_empty() {
            return each;
        }
        // SAFETY: the mask covers the sequence's queries and keys, and the block has room.
        unsafe {
            let from = tensors[self.slot].add(at * self.run.size);
            if each {
                let copy = PackSource {
                    from,
                    rows: keys.len(),
                    row: self.strides[3],
                    columns: queries.len(),
                    column: self.strides[2],
                    width: *columns,
                    row_stride: *row_stride,
                };
                (self.pack)(isa, &copy, *added);
            } else {
                (self.run.load)(from, self.strides[3], *added, keys.len());
            }
        }
        each
    }
}

impl<T: Float> Scores<T> {
    pub(crate) fn of(options: &Options, shape: &Shape) -> Result<Self, Refusal> {
        let mask = options.mask.as_ref().map(|mask| Mask::of("attn_mask", mask));
        let slopes = if options.alibi {
            (0..shape.heads).map(|head| T::from_f64(slope(head, shape.heads))).collect()
        } else {
            Vec::new()
        };
        Ok(Self { mask: mask.transpose()?, band: options.band, slopes })
    }

    /// Whether blocks need room for a mask tensor.
    pub(crate) fn has_mask(&self) -> bool {
        self.mask.is_some()
    }

    /// The keys that some queries see, at most [`MAX_COLUMNS`] of them.
    pub(crate) fn seen(&self, sequence: &Sequence, queries: Range<usize>) -> VisibleKeys {
        let mut seen = VisibleKeys { keys: [(0, sequence.keys); MAX_COLUMNS], count: queries.len() };
        if self.band.left.is_some() || self.band.right.is_some() {
            for (query, (begin, end)) in queries.zip(&mut seen.keys) {
                let keys = self.band.keys(sequence.queries, sequence.keys, query);
                (*begin, *end) = (keys.start, keys.end);
            }
        }
        seen
    }

    /// Adds bias and mask to a block of scores; masked scores become -∞.
    ///
    /// # Safety
    /// The processor supports the instruction set, `tensors` are those of the operation, which has the sequence
    /// and the head, and the block is valid.
    pub(crate) unsafe fn apply(
        &self,
        isa: Isa,
        tensors: &[*mut u8],
        sequence: &Sequence,
        head: usize,
        seen: &VisibleKeys,
        block: &ScoreBlock<T>,
    ) {
        let ScoreBlock { scores, row_stride, columns, queries, keys, added } = block;
        let (scores, row_stride, columns, added) = (*scores, *row_stride, *columns, *added);
        if let Some(mask) = &self.mask {
            // SAFETY: the mask has elements for the queries and keys, which are those of the sequence, and the block has room for them.
            let each = unsafe { mask.load(isa, tensors, sequence, head, block) };
            let (rows, is_boolean) = (keys.len(), mask.is_boolean);
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe { isa.run(AddBias { scores, added, row_stride, rows, columns, each, is_boolean }) };
        }
        if let Some(slope) = self.slopes.get(head) {
            let diagonal = self.band.diagonal(sequence.queries, sequence.keys, queries.start);
            let distance = T::from_f64((diagonal - keys.start as i128) as f64);
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe {
                isa.run(AddSlope { scores, row_stride, rows: keys.len(), columns, slope: *slope, distance })
            };
        }
        if !seen.hides(keys) {
            return;
        }
        // The queries that see a key: both ends grow with the key.
        let (mut first, mut last) = (0, 0);
        for (row, key) in keys.clone().enumerate() {
            while first < seen.count && seen.keys[first].1 <= key {
                first += 1;
            }
            while last < seen.count && seen.keys[last].0 <= key {
                last += 1;
            }
            if first > 0 || last < seen.count {
                // SAFETY: the block has a row of scores for each key.
                let scores = unsafe { scores.add(row * row_stride) };
                for hidden in [0..first, last.max(first)..seen.count] {
                    // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
                    unsafe { isa.run(MaskColumns { scores, row_stride, rows: 1, hidden }) };
                }
            }
        }
    }
}

/// Sets columns to -∞.
pub(crate) struct MaskColumns<T> {
    /// The first score.
    pub(crate) scores: *mut T,
    /// Row stride.
    pub(crate) row_stride: usize,
    /// Rows.
    pub(crate) rows: usize,
    /// The columns.
    pub(crate) hidden: Range<usize>,
}

impl<T: Float> IsaTask for MaskColumns<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in 0..self.rows {
            for column in self.hidden.clone() {
                // SAFETY: the block has the scores.
                unsafe { self.scores.add(row * self.row_stride + column).write(-(T::ONE / T::ZERO)) };
            }
        }
    }
}

/// Adds a mask tensor.
struct AddBias<T> {
    scores: *mut T,
    added: *const T,
    row_stride: usize,
    rows: usize,
    columns: usize,
    /// Whether each column has its own values, instead of one for all.
    each: bool,
    is_boolean: bool,
}

impl<T: Float> IsaTask for AddBias<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { scores, added, row_stride, rows, columns, each, is_boolean } = self;
        let masked = -(T::ONE / T::ZERO);
        for row in 0..rows {
            // SAFETY: there are so many scores in each row.
            let scores = unsafe { std::slice::from_raw_parts_mut(scores.add(row * row_stride), columns) };
            if !each {
                // SAFETY: there is one value for each row.
                let added = unsafe { added.add(row).read() };
                if added == masked || (is_boolean && added == T::ZERO) {
                    scores.fill(masked);
                } else if !is_boolean {
                    scores.iter_mut().for_each(|score| *score = *score + added);
                }
                continue;
            }
            // SAFETY: there is a value for each score, in memory of its own.
            let added = unsafe { std::slice::from_raw_parts(added.add(row * row_stride), columns) };
            let pairs = scores.iter_mut().zip(added);
            if is_boolean {
                pairs.for_each(|(score, counts)| *score = if *counts == T::ZERO { masked } else { *score });
            } else {
                // -∞ masks scores that are NaN, too.
                pairs.for_each(|(score, added)| {
                    *score = if *added == masked { masked } else { *score + *added };
                });
            }
        }
    }
}

/// Adds an ALiBi bias: scores fall with the distance from the diagonal.
struct AddSlope<T> {
    scores: *mut T,
    row_stride: usize,
    rows: usize,
    columns: usize,
    slope: T,
    /// Distance of the first query's diagonal position from the first key.
    distance: T,
}

impl<T: Float> IsaTask for AddSlope<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in 0..self.rows {
            let distance = self.distance - T::from_f64(row as f64);
            // SAFETY: the block has the scores.
            let scores = unsafe {
                std::slice::from_raw_parts_mut(self.scores.add(row * self.row_stride), self.columns)
            };
            for (j, score) in scores.iter_mut().enumerate() {
                *score = *score - self.slope * (distance + T::from_f64(f64::from(j as u32))).abs();
            }
        }
    }
}
