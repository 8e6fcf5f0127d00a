//! The end of a panel of queries after all keys: sums, statistics and results.

use crate::attention::forward::{Forward, ScratchLayout, is_hidden};
use crate::attention::panel::{Panel, Part};
use crate::attention::shared::sequences::Sequence;
use crate::attention::softmax::{CheckedScaling, Scaling, Weight};
use crate::simd::array::Each;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::combine::{Combine, LargestMagnitude, fold_row};
use crate::threading::partition::part;

/// The largest magnitude, or NaN if there is one.
pub(crate) struct Largest<T> {
    pub(crate) values: *const T,
    pub(crate) len: usize,
}

impl<T: Float> VectorTask<T> for Largest<T> {
    type Output = T;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) -> T {
        // SAFETY: the creator of the task guarantees `len` values; tasks run with the instructions.
        unsafe { fold_row::<V, LargestMagnitude>(self.values, self.len) }
    }
}

impl<T: Weight> Forward<T> {
    /// Turns sums into the factors that convert weights to probabilities, times their scale.
    ///
    /// # Safety
    /// As [`Forward::part`].
    pub(crate) unsafe fn divide(&self, part: &Part<'_>, panel: &Panel<T>) {
        let Panel { columns, statistics, .. } = panel;
        // SAFETY: the panel has a sum and a factor for each column.
        unsafe {
            let scale = self.factors.of_probabilities(part.tensors);
            for column in 0..*columns {
                let sum = statistics.sum.add(column).read();
                statistics.factor.add(column).write(if sum == T::ZERO { scale } else { scale / sum });
            }
        }
    }

    /// Rounds probabilities to the dtype of the values. With `any`, those of masked scores stay -0, and no
    /// other becomes -0.
    ///
    /// # Safety
    /// `probabilities` is readable and writable for `len` values.
    pub(crate) unsafe fn round(&self, probabilities: *mut T, len: usize, any: bool) {
        let Some(run) = &self.factors.rounding else { return };
        // SAFETY: this function requires the probabilities.
        unsafe {
            if !any {
                return run.round(probabilities, len);
            }
            for probability in std::slice::from_raw_parts_mut(probabilities, len) {
                if !is_hidden(*probability) {
                    run.round(probability, 1);
                    *probability = *probability + T::ZERO;
                }
            }
        }
    }

    /// Writes the results of a panel, and its queries' statistics; returns whether all results are finite.
    ///
    /// # Safety
    /// As [`Forward::part`].
    pub(crate) unsafe fn epilogue(
        &self,
        part: &Part<'_>,
        panel: &Panel<T>,
        areas: &ScratchLayout<T>,
    ) -> bool {
        let Panel { queries, results, statistics, .. } = panel;
        let (count, tensors) = (queries.len(), part.tensors);
        // SAFETY: a panel has three statistics for each of its queries, each in memory of its own.
        let [max, sum, factor] = unsafe {
            [statistics.max, statistics.sum, statistics.factor]
                .each(|values| std::slice::from_raw_parts_mut(values, count))
        };
        // SAFETY: the tensors are those of the operation, as this function requires.
        let (of_sums, of_probabilities) = unsafe {
            (self.factors.of_sums(tensors, &part.sequence, part.head), self.factors.of_probabilities(tensors))
        };
        let [asks_for_probability, asks_for_result] = self.factors.asks_for_largest();
        // SAFETY: the areas are this worker's, and so are the largest magnitudes in them.
        let [probability, result] = unsafe { &mut *areas.largest };
        if self.factors.rounding.is_some() {
            for (factor, sum) in factor.iter_mut().zip(sum.iter()) {
                // Sums were already divided by, but values that they made NaN may have been dropped.
                *factor = if sum.is_nan() { *sum } else { of_sums };
            }
        } else {
            let scale = of_probabilities * of_sums;
            for (factor, sum) in factor.iter_mut().zip(sum.iter()) {
                // If all keys are masked, the results are zeros.
                *factor = if *sum == T::ZERO { scale } else { scale / *sum };
            }
        }
        if asks_for_probability {
            // The largest score of a row has weight 1.
            let sums = sum.iter().filter(|sum| **sum != T::ZERO);
            *probability = sums.fold(*probability, |most, sum| LargestMagnitude::merge(T::ONE / *sum, most));
        }
        let (factors, values, width) = (factor.as_ptr(), *results, self.width);
        let scaling = Scaling { factors, rows: count, values, width };
        // Dropped results may hide NaN, but the sums do not.
        let of_sums_is_finite = self.dropout.is_none() || sum.iter().all(|sum| *sum < T::ONE / T::ZERO);
        // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
        let is_finite = unsafe { self.isa.run(CheckedScaling(scaling)) } && of_sums_is_finite;
        for row in 0..if asks_for_result { count } else { 0 } {
            // SAFETY: the panel has a row of results for each query; the processor supports the instruction set.
            let of_row = unsafe {
                let (values, len) = (values.add(row * width), self.shape.value_depth);
                self.isa.run_vectors(Largest { values, len })
            };
            *result = LargestMagnitude::merge(of_row, *result);
        }
        // SAFETY: the tensors are those of the operation.
        if let Some(scale) = unsafe { self.factors.of_results(tensors) } {
            let (factors, width) = (&raw const scale, count * width);
            // SAFETY: the processor supports the instruction set, and the task has its memory for itself.
            unsafe { self.isa.run(Scaling { factors, rows: 1, values, width }) };
        }
        let (with, at) = ((self.isa, tensors), self.at(part, queries.start));
        // SAFETY: the tensor has a row for every query, and so have the results.
        unsafe { self.o.write(with, at, count, results.cast_const(), width) };
        let [stats, maxima, all] = &self.statistics;
        if stats.is_some() {
            for ((stats, max), sum) in factor.iter_mut().zip(max.iter()).zip(sum.iter()) {
                *stats = if *sum == T::ZERO { *max } else { *max + sum.ln() };
            }
        }
        for (rows, values) in [(stats, factor), (maxima, max), (all, sum)] {
            if let Some(rows) = rows {
                // SAFETY: the tensor has an element for every query, and there is a value for each.
                unsafe { rows.write(with, at, count, values.as_ptr(), 1) };
            }
        }
        is_finite
    }

    /// Writes the results of queries after the end of their sequence, if the tensors have room for them.
    /// Packed queries have room after the last sequence.
    ///
    /// # Safety
    /// As [`Forward::part`].
    pub(crate) unsafe fn pad(&self, part_: &Part<'_>, areas: &ScratchLayout<T>) {
        let (lanes, shape) = (self.kernel.lanes, &self.shape);
        let mut sequence = part_.sequence;
        if shape.packed {
            if sequence.index + 1 < shape.batch {
                return;
            }
            let used = sequence.first + sequence.queries;
            sequence = Sequence { index: sequence.index, queries: used, keys: 0, first: 0 };
        }
        let all = shape.queries.div_ceil(lanes);
        let [begin, end] = [
            part(all, self.panels, part_.panels.start).start,
            part(all, self.panels, part_.panels.end - 1).end,
        ];
        let queries = (begin * lanes).max(sequence.queries)..(end * lanes).min(shape.queries);
        if queries.is_empty() {
            return;
        }
        let (count, with) = (queries.len(), (self.isa, part_.tensors));
        let at = self.at(&Part { sequence, panels: part_.panels.clone(), ..*part_ }, queries.start);
        // SAFETY: tensors with padding have a row for every query, and the areas for every query of a part.
        unsafe {
            if self.o.has_padding() {
                areas.results.write_bytes(0, count * self.width);
                self.o.write(with, at, count, areas.results.cast_const(), self.width);
            }
            let values = std::slice::from_raw_parts_mut(areas.statistics.factor, count);
            let masked = -(T::ONE / T::ZERO);
            for (rows, value) in self.statistics.iter().zip([masked, masked, T::ZERO]) {
                if let Some(rows) = rows.as_ref().filter(|rows| rows.has_padding()) {
                    values.fill(value);
                    rows.write(with, at, count, values.as_ptr(), 1);
                }
            }
        }
    }
}
