//! Channels last: a vector is a run of channels.

use std::ops::Range;

use crate::pooling::shape::{COLUMNS, Lines, PoolPlan, store_indices};
use crate::pooling::windows::{TOGETHER, Vectors, Windows};
use crate::simd::vector::{Float, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// A planned pooling.
pub(crate) struct ChannelsLast<T> {
    pool: PoolPlan<T>,
    /// Columns whose windows are inside x.
    inner: Range<usize>,
    parts: Parts,
}

impl<T: Float> ChannelsLast<T> {
    /// Plans the pooling.
    pub(crate) fn plan(pool: PoolPlan<T>, threads: Threads) -> Self {
        let (shape, work) = (pool.shape, pool.work());
        let rows = shape.rows().div_ceil(Parts::wanted(threads, work).div_ceil(shape.batch));
        let whole = [shape.channels, shape.rows()];
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, whole, [shape.channels, rows]);
        Self { inner: shape.inner(), pool, parts }
    }
}

/// A row of y: its first column's first channel and first index, and the strides of columns and of the
/// indices' channels.
#[derive(Clone, Copy)]
struct Row<T> {
    to: *mut T,
    column: usize,
    index: Option<(*mut i32, usize, usize)>,
}

impl<T: Float> PartKernel<T, 0> for ChannelsLast<T> {
    const NAME: &'static str = "pooling, channels last";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    fn areas(&self) -> [usize; 0] {
        []
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 0>) {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let Part { tensors, image, .. } = *part;
        let strides = [x.depth, x.image.strides[2], x.image.strides[3]];
        // SAFETY: this function requires the tensors, which have all of the elements.
        unsafe {
            let from = x.at(tensors, [image, 0, 0, 0, 0]).cast_const().cast::<T>();
            let windows = Windows { from, strides, indexed: index.is_some() };
            for row in part.rows.clone() {
                let lines = shape.lines(row);
                let [depth, row] = shape.place(row);
                let position = [image, 0, depth, row, 0];
                let to = Row {
                    to: y.at(tensors, position).cast::<T>(),
                    column: y.image.strides[3],
                    index: index
                        .map(|index| (index.at(tensors, position), index.strides[4], index.strides[1])),
                };
                self.row::<V>(&windows, &lines, &to);
            }
        }
    }
}

impl<T: Float> ChannelsLast<T> {
    /// Computes a row: most channels in several vectors at a time, the last ones for several windows at a
    /// time.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the windows and the row are those of the kernel's tensors.
    #[inline(always)]
    unsafe fn row<V: Vector<Scalar = T>>(&self, windows: &Windows<T>, lines: &Lines, row: &Row<T>) {
        let shape = &self.pool.shape;
        let blocks = shape.channels - shape.channels % (TOGETHER * V::LANES);
        let of_channels = Vectors::of_channels(V::LANES, None);
        for column in 0..if blocks > 0 { shape.output[COLUMNS] } else { 0 } {
            let window = (lines, &shape.span(COLUMNS, column));
            for channel in (0..blocks).step_by(TOGETHER * V::LANES) {
                // SAFETY: the channels and the column exist.
                unsafe {
                    let [values, indices] =
                        windows.value::<V, TOGETHER>(shape, channel, window, &of_channels);
                    for n in 0..TOGETHER {
                        row.put(values[n], indices[n], [column, channel + n * V::LANES, V::LANES]);
                    }
                }
            }
        }
        for channel in (blocks..shape.channels).step_by(V::LANES) {
            let count = (shape.channels - channel).min(V::LANES);
            // SAFETY: the channels exist.
            unsafe { self.columns::<V>(windows, lines, row, [channel, count]) };
        }
    }

    /// Computes all columns of a row in `count` channels.
    ///
    /// # Safety
    /// As [`ChannelsLast::row`]; the channels exist, at most as many as a vector has lanes.
    #[inline(always)]
    unsafe fn columns<V: Vector<Scalar = T>>(
        &self,
        windows: &Windows<T>,
        lines: &Lines,
        row: &Row<T>,
        [channel, count]: [usize; 2],
    ) {
        let shape = &self.pool.shape;
        // SAFETY: this function requires the instructions.
        let lanes = Some(unsafe { V::lanes(0, count) });
        let alone = Vectors::<_, 1>::of_channels(V::LANES, lanes);
        let several = Vectors::of_windows(shape.stride[COLUMNS], windows.strides[COLUMNS], lanes);
        let mut column = 0;
        while column < shape.output[COLUMNS] {
            let window = (lines, &shape.span(COLUMNS, column));
            let is_inner = self.inner.contains(&column) && column + TOGETHER <= self.inner.end;
            // SAFETY: the channels and columns exist: the windows of inner columns have no padding at their
            // sides.
            unsafe {
                if is_inner {
                    let [values, indices] = windows.value::<V, TOGETHER>(shape, channel, window, &several);
                    for n in 0..TOGETHER {
                        row.put(values[n], indices[n], [column + n, channel, count]);
                    }
                } else {
                    let [[value], [indices]] = windows.value::<V, 1>(shape, channel, window, &alone);
                    row.put(value, indices, [column, channel, count]);
                }
            }
            column += if is_inner { TOGETHER } else { 1 };
        }
    }
}

impl<T: Float> Row<T> {
    /// Writes `count` channels of a column.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the row has the column and the channels.
    #[inline(always)]
    unsafe fn put<V: Vector<Scalar = T>>(&self, value: V, indices: V, [column, channel, count]: [usize; 3]) {
        // SAFETY: the column and the channels exist, as this function requires.
        unsafe {
            if let Some((index, of_column, of_channel)) = self.index {
                let to = index.add(column * of_column + channel * of_channel);
                store_indices(indices, count, to, of_channel);
            }
            value.store_lanes(self.to.add(column * self.column + channel), V::lanes(0, count));
        }
    }
}
