//! Channels first, plane by plane. Planes of other layouts and dtypes are copied first.

use std::ops::Range;

use crate::pooling::line::{Line, Plane, edge};
use crate::pooling::shape::{COLUMNS, DEPTH, Lines, PoolPlan, ROWS, Span, Zero, store_indices};
use crate::pooling::windows::{larger, with_zero};
use crate::simd::array::Each;
use crate::simd::row::load_strided;
use crate::simd::vector::Lanewise::Add;
use crate::simd::vector::{Float, MAX_LANES, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// A planned pooling.
pub(crate) struct ChannelsFirst<T> {
    pool: PoolPlan<T>,
    /// Columns whose windows are inside x.
    inner: Range<usize>,
    /// Combines rows for windows of whole rows, if no indices are wanted.
    line: Line<T>,
    parts: Parts,
}

impl<T: Float> ChannelsFirst<T> {
    /// Plans the pooling.
    pub(crate) fn plan(pool: PoolPlan<T>, threads: Threads) -> Self {
        let (shape, work) = (pool.shape, pool.work());
        let wanted = Parts::wanted(threads, work);
        let planes = shape.batch * shape.channels;
        let rows = shape.rows().div_ceil(wanted.div_ceil(planes));
        let channels = if rows == shape.rows() { (planes / wanted).clamp(1, shape.channels) } else { 1 };
        let whole = [shape.channels, shape.rows()];
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, whole, [channels, rows]);
        Self { inner: shape.inner(), line: Line::of(&shape, pool.isa), pool, parts }
    }

    /// The depths that a part needs, and the rows of each.
    fn needed(&self, rows: &Range<usize>) -> [Range<usize>; 2] {
        let shape = &self.pool.shape;
        let [first, last] = [rows.start, rows.end - 1].each(|row| shape.place(row));
        let range = |axis: usize, from: usize, to: usize| {
            let (top, bottom) = (shape.span(axis, from), shape.span(axis, to));
            let end = (bottom.first + bottom.len).min(shape.input[axis]);
            top.first.min(end)..end
        };
        // With several depths, all rows of each.
        let within = if first[0] == last[0] { [first[1], last[1]] } else { [0, shape.output[ROWS] - 1] };
        [range(DEPTH, first[0], last[0]), range(ROWS, within[0], within[1])]
    }
}

impl<T: Float> PartKernel<T, 3> for ChannelsFirst<T> {
    const NAME: &'static str = "pooling, channels first";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Rows of x, a row of y, and a row combined from several rows of x.
    fn areas(&self) -> [usize; 3] {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let lines = |axis: usize, rows: usize| {
            ((rows - 1) * shape.stride[axis]).saturating_add(shape.window[axis]).min(shape.input[axis])
        };
        let is_volume = shape.output[DEPTH] > 1;
        let depth = if is_volume { shape.input[DEPTH] } else { lines(DEPTH, 1) };
        let rows = if is_volume { shape.input[ROWS] } else { lines(ROWS, self.parts.rows) };
        let copied = |direct: bool, rows: usize, columns: usize| if direct { 0 } else { rows * columns };
        [
            copied(x.image.has_rows(), depth * rows, shape.input[COLUMNS]),
            copied(y.image.has_rows(), 1, shape.output[COLUMNS]),
            if index.is_some() { 0 } else { self.line.len() },
        ]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 3>) {
        let PoolPlan { shape, y, .. } = &self.pool;
        let Part { tensors, areas: [_, copy, line], image, .. } = *part;
        let needed = self.needed(&part.rows);
        if self.pool.index.is_none() {
            // SAFETY: the area is as long as the row.
            unsafe { self.line.fill(line) };
        }
        // SAFETY: channels and rows are those of the part, and the areas hold the rows of x and a row of y.
        unsafe {
            for channel in part.channels.clone() {
                let plane = self.plane(part, channel, &needed);
                for row in part.rows.clone() {
                    let lines = shape.lines(row);
                    let [depth, row] = shape.place(row);
                    let output = y.at(tensors, [image, channel, depth, row, 0]);
                    let to: *mut T = if y.image.has_rows() { output.cast() } else { copy };
                    if let Some(index) = self.pool.index {
                        let index = index.at(tensors, [image, channel, depth, row, 0]);
                        self.indexed::<V>(plane, &lines, to, index);
                    } else {
                        self.line.run::<V>(shape, plane, &lines, line, to);
                    }
                    if !y.image.has_rows() {
                        (y.image.run.store)(copy, output, y.image.strides[3], shape.output[COLUMNS]);
                    }
                }
            }
        }
    }
}

impl<T: Float> ChannelsFirst<T> {
    /// The rows of a channel that a part needs: in place, or copied.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`].
    #[inline(always)]
    unsafe fn plane(&self, part: &Part<'_, T, 3>, channel: usize, needed: &[Range<usize>; 2]) -> Plane<T> {
        let PoolPlan { shape, x, .. } = &self.pool;
        let (copy, width) = (part.areas[0], shape.input[COLUMNS]);
        let [depths, rows] = needed;
        // SAFETY: the tensor has the rows, and the area room for them.
        unsafe {
            let from = x.at(part.tensors, [part.image, channel, 0, 0, 0]);
            if x.image.has_rows() {
                return Plane { first: from.cast(), depth: x.depth, row: x.image.strides[2] };
            }
            let stride = rows.len() * width;
            for (index, depth) in depths.clone().enumerate() {
                let from = from.add(depth * x.depth * x.image.run.size);
                x.image.rows(from, rows.clone(), width, copy.add(index * stride));
            }
            let first = copy.cast_const().wrapping_sub(depths.start * stride + rows.start * width);
            Plane { first, depth: stride, row: width }
        }
    }

    /// A row of maxima with their indices.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the plane has the lines, and the row and its indices are writable.
    #[inline(always)]
    unsafe fn indexed<V: Vector<Scalar = T>>(
        &self,
        plane: Plane<T>,
        lines: &Lines,
        to: *mut T,
        index: *mut i32,
    ) {
        let stride = self.pool.index.map_or(0, |index| index.strides[4]);
        let columns = self.pool.shape.output[COLUMNS];
        // SAFETY: the columns exist, as this function requires.
        unsafe {
            for column in (0..self.inner.start).chain(self.inner.end..columns) {
                let (value, at) = edge(&self.pool.shape, plane, lines, column);
                to.add(column).write_unaligned(value);
                index.add(column * stride).write_unaligned(at);
            }
            let mut column = self.inner.start;
            while column < self.inner.end {
                let count = (self.inner.end - column).min(V::LANES);
                let (value, indices) = self.largest_at::<V>(plane, lines, column);
                store_indices(indices, count, index.add(column * stride), stride);
                value.store_lanes(to.add(column), V::lanes(0, count));
                column += V::LANES;
            }
        }
    }

    /// The maxima of windows inside the columns, and their indices.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the plane has the lines, and the column's window is inside its columns.
    #[inline(always)]
    unsafe fn largest_at<V: Vector<Scalar = T>>(
        &self,
        plane: Plane<T>,
        lines: &Lines,
        column: usize,
    ) -> (V, V) {
        let shape = &self.pool.shape;
        let (stride, width) = (shape.stride[COLUMNS], shape.input[COLUMNS]);
        let first = column * stride - shape.padding[COLUMNS];
        let mut steps = [T::ZERO; MAX_LANES];
        for (i, step) in steps[..V::LANES].iter_mut().enumerate() {
            *step = T::from_f64((i * stride) as f64);
        }
        let zero = shape.zero(lines, &Span { first, len: 1, before: false, after: false });
        let is_zero = zero == Zero::First || (zero != Zero::Never && lines.count() == 0);
        let start = if is_zero { T::ZERO } else { T::from_f64(f64::NEG_INFINITY) };
        // SAFETY: the lines exist, and `load_strided` reads none of their elements outside `width`.
        unsafe {
            let steps = V::load(steps.as_ptr());
            let (mut best, mut indices) = (V::splat(start), V::splat(-T::ONE));
            // Without a zero before it, the first element counts even if it is minus infinity.
            let mut is_first = zero != Zero::First;
            for depth in lines.depth.first..lines.depth.first + lines.depth.len {
                for row in lines.rows.first..lines.rows.first + lines.rows.len {
                    let line = plane.line(depth, row);
                    for at in first..first + shape.window[COLUMNS] {
                        let value = load_strided::<V>(line, at as isize, stride, width);
                        let index = V::splat(T::from_f64(shape.index(depth, row, at) as f64));
                        let own = (value, index.lanewise(Add, steps));
                        (best, indices) = if is_first { own } else { larger(own, (best, indices)) };
                        is_first = false;
                    }
                }
                if zero == Zero::AfterRows && depth == lines.depth.first {
                    (best, indices) = with_zero(best, indices);
                }
            }
            if zero == Zero::Last { with_zero(best, indices) } else { (best, indices) }
        }
    }
}
