//! Rows of a tensor: read in place if contiguous, else gathered into a buffer.

use hipdnn_plugin_sdk::graph::DataType;

use crate::kernel::Refusal;
use crate::simd::vector::Float;
use crate::tensor::loop_nest::{Chunks, LoopNest};
use crate::tensor::row_converter::RowConverter;

/// A tensor that is processed row by row, all tensors of a kernel in the same order.
pub(crate) struct Row<T> {
    slot: usize,
    run: RowConverter<T>,
    /// The loops over a row, sorted by the ordering tensor, with the strides of this one.
    nest: LoopNest<2>,
    /// Whether the elements of a row are contiguous values of the compute type.
    pub(crate) direct: bool,
}

impl<T: Float> Row<T> {
    /// The rows of a floating-point tensor over `dims`, at most `MAX_RANK` of them, sorted by the strides of tensor `by`.
    pub(crate) fn of(
        slot: usize,
        data_type: DataType,
        dims: &[usize],
        by: &[usize],
        strides: &[usize],
    ) -> Result<Self, Refusal> {
        let nest = LoopNest::new(dims, [by, strides], 0);
        let run = RowConverter::of(data_type)?;
        let mut row = Self { slot, run, nest, direct: false };
        row.direct = run.same && row.is_run();
        Ok(row)
    }

    /// Whether the elements of a row are contiguous, in any dtype.
    pub(crate) fn is_run(&self) -> bool {
        self.nest.runs() == 1 && (self.nest.len == 1 || self.nest.inner_strides[1] == 1)
    }

    /// The common stride of a row's elements, if there is one and they are values of the compute type.
    pub(crate) fn column(&self) -> Option<usize> {
        (self.run.same && self.nest.runs() == 1).then_some(self.nest.inner_strides[1])
    }

    /// The first element of a row.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which have the row.
    #[inline(always)]
    pub(crate) unsafe fn first(&self, tensors: &[*mut u8], base: usize) -> *mut u8 {
        // SAFETY: the row is valid, as this function requires.
        unsafe { tensors[self.slot].add(base * self.run.size) }
    }

    /// The values of the row whose first element is `base`: in place, or in the buffer.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which have the row; the buffer has room for it.
    #[inline(always)]
    pub(crate) unsafe fn values(&self, tensors: &[*mut u8], base: usize, buffer: *mut T) -> *const T {
        let tensor = tensors[self.slot];
        // SAFETY: the row and buffer are valid, as this function requires.
        unsafe {
            if self.direct {
                return tensor.add(base * self.run.size).cast();
            }
            let mut chunks = Chunks::new(&self.nest, [0, base], usize::MAX);
            let mut to = buffer;
            while let Some(([_, at], len)) = chunks.next() {
                (self.run.load)(tensor.add(at * self.run.size), self.nest.inner_strides[1], to, len);
                to = to.add(len);
            }
        }
        buffer
    }

    /// Reads contiguous elements.
    ///
    /// # Safety
    /// As [`Row::values`], for these elements.
    pub(crate) unsafe fn load(&self, tensors: &[*mut u8], first: usize, to: *mut T, len: usize) {
        // SAFETY: the elements and room are valid, as this function requires.
        unsafe { (self.run.load)(self.first(tensors, first), 1, to, len) };
    }

    /// Writes contiguous elements.
    ///
    /// # Safety
    /// As [`Row::values`], for these elements.
    pub(crate) unsafe fn store(&self, tensors: &[*mut u8], first: usize, from: *const T, len: usize) {
        // SAFETY: the elements and values are valid, as this function requires.
        unsafe { (self.run.store)(from, self.first(tensors, first), 1, len) };
    }

    /// Where to write the values of the row: in place, or into the buffer. Call [`Row::written`] afterwards.
    ///
    /// # Safety
    /// As [`Row::values`].
    #[inline(always)]
    pub(crate) unsafe fn target(&self, tensors: &[*mut u8], base: usize, buffer: *mut T) -> *mut T {
        if self.direct {
            // SAFETY: the row is valid, as this function requires.
            unsafe { tensors[self.slot].add(base * self.run.size).cast() }
        } else {
            buffer
        }
    }

    /// Copies the buffer to the row.
    ///
    /// # Safety
    /// As [`Row::values`].
    #[inline(always)]
    pub(crate) unsafe fn written(&self, tensors: &[*mut u8], base: usize, buffer: *const T) {
        if self.direct {
            return;
        }
        let tensor = tensors[self.slot];
        // SAFETY: the row and buffer are valid, as this function requires.
        unsafe {
            let mut chunks = Chunks::new(&self.nest, [0, base], usize::MAX);
            let mut from = buffer;
            while let Some(([_, at], len)) = chunks.next() {
                (self.run.store)(from, tensor.add(at * self.run.size), self.nest.inner_strides[1], len);
                from = from.add(len);
            }
        }
    }
}
