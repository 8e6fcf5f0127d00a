//! Elements that indices name along an axis, and sequences that are reversed. Elements are of any type; tensors are packed.

use crate::lowering::{OnHost, Slab};
use crate::threads::Parallel;

/// For each index the axis of a tensor with one value at its place, and another elsewhere. Reads the indices, and both values: that of
/// other places first.
#[derive(Clone, Copy, Debug)]
pub struct OneHot {
    /// The elements of the result before the axis, for each element of which there are as many indices as are after it.
    pub outer: usize,
    /// The size of the axis.
    pub depth: usize,
}

impl OnHost for OneHot {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([indices, values], [to]) = (reads, writes) else {
            return Err("indices of no values".to_owned());
        };
        let size = to.size().unsigned_abs();
        // SAFETY: tensors are readable, as this function requires.
        let list = unsafe { indices.integers() }?;
        let inner = list.len() / self.outer.max(1);
        let put = |at: usize, value: i64| {
            let place = to.start.wrapping_add(at * size);
            // SAFETY: the result has this element, as the callers see to, and there are two values.
            unsafe { place.copy_from_nonoverlapping(values.at(value), size) };
        };
        (0..to.count()).for_each(|at| put(at, 0));
        let depth = i64::try_from(self.depth).unwrap_or(0);
        for (at, index) in list.iter().enumerate() {
            let index = if *index < 0 { index.saturating_add(depth) } else { *index };
            if let Some(index) = usize::try_from(index).ok().filter(|index| *index < self.depth) {
                put((at / inner * self.depth + index) * inner + at % inner, 1);
            }
        }
        Ok(())
    }
}

/// The first elements of each sequence in reverse. Reads the sequences and their lengths.
#[derive(Clone, Copy, Debug)]
pub struct Reverse {
    /// Whether the first axis is time, and the second one the batch.
    pub is_time_first: bool,
}

impl OnHost for Reverse {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([from, lengths], [to]) = (reads, writes) else { return Err("no sequences".to_owned()) };
        // SAFETY: tensors are readable, as this function requires.
        let lengths = unsafe { lengths.integers() }?;
        let (time, batch) = if self.is_time_first { (0, 1) } else { (1, 0) };
        let steps = from.dim(time);
        let bytes = usize::try_from(from.bound.dims.iter().skip(2).product::<i64>()).unwrap_or(0)
            * from.size().unsigned_abs();
        for (sequence, length) in (0..from.dim(batch)).zip(&lengths) {
            if !(0..=steps).contains(length) {
                return Err(format!("a sequence of length {length}, expected 0 to {steps}"));
            }
            for step in 0..steps {
                let source = if step < *length { length - 1 - step } else { step };
                let at = |step: i64| step * from.stride(time) + sequence * from.stride(batch);
                // SAFETY: both steps are below the dimension, and the tensors are packed and of equal dimensions.
                unsafe { to.at(at(step)).copy_from_nonoverlapping(from.at(at(source)), bytes) };
            }
        }
        Ok(())
    }
}
