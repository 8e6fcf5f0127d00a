//! Images, their rows and their pixels.

use std::ops::Range;

use crate::kernel::Refusal;
use crate::problem::Operand;
use crate::simd::vector::Float;
use crate::tensor::row_converter::RowConverter;

/// The last two spatial dimensions; `fill` takes the place of the first if there is only one.
pub(crate) fn two<N: Copy>(spatial: usize, fill: N, values: &[N]) -> [N; 2] {
    if spatial == 1 { [fill, values[0]] } else { [values[0], values[1]] }
}

/// A tensor of images or filters.
#[derive(Clone, Copy)]
pub(crate) struct Image<T> {
    /// Its index among the kernel's pointers.
    pub(crate) slot: usize,
    /// How its elements are read and written.
    pub(crate) run: RowConverter<T>,
    /// Strides of images, channels, rows and columns, in elements.
    pub(crate) strides: [usize; 4],
}

impl<T: Float> Image<T> {
    /// The tensor of an operand with one or two spatial dimensions.
    pub(crate) fn of(operand: &Operand, spatial: usize) -> Result<Self, Refusal> {
        let strides = operand.layout.strides();
        let [rows, columns] = two(spatial, 0, &strides[2..]);
        Ok(Self {
            slot: operand.slot,
            run: RowConverter::of(operand.data_type)?,
            strides: [strides[0], strides[1], rows, columns],
        })
    }

    /// Whether rows are contiguous values of the compute type.
    #[inline(always)]
    pub(crate) fn has_rows(&self) -> bool {
        self.run.same && self.strides[3] == 1
    }

    /// Rows of a channel and their stride, in place or copied. Offsets count from row 0, even if it is not
    /// among them. `from` is the channel's first element.
    ///
    /// # Safety
    /// The channel has the rows, of `width` elements; `copy` is writable for all of them unless the image
    /// [has rows](Image::has_rows).
    #[inline(always)]
    pub(crate) unsafe fn rows(
        &self,
        from: *const u8,
        lines: Range<usize>,
        width: usize,
        copy: *mut T,
    ) -> (*const T, usize) {
        let [_, _, rows, columns] = self.strides;
        if self.has_rows() {
            return (from.cast(), rows);
        }
        // SAFETY: the rows and the copy are valid, as this function requires.
        unsafe {
            if columns == 1 && rows == width {
                (self.run.load)(from.add(lines.start * rows * self.run.size), 1, copy, lines.len() * width);
            } else {
                for (index, line) in lines.clone().enumerate() {
                    let to = copy.add(index * width);
                    (self.run.load)(from.add(line * rows * self.run.size), columns, to, width);
                }
            }
        }
        (copy.cast_const().wrapping_sub(lines.start * width), width)
    }

    /// Rows of some contiguous channels and the strides of rows and columns, in place or copied. Offsets
    /// count from row 0. `from` is the first of these channels at the first pixel.
    ///
    /// # Safety
    /// The image has the rows, of `width` elements, and the channels; `copy` is writable for all of them unless elements have the
    /// compute type.
    #[inline(always)]
    pub(crate) unsafe fn pixels(
        &self,
        from: *const u8,
        lines: Range<usize>,
        (width, channels): (usize, usize),
        copy: *mut T,
    ) -> (*const T, [usize; 2]) {
        let [_, _, rows, columns] = self.strides;
        if self.run.same {
            return (from.cast(), [rows, columns]);
        }
        for (index, line) in lines.clone().enumerate() {
            for column in 0..width {
                // SAFETY: the rows and the copy are valid, as this function requires.
                unsafe {
                    let to = copy.add((index * width + column) * channels);
                    (self.run.load)(
                        from.add((line * rows + column * columns) * self.run.size),
                        1,
                        to,
                        channels,
                    );
                }
            }
        }
        let first = copy.cast_const().wrapping_sub(lines.start * width * channels);
        (first, [width * channels, channels])
    }

    /// Writes rows of a channel from a copy.
    ///
    /// # Safety
    /// From `to` on, the channel has the rows, of `width` elements; `from` is readable for all of them.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, from: *const T, to: *mut u8, lines: usize, width: usize) {
        let [_, _, rows, columns] = self.strides;
        // SAFETY: the rows and the copy are valid, as this function requires.
        unsafe {
            if columns == 1 && rows == width {
                (self.run.store)(from, to, 1, lines * width);
                return;
            }
            for line in 0..lines {
                (self.run.store)(from.add(line * width), to.add(line * rows * self.run.size), columns, width);
            }
        }
    }

    /// The address of an element. The pointer may be that of rows that do not exist: some kernels get a part of an image.
    #[inline(always)]
    pub(crate) fn at(&self, base: *mut u8, [image, channel, row, column]: [usize; 4]) -> *mut u8 {
        let [images, channels, rows, columns] = self.strides;
        let offset = image * images + channel * channels + row * rows + column * columns;
        base.wrapping_add(offset * self.run.size)
    }
}
