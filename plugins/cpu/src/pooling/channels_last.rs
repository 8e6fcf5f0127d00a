//! Channels last: a vector is a run of channels. Rows of other dtypes than the compute type are converted, some at a time.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::pack::{Accumulators, Pack, PackSource, Store, pack_of, store_of};
use crate::kernel::Refusal;
use crate::pooling::shape::{COLUMNS, Lines, PoolPlan, ROWS, store_indices};
use crate::pooling::windows::{TOGETHER, Vectors, Windows};
use crate::simd::vector::{Float, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// Bytes of converted rows, which stay in the L2 cache.
const CONVERTED: usize = 256 << 10;

/// A planned pooling.
pub(crate) struct ChannelsLast<T> {
    pool: PoolPlan<T>,
    /// Columns whose windows are inside x.
    inner: Range<usize>,
    converted: Option<Converted<T>>,
    parts: Parts,
}

/// How rows are converted.
struct Converted<T> {
    pack: Pack<T>,
    store: Store<T>,
    /// Rows of y that share converted rows of x.
    together: usize,
}

impl<T: Float> ChannelsLast<T> {
    /// Plans the pooling for the dtypes of x and y.
    pub(crate) fn plan(pool: PoolPlan<T>, types: [DataType; 2], threads: Threads) -> Result<Self, Refusal> {
        let (shape, work) = (pool.shape, pool.work());
        let rows = shape.rows().div_ceil(Parts::wanted(threads, work).div_ceil(shape.batch));
        let whole = [shape.channels, shape.rows()];
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, whole, [shape.channels, rows]);
        let converted = if pool.x.image.run.same && pool.y.image.run.same {
            None
        } else {
            let row = shape.input[COLUMNS] * shape.channels * size_of::<T>();
            let more = (CONVERTED / row).saturating_sub(shape.window[ROWS]);
            let together = more / shape.stride[ROWS] + 1;
            Some(Converted { pack: pack_of("x", types[0])?, store: store_of("y", types[1])?, together })
        };
        Ok(Self { inner: shape.inner(), pool, converted, parts })
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

impl<T: Float> PartKernel<T, 2> for ChannelsLast<T> {
    const NAME: &'static str = "pooling, channels last";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The converted rows of x, and a row of y.
    fn areas(&self) -> [usize; 2] {
        let shape = &self.pool.shape;
        let Some(Converted { together, .. }) = self.converted else { return [0; 2] };
        let inputs = ((together - 1).saturating_mul(shape.stride[ROWS])).saturating_add(shape.window[ROWS]);
        let inputs = inputs.min(shape.input[ROWS]);
        [inputs * shape.input[COLUMNS] * shape.channels, shape.output[COLUMNS] * shape.channels]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 2>) {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let Part { tensors, image, areas: [_, area], .. } = *part;
        let converted = self.converted.as_ref();
        let together = converted.map_or(part.rows.len().max(1), |converted| converted.together);
        let strides = [x.depth, x.image.strides[2], x.image.strides[3]];
        let sums = Accumulators {
            from: area.cast_const(),
            row_stride: shape.channels,
            rows: shape.output[COLUMNS],
            columns: shape.channels,
            row: y.image.strides[3],
            column: 1,
        };
        for first in part.rows.clone().step_by(together) {
            let rows = first..part.rows.end.min(first + together);
            // SAFETY: this function requires the tensors and areas, which have all of the elements; the rows are the part's.
            let windows = unsafe {
                match converted {
                    Some(converted) => self.convert::<V>(part, converted, rows.clone()),
                    None => {
                        let from = x.at(tensors, [image, 0, 0, 0, 0]).cast_const().cast::<T>();
                        Windows { from, strides, indexed: index.is_some() }
                    }
                }
            };
            for row in rows {
                let lines = shape.lines(row);
                let [depth, row] = shape.place(row);
                let position = [image, 0, depth, row, 0];
                // SAFETY: the tensors have the row, and the windows all that it reads; the area has room for it.
                unsafe {
                    let stored = y.at(tensors, position);
                    let (to, column) = match converted {
                        Some(_) => (area, shape.channels),
                        None => (stored.cast::<T>(), y.image.strides[3]),
                    };
                    let index =
                        index.map(|index| (index.at(tensors, position), index.strides[4], index.strides[1]));
                    self.row::<V>(&windows, &lines, &Row { to, column, index });
                    if let Some(converted) = converted {
                        (converted.store)(V::ISA, &sums, stored);
                    }
                }
            }
        }
    }
}

impl<T: Float> ChannelsLast<T> {
    /// Converts the rows of x that some rows of y read.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`], for rows of the part, at most as many as are converted together.
    #[inline(always)]
    unsafe fn convert<V: Vector<Scalar = T>>(
        &self,
        part: &Part<'_, T, 2>,
        converted: &Converted<T>,
        rows: Range<usize>,
    ) -> Windows<T> {
        let PoolPlan { shape, x, index, .. } = &self.pool;
        let Part { tensors, image, areas: [from, _], .. } = *part;
        let (channels, columns) = (shape.channels, shape.input[COLUMNS]);
        let of_row = columns * channels;
        // Windows may lie in the padding; those of later rows begin and end later.
        let spans = || rows.clone().map(|row| shape.span(ROWS, row)).filter(|span| span.len > 0);
        let first = spans().map(|span| span.first).min().unwrap_or(0);
        let end = spans().map(|span| span.first + span.len).max().unwrap_or(first);
        if end > first {
            // SAFETY: the tensor has the rows, which are runs of channels, and the area room for them.
            unsafe {
                let source = PackSource {
                    from: x.at(tensors, [image, 0, 0, first, 0]),
                    rows: end - first,
                    row: x.image.strides[2],
                    columns: of_row,
                    column: 1,
                    width: of_row,
                    row_stride: of_row,
                };
                (converted.pack)(V::ISA, &source, from);
            }
        }
        let from = from.wrapping_sub(first * of_row).cast_const();
        Windows { from, strides: [0, of_row, channels], indexed: index.is_some() }
    }

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
                // SAFETY: the loops stay below the numbers of columns and channels that the kernel's tensors have.
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
            // SAFETY: `channel + count` is at most the number of channels, and `count` at most that of lanes.
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
