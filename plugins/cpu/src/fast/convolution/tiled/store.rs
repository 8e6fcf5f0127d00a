//! Where a tile's results go, and where what is added to them comes from: the output itself, or a buffer where a tile goes on in
//! another image or ends within a vector.

use std::ops::Range;

use super::super::super::real::FastReal;
use super::super::geometry::Strides;
use super::super::operands::Operands;
use super::Tiled;

impl<T: FastReal> Tiled<T> {
    /// Where so many rows of results go, of channels from one on, and their distance, given the image and first output of a tile that can be
    /// written there.
    ///
    /// # Safety
    /// The output has them.
    pub(super) unsafe fn target(
        &self,
        tensors: &[*mut u8],
        alone: Option<(usize, usize)>,
        (channel, rows): (usize, usize),
        buffer: *mut T,
    ) -> (*mut T, usize) {
        let Operands { output, .. } = &self.operands;
        let Strides { batch, channel: pitch, .. } = output.strides;
        match alone.filter(|_| self.kernel.is_height(rows)) {
            // SAFETY: the caller promises the place.
            Some((image, place)) => unsafe {
                (tensors[output.slot].cast::<T>().add(image * batch + channel * pitch + place), pitch)
            },
            None => (buffer, self.kernel.columns()),
        }
    }

    /// Rows that are added to a tile's results, of channels from one on, and their distance; null for none.
    ///
    /// # Safety
    /// The tensors cover the tile, and `buffer` is writable for one.
    pub(super) unsafe fn added(
        &self,
        tensors: &[*mut u8],
        (columns, alone): (&Range<usize>, Option<(usize, usize)>),
        (channel, rows): (usize, usize),
        buffer: *mut T,
    ) -> (*const T, usize) {
        let Some((slot, strides)) = &self.ending.residual else { return (std::ptr::null(), 0) };
        let from = tensors[*slot].cast::<T>().cast_const();
        // SAFETY: the caller promises the elements and the buffer.
        unsafe {
            if let Some((image, place)) = alone {
                let place = image * strides.batch + channel * strides.channel + place;
                return (from.add(place), strides.channel);
            }
            let pitch = self.kernel.columns();
            self.images(columns, |column, len, image, place| {
                for row in 0..rows {
                    let from = from.add(image * strides.batch + (channel + row) * strides.channel + place);
                    let bytes = len * size_of::<T>();
                    from.cast::<u8>().copy_to(buffer.add(row * pitch + column).cast(), bytes);
                }
            });
            (buffer, pitch)
        }
    }

    /// Copies so many rows of a tile's results to the output, the first to this channel.
    ///
    /// # Safety
    /// The tensors cover the tile, and `buffer` has it.
    pub(super) unsafe fn store(
        &self,
        tensors: &[*mut u8],
        columns: &Range<usize>,
        (channel, rows): (usize, usize),
        buffer: *const T,
    ) {
        let Operands { output, .. } = &self.operands;
        let Strides { batch, channel: apart, .. } = output.strides;
        let to = tensors[output.slot].cast::<T>();
        self.images(columns, |column, len, image, place| {
            for row in 0..rows {
                // SAFETY: the caller promises the elements and the buffer.
                unsafe {
                    let to = to.add(image * batch + (channel + row) * apart + place);
                    let from = buffer.add(row * self.kernel.columns() + column);
                    from.cast::<u8>().copy_to(to.cast(), len * size_of::<T>());
                }
            }
        });
    }
}
