//! Backward data of 1 × 1 filters with a stride: only some rows and columns of dx are not zero.

use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::geometry::{Block, Geometry, Strides};
use crate::conv::planes::TileSums;
use crate::gemm::prefetch::prefetch_all_to_write;
use crate::kernel::Refusal;
use crate::simd::array::Each;
use crate::simd::stored::{Stored, with_stored};
use crate::simd::vector::Float;
use crate::tensor::row_converter::{not_a_float, store_run};

/// How many elements are written at once.
const TOGETHER: usize = 8;

/// The zeros between the elements that GEMM computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StridedBackwardData {
    /// Rows and columns from one computed element to the next.
    pub(crate) stride: [usize; 2],
    /// Rows and columns of the image, which begins with a computed element and whose rows are contiguous.
    pub(crate) size: [usize; 2],
}

/// See [`StridedBackwardData::store`].
pub(crate) type Spread<T> =
    unsafe fn(&StridedBackwardData, &Geometry, &Block, &TileSums<T>, *mut u8, &Strides);

/// The routine that stores tiles as a dtype, with zeros between the elements.
pub(crate) fn spread_of<T: Float>(data_type: DataType) -> Result<Spread<T>, Refusal> {
    Ok(
        with_stored!(data_type, S => StridedBackwardData::store::<S, T>, other => return Err(not_a_float(other))),
    )
}

/// A run of computed elements, and the zeros around them.
struct Area {
    /// Column of the first element in the tile, and how many there are.
    column: usize,
    len: usize,
    /// Offset of the first element in channel 0.
    first: usize,
    /// Rows and columns to write, and the row stride.
    rows: usize,
    columns: usize,
    row: usize,
}

impl StridedBackwardData {
    /// Calls `each` with the runs of elements among the columns `from..to`.
    #[inline(always)]
    fn areas(
        &self,
        geometry: &Geometry,
        block: &Block,
        (from, to): (usize, usize),
        strides: &Strides,
        mut each: impl FnMut(Area),
    ) {
        geometry.runs(block, from, to, |run| {
            let [row, column] = [0, 1].each(|i| run.at[i + 1] * self.stride[i]);
            each(Area {
                column: run.column - from,
                len: run.len,
                first: strides.offset(run.image, run.at),
                rows: self.stride[0].min(self.size[0] - row),
                columns: (run.len * self.stride[1]).min(self.size[1] - column),
                row: strides.spatial[1] / self.stride[0],
            });
        });
    }

    /// Prefetches the memory that [`StridedBackwardData::store`] writes.
    pub(crate) fn prefetch(
        &self,
        geometry: &Geometry,
        block: &Block,
        columns: (usize, usize),
        rows: usize,
        (to_channel, size): (*const u8, usize),
        strides: &Strides,
    ) {
        self.areas(geometry, block, columns, strides, |area| {
            for channel in 0..rows {
                for row in 0..area.rows {
                    let offset = area.first + channel * strides.channel + row * area.row;
                    prefetch_all_to_write(to_channel.wrapping_add(offset * size), area.columns * size);
                }
            }
        });
    }

    /// Writes rows of a tile to the output, one channel each, with zeros between the outputs.
    ///
    /// # Safety
    /// The tile is readable; `to_channel` is the first element of the first row's channel in a tensor whose strides are those of
    /// computed elements, and which has this size.
    unsafe fn store<S: Stored, T: Float>(
        &self,
        geometry: &Geometry,
        block: &Block,
        sums: &TileSums<T>,
        to_channel: *mut u8,
        strides: &Strides,
    ) {
        let TileSums { columns, from: tile, row: row_stride, rows } = *sums;
        let to_channel = to_channel.cast::<S>();
        self.areas(geometry, block, columns, strides, |area| {
            for channel in 0..rows {
                // SAFETY: the values are inside the tile, the elements inside the tensor.
                unsafe {
                    let from = tile.add(channel * row_stride + area.column);
                    let to = to_channel.add(area.first + channel * strides.channel);
                    spread::<S, T>(from, area.len, to, area.columns, self.stride[1]);
                    for row in 1..area.rows {
                        let to = to.add(row * area.row);
                        for column in 0..area.columns {
                            to.add(column).write_unaligned(S::nearest(T::ZERO));
                        }
                    }
                }
            }
        });
    }
}

/// Writes a row: `len` elements with stride `stride`, and zeros between and after them up to `columns`.
///
/// # Safety
/// The values are readable, the elements writable, and the last value is one of the columns.
#[inline(always)]
unsafe fn spread<S: Stored, T: Float>(from: *const T, len: usize, to: *mut S, columns: usize, stride: usize) {
    let zero = S::nearest(T::ZERO);
    let mut i = 0;
    if stride == 1 {
        // SAFETY: there are `len` values, and as many columns or more.
        return unsafe { store_run::<S, T>(from, to.cast(), 1, len) };
    }
    // SAFETY: values are below `len`, and elements below `columns`.
    unsafe {
        if stride == 2 {
            while i + TOGETHER <= len && 2 * (i + TOGETHER) <= columns {
                let values = from.add(i).cast::<[T; TOGETHER]>().read_unaligned();
                let mut elements = [[zero; 2]; TOGETHER];
                for (element, value) in elements.iter_mut().zip(&values) {
                    element[0] = S::nearest(*value);
                }
                to.add(2 * i).cast::<[[S; 2]; TOGETHER]>().write_unaligned(elements);
                i += TOGETHER;
            }
        }
        while i < len {
            to.add(i * stride).write_unaligned(S::nearest(from.add(i).read()));
            for column in i * stride + 1..columns.min((i + 1) * stride) {
                to.add(column).write_unaligned(zero);
            }
            i += 1;
        }
    }
}
