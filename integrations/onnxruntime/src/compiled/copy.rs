//! Copies between layouts.

use std::ops::Range;

use crate::threads::Parallel;

/// Elements per side of the squares that are copied at a time if source and target have different inner axes.
const SIDE: i64 = 32;

/// The elements for which another thread is worthwhile, and the most parts.
const ELEMENTS: i64 = 1 << 15;
const PARTS: i64 = 32;

/// A layout: the first element, and the stride of each axis in elements.
pub type Layout<'a> = (*mut u8, &'a [i64]);

/// An axis: its size, and its strides in source and target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    size: i64,
    from: i64,
    to: i64,
}

/// The axes from the outermost one of the target to its innermost one, those without gaps between them merged, in an order for squares.
fn axes(dims: &[i64], from: &[i64], to: &[i64]) -> Vec<Axis> {
    let all =
        dims.iter().zip(from).zip(to).map(|((size, from), to)| Axis { size: *size, from: *from, to: *to });
    let mut all: Vec<Axis> = all.filter(|axis| axis.size != 1).collect();
    all.sort_by_key(|axis| std::cmp::Reverse((axis.to.abs(), axis.from.abs())));
    let mut merged: Vec<Axis> = Vec::with_capacity(all.len());
    for axis in all {
        match merged.last_mut() {
            Some(last) if last.from == axis.from * axis.size && last.to == axis.to * axis.size => {
                *last = Axis { size: last.size * axis.size, ..axis };
            }
            _ => merged.push(axis),
        }
    }
    // The axis along which the source lies side by side comes before the innermost one.
    let inner =
        merged.iter().enumerate().filter(|(_, axis)| axis.from != 0).min_by_key(|(_, axis)| axis.from.abs());
    if let Some(at) = inner.map(|(at, _)| at).filter(|at| at + 2 < merged.len()) {
        let axis = merged.remove(at);
        merged.insert(merged.len() - 1, axis);
    }
    merged
}

/// Both sides of a copy of elements of a type.
struct Sides<T> {
    from: *const T,
    to: *mut T,
}

impl<T> Clone for Sides<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Sides<T> {}

// SAFETY: threads copy different elements.
unsafe impl<T> Sync for Sides<T> {}

impl<T: Copy> Sides<T> {
    fn moved(self, axis: Axis, count: i64) -> Self {
        let step = |stride: i64| isize::try_from(stride * count).unwrap_or(0);
        Self { from: self.from.wrapping_offset(step(axis.from)), to: self.to.wrapping_offset(step(axis.to)) }
    }

    /// # Safety
    /// Both sides have the elements of the axes.
    unsafe fn all(self, axes: &[Axis]) {
        match axes {
            // SAFETY: both sides have the elements of the axes, as this function requires.
            [] => unsafe { self.to.write_unaligned(self.from.read_unaligned()) },
            // SAFETY: both sides have the elements of the axes, as this function requires.
            [line] => unsafe { self.line(*line) },
            // SAFETY: both sides have the elements of the axes, as this function requires.
            [rows, line] if line.from.abs() > rows.from.abs() && rows.from != 0 => unsafe {
                self.turned(*rows, *line);
            },
            [first, rest @ ..] => {
                for index in 0..first.size {
                    // SAFETY: the index is below the size of the axis.
                    unsafe { self.moved(*first, index).all(rest) };
                }
            }
        }
    }

    /// # Safety
    /// Both sides have the elements of the axis.
    unsafe fn line(self, axis: Axis) {
        let count = usize::try_from(axis.size).unwrap_or(0);
        if axis.from == 1 && axis.to == 1 {
            // SAFETY: both sides have the elements of the axis, as this function requires; they are side by side, and both sides may be
            // the same.
            return unsafe { self.to.cast::<u8>().copy_from(self.from.cast(), count * size_of::<T>()) };
        }
        for index in 0..axis.size {
            let at = self.moved(axis, index);
            // SAFETY: the index is below the size of the axis.
            unsafe { at.to.write_unaligned(at.from.read_unaligned()) };
        }
    }

    /// Copies squares, whose lines stay in the cache on both sides.
    ///
    /// # Safety
    /// Both sides have the elements of the axes.
    unsafe fn turned(self, rows: Axis, line: Axis) {
        for first in (0..rows.size).step_by(SIDE.unsigned_abs() as usize) {
            for begin in (0..line.size).step_by(SIDE.unsigned_abs() as usize) {
                let (height, width) = ((rows.size - first).min(SIDE), (line.size - begin).min(SIDE));
                let corner = self.moved(rows, first).moved(line, begin);
                for row in 0..height {
                    // SAFETY: the square is inside of both axes.
                    unsafe { corner.moved(rows, row).line(Axis { size: width, ..line }) };
                }
            }
        }
    }
}

/// # Safety
/// Both layouts are valid for reads and writes of elements of the type.
unsafe fn typed<T: Copy>(axes: &[Axis], from: *mut u8, to: *mut u8, parallel: Option<Parallel<'_>>) {
    let sides = Sides { from: from.cast::<T>().cast_const(), to: to.cast::<T>() };
    let count: i64 = axes.iter().map(|axis| axis.size).product();
    let parts = (count / ELEMENTS).clamp(1, PARTS);
    let (Some(parallel), Some((first, rest)), true) = (parallel, axes.split_first(), parts > 1) else {
        // SAFETY: both layouts are valid for reads and writes of elements of the type, as this function requires.
        return unsafe { sides.all(axes) };
    };
    let parts = parts.min(first.size);
    let part = |part: usize| {
        let part = i64::try_from(part).unwrap_or(0);
        let range: Range<i64> = first.size * part / parts..first.size * (part + 1) / parts;
        let own: Vec<Axis> = std::iter::once(Axis { size: range.end - range.start, ..*first })
            .chain(rest.iter().copied())
            .collect();
        // SAFETY: the range is inside of the axis, and ranges do not overlap.
        unsafe { sides.moved(*first, range.start).all(&own) };
    };
    let count = usize::try_from(parts).unwrap_or(1);
    if parallel(count, &part).is_err() {
        // Copying twice does no harm.
        (0..count).for_each(part);
    }
}

/// Copies elements of a size between layouts of the same dimensions, on several threads if there is something to gain.
///
/// # Safety
/// Both layouts are valid for reads and writes, and do not overlap, unless they are the same.
pub unsafe fn copy(
    size: usize,
    dims: &[i64],
    from: Layout<'_>,
    to: Layout<'_>,
    parallel: Option<Parallel<'_>>,
) {
    if dims.contains(&0) {
        return;
    }
    let axes = axes(dims, from.1, to.1);
    // SAFETY: both layouts are valid for reads and writes, and do not overlap, unless they are the same, as this function requires; their
    // elements have this size.
    unsafe {
        match size {
            1 => typed::<u8>(&axes, from.0, to.0, parallel),
            2 => typed::<u16>(&axes, from.0, to.0, parallel),
            4 => typed::<u32>(&axes, from.0, to.0, parallel),
            _ => typed::<u64>(&axes, from.0, to.0, parallel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::packed;

    #[test]
    fn axes_without_gaps_are_one() {
        let strides = packed(&[2, 3, 4]);
        assert_eq!(axes(&[2, 3, 4], &strides, &strides), [Axis { size: 24, from: 1, to: 1 }]);
        assert_eq!(
            axes(&[2, 1, 4], &[8, 7, 1], &[4, 4, 1]),
            [Axis { size: 2, from: 8, to: 4 }, Axis { size: 4, from: 1, to: 1 }]
        );
    }

    #[test]
    fn every_order_of_axes_is_copied() {
        let dims = [3_i64, 70, 5, 41];
        let source: Vec<u16> = (0..3 * 70 * 5 * 41).map(|at| at as u16).collect();
        for order in [[0, 1, 2, 3], [0, 2, 3, 1], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
            let permuted: Vec<i64> = order.iter().map(|at| dims[*at]).collect();
            let mut from = vec![0; 4];
            order.iter().zip(&packed(&permuted)).for_each(|(at, stride)| from[*at] = *stride);
            let to = packed(&dims);
            let mut target = vec![0_u16; source.len()];
            let start = source.as_ptr().cast_mut().cast();
            // SAFETY: `source` and `target` have an element for each place of `dims`, which `from` and `to` are packed
            // strides of.
            unsafe { copy(2, &dims, (start, &from), (target.as_mut_ptr().cast(), &to), None) };
            for (at, have) in target.iter().enumerate() {
                let mut rest = at as i64;
                let place: i64 = (0..4)
                    .map(|axis| {
                        let index = rest / to[axis];
                        rest %= to[axis];
                        index * from[axis]
                    })
                    .sum();
                assert_eq!(*have, source[place as usize], "{order:?} at {at}");
            }
        }
    }
}
