//! Packs operand B from rows of images (im2col): a strip of columns is a part of a row, in each channel.

use crate::simd::array;
use crate::simd::row::{inside, load_strided};
use crate::simd::vector::{Float, Vector};

/// Columns from one row of the image, in each channel.
pub(crate) struct Strip<T> {
    /// The row in the first channel, its length (0 outside the image), and the stride of columns.
    pub(crate) line: *const T,
    pub(crate) len: usize,
    pub(crate) stride: usize,
    /// The position of the first column's element; columns whose element is outside the row are zero.
    pub(crate) first: isize,
    /// Stride of channels in the source.
    pub(crate) from_stride: usize,
    /// The destination in the first channel, and the stride of channels there.
    pub(crate) to: *mut T,
    pub(crate) to_stride: usize,
    pub(crate) channels: usize,
    /// Vectors of columns, and valid lanes of the last one.
    pub(crate) vectors: usize,
    pub(crate) rest: usize,
}

impl<T: Float> Strip<T> {
    /// Packs the columns of every channel.
    ///
    /// # Safety
    /// The processor has the vector's instructions, the rows of the image are readable, and the destination
    /// is writable in whole vectors except the last.
    #[inline(always)]
    pub(crate) unsafe fn pack<V: Vector<Scalar = T>>(&self) {
        // SAFETY: this function requires the instructions, the image's rows and room for the columns, as each of these does.
        unsafe {
            match self.stride {
                _ if self.len == 0 => self.clear::<V>(),
                1 => self.copy::<V, 1>(),
                2 => self.copy::<V, 2>(),
                _ => self.copy_stride::<V>(),
            }
        }
    }

    /// Writes zeros.
    ///
    /// # Safety
    /// As [`Strip::pack`].
    #[inline(always)]
    unsafe fn clear<V: Vector<Scalar = T>>(&self) {
        // SAFETY: the rows are valid, as this function requires.
        unsafe {
            let rest = V::lanes(0, self.rest);
            for channel in 0..self.channels {
                let to = self.to.add(channel * self.to_stride);
                for vector in 1..self.vectors {
                    V::zero().store(to.add((vector - 1) * V::LANES));
                }
                V::zero().store_lanes(to.add((self.vectors - 1) * V::LANES), rest);
            }
        }
    }

    /// Copies elements with stride 1 or 2.
    ///
    /// # Safety
    /// As [`Strip::pack`].
    #[inline(always)]
    unsafe fn copy<V: Vector<Scalar = T>, const STRIDE: usize>(&self) {
        // SAFETY: the rows and the lines are valid, as this function requires.
        unsafe {
            match self.vectors {
                1 => self.copy_vectors::<V, STRIDE, 1>(),
                2 => self.copy_vectors::<V, STRIDE, 2>(),
                3 => self.copy_vectors::<V, STRIDE, 3>(),
                _ => self.copy_stride::<V>(),
            }
        }
    }

    /// The same with a constant number of vectors.
    ///
    /// # Safety
    /// As [`Strip::pack`].
    #[inline(always)]
    unsafe fn copy_vectors<V: Vector<Scalar = T>, const STRIDE: usize, const VECTORS: usize>(&self) {
        let len = self.len;
        let read = STRIDE * V::LANES;
        let fits = self.first >= 0 && self.first as usize + read * VECTORS <= len;
        let from = self.line.wrapping_offset(self.first);
        // SAFETY: this function requires the rows and the lines; no elements outside of them are read.
        unsafe {
            if fits {
                self.copy_each::<V, VECTORS>(from, |from, vector| {
                    let from = from.add(vector * read);
                    let near = V::load(from);
                    if STRIDE == 1 { near } else { near.unzip(V::load(from.add(V::LANES))).0 }
                });
            } else {
                let of_line = |vector: usize| inside::<V>(self.first + (vector * V::LANES) as isize, 1, len);
                let near: [V::Lanes; VECTORS] = array::from_fn(|vector| of_line(vector * STRIDE));
                let far: [V::Lanes; VECTORS] = array::from_fn(|vector| of_line(vector * STRIDE + 1));
                self.copy_each::<V, VECTORS>(from, |from, vector| {
                    let from = from.wrapping_add(vector * read);
                    let first = V::load_lanes(from, near[vector]);
                    if STRIDE == 1 {
                        return first;
                    }
                    first.unzip(V::load_lanes(from.wrapping_add(V::LANES), far[vector])).0
                });
            }
        }
    }

    /// Copies the run of each channel, with `read` as the load. The loop is kept short so that loads of many
    /// channels are in flight at once: 60 more instructions per channel make 1 × 1 convolutions of large images
    /// 1.5 times slower.
    ///
    /// # Safety
    /// The processor has the vector's instructions, the rows are writable, and `read` may read the source rows.
    #[inline(always)]
    unsafe fn copy_each<V: Vector<Scalar = T>, const VECTORS: usize>(
        &self,
        mut from: *const T,
        read: impl Fn(*const T, usize) -> V,
    ) {
        let mut to = self.to;
        // SAFETY: the rows and the lines are valid, as this function requires.
        unsafe {
            let rest = V::lanes(0, self.rest);
            for _ in 0..self.channels {
                for vector in 0..VECTORS {
                    let (all, to) = (read(from, vector), to.add(vector * V::LANES));
                    if vector + 1 < VECTORS { all.store(to) } else { all.store_lanes(to, rest) }
                }
                (from, to) = (from.wrapping_add(self.from_stride), to.wrapping_add(self.to_stride));
            }
        }
    }

    /// Copies elements with any stride, and zeros for positions outside the row.
    ///
    /// # Safety
    /// As [`Strip::pack`].
    #[inline(always)]
    unsafe fn copy_stride<V: Vector<Scalar = T>>(&self) {
        let (stride, len) = (self.stride, self.len);
        // SAFETY: the rows and the lines are valid, as this function requires.
        unsafe {
            for channel in 0..self.channels {
                let (line, to) =
                    (self.line.add(channel * self.from_stride), self.to.add(channel * self.to_stride));
                for vector in 0..self.vectors {
                    let first = self.first + (vector * V::LANES * stride) as isize;
                    let lanes = if vector + 1 < self.vectors { V::LANES } else { self.rest };
                    let values = load_strided::<V>(line, first, stride, len);
                    values.store_lanes(to.add(vector * V::LANES), V::lanes(0, lanes));
                }
            }
        }
    }
}
