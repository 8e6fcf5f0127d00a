//! The gradient: each element of dy is added to all elements of its window, or to the maximum.

use std::ops::Range;

use crate::pooling::shape::{PoolPlan, Span};
use crate::simd::vector::{Float, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// Contiguous channels are divided at multiples of this: a few cache lines.
const CHANNELS: usize = 64;

/// A planned gradient.
pub(crate) struct Backward<T> {
    pool: PoolPlan<T>,
    /// Whether channels are contiguous.
    last: bool,
    /// Columns of dy whose windows are inside dx.
    inner: Range<usize>,
    parts: Parts,
}

impl<T: Float> Backward<T> {
    /// Plans it.
    pub(crate) fn plan(pool: PoolPlan<T>, threads: Threads) -> Self {
        let shape = pool.shape;
        let x = &pool.x;
        // Indices are those of planes without gaps.
        let last = pool.is_last() && x.strides[2] == shape.input[1] * x.strides[3];
        let work = pool.work();
        let wanted = Parts::wanted(threads, work);
        let channels = if last {
            let chunks = wanted.div_ceil(shape.batch).min(shape.channels.div_ceil(CHANNELS));
            shape.channels.div_ceil(chunks).next_multiple_of(CHANNELS).min(shape.channels)
        } else {
            (shape.batch * shape.channels / wanted).clamp(1, shape.channels)
        };
        // A part has whole planes of x.
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, [shape.channels, 1], [channels, 1]);
        Self { inner: shape.inner(), pool, last, parts }
    }

    /// Whether planes of dx are computed in place.
    fn is_direct(&self) -> bool {
        self.pool.x.has_rows() && self.pool.x.strides[2] == self.pool.shape.input[1]
    }
}

impl<T: Float> PartKernel<T, 2> for Backward<T> {
    const NAME: &'static str = "pooling gradient";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// A plane of dx, and a row of dy.
    fn areas(&self) -> [usize; 2] {
        let shape = &self.pool.shape;
        let copied = !self.last && !self.is_direct();
        [
            if copied { shape.input[0] * shape.input[1] } else { 0 },
            if self.last { self.parts.channels } else { shape.output[1] },
        ]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 2>) {
        // SAFETY: this function requires the tensors and the areas.
        unsafe {
            if self.last {
                self.side_by_side(part);
            } else {
                self.planes(part);
            }
        }
    }
}

impl<T: Float> Backward<T> {
    /// Plane by plane.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`].
    #[inline(always)]
    unsafe fn planes(&self, part: &Part<'_, T, 2>) {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let Part { tensors, areas: [plane_copy, row_copy], image, .. } = *part;
        let [height, width] = shape.input;
        let columns = shape.output[1];
        let direct = self.is_direct();
        // SAFETY: the tensors have all of the elements; indices are checked.
        unsafe {
            for channel in part.channels.clone() {
                let first = x.at(tensors[x.slot], [image, channel, 0, 0]);
                let plane: *mut T = if direct { first.cast() } else { plane_copy };
                // As bytes: the caller's memory may be unaligned.
                plane.cast::<u8>().write_bytes(0, height * width * size_of::<T>());
                for row in 0..shape.output[0] {
                    let from = y.at(tensors[y.slot], [image, channel, row, 0]);
                    (y.run.load)(from, y.strides[3], row_copy, columns);
                    match index {
                        Some(index) => {
                            let maxima = index.at(tensors, [image, channel, row, 0]);
                            for column in 0..columns {
                                let at = maxima.add(column * index.strides[3]).read_unaligned();
                                if at >= 0 && (at as usize) < height * width {
                                    add(plane.add(at as usize), row_copy.add(column).read());
                                }
                            }
                        }
                        None => self.spread(plane, shape.span(0, row), row_copy),
                    }
                }
                if !direct {
                    x.store(plane, first, height, width);
                }
            }
        }
    }

    /// Adds a row of dy to all elements of its windows.
    #[inline(always)]
    unsafe fn spread(&self, plane: *mut T, rows: Span, values: *mut T) {
        let shape = &self.pool.shape;
        let inner = self.inner.clone();
        let columns = shape.output[1];
        // SAFETY: the positions of spans are inside the plane, and the row has its values.
        unsafe {
            for column in (0..inner.start).chain(inner.end..columns) {
                let span = shape.span(1, column);
                let part = values.add(column).read() / shape.divisor(&rows, &span);
                for line in rows.first..rows.first + rows.len {
                    for at in span.first..span.first + span.len {
                        add(plane.add(line * shape.input[1] + at), part);
                    }
                }
            }
            if inner.is_empty() {
                return;
            }
            let span = Span { first: 0, len: shape.window[1], before: false, after: false };
            let divisor = shape.divisor(&rows, &span);
            for column in inner.clone() {
                values.add(column).write(values.add(column).read() / divisor);
            }
            let (stride, first) = (shape.stride[1], inner.start * shape.stride[1] - shape.padding[1]);
            for line in rows.first..rows.first + rows.len {
                for at in 0..shape.window[1] {
                    let to = plane.add(line * shape.input[1] + first + at);
                    let from = values.add(inner.start);
                    if stride == 1 {
                        for i in 0..inner.len() {
                            add(to.add(i), from.add(i).read());
                        }
                    } else {
                        for i in 0..inner.len() {
                            add(to.add(i * stride), from.add(i).read());
                        }
                    }
                }
            }
        }
    }

    /// Channels last.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`].
    #[inline(always)]
    unsafe fn side_by_side(&self, part: &Part<'_, T, 2>) {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let Part { tensors, areas: [_, values], image, .. } = *part;
        let [height, width] = shape.input;
        let (first, count) = (part.channels.start, part.channels.len());
        // SAFETY: the tensors have all of the elements; indices are checked.
        unsafe {
            let to = x.at(tensors[x.slot], [image, first, 0, 0]).cast::<T>();
            let pixel = x.strides[3];
            for at in 0..height * width {
                to.add(at * pixel).cast::<u8>().write_bytes(0, count * size_of::<T>());
            }
            for row in 0..shape.output[0] {
                let rows = shape.span(0, row);
                for column in 0..shape.output[1] {
                    let from = y.at(tensors[y.slot], [image, first, row, column]).cast::<T>();
                    if let Some(index) = index {
                        let maxima = index.at(tensors, [image, first, row, column]);
                        for channel in 0..count {
                            let at = maxima.add(channel * index.strides[1]).read_unaligned();
                            if at >= 0 && (at as usize) < height * width {
                                let value = from.add(channel).read_unaligned();
                                add(to.add(at as usize * pixel + channel), value);
                            }
                        }
                        continue;
                    }
                    let columns = shape.span(1, column);
                    let divisor = shape.divisor(&rows, &columns);
                    for channel in 0..count {
                        values.add(channel).write(from.add(channel).read_unaligned() / divisor);
                    }
                    for line in rows.first..rows.first + rows.len {
                        for at in columns.first..columns.first + columns.len {
                            let to = to.add((line * width + at) * pixel);
                            for channel in 0..count {
                                add(to.add(channel), values.add(channel).read());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Adds to a value.
///
/// # Safety
/// The value is readable and writable.
#[inline(always)]
unsafe fn add<T: Float>(to: *mut T, value: T) {
    // SAFETY: the element is valid, as this function requires.
    unsafe { to.write_unaligned(to.read_unaligned() + value) };
}
