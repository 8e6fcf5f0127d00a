//! Rows of queries, keys, values and results in memory.

use std::any::TypeId;

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::pack::{Accumulators, Pack, PackSource, Store, packing_of};
use crate::kernel::Refusal;
use crate::pointwise::functions::Functions;
use crate::problem::Operand;
use crate::problem::attention::shape::Sequences;
use crate::simd::isa::Isa;
use crate::tensor::row_converter::RowConverter;

/// The rows of a tensor.
pub(crate) struct Rows<T> {
    slot: usize,
    /// Reads and writes elements.
    pub(crate) run: RowConverter<T>,
    pack: Pack<T>,
    store: Store<T>,
    heads: usize,
    strides: [usize; 4],
    /// Elements of a row.
    depth: usize,
    /// Whether rows are contiguous values of the compute type.
    plain: bool,
}

/// A row of a head in a batch.
#[derive(Clone, std::marker::Copy)]
pub(crate) struct At {
    /// The index in the batch.
    pub(crate) place: usize,
    /// The query head.
    pub(crate) head: usize,
    /// Number of query heads.
    pub(crate) heads: usize,
    /// The row.
    pub(crate) row: usize,
}

/// Rows in memory, contiguous or not.
#[derive(Clone, std::marker::Copy)]
pub(crate) struct Matrix<T> {
    /// The first element.
    pub(crate) first: *const T,
    /// Row stride.
    pub(crate) row_stride: usize,
}

impl<T> Matrix<T> {
    /// The rows after the first `rows`.
    pub(crate) fn skip(self, rows: usize) -> Self {
        Self { first: self.first.wrapping_add(rows * self.row_stride), row_stride: self.row_stride }
    }
}

impl<T: Functions> Rows<T> {
    pub(crate) fn of(name: &str, sequences: &Sequences) -> Result<Self, Refusal> {
        let Operand { slot, data_type, .. } = sequences.operand;
        let run = RowConverter::of(data_type).map_err(|refusal| format!("{name}: {refusal}"))?;
        let (pack, store) = packing_of(name, data_type)?;
        let (dims, strides) = (sequences.dims(), sequences.strides());
        let same = match data_type {
            DataType::Float => TypeId::of::<T>() == TypeId::of::<f32>(),
            _ => data_type == DataType::Double && TypeId::of::<T>() == TypeId::of::<f64>(),
        };
        let plain = same && (strides[3] == 1 || dims[3] == 1);
        Ok(Self { slot, run, pack, store, heads: dims[1], strides, depth: dims[3], plain })
    }

    /// Whether rows can be read in place by code that reads `multiple` elements at a time.
    pub(crate) fn is_plain(&self, multiple: usize) -> bool {
        self.plain && self.depth.is_multiple_of(multiple)
    }

    /// The first element of a row, for a query head.
    ///
    /// # Safety
    /// The tensor has the row.
    pub(crate) unsafe fn row(&self, tensors: &[*mut u8], at: At) -> *mut u8 {
        let head = at.head / (at.heads / self.heads);
        let offset = at.place * self.strides[0] + head * self.strides[1] + at.row * self.strides[2];
        // SAFETY: the tensor has the row.
        unsafe { tensors[self.slot].add(offset * self.run.size) }
    }

    /// `count` rows in place, if rows are plain.
    ///
    /// # Safety
    /// As [`Rows::row`].
    pub(crate) unsafe fn in_place(&self, tensors: &[*mut u8], at: At) -> Matrix<T> {
        // SAFETY: the caller has checked the instruction set, the rows and the room for them.
        Matrix { first: unsafe { self.row(tensors, at).cast_const().cast() }, row_stride: self.strides[2] }
    }

    /// Packs `count` rows, each padded with zeros to `width` elements.
    ///
    /// # Safety
    /// The processor supports the instruction set, the tensor has the rows, and there is room for the copies.
    pub(crate) unsafe fn copy(
        &self,
        (isa, tensors): (Isa, &[*mut u8]),
        at: At,
        count: usize,
        to: *mut T,
        width: usize,
    ) -> Matrix<T> {
        let copy = PackSource {
            // SAFETY: the caller has checked the instruction set, the rows and the room for them.
            from: unsafe { self.row(tensors, at) },
            rows: count,
            row: self.strides[2],
            columns: self.depth,
            column: self.strides[3],
            width,
            row_stride: width,
        };
        // SAFETY: the caller has checked the instruction set, the rows and the room for them.
        unsafe { (self.pack)(isa, &copy, to) };
        Matrix { first: to.cast_const(), row_stride: width }
    }

    /// Packs `count` rows as columns, padded with zeros to `width` columns; `row_stride` is that of the copy.
    ///
    /// # Safety
    /// As [`Rows::copy`].
    pub(crate) unsafe fn copy_turned(
        &self,
        (isa, tensors): (Isa, &[*mut u8]),
        at: At,
        count: usize,
        to: *mut T,
        (width, row_stride): (usize, usize),
    ) {
        let copy = PackSource {
            // SAFETY: the caller has checked the instruction set, the rows and the room for them.
            from: unsafe { self.row(tensors, at) },
            rows: self.depth,
            row: self.strides[3],
            columns: count,
            column: self.strides[2],
            width,
            row_stride,
        };
        // SAFETY: the caller has checked the instruction set, the rows and the room for them.
        unsafe { (self.pack)(isa, &copy, to) };
    }

    /// Writes rows, whose row stride in `from` is `row_stride`.
    ///
    /// # Safety
    /// The processor supports the instruction set, and the tensor and `from` have the rows.
    pub(crate) unsafe fn write(
        &self,
        (isa, tensors): (Isa, &[*mut u8]),
        at: At,
        count: usize,
        from: *const T,
        row_stride: usize,
    ) {
        let sums = Accumulators {
            from,
            row_stride,
            rows: count,
            columns: self.depth,
            row: self.strides[2],
            column: self.strides[3],
        };
        // SAFETY: the caller has checked the instruction set, the rows and the room for them.
        unsafe { (self.store)(isa, &sums, self.row(tensors, at)) };
    }
}
