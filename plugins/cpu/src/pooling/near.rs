//! Narrow windows of stride 1 or 2, read from x itself.

use std::ops::Range;

use crate::pooling::line::{Line, Plane};
use crate::pooling::shape::{COLUMNS, Lines, Shape};
use crate::simd::array;
use crate::simd::array::Each;
use crate::simd::vector::{Float, Lanewise, MAX_LANES, Vector};
use crate::tensor::combine::Combine;

/// Lines of x that are combined.
struct Near<'a, T, const LINES: usize> {
    lines: [*const T; LINES],
    /// Their columns.
    len: usize,
    /// What they are combined with.
    start: T,
    /// [`Line::edges`].
    edges: &'a [T; 3 * MAX_LANES],
}

impl<T: Float> Line<T> {
    /// Some columns of a row of y from `LINES` lines of x, a vector at a time. Sums have windows inside x. Returns whether it
    /// met no NaN; infinities of both signs count as one.
    ///
    /// # Safety
    /// As [`Line::run`]; there are as many lines.
    #[inline(always)]
    pub(super) unsafe fn near<V: Vector<Scalar = T>, J: Combine, const LINES: usize>(
        &self,
        shape: &Shape,
        plane: Plane<T>,
        lines: &Lines,
        columns: &Range<usize>,
        to: *mut T,
    ) -> bool {
        let [len, window, stride] = [&shape.input, &shape.window, &shape.stride].each(|of| of[COLUMNS]);
        let near = Near::<T, LINES> {
            lines: array::from_fn(|line| plane.line(lines.depth.first, lines.rows.first + line)),
            len,
            start: self.start::<J>(lines),
            edges: &self.edges,
        };
        let together = if (stride, window) == (2, 3) { V::LANES - 1 } else { V::LANES };
        // SAFETY: the processor has the instructions, as this function requires.
        let mut met = unsafe { V::zero() };
        let mut column = columns.start;
        while column < columns.end {
            let count = (columns.end - column).min(together);
            let first = (column * stride) as isize - shape.padding[COLUMNS] as isize;
            // SAFETY: the plane has the lines, of which lanes inside of x are read; `to` has the columns.
            unsafe {
                let mut total: V = near.windows::<V, J>(first, [window, stride], &mut met);
                if !shape.is_maximum() {
                    total = total.lanewise(Lanewise::Div, self.divisors(shape, lines, column));
                }
                total.store_lanes(to.add(column), V::lanes(0, count));
            }
            column += count;
        }
        !met.sum().is_nan()
    }
}

impl<T: Float, const LINES: usize> Near<'_, T, LINES> {
    /// A vector of columns from `at` on, combined over the lines. Adds all values to `met`.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the lines have the columns.
    #[inline(always)]
    unsafe fn combined<V: Vector<Scalar = T>, J: Combine>(&self, at: isize, met: &mut V) -> V {
        let lanes = V::LANES as isize;
        let low = (-at).clamp(0, lanes) as usize;
        let high = (self.len as isize - at).clamp(low as isize, lanes) as usize;
        // SAFETY: the lines have `len` columns, as this function requires; as neither `low` nor
        // `high` exceeds a vector's lanes, a vector of edges follows both offsets.
        unsafe {
            let mut total = V::splat(self.start);
            if (low, high) == (0, V::LANES) {
                for line in &self.lines {
                    let values = V::load(line.wrapping_offset(at));
                    total = J::vector(total, values);
                    *met = met.lanewise(Lanewise::Add, values);
                }
                return total;
            }
            let inside = V::lanes(low, high);
            let edges = self.edges.as_ptr();
            let before = V::load(edges.add(MAX_LANES - low));
            // Adding -0 changes no value.
            let outside = before.lanewise(Lanewise::Add, V::load(edges.add(2 * MAX_LANES - high)));
            for line in &self.lines {
                let values = V::load_lanes(line.wrapping_offset(at), inside);
                total = J::vector(total, values.lanewise(Lanewise::Add, outside));
                *met = met.lanewise(Lanewise::Add, values);
            }
            total
        }
    }

    /// The windows from `first` on: a vector of them, or one fewer for three columns with stride 2. Adds all values to `met`.
    ///
    /// # Safety
    /// As [`Near::combined`].
    #[inline(always)]
    unsafe fn windows<V: Vector<Scalar = T>, J: Combine>(
        &self,
        first: isize,
        [window, stride]: [usize; 2],
        met: &mut V,
    ) -> V {
        // SAFETY: the lines have the columns, as this function requires; columns outside of them are not read.
        unsafe {
            let near = self.combined::<V, J>(first, met);
            if stride == 1 {
                let mut total = near;
                for at in 1..window {
                    total = J::merge_vector(total, self.combined::<V, J>(first + at as isize, met));
                }
                return total;
            }
            let (even, odd) = near.unzip(self.combined::<V, J>(first + V::LANES as isize, met));
            match window {
                1 => even,
                2 => J::merge_vector(even, odd),
                _ => J::merge_vector(J::merge_vector(even, odd), even.following()),
            }
        }
    }
}
