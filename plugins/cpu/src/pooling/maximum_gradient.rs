//! The gradient of maxima: adds each element of dy to the maximum of its window.

use crate::pooling::shape::{COLUMNS, Index, PoolPlan};
use crate::simd::vector::{Float, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// Contiguous channels are divided at multiples of this: a few cache lines.
const CHANNELS: usize = 64;

/// A planned gradient.
pub(crate) struct MaximumGradient<T> {
    pool: PoolPlan<T>,
    /// The maxima's positions in dense planes.
    index: Index,
    /// Whether channels are contiguous.
    last: bool,
    parts: Parts,
}

impl<T: Float> MaximumGradient<T> {
    /// Plans the gradient.
    pub(crate) fn plan(pool: PoolPlan<T>, index: Index, threads: Threads) -> Self {
        let shape = pool.shape;
        let (x, [_, rows, columns]) = (&pool.x, shape.input);
        let [_, _, row, column] = x.image.strides;
        // Indices count the elements of dense planes.
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
        Self { pool, index, last, parts }
    }

    /// Whether planes of dx are computed in place.
    fn is_direct(&self) -> bool {
        self.pool.x.image.run.same && self.pool.x.is_run(self.pool.shape.input)
    }
}

impl<T: Float> PartKernel<T, 2> for MaximumGradient<T> {
    const NAME: &'static str = "pooling gradient";
    const FORM: &'static str = "maxima";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// A plane of dx, and a row of dy.
    fn areas(&self) -> [usize; 2] {
        let shape = &self.pool.shape;
        let copied = !self.last && !self.is_direct();
        [
            if copied { shape.input.iter().product() } else { 0 },
            if self.last { 0 } else { shape.output[COLUMNS] },
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

impl<T: Float> MaximumGradient<T> {
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
    /// As [`PartKernel::run_part`]; the channel and the row exist, and the plane is dense.
    #[inline(always)]
    unsafe fn row(&self, part: &Part<'_, T, 2>, channel: usize, row: usize, plane: *mut T) {
        let PoolPlan { shape, y, .. } = &self.pool;
        let Part { tensors, areas: [_, values], image, .. } = *part;
        let columns = shape.output[COLUMNS];
        let [depth, row] = shape.place(row);
        let position = [image, channel, depth, row, 0];
        let size = shape.input.iter().product::<usize>();
        // SAFETY: the row exists, the area has room for its values, and indices beyond the plane are skipped.
        unsafe {
            (y.image.run.load)(y.at(tensors, position), y.image.strides[3], values, columns);
            let maxima = self.index.at(tensors, position);
            for column in 0..columns {
                let at = maxima.add(column * self.index.strides[4]).read_unaligned();
                if at >= 0 && (at as usize) < size {
                    add(plane.add(at as usize), values.add(column).read());
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
        let PoolPlan { shape, x, y, .. } = &self.pool;
        let Part { tensors, image, .. } = *part;
        let (first, count) = (part.channels.start, part.channels.len());
        // SAFETY: dx has the part's channels at each position, and dy and the indices at each of theirs.
        unsafe {
            let to = x.at(tensors, [image, first, 0, 0, 0]).cast::<T>();
            let pixel = x.image.strides[3];
            for at in 0..shape.input.iter().product() {
                to.add(at * pixel).cast::<u8>().write_bytes(0, count * size_of::<T>());
            }
            for row in 0..shape.rows() {
                let [depth, row] = shape.place(row);
                for column in 0..shape.output[COLUMNS] {
                    let position = [image, first, depth, row, column];
                    let from = y.at(tensors, position).cast_const().cast::<T>();
                    let maxima = self.index.at(tensors, position);
                    // A constant stride needs less computation.
                    match self.index.strides[1] {
                        1 => self.add_maxima(maxima, 1, from, to, count),
                        stride => self.add_maxima(maxima, stride, from, to, count),
                    }
                }
            }
        }
    }

    /// Adds the values of some channels of dy, from `from` on, to the maxima of their windows.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; `to` is the first position of dx, and the maxima and dy have the channels.
    #[inline(always)]
    unsafe fn add_maxima(&self, maxima: *const i32, stride: usize, from: *const T, to: *mut T, count: usize) {
        let (pixel, size) = (self.pool.x.image.strides[3], self.pool.shape.input.iter().product::<usize>());
        for channel in 0..count {
            // SAFETY: dy, dx and the maxima have the channel, and indices beyond the plane are skipped.
            unsafe {
                let at = maxima.add(channel * stride).read_unaligned();
                if at >= 0 && (at as usize) < size {
                    add(to.add(at as usize * pixel + channel), from.add(channel).read_unaligned());
                }
            }
        }
    }
}

/// Adds to a value.
///
/// # Safety
/// `to` is readable and writable for a value, at any alignment.
#[inline(always)]
unsafe fn add<T: Float>(to: *mut T, value: T) {
    // SAFETY: the element is valid, as this function requires.
    unsafe { to.write_unaligned(to.read_unaligned() + value) };
}
