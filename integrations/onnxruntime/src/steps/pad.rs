//! Padding in every mode, of elements of any type.

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::threads::Parallel;

/// What is around a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The element of the second tensor, or zeros.
    Constant,
    /// The elements inside, mirrored at the first and the last one.
    Reflect,
    /// The first and the last element.
    Edge,
    /// The elements from the other end.
    Wrap,
}

/// Surrounds the first tensor, which may have any layout.
#[derive(Debug)]
pub struct Pad {
    /// What is around it.
    pub mode: Mode,
    /// How many elements are before it along each axis.
    pub before: Vec<i64>,
}

impl Mode {
    /// The index of the element at a place, from the first element on; none for the constant.
    fn index(self, place: i64, count: i64) -> Option<i64> {
        if (0..count).contains(&place) {
            return Some(place);
        }
        match self {
            Self::Constant => None,
            Self::Edge => Some(place.clamp(0, count - 1)),
            Self::Wrap => Some(place.rem_euclid(count)),
            Self::Reflect if count == 1 => Some(0),
            Self::Reflect => {
                let place = place.rem_euclid(2 * (count - 1));
                Some(place.min(2 * (count - 1) - place))
            }
        }
    }
}

/// The lines of the result along its last axis.
struct Lines<'a> {
    pad: &'a Pad,
    tensors: Shared<'a>,
    to: Slab<'a>,
    /// The place of the constant.
    constant: *const u8,
    is_zero: bool,
}

// SAFETY: the constant is only read, and each thread writes its own lines.
unsafe impl Sync for Lines<'_> {}

impl Lines<'_> {
    /// The offset of the source of a line; none if it is constant.
    fn source(&self, from: &Slab<'_>, line: usize) -> Option<i64> {
        let mut left = i64::try_from(line).ok()?;
        let mut offset = 0;
        for axis in (0..self.to.bound.dims.len().saturating_sub(1)).rev() {
            let dim = self.to.dim(axis);
            let place = left % dim - self.pad.before.get(axis).copied().unwrap_or(0);
            left /= dim;
            offset += self.pad.mode.index(place, from.dim(axis))? * from.stride(axis);
        }
        Some(offset)
    }

    /// # Safety
    /// As for [`OnHost::run`]; only this thread writes the line.
    unsafe fn write(&self, line: usize) {
        let Some(from) = self.tensors.get(0) else { return };
        let last = self.to.bound.dims.len().saturating_sub(1);
        let (count, size) = (self.to.dim(last), self.to.size().unsigned_abs());
        let first = i64::try_from(line).unwrap_or(0) * count;
        let Some(offset) = self.source(from, line) else {
            // SAFETY: `count` is the number of the line's elements, which this function requires to be this thread's.
            return unsafe { self.fill(first, count) };
        };
        let (own, before) = (from.dim(last), self.pad.before.last().copied().unwrap_or(0));
        let step = from.stride(last);
        for (begin, end) in [(0, before), (before + own, count)] {
            if self.pad.mode == Mode::Constant {
                // SAFETY: both ranges lie within the `count` elements of the line.
                unsafe { self.fill(first + begin, end - begin) };
                continue;
            }
            for at in begin..end {
                let index = self.pad.mode.index(at - before, own).unwrap_or(0);
                // SAFETY: the index is below the dimension, and the place in the line.
                unsafe {
                    self.to.at(first + at).copy_from_nonoverlapping(from.at(offset + index * step), size)
                };
            }
        }
        if step == 1 || own == 1 {
            let bytes = usize::try_from(own).unwrap_or(0) * size;
            // SAFETY: the elements are side by side in both.
            unsafe { self.to.at(first + before).copy_from_nonoverlapping(from.at(offset), bytes) };
            return;
        }
        for at in 0..own {
            let target = self.to.at(first + before + at);
            // SAFETY: the index is below the dimension, and the place in the line.
            unsafe { target.copy_from_nonoverlapping(from.at(offset + at * step), size) };
        }
    }

    /// # Safety
    /// The result has these elements, and only this thread writes them.
    unsafe fn fill(&self, first: i64, count: i64) {
        let (count, size) = (usize::try_from(count).unwrap_or(0), self.to.size().unsigned_abs());
        let start = self.to.at(first);
        if self.is_zero {
            // SAFETY: the result has these elements, and only this thread writes them, as this function requires.
            return unsafe { start.write_bytes(0, count * size) };
        }
        for at in 0..count {
            // SAFETY: the result has these elements, and only this thread writes them, as this function requires; the constant has one
            // element.
            unsafe { start.wrapping_add(at * size).copy_from_nonoverlapping(self.constant, size) };
        }
    }
}

impl OnHost for Pad {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([from, ..], [to]) = (reads, writes) else { return Err("padding of no tensor".to_owned()) };
        let (size, dims) = (to.size().unsigned_abs(), &to.bound.dims);
        let zeros = [0_u8; 8];
        let constant = reads.get(1).map_or(zeros.as_ptr(), |of| of.start.cast_const());
        // SAFETY: without a constant eight zeros are read, and the operator refuses a constant of other than one element.
        let is_zero = (0..size).all(|at| unsafe { constant.wrapping_add(at).read() } == 0);
        for (axis, before) in self.before.iter().enumerate() {
            let (own, all) = (from.dim(axis), to.dim(axis));
            let is_without = self.mode != Mode::Constant && own == 0 && all > 0;
            if *before < 0 || before + own > all || is_without {
                return Err(format!("{own} elements become {all} with {before} before them"));
            }
        }
        let inner = usize::try_from(dims.last().copied().unwrap_or(1)).unwrap_or(0);
        let lines = to.count() / inner.max(1);
        let work = Lines { pad: self, tensors: Shared(reads), to: *to, constant, is_zero };
        divided(lines, inner * size, parallel, &|range| {
            for line in range {
                // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap
                // nothing else, the sizes were checked, and ranges do not overlap.
                unsafe { work.write(line) };
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_around_a_tensor_have_an_index_inside() {
        let all = |mode: Mode, count| (-4..7).map(|at| mode.index(at, count)).collect::<Vec<_>>();
        let some = |list: [i64; 11]| list.map(Some).to_vec();
        assert_eq!(all(Mode::Reflect, 3), some([0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]));
        assert_eq!(all(Mode::Edge, 3), some([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]));
        assert_eq!(all(Mode::Wrap, 3), some([2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(all(Mode::Reflect, 1), some([0; 11]));
        assert_eq!(Mode::Constant.index(3, 3), None);
    }
}
