//! Where a tile's results go and its residuals come from: the output itself, or a buffer if the tile spans images
//! or ends within a vector.

use std::ops::Range;

use crate::conv::geometry::Strides;
use crate::conv::im2col::problem::Im2col;
use crate::conv::operands::Operands;
use crate::gemm::prefetch::{prefetch_all_to_write, prefetch_to_write};
use crate::simd::vector::{Float, Vector, VectorTask};

/// Copies rows of a few elements.
struct Rows<T> {
    from: *const T,
    to: *mut T,
    /// Strides of rows.
    from_stride: usize,
    to_stride: usize,
    rows: usize,
    len: usize,
}

impl<T: Float> VectorTask<T> for Rows<T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let whole = self.len / V::LANES * V::LANES;
        // SAFETY: this function requires the processor, and rows that are readable and writable.
        unsafe {
            let rest = V::lanes(0, self.len - whole);
            for row in 0..self.rows {
                let (from, to) = (self.from.add(row * self.from_stride), self.to.add(row * self.to_stride));
                for at in (0..whole).step_by(V::LANES) {
                    V::load(from.add(at)).store(to.add(at));
                }
                if whole < self.len {
                    V::load_lanes(from.add(whole), rest).store_lanes(to.add(whole), rest);
                }
            }
        }
    }
}

impl<T: Float> Im2col<T> {
    /// The destination of the results from a channel on, and its row stride: the output itself if the tile is
    /// alone in its image.
    ///
    /// # Safety
    /// The output among `tensors` has the image of `alone`, and the channel.
    pub(crate) unsafe fn target(
        &self,
        tensors: &[*mut u8],
        alone: Option<(usize, usize)>,
        channel: usize,
        buffer: *mut T,
    ) -> (*mut T, usize) {
        let Operands { output, .. } = &self.operands;
        let Strides { batch, channel: to_stride, .. } = output.strides;
        match alone {
            // SAFETY: the output has the image and the channel, as this function requires.
            Some((image, offset)) => unsafe {
                (
                    tensors[output.slot].cast::<T>().add(image * batch + channel * to_stride + offset),
                    to_stride,
                )
            },
            None => (buffer, self.kernel.columns()),
        }
    }

    /// The residuals of a tile from a channel on, and their row stride; null if there are none.
    ///
    /// # Safety
    /// The tensors cover the tile, and `buffer` is writable for one.
    pub(crate) unsafe fn added(
        &self,
        tensors: &[*mut u8],
        (columns, alone): (&Range<usize>, Option<(usize, usize)>),
        (channel, rows): (usize, usize),
        buffer: *mut T,
    ) -> (*const T, usize) {
        let Some((slot, strides)) = &self.channel_epilogue.residual else { return (std::ptr::null(), 0) };
        let from = tensors[*slot].cast::<T>().cast_const();
        // SAFETY: the elements and the buffer are valid, as this function requires.
        unsafe {
            if let Some((image, offset)) = alone {
                let offset = image * strides.batch + channel * strides.channel + offset;
                return (from.add(offset), strides.channel);
            }
            let to_stride = self.kernel.columns();
            self.images(columns, |column, len, image, offset| {
                let from = from.add(image * strides.batch + channel * strides.channel + offset);
                let to = buffer.add(column);
                self.isa.run_vectors(Rows { from, to, from_stride: strides.channel, to_stride, rows, len });
            });
            (buffer, to_stride)
        }
    }

    /// Copies rows of a tile's results to the output.
    ///
    /// # Safety
    /// The tensors cover the tile, and `buffer` holds it.
    pub(crate) unsafe fn store(
        &self,
        tensors: &[*mut u8],
        columns: &Range<usize>,
        (channel, rows): (usize, usize),
        buffer: *const T,
    ) {
        let Operands { output, .. } = &self.operands;
        let Strides { batch, channel: to_stride, .. } = output.strides;
        let to = tensors[output.slot].cast::<T>();
        self.images(columns, |column, len, image, offset| {
            // SAFETY: the elements and the buffer are valid, as this function requires.
            unsafe {
                let to = to.add(image * batch + channel * to_stride + offset);
                let from = buffer.add(column);
                self.isa.run_vectors(Rows {
                    from,
                    to,
                    from_stride: self.kernel.columns(),
                    to_stride,
                    rows,
                    len,
                });
            }
        });
    }

    /// Prefetches the output that some rows of a tile are written to.
    pub(crate) fn prefetch(
        &self,
        tensors: &[*mut u8],
        columns: &Range<usize>,
        (channel, rows): (usize, usize),
    ) {
        let Operands { output, .. } = &self.operands;
        let Strides { batch, channel: stride, .. } = output.strides;
        let to = tensors[output.slot].cast::<T>();
        self.images(columns, |_, len, image, offset| {
            for row in channel..channel + rows {
                let to = to.wrapping_add(image * batch + row * stride + offset);
                prefetch_all_to_write(to, len);
                prefetch_to_write(to.wrapping_add(len - 1));
            }
        });
    }
}
