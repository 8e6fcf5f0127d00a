//! Rows of queries, keys, values and results in memory.

use std::any::TypeId;

use hipdnn_plugin_sdk::graph::DataType;

use crate::attention::shared::sequences::{Lengths, Placement, Sequence};
use crate::gemm::context::Context;
use crate::gemm::pack::{Accumulators, Pack, PackSource, Store};
use crate::kernel::Refusal;
use crate::pointwise::functions::Functions;
use crate::problem::Operand;
use crate::problem::attention::shape::{Sequences, Start};
use crate::simd::isa::Isa;
use crate::tensor::row_converter::RowConverter;
use crate::tensor::view::Pointers;

/// The rows of a tensor.
pub(crate) struct Rows<T> {
    slot: usize,
    /// Reads and writes elements.
    pub(crate) run: RowConverter<T>,
    pack: Pack<T>,
    store: Store<T>,
    placement: Placement,
    /// Elements of a row, and their stride.
    depth: usize,
    column: usize,
    /// Row stride.
    stride: usize,
    /// Whether rows are contiguous values of the compute type at the constant row stride.
    plain: bool,
}

/// A row of a head in a batch.
#[derive(Clone, std::marker::Copy)]
pub(crate) struct At {
    /// The sequence.
    pub(crate) sequence: Sequence,
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
    pub(crate) fn of(
        name: &'static str,
        sequences: &Sequences,
        kernel: &Context<T>,
    ) -> Result<Self, Refusal> {
        let Operand { slot, data_type, .. } = sequences.operand;
        let run = RowConverter::of(data_type).map_err(|refusal| format!("{name}: {refusal}"))?;
        let (pack, store) = ((kernel.pack_rhs)(name, data_type)?, (kernel.store)(name, data_type)?);
        let (dims, strides) = (sequences.dims(), sequences.strides());
        let same = match data_type {
            DataType::Float => TypeId::of::<T>() == TypeId::of::<f32>(),
            _ => data_type == DataType::Double && TypeId::of::<T>() == TypeId::of::<f64>(),
        };
        let is_paged = matches!(sequences.start, Start::Paged(_));
        Ok(Self {
            slot,
            run,
            pack,
            store,
            placement: Placement::of(name, sequences),
            depth: dims[3],
            column: strides[3],
            stride: strides[2],
            plain: same && !is_paged && (strides[3] == 1 || dims[3] == 1),
        })
    }

    /// Whether the tensor has rows after the ends of sequences.
    pub(crate) fn has_padding(&self) -> bool {
        self.placement.has_padding()
    }

    /// Checks that every row of every sequence, whose lengths were checked, lies in the tensor.
    pub(crate) fn check(
        &self,
        tensors: Pointers<'_>,
        lengths: &Lengths,
        length: impl Fn(Sequence) -> usize,
    ) -> Result<(), Refusal> {
        let length = |index| length(lengths.sequence(tensors, index));
        self.placement.check(tensors, lengths.shape.batch, length)
    }

    /// Whether rows can be read in place by code that reads `multiple` elements at a time.
    pub(crate) fn is_plain(&self, multiple: usize) -> bool {
        self.plain && self.depth.is_multiple_of(multiple)
    }

    /// The first element of a row, for a query head.
    ///
    /// # Safety
    /// The tensor in `slot` is valid for its extent, and has the row.
    pub(crate) unsafe fn row(&self, tensors: &[*mut u8], at: At) -> *mut u8 {
        let head = at.head / (at.heads / self.placement.dims()[1]);
        // SAFETY: the tensor has the row; if other tensors define its position, they were checked.
        unsafe {
            let offset = self.placement.row(Pointers::new(tensors), &at.sequence, head, at.row);
            tensors[self.slot].add(offset * self.run.size)
        }
    }

    /// `count` rows in place, if rows are plain.
    ///
    /// # Safety
    /// As [`Rows::row`].
    pub(crate) unsafe fn in_place(&self, tensors: &[*mut u8], at: At) -> Matrix<T> {
        // SAFETY: this function requires the tensor and its row, as `Rows::row` does.
        Matrix { first: unsafe { self.row(tensors, at).cast_const().cast() }, row_stride: self.stride }
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
        let mut done = 0;
        while done < count {
            let at = At { row: at.row + done, ..at };
            let rows = (count - done).min(self.placement.rows_together(at.row));
            // SAFETY: this function requires the instruction set, the rows and the room for them.
            unsafe {
                let copy = PackSource {
                    from: self.row(tensors, at),
                    rows,
                    row: self.stride,
                    columns: self.depth,
                    column: self.column,
                    width,
                    row_stride: width,
                };
                (self.pack)(isa, &copy, to.add(done * width));
            }
            done += rows;
        }
        Matrix { first: to.cast_const(), row_stride: width }
    }

    /// Packs `count` unpaged rows as columns, zero-padded to `width` columns; `row_stride` is that of the
    /// copy.
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
            // SAFETY: this function requires that the tensor has the row.
            from: unsafe { self.row(tensors, at) },
            rows: self.depth,
            row: self.column,
            columns: count,
            column: self.stride,
            width,
            row_stride,
        };
        // SAFETY: this function requires the instruction set, the rows and the room for them.
        unsafe { (self.pack)(isa, &copy, to) };
    }

    /// Writes unpaged rows, whose row stride in `from` is `row_stride`.
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
        // The memory of a ragged tensor may end with its sequences, leaving no row to point to.
        if count == 0 {
            return;
        }
        let accumulators = Accumulators {
            from,
            row_stride,
            rows: count,
            columns: self.depth,
            row: self.stride,
            column: self.column,
        };
        // SAFETY: this function requires the instruction set, and the rows in the tensor and in `from`.
        unsafe { (self.store)(isa, &accumulators, self.row(tensors, at)) };
    }
}
