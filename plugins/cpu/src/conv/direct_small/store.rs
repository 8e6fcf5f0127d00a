//! Stores accumulators, which hold contiguous channels, to the output tensor.

use crate::conv::direct_small::kernel::{DirectSmall, Image, MAX_LANES};
use crate::gemm::pack::{Accumulators as Stored, PackSource};
use crate::simd::vector::Float;

impl<T: Float> DirectSmall<T> {
    /// Stores some channels of an image's outputs, whose channels are contiguous in `from`.
    ///
    /// # Safety
    /// `from` has the outputs, `rows` has room for them, and `to` is the first channel's first element.
    pub(crate) unsafe fn store(
        &self,
        image: &Image,
        channels: usize,
        from: *const T,
        rows: *mut T,
        to: *mut u8,
    ) {
        let strides = &self.operands.output.strides;
        let Image { index: image, size, flat } = *image;
        let (width, count) = (self.width(), size.iter().product::<usize>());
        // Contiguous outputs are treated as one row.
        let [depth, height, _] = size;
        let lines = if flat { 1 } else { depth * height };
        let line = count / lines;
        let stride = if flat { 1 } else { strides.spatial[2] };
        let offset = |index: usize| strides.offset(image, [index / height, index % height, 0]);
        let to = |line: usize| to.wrapping_add(offset(line) * self.store_size);
        if strides.channel == 1 {
            for index in 0..lines {
                let from = from.wrapping_add(index * line * width);
                let sums =
                    Stored { from, row_stride: width, rows: line, columns: channels, row: stride, column: 1 };
                // SAFETY: there is a row of values for each output of the line, which the tensor has.
                unsafe { (self.store)(self.isa, &sums, to(index)) };
            }
            return;
        }
        // Channels and outputs are transposed in blocks, unless they are stored directly.
        let direct = self.direct && flat && channels >= self.kernel.lanes;
        let (row, row_stride) = match direct {
            true => (count, strides.channel),
            false => (count.next_multiple_of(MAX_LANES), count.next_multiple_of(MAX_LANES)),
        };
        let copy = PackSource {
            from: from.cast(),
            rows: if direct { channels } else { width },
            row: 1,
            columns: count,
            column: width,
            width: row,
            row_stride,
        };
        // SAFETY: there is a row of values for each output, and room for a row for each channel.
        unsafe { (self.transpose)(self.isa, &copy, if direct { to(0).cast() } else { rows }) };
        for index in 0..if direct { 0 } else { lines } {
            let from = rows.wrapping_add(index * line).cast_const();
            let (row, column) = (strides.channel, stride);
            let sums = Stored { from, row_stride, rows: channels, columns: line, row, column };
            // SAFETY: there is a row of values for each channel, with all outputs of the line, which the tensor has.
            unsafe { (self.store)(self.isa, &sums, to(index)) };
        }
    }
}
