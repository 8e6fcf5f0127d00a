//! The gradient of means: each element of dx sums the elements of dy whose windows contain it, each divided.
//!
//! So each element is written once. Channels first, rows of dy are combined into one, and then its columns.

use std::ops::Range;

use crate::pooling::shape::{COLUMNS, DEPTH, PoolPlan, ROWS};
use crate::pooling::windows::{TOGETHER, Vectors};
use crate::problem::resample::Pooling;
use crate::simd::array::Each;
use crate::simd::row::read;
use crate::simd::vector::{Float, Lanewise, MAX_LANES, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// Contiguous channels are divided at multiples of this: a few cache lines.
const CHANNELS: usize = 64;

/// The widest window whose columns are summed as vectors.
const WIDEST: usize = 64;

/// A planned gradient.
pub(crate) struct MeanGradient<T> {
    pool: PoolPlan<T>,
    /// Whether channels are contiguous.
    last: bool,
    /// The inverse number of positions that a window of dy counts along each axis, by its index there.
    factors: [Vec<T>; 3],
    parts: Parts,
}

impl<T: Float> MeanGradient<T> {
    /// Plans the gradient.
    pub(crate) fn plan(pool: PoolPlan<T>, threads: Threads) -> Self {
        let (shape, work, last) = (pool.shape, pool.work(), pool.is_last());
        let wanted = Parts::wanted(threads, work);
        let channels = if last {
            let chunks = wanted.div_ceil(shape.batch).min(shape.channels.div_ceil(CHANNELS));
            shape.channels.div_ceil(chunks).next_multiple_of(CHANNELS).min(shape.channels)
        } else {
            (shape.batch * shape.channels / wanted).clamp(1, shape.channels)
        };
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, [shape.channels, 1], [channels, 1]);
        let factor = |axis: usize, at: usize| {
            let count = match shape.pooling {
                Pooling::MeanInside => shape.span(axis, at).len.max(1),
                _ => shape.window[axis],
            };
            T::ONE / T::from_f64(count as f64)
        };
        let mut factors: [Vec<T>; 3] =
            [DEPTH, ROWS, COLUMNS].each(|axis| (0..shape.output[axis]).map(|at| factor(axis, at)).collect());
        // Padded, so that vectors can be read.
        factors[COLUMNS].resize(shape.output[COLUMNS] + MAX_LANES, T::ZERO);
        Self { pool, last, factors, parts }
    }

    /// The positions along an axis of dy whose windows contain this one of dx.
    #[inline(always)]
    fn meeting(&self, axis: usize, at: usize) -> Range<usize> {
        let shape = &self.pool.shape;
        let padded = at + shape.padding[axis];
        let first = (padded + 1).saturating_sub(shape.window[axis]).div_ceil(shape.stride[axis]);
        let end = (padded / shape.stride[axis] + 1).min(shape.output[axis]);
        first.min(end)..end
    }

    /// Whether planes of dy are read in place.
    fn is_direct(&self) -> bool {
        self.pool.y.image.has_rows()
    }

    /// Whether columns are summed as vectors.
    fn is_merged(&self) -> bool {
        let shape = &self.pool.shape;
        let [window, padding] = [&shape.window, &shape.padding].each(|of| of[COLUMNS]);
        shape.stride[COLUMNS] <= 2 && window <= WIDEST && padding < WIDEST
    }

    /// The position of dy's column 0 in the combined row.
    fn first(&self) -> usize {
        let [window, padding, stride] =
            [&self.pool.shape.window, &self.pool.shape.padding, &self.pool.shape.stride]
                .each(|of| of[COLUMNS]);
        if self.is_merged() { (window - 1).saturating_sub(padding) / stride } else { 0 }
    }

    /// The elements of the combined row that are summed for column `phase` of dx, which is less than the
    /// stride. Those of later columns with this phase follow one by one.
    fn summed(&self, phase: usize) -> Range<usize> {
        let [window, padding, stride] =
            [&self.pool.shape.window, &self.pool.shape.padding, &self.pool.shape.stride]
                .each(|of| of[COLUMNS]);
        let end = self.first() + (phase + padding) / stride + 1;
        // Windows that begin before dy are counted in whole strides from there.
        let begin = (self.first() * stride + phase + padding + 1).saturating_sub(window).div_ceil(stride);
        begin.min(end)..end
    }
}

impl<T: Float> PartKernel<T, 3> for MeanGradient<T> {
    const NAME: &'static str = "pooling gradient";
    const FORM: &'static str = "means";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// A plane of dy, the combined row, and a row of dx.
    fn areas(&self) -> [usize; 3] {
        let shape = &self.pool.shape;
        if self.last {
            return [0; 3];
        }
        let plane: usize = shape.output.iter().product();
        let summed = if self.is_merged() {
            let stride = shape.stride[COLUMNS];
            self.summed(stride - 1).end + shape.input[COLUMNS].div_ceil(stride)
        } else {
            0
        };
        let row = (self.first() + shape.output[COLUMNS]).max(summed);
        let copied = |is_direct: bool, size: usize| if is_direct { 0 } else { size };
        [
            copied(self.is_direct(), plane),
            row + 2 * MAX_LANES,
            copied(self.pool.x.image.has_rows(), shape.input[COLUMNS]),
        ]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 3>) {
        let [depth, height, _] = self.pool.shape.input;
        // SAFETY: this function requires the tensors and the areas; the channels are those of the part, and the rows exist.
        unsafe {
            if self.last {
                for row in 0..depth * height {
                    self.pixels::<V>(part, [row / height, row % height]);
                }
                return;
            }
            let [_, combined, _] = part.areas;
            let [_, room, _] = self.areas();
            combined.write_bytes(0, room);
            for channel in part.channels.clone() {
                self.plane::<V>(part, channel);
            }
        }
    }
}

impl<T: Float> MeanGradient<T> {
    /// A plane of dx.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the channel exists, and the combined row is zero outside the columns of
    /// dy.
    #[inline(always)]
    unsafe fn plane<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 3>, channel: usize) {
        let PoolPlan { shape, x, y, .. } = &self.pool;
        let Part { tensors, areas: [copy, combined, copied_row], image, .. } = *part;
        let [depths, rows, columns] = shape.output;
        let direct = self.is_direct();
        let mut plane = (copy.cast_const(), [rows * columns, columns]);
        // SAFETY: dy has the planes, and the area room for one that is copied.
        unsafe {
            let from = y.at(tensors, [image, channel, 0, 0, 0]);
            if direct {
                plane = (from.cast_const().cast(), [y.depth, y.image.strides[2]]);
            }
            for depth in 0..if direct { 0 } else { depths } {
                let from = from.add(depth * y.depth * y.image.run.size);
                y.image.rows(from, 0..rows, columns, copy.add(depth * rows * columns));
            }
        }
        let has_rows = x.image.has_rows();
        for row in 0..shape.input[DEPTH] * shape.input[ROWS] {
            let at = [row / shape.input[ROWS], row % shape.input[ROWS]];
            // SAFETY: dx has the row, the area room for one that is copied, and the combined row room for the columns of dy.
            unsafe {
                let to = x.at(tensors, [image, channel, at[0], at[1], 0]);
                self.combine::<V>(plane, at, combined.add(self.first()));
                let values: *mut T = if has_rows { to.cast() } else { copied_row };
                match (self.is_merged(), shape.stride[COLUMNS]) {
                    (true, 1) => self.merge::<V>(combined, values),
                    (true, _) => self.interleave::<V>(combined, values),
                    (false, _) => self.spread(combined, values),
                }
                if !has_rows {
                    (x.image.run.store)(values, to, x.image.strides[3], shape.input[COLUMNS]);
                }
            }
        }
    }

    /// Combines the rows of dy for a row of dx, each divided by the positions that its windows count.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the plane has dy's rows, with these strides of depths and
    /// rows, and `to` is writable for its columns and a vector after them.
    #[inline(always)]
    unsafe fn combine<V: Vector<Scalar = T>>(
        &self,
        (plane, strides): (*const T, [usize; 2]),
        [depth, row]: [usize; 2],
        to: *mut T,
    ) {
        let [depths, rows] = [self.meeting(DEPTH, depth), self.meeting(ROWS, row)];
        let columns = self.pool.shape.output[COLUMNS];
        let [of_depths, of_rows, of_columns] = &self.factors;
        for column in (0..columns).step_by(V::LANES) {
            // SAFETY: the rows are of dy and the lanes of its columns; a vector of factors follows the last one.
            unsafe {
                let lanes = V::lanes(0, (columns - column).min(V::LANES));
                let mut sum = V::zero();
                for depth in depths.clone() {
                    for row in rows.clone() {
                        let factor = of_depths[depth] * of_rows[row];
                        let from = plane.wrapping_add(depth * strides[0] + row * strides[1] + column);
                        sum = V::load_lanes(from, lanes).mul_add(V::splat(factor), sum);
                    }
                }
                // Both are zero after the columns.
                let factors = V::load(of_columns.as_ptr().add(column));
                sum.lanewise(Lanewise::Mul, factors).store(to.add(column));
            }
        }
    }

    /// A row of dx from the combined row, if the stride is 1.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the row has the elements summed for dx's columns and a
    /// vector after them, and `to` is writable for these columns.
    #[inline(always)]
    unsafe fn merge<V: Vector<Scalar = T>>(&self, row: *const T, to: *mut T) {
        let (columns, summed) = (self.pool.shape.input[COLUMNS], self.summed(0));
        for column in (0..columns).step_by(V::LANES) {
            // SAFETY: the column is one of dx, and `to` has the lanes.
            unsafe {
                let sum = sum_of::<V>(row.add(column), &summed);
                sum.store_lanes(to.add(column), V::lanes(0, (columns - column).min(V::LANES)));
            }
        }
    }

    /// A row of dx from the combined row, if the stride is 2: even and odd columns sum different elements.
    ///
    /// # Safety
    /// As [`MeanGradient::merge`].
    #[inline(always)]
    unsafe fn interleave<V: Vector<Scalar = T>>(&self, row: *const T, to: *mut T) {
        let (columns, summed) = (self.pool.shape.input[COLUMNS], [0, 1].each(|phase| self.summed(phase)));
        for column in (0..columns).step_by(2 * V::LANES) {
            // SAFETY: half of the column is that of the element whose sum it is, and `to` has the lanes.
            unsafe {
                let from = row.add(column / 2);
                let (near, far) = sum_of::<V>(from, &summed[0]).zip(sum_of::<V>(from, &summed[1]));
                let count = (columns - column).min(2 * V::LANES);
                near.store_lanes(to.add(column), V::lanes(0, count.min(V::LANES)));
                if count > V::LANES {
                    far.store_lanes(to.add(column + V::LANES), V::lanes(0, count - V::LANES));
                }
            }
        }
    }

    /// A row of dx from the combined row.
    ///
    /// # Safety
    /// The row has the columns of dy, and `to` is writable for those of dx.
    #[inline(always)]
    unsafe fn spread(&self, row: *const T, to: *mut T) {
        let shape = &self.pool.shape;
        // SAFETY: the positions of spans are columns of dx; as bytes, since the caller's memory may be unaligned.
        unsafe {
            to.cast::<u8>().write_bytes(0, shape.input[COLUMNS] * size_of::<T>());
            for column in 0..shape.output[COLUMNS] {
                let (span, value) = (shape.span(COLUMNS, column), row.add(column).read());
                for at in span.first..span.first + span.len {
                    let to = to.add(at);
                    to.write_unaligned(to.read_unaligned() + value);
                }
            }
        }
    }

    /// A row of dx, channels last: most channels in several vectors at a time, the last ones in several
    /// columns at a time.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the row exists.
    #[inline(always)]
    unsafe fn pixels<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 3>, [depth, row]: [usize; 2]) {
        let PoolPlan { shape, x, y, .. } = &self.pool;
        let Part { tensors, image, channels, .. } = part;
        let lines = [self.meeting(DEPTH, depth), self.meeting(ROWS, row)];
        let (stride, width, pixel) = (shape.stride[COLUMNS], shape.input[COLUMNS], x.image.strides[3]);
        let blocks = channels.len() - channels.len() % (TOGETHER * V::LANES);
        // SAFETY: dy has the plane, and dx the row.
        let (from, to) = unsafe {
            (
                y.at(tensors, [*image, channels.start, 0, 0, 0]).cast_const().cast::<T>(),
                x.at(tensors, [*image, channels.start, depth, row, 0]).cast::<T>(),
            )
        };
        let of_channels = Vectors::of_channels(V::LANES, None);
        for column in 0..if blocks > 0 { width } else { 0 } {
            let meeting = self.meeting(COLUMNS, column);
            for channel in (0..blocks).step_by(TOGETHER * V::LANES) {
                // SAFETY: dy and dx have these channels in each column.
                unsafe {
                    let sums: [V; TOGETHER] =
                        self.sums(from.wrapping_add(channel), &lines, &meeting, &of_channels);
                    for (n, sum) in sums.into_iter().enumerate() {
                        sum.store(to.add(column * pixel + channel + n * V::LANES));
                    }
                }
            }
        }
        for channel in (blocks..channels.len()).step_by(V::LANES) {
            // SAFETY: this function requires the instructions.
            let lanes = unsafe { V::lanes(0, (channels.len() - channel).min(V::LANES)) };
            let from = from.wrapping_add(channel);
            let several = Vectors::of_windows(1, y.image.strides[3], Some(lanes));
            let alone = Vectors::<_, 1>::of_channels(V::LANES, Some(lanes));
            // The windows of columns with this stride are adjacent.
            for phase in 0..stride.min(width) {
                let mut column = phase;
                while column < width {
                    let meeting = self.meeting(COLUMNS, column);
                    let is_inner = self.is_inner(column);
                    // SAFETY: dy and dx have these channels in each column, and the columns exist.
                    unsafe {
                        if is_inner {
                            let sums: [V; TOGETHER] = self.sums(from, &lines, &meeting, &several);
                            for (n, sum) in sums.into_iter().enumerate() {
                                sum.store_lanes(to.add((column + n * stride) * pixel + channel), lanes);
                            }
                        } else {
                            let [sum]: [V; 1] = self.sums(from, &lines, &meeting, &alone);
                            sum.store_lanes(to.add(column * pixel + channel), lanes);
                        }
                    }
                    column += if is_inner { TOGETHER * stride } else { stride };
                }
            }
        }
    }

    /// Whether each of [`TOGETHER`] columns from this one on is in equally many windows.
    #[inline(always)]
    fn is_inner(&self, column: usize) -> bool {
        let shape = &self.pool.shape;
        let last = column + (TOGETHER - 1) * shape.stride[COLUMNS];
        last < shape.input[COLUMNS]
            && column + shape.padding[COLUMNS] + 1 >= shape.window[COLUMNS]
            && (last + shape.padding[COLUMNS]) / shape.stride[COLUMNS] < shape.output[COLUMNS]
    }

    /// Sums elements of dy over the positions that their windows count, in depths, rows and columns; `from`
    /// is dy's first element.
    ///
    /// # Safety
    /// The processor has the vector's instructions; dy has the vectors in these columns.
    #[inline(always)]
    unsafe fn sums<V: Vector<Scalar = T>, const N: usize>(
        &self,
        from: *const T,
        [depths, rows]: &[Range<usize>; 2],
        columns: &Range<usize>,
        vectors: &Vectors<V::Lanes, N>,
    ) -> [V; N] {
        let y = &self.pool.y;
        let [_, _, of_row, of_column] = y.image.strides;
        let factors = self.factors[COLUMNS].as_ptr();
        // SAFETY: the elements exist, as this function requires; there is a factor for each column.
        unsafe {
            let mut sums = [V::zero(); N];
            for depth in depths.clone() {
                for row in rows.clone() {
                    let line = from.wrapping_add(depth * y.depth + row * of_row);
                    let mut own = [V::zero(); N];
                    for column in columns.clone() {
                        let from = line.wrapping_add(column * of_column);
                        for (n, own) in own.iter_mut().enumerate() {
                            let factor = factors.add(column + vectors.columns[n]).read();
                            let value = read::<V>(from.wrapping_add(vectors.offsets[n]), vectors.lanes);
                            *own = value.mul_add(V::splat(factor), *own);
                        }
                    }
                    let factor = V::splat(self.factors[DEPTH][depth] * self.factors[ROWS][row]);
                    for (sum, own) in sums.iter_mut().zip(own) {
                        *sum = own.mul_add(factor, *sum);
                    }
                }
            }
            sums
        }
    }
}

/// The sums of these elements of a row, for each lane starting one further.
///
/// # Safety
/// The processor has the vector's instructions; the row has the elements, and a vector after them.
#[inline(always)]
unsafe fn sum_of<V: Vector>(row: *const V::Scalar, elements: &Range<usize>) -> V {
    // SAFETY: a vector begins at each of the elements.
    unsafe {
        let mut sum = V::zero();
        for at in elements.clone() {
            sum = sum.lanewise(Lanewise::Add, V::load(row.add(at)));
        }
        sum
    }
}
