//! What is added to the scores of a query, and which of them count.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::DataType;

use super::super::level::{Level, Work};
use super::super::real::{FastReal, Run};
use super::softmax::STEP;
use crate::kernel::Refusal;
use crate::problem::attention::Attention;
use crate::problem::attention::options::Band;
use crate::reference::{Sequence, slope};

/// A tensor that is spread over the scores.
struct Mask<T> {
    slot: usize,
    run: Run<T>,
    strides: [usize; 4],
    is_boolean: bool,
}

/// What happens to the scores.
pub(super) struct Scores<T> {
    mask: Option<Mask<T>>,
    band: Band,
    /// By how much a score falls for each key of distance, of each head; empty if it does not.
    slopes: Vec<T>,
}

/// A row of scores.
pub(super) struct RowOfScores<T> {
    /// The first score.
    pub(super) scores: *mut T,
    /// How many are there, a multiple of [`STEP`].
    pub(super) width: usize,
    /// The key of the first one.
    pub(super) first: usize,
    /// Room for as many numbers.
    pub(super) added: *mut T,
}

impl<T: FastReal> Scores<T> {
    pub(super) fn of(attention: &Attention) -> Result<Self, Refusal> {
        let options = &attention.options;
        let mask = options.mask.as_ref().map(|mask| {
            let is_boolean = mask.operand.data_type == DataType::Boolean;
            let run =
                if is_boolean { Run::of_number(DataType::Boolean) } else { Run::of(mask.operand.data_type) };
            run.map(|run| Mask { slot: mask.operand.slot, run, strides: mask.strides, is_boolean })
                .map_err(|refusal| format!("attn_mask: {refusal}"))
        });
        let heads = attention.shape.heads;
        let slopes = if options.alibi {
            (0..heads).map(|head| T::from_f64(slope(head, heads))).collect()
        } else {
            Vec::new()
        };
        Ok(Self { mask: mask.transpose()?, band: options.band, slopes })
    }

    /// The keys that a query sees.
    pub(super) fn keys(&self, sequence: &Sequence, query: usize) -> Range<usize> {
        self.band.keys(sequence.queries, sequence.keys, query)
    }

    /// Adds to the scores of a query what there is to add, and makes those -∞ that do not count.
    ///
    /// # Safety
    /// The level is one that the processor has, `tensors` are those of the operation, of which `sequence`, `head` and `query`
    /// are, and the row is there.
    pub(super) unsafe fn apply(
        &self,
        level: Level,
        tensors: &[*mut u8],
        sequence: &Sequence,
        [head, query]: [usize; 2],
        row: &RowOfScores<T>,
    ) {
        let seen = self.keys(sequence, query);
        let end = row.first + row.width;
        let seen = seen.start.clamp(row.first, end)..seen.end.clamp(row.first, end);
        let inside = seen.start - row.first..seen.end.max(seen.start) - row.first;
        // SAFETY: the keys are those of the sequence, for which the mask has elements, and the row has room for them.
        unsafe {
            let nothing = -(T::ONE / T::ZERO);
            for hidden in [0..inside.start, inside.end..row.width] {
                std::slice::from_raw_parts_mut(row.scores.add(hidden.start), hidden.len()).fill(nothing);
            }
            let scores = std::slice::from_raw_parts_mut(row.scores.add(inside.start), inside.len());
            if scores.is_empty() {
                return;
            }
            if let Some(mask) = &self.mask {
                let indices = [sequence.place, head, query, seen.start];
                let at: usize = indices.iter().zip(mask.strides).map(|(index, stride)| index * stride).sum();
                let from = tensors[mask.slot].add(at * mask.run.size);
                (mask.run.load)(from, mask.strides[3], row.added, scores.len());
                let added = std::slice::from_raw_parts(row.added, scores.len());
                level.run(Adding { scores: &mut *scores, added, is_boolean: mask.is_boolean });
            }
            if let Some(slope) = self.slopes.get(head) {
                let diagonal = self.band.diagonal(sequence.queries, sequence.keys, query);
                let ahead = T::from_f64((diagonal - seen.start as i128) as f64);
                level.run(Falling { scores, slope: *slope, ahead });
            }
        }
    }
}

/// Adds a mask.
struct Adding<'a, T> {
    scores: &'a mut [T],
    added: &'a [T],
    is_boolean: bool,
}

impl<T: FastReal> Work for Adding<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let nothing = -(T::ONE / T::ZERO);
        let pairs = self.scores.iter_mut().zip(self.added);
        if self.is_boolean {
            pairs.for_each(|(score, counts)| *score = if *counts == T::ZERO { nothing } else { *score });
        } else {
            // What is -∞ hides a score that is NaN, too.
            pairs.for_each(|(score, added)| {
                *score = if *added == nothing { nothing } else { *score + *added };
            });
        }
    }
}

/// Lets scores fall with the distance from the diagonal.
struct Falling<'a, T> {
    scores: &'a mut [T],
    slope: T,
    /// How far the diagonal is ahead of the first score.
    ahead: T,
}

impl<T: FastReal> Work for Falling<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (number, steps) in self.scores.chunks_mut(STEP).enumerate() {
            let ahead = self.ahead - T::from_f64((number * STEP) as f64);
            for (j, score) in steps.iter_mut().enumerate() {
                *score = *score - self.slope * (ahead - T::from_f64(f64::from(j as u32))).abs();
            }
        }
    }
}
