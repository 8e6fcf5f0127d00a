//! The gradient: each element of dy is added to all elements of its window, or to the maximum.

use std::ops::Range;

use crate::pooling::shape::{COLUMNS, Lines, PoolPlan, Span};
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
        let (x, [_, rows, columns]) = (&pool.x, shape.input);
        let [_, _, row, column] = x.image.strides;
        // Indices are those of planes without gaps.
        let last =
            pool.is_last() && row == columns * column && (shape.input[0] == 1 || x.depth == rows * row);
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
        self.pool.x.image.run.same && self.pool.x.is_run(self.pool.shape.input)
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
            if copied { shape.input.iter().product() } else { 0 },
            if self.last { self.parts.channels } else { shape.output[COLUMNS] },
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
        let PoolPlan { shape, x, .. } = &self.pool;
        let [depth, height, width] = shape.input;
        let direct = self.is_direct();
        // SAFETY: the channels are those of the part; dx has their planes, and the area has room for one.
        unsafe {
            for channel in part.channels.clone() {
                let first = x.at(part.tensors, [part.image, channel, 0, 0, 0]);
                let plane: *mut T = if direct { first.cast() } else { part.areas[0] };
                // As bytes: the caller's memory may be unaligned.
                plane.cast::<u8>().write_bytes(0, depth * height * width * size_of::<T>());
                for row in 0..shape.rows() {
                    self.row(part, channel, row, plane);
                }
                for depth in 0..if direct { 0 } else { depth } {
                    let to = first.add(depth * x.depth * x.image.run.size);
                    x.image.store(plane.add(depth * height * width), to, height, width);
                }
            }
        }
    }

    /// Adds a row of dy to a plane of dx.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the channel and the row exist, and the plane is without gaps.
    #[inline(always)]
    unsafe fn row(&self, part: &Part<'_, T, 2>, channel: usize, row: usize, plane: *mut T) {
        let PoolPlan { shape, y, index, .. } = &self.pool;
        let Part { tensors, areas: [_, values], image, .. } = *part;
        let (lines, columns) = (shape.lines(row), shape.output[COLUMNS]);
        let [depth, row] = shape.place(row);
        let position = [image, channel, depth, row, 0];
        let size = shape.input.iter().product::<usize>();
        // SAFETY: the row exists, the area has room for its values, and indices beyond the plane are skipped.
        unsafe {
            (y.image.run.load)(y.at(tensors, position), y.image.strides[3], values, columns);
            let Some(index) = index else { return self.spread(plane, &lines, values) };
            let maxima = index.at(tensors, position);
            for column in 0..columns {
                let at = maxima.add(column * index.strides[4]).read_unaligned();
                if let Some(at) = usize::try_from(at).ok().filter(|at| *at < size) {
                    add(plane.add(at), values.add(column).read());
                }
            }
        }
    }

    /// Adds a row of dy to all elements of its windows.
    ///
    /// # Safety
    /// The plane has the lines, and `values` those of the row, which are changed.
    #[inline(always)]
    unsafe fn spread(&self, plane: *mut T, lines: &Lines, values: *mut T) {
        let shape = &self.pool.shape;
        let inner = self.inner.clone();
        let columns = shape.output[COLUMNS];
        let [depths, rows] = [lines.depth, lines.rows].map(|span| span.first..span.first + span.len);
        let (stride, window) = (shape.stride[COLUMNS], shape.window[COLUMNS]);
        let span = Span { first: 0, len: window, before: false, after: false };
        let divisor = shape.divisor(lines, &span);
        for column in inner.clone() {
            // SAFETY: the row has a value for each column.
            unsafe { values.add(column).write(values.add(column).read() / divisor) };
        }
        // SAFETY: the positions of spans are inside the plane, and those of windows of inner columns, too.
        unsafe {
            for (depth, row) in depths.flat_map(|depth| rows.clone().map(move |row| (depth, row))) {
                let line = plane.add(shape.index(depth, row, 0));
                for column in (0..inner.start).chain(inner.end..columns) {
                    let span = shape.span(COLUMNS, column);
                    let part = values.add(column).read() / shape.divisor(lines, &span);
                    for at in span.first..span.first + span.len {
                        add(line.add(at), part);
                    }
                }
                for at in 0..if inner.is_empty() { 0 } else { window } {
                    let to = line.add(inner.start * stride - shape.padding[COLUMNS] + at);
                    add_all(to, stride, values.add(inner.start), inner.len());
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
        let (first, count) = (part.channels.start, part.channels.len());
        // SAFETY: dx has the part's channels at each position, and dy and the indices at each of theirs.
        unsafe {
            let to = x.at(tensors, [image, first, 0, 0, 0]).cast::<T>();
            let pixel = x.image.strides[3];
            for at in 0..shape.input.iter().product() {
                to.add(at * pixel).cast::<u8>().write_bytes(0, count * size_of::<T>());
            }
            for row in 0..shape.rows() {
                let lines = shape.lines(row);
                let [depth, row] = shape.place(row);
                for column in 0..shape.output[COLUMNS] {
                    let position = [image, first, depth, row, column];
                    let from = y.at(tensors, position).cast_const().cast::<T>();
                    if let Some(index) = index {
                        self.add_maxima(index.at(tensors, position), from, to, count);
                    } else {
                        let columns = shape.span(COLUMNS, column);
                        self.spread_channels(from, [to, values], count, &lines, &columns);
                    }
                }
            }
        }
    }

    /// Adds the values of some channels of dy, from `from` on, to the maxima of their windows.
    ///
    /// # Safety
    /// As [`Backward::spread_channels`]; the maxima have the channels.
    #[inline(always)]
    unsafe fn add_maxima(&self, maxima: *const i32, from: *const T, to: *mut T, count: usize) {
        let PoolPlan { shape, x, index, .. } = &self.pool;
        let stride = index.map_or(0, |index| index.strides[1]);
        let size = shape.input.iter().product::<usize>();
        for channel in 0..count {
            // SAFETY: dy, dx and the maxima have the channel, and indices beyond the plane are skipped.
            unsafe {
                let at = maxima.add(channel * stride).read_unaligned();
                if let Some(at) = usize::try_from(at).ok().filter(|at| *at < size) {
                    add(to.add(at * x.image.strides[3] + channel), from.add(channel).read_unaligned());
                }
            }
        }
    }

    /// Adds the values of some channels of dy, from `from` on, to all elements of a window.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; `to` is the first position of dx, and `values` has room for the channels.
    #[inline(always)]
    unsafe fn spread_channels(
        &self,
        from: *const T,
        [to, values]: [*mut T; 2],
        count: usize,
        lines: &Lines,
        columns: &Span,
    ) {
        let pixel = self.pool.x.image.strides[3];
        let divisor = self.pool.shape.divisor(lines, columns);
        for channel in 0..count {
            // SAFETY: dy has the channel, and there is room for its value.
            unsafe { values.add(channel).write(from.add(channel).read_unaligned() / divisor) };
        }
        for depth in lines.depth.first..lines.depth.first + lines.depth.len {
            for row in lines.rows.first..lines.rows.first + lines.rows.len {
                for column in columns.first..columns.first + columns.len {
                    // SAFETY: the positions of spans are inside dx.
                    unsafe {
                        let to = to.add(self.pool.shape.index(depth, row, column) * pixel);
                        for channel in 0..count {
                            add(to.add(channel), values.add(channel).read());
                        }
                    }
                }
            }
        }
    }
}

/// Adds values to elements with a stride.
///
/// # Safety
/// The elements are readable and writable, and the values readable.
#[inline(always)]
unsafe fn add_all<T: Float>(to: *mut T, stride: usize, values: *const T, len: usize) {
    // SAFETY: indices are below `len`, up to which this function requires elements and values.
    unsafe {
        // With a constant stride, which the compiler makes vectors of.
        if stride == 1 {
            for i in 0..len {
                add(to.add(i), values.add(i).read());
            }
        } else {
            for i in 0..len {
                add(to.add(i * stride), values.add(i).read());
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
