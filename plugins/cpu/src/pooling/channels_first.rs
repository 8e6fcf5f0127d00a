//! Channels first, plane by plane. Planes of other layouts and dtypes are copied first.

use std::ops::Range;

use crate::pooling::shape::{PoolPlan, Span, Zero, store_indices};
use crate::simd::row::load_strided;
use crate::simd::vector::{Float, Lanewise, MAX_LANES, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// A planned pooling.
pub(crate) struct ChannelsFirst<T> {
    pool: PoolPlan<T>,
    /// Columns whose windows are inside x.
    inner: Range<usize>,
    parts: Parts,
}

impl<T: Float> ChannelsFirst<T> {
    /// Plans it.
    pub(crate) fn plan(pool: PoolPlan<T>, threads: Threads) -> Self {
        let shape = pool.shape;
        let work = pool.work();
        let wanted = Parts::wanted(threads, work);
        let planes = shape.batch * shape.channels;
        let rows = shape.output[0].div_ceil(wanted.div_ceil(planes));
        let channels = if rows == shape.output[0] { (planes / wanted).clamp(1, shape.channels) } else { 1 };
        let whole = [shape.channels, shape.output[0]];
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, whole, [channels, rows]);
        Self { inner: shape.inner(), pool, parts }
    }
}

/// A plane of x as if it began with row 0, and the stride of its rows.
#[derive(Clone, Copy)]
struct Plane<T> {
    first: *const T,
    row: usize,
}

impl<T: Float> PartKernel<T, 2> for ChannelsFirst<T> {
    const NAME: &'static str = "pooling, channels first";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Rows of x, and a row of y.
    fn areas(&self) -> [usize; 2] {
        let PoolPlan { shape, x, y, .. } = &self.pool;
        let lines =
            ((self.parts.rows - 1) * shape.stride[0]).saturating_add(shape.window[0]).min(shape.input[0]);
        let copied = |direct: bool, rows: usize, columns: usize| if direct { 0 } else { rows * columns };
        [copied(x.has_rows(), lines, shape.input[1]), copied(y.has_rows(), 1, shape.output[1])]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 2>) {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let Part { tensors, areas: [input_copy, copy], image, .. } = *part;
        let (top, bottom) = (shape.span(0, part.rows.start), shape.span(0, part.rows.end - 1));
        let end = (bottom.first + bottom.len).min(shape.input[0]);
        let lines = top.first..end.max(top.first);
        let columns = shape.output[1];
        // SAFETY: this function requires the tensors, which have all of the elements, and the scratch memory with its areas.
        unsafe {
            for channel in part.channels.clone() {
                let input = x.at(tensors[x.slot], [image, channel, 0, 0]);
                let (first, row) = x.rows(input, lines.clone(), shape.input[1], input_copy);
                let plane = Plane { first, row };
                for row in part.rows.clone() {
                    let span = shape.span(0, row);
                    let output = y.at(tensors[y.slot], [image, channel, row, 0]);
                    let to: *mut T = if y.has_rows() { output.cast() } else { copy };
                    let index =
                        index.map(|index| (index.at(tensors, [image, channel, row, 0]), index.strides[3]));
                    for column in (0..self.inner.start).chain(self.inner.end..columns) {
                        let (value, at) = self.element::<V>(plane, span, column);
                        to.add(column).write_unaligned(value);
                        if let Some((index, index_stride)) = index {
                            index.add(column * index_stride).write_unaligned(at);
                        }
                    }
                    let mut column = self.inner.start;
                    while column < self.inner.end {
                        let count = (self.inner.end - column).min(V::LANES);
                        let value = match index {
                            None if shape.is_maximum() => self.largest::<V>(plane, span, column),
                            None => self.mean::<V>(plane, span, column),
                            Some((index, index_stride)) => {
                                let (value, indices) = self.largest_at::<V>(plane, span, column);
                                store_indices(indices, count, index.add(column * index_stride), index_stride);
                                value
                            }
                        };
                        value.store_lanes(to.add(column), V::lanes(0, count));
                        column += V::LANES;
                    }
                    if !y.has_rows() {
                        (y.run.store)(copy, output, y.strides[3], columns);
                    }
                }
            }
        }
    }
}

impl<T: Float> ChannelsFirst<T> {
    /// One element of y, and the index of the maximum of its window.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the plane has the window's rows.
    #[inline(always)]
    unsafe fn element<V: Vector<Scalar = T>>(&self, plane: Plane<T>, rows: Span, column: usize) -> (T, i32) {
        let shape = &self.pool.shape;
        let columns = shape.span(1, column);
        // SAFETY: the positions of spans are inside the plane.
        unsafe {
            if !shape.is_maximum() {
                let mut sums = V::zero();
                if columns.len > 0 {
                    for line in rows.first..rows.first + rows.len {
                        let from = plane.first.wrapping_add(line * plane.row + columns.first);
                        let mut at = 0;
                        while at < columns.len {
                            let lanes = V::lanes(0, (columns.len - at).min(V::LANES));
                            sums = sums.lanewise(Lanewise::Add, V::load_lanes(from.add(at), lanes));
                            at += V::LANES;
                        }
                    }
                }
                return (sums.sum() / shape.divisor(&rows, &columns), -1);
            }
            let zero = shape.zero(&rows, &columns);
            let mut best = (T::from_f64(f64::NEG_INFINITY), -1);
            let mut found = false;
            if zero == Zero::First {
                (best.0, found) = (T::ZERO, true);
            }
            let empty = rows.len == 0 || columns.len == 0;
            for line in rows.first..rows.first + if empty { 0 } else { rows.len } {
                for at in columns.first..columns.first + columns.len {
                    let value = plane.first.wrapping_add(line * plane.row + at).read_unaligned();
                    if !found || value > best.0 || (value.is_nan() && !best.0.is_nan()) {
                        (best, found) = ((value, (line * shape.input[1] + at) as i32), true);
                    }
                }
                if zero == Zero::AfterRow && line == rows.first && T::ZERO > best.0 {
                    best = (T::ZERO, -1);
                }
            }
            let ends = (zero == Zero::ChannelsLast && T::ZERO > best.0) || (zero != Zero::Never && empty);
            if ends { (T::ZERO, -1) } else { best }
        }
    }

    /// The maxima of windows inside the columns.
    #[inline(always)]
    unsafe fn largest<V: Vector<Scalar = T>>(&self, plane: Plane<T>, rows: Span, column: usize) -> V {
        let shape = &self.pool.shape;
        let first = column * shape.stride[1] - shape.padding[1];
        // SAFETY: the rows and columns are valid, as this function requires.
        unsafe {
            let zeros =
                shape.zero(&rows, &Span { first, len: 1, before: false, after: false }) != Zero::Never;
            let mut best = V::splat(if zeros { T::ZERO } else { T::from_f64(f64::NEG_INFINITY) });
            for line in rows.first..rows.first + rows.len {
                let from = plane.first.wrapping_add(line * plane.row);
                for at in first..first + shape.window[1] {
                    let value = load_strided::<V>(from, at as isize, shape.stride[1], shape.input[1]);
                    best = best.lanewise(Lanewise::Max, value);
                }
            }
            best
        }
    }

    /// The same with their indices.
    #[inline(always)]
    unsafe fn largest_at<V: Vector<Scalar = T>>(&self, plane: Plane<T>, rows: Span, column: usize) -> (V, V) {
        let shape = &self.pool.shape;
        let first = column * shape.stride[1] - shape.padding[1];
        let mut steps = [T::ZERO; MAX_LANES];
        for (i, step) in steps[..V::LANES].iter_mut().enumerate() {
            *step = T::from_f64((i * shape.stride[1]) as f64);
        }
        // SAFETY: the rows and columns are valid, as this function requires.
        unsafe {
            let steps = V::load(steps.as_ptr());
            let zero = shape.zero(&rows, &Span { first, len: 1, before: false, after: false });
            let mut best = V::splat(T::from_f64(f64::NEG_INFINITY));
            let mut indices = V::splat(-T::ONE);
            if zero == Zero::First || (zero == Zero::ChannelsLast && rows.len == 0) {
                best = V::zero();
            }
            let mut begun = zero == Zero::First;
            for line in rows.first..rows.first + rows.len {
                let from = plane.first.wrapping_add(line * plane.row);
                for at in first..first + shape.window[1] {
                    let value = load_strided::<V>(from, at as isize, shape.stride[1], shape.input[1]);
                    let own = V::splat(T::from_f64((line * shape.input[1] + at) as f64));
                    let own = own.lanewise(Lanewise::Add, steps);
                    if begun {
                        indices = value.where_larger(best, own, indices);
                        best = value.where_larger(best, value, best);
                    } else {
                        // The first one counts even if it is minus infinity.
                        (best, indices, begun) = (value, own, true);
                    }
                }
            }
            if zero == Zero::ChannelsLast {
                indices = V::zero().where_larger(best, V::splat(-T::ONE), indices);
                best = best.lanewise(Lanewise::Max, V::zero());
            }
            (best, indices)
        }
    }

    /// The means of windows inside the columns.
    #[inline(always)]
    unsafe fn mean<V: Vector<Scalar = T>>(&self, plane: Plane<T>, rows: Span, column: usize) -> V {
        let shape = &self.pool.shape;
        let first = column * shape.stride[1] - shape.padding[1];
        let columns = Span { first, len: shape.window[1], before: false, after: false };
        // SAFETY: the rows and columns are valid, as this function requires.
        unsafe {
            let mut sums = V::zero();
            for line in rows.first..rows.first + rows.len {
                let from = plane.first.wrapping_add(line * plane.row);
                for at in first..first + shape.window[1] {
                    let value = load_strided::<V>(from, at as isize, shape.stride[1], shape.input[1]);
                    sums = sums.lanewise(Lanewise::Add, value);
                }
            }
            sums.lanewise(Lanewise::Div, V::splat(shape.divisor(&rows, &columns)))
        }
    }
}
