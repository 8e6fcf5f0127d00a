//! Channels last: a vector is a run of channels of one element of the output.
//!
//! Loops over registers use indices: iterators and closures may be compiled without these instructions.

#![expect(clippy::needless_range_loop, reason = "see above")]

use std::ops::Range;

use crate::depthwise::band::Form;
use crate::depthwise::epilogue::{COEFFICIENTS, Coefficients, Registers};
use crate::depthwise::shape::{MAX_SIDE, Shape, index_of};
use crate::simd::array::Each;
use crate::simd::vector::{Float, Vector};

/// How many elements of an output row are computed together: they share loads of the input and the filter.
pub(crate) const TOGETHER: usize = 4;

/// The longest side of filters with their own loops, and the most columns of the input that a tile reads.
const SIDE: usize = 5;

const TILE: usize = (TOGETHER - 1) * 2 + SIDE;

/// How many elements of an output row or column are computed together for other filters: as many as
/// independent sums.
const MOST: usize = 2 * TOGETHER;

/// The axes of an image.
const ROWS: usize = 0;
const COLUMNS: usize = 1;

/// Some rows of the output in some channels, and their operands.
pub(crate) struct Band<T> {
    pub(crate) shape: Shape,
    /// The image, addressed from row 0, and the strides of its rows and columns.
    pub(crate) input: *const T,
    pub(crate) input_strides: [usize; 2],
    /// The first output row, the strides of rows and columns, and the range of rows.
    pub(crate) output: *mut T,
    pub(crate) output_strides: [usize; 2],
    pub(crate) rows: Range<usize>,
    /// Number of channels.
    pub(crate) channels: usize,
    /// For each element of the filter, row by row, one value per channel; then each of the epilogue's
    /// coefficients likewise.
    pub(crate) taps: *const T,
    /// A zero per channel.
    pub(crate) zeros: *const T,
    /// The epilogue in registers.
    pub(crate) registers: Registers<T>,
}

impl<T: Float> Band<T> {
    /// Computes the rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows of the output are writable; taps, zeros and the
    /// elements of the input in their windows are readable. The form is that of the convolution.
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector<Scalar = T>>(&self, form: Form) {
        // SAFETY: the band has the rows, taps and zeros that this function requires for any form.
        unsafe {
            if matches!(form, Form::Dilated | Form::ThreeDilated) {
                return self.dilated::<V>();
            }
            if !V::HAS_SPECIAL_CASES || self.shape.output[1] < TOGETHER || self.channels < V::LANES {
                return self.any::<V>();
            }
            match form {
                Form::Three => self.tiles::<V, 3, 1>(),
                Form::ThreeByTwo => self.tiles::<V, 3, 2>(),
                Form::Five => self.tiles::<V, 5, 1>(),
                Form::FiveByTwo => self.tiles::<V, 5, 2>(),
                Form::Any | Form::Seven | Form::Dilated | Form::ThreeDilated => self.any::<V>(),
            }
        }
    }

    /// The element in this row and column; zeros in the padding.
    #[inline(always)]
    fn element(&self, row: isize, column: isize) -> *const T {
        let (height, width) = (self.shape.input[0] as isize, self.shape.input[1] as isize);
        if row < 0 || row >= height || column < 0 || column >= width {
            return self.zeros;
        }
        let [rows, columns] = self.input_strides;
        self.input.wrapping_add(row as usize * rows + column as usize * columns)
    }

    /// Filters of `K` × `K` with stride `S`.
    ///
    /// # Safety
    /// As [`Band::run`], for a filter of this form, at least [`TOGETHER`] columns and a vector of channels.
    #[inline(always)]
    unsafe fn tiles<V: Vector<Scalar = T>, const K: usize, const S: usize>(&self) {
        for row in self.rows.clone() {
            let mut column = 0;
            while column < self.shape.output[1] {
                // The last tile overlaps the previous one.
                column = column.min(self.shape.output[1] - TOGETHER);
                let mut elements = [[self.zeros; TILE]; K];
                let top = (row * S) as isize - self.shape.padding[0];
                let left = (column * S) as isize - self.shape.padding[1];
                for i in 0..K {
                    for j in 0..(TOGETHER - 1) * S + K {
                        elements[i][j] = self.element(top + i as isize, left + j as isize);
                    }
                }
                let [rows, columns] = self.output_strides;
                let mut channel = 0;
                while channel < self.channels {
                    channel = channel.min(self.channels - V::LANES);
                    // SAFETY: the last vector ends with the last channel of the band's output.
                    unsafe {
                        let to = self.output.add((row - self.rows.start) * rows + column * columns + channel);
                        self.tile::<V, K, S>(&elements, channel, to);
                    }
                    channel += V::LANES;
                }
                column += TOGETHER;
            }
        }
    }

    /// Some elements of a row in one vector of channels.
    ///
    /// # Safety
    /// As [`Band::tiles`]; the elements and the output at `to` have a vector of channels from `channel` on.
    #[inline(always)]
    unsafe fn tile<V: Vector<Scalar = T>, const K: usize, const S: usize>(
        &self,
        elements: &[[*const T; TILE]; K],
        channel: usize,
        to: *mut T,
    ) {
        // SAFETY: this function requires the instructions.
        let zero = unsafe { V::zero() };
        let mut sums = [zero; TOGETHER];
        let taps = self.taps.wrapping_add(channel);
        for i in 0..K {
            let mut row = [zero; K];
            for j in 0..K {
                // SAFETY: the filter has the tap, of a vector of channels.
                row[j] = unsafe { V::load(taps.add((i * K + j) * self.channels)) };
            }
            // Unrolled, so that accumulators and filter stay in registers.
            macro_rules! columns {
                ($($at:literal)*) => {$(
                    if $at < (TOGETHER - 1) * S + K {
                        // SAFETY: the element is one of the image or of the zeros, with a vector of channels.
                        let value = unsafe { V::load(elements[i][$at].add(channel)) };
                        for r in 0..TOGETHER {
                            if $at >= r * S && $at - r * S < K {
                                sums[r] = value.mul_add(row[$at - r * S], sums[r]);
                            }
                        }
                    }
                )*};
            }
            columns!(0 1 2 3 4 5 6 7 8 9 10);
        }
        // SAFETY: the coefficients of the channels are behind the filter, and the output has the elements.
        unsafe {
            let mut by = [zero; COEFFICIENTS];
            for at in 0..COEFFICIENTS {
                by[at] = V::load(taps.add((K * K + at) * self.channels));
            }
            self.registers.apply(&mut sums, &by);
            for r in 0..TOGETHER {
                sums[r].store(to.add(r * self.output_strides[1]));
            }
        }
    }

    /// Some lanes of the coefficients of channels, from this one on.
    ///
    /// # Safety
    /// As [`Band::run`]; the channels exist.
    #[inline(always)]
    unsafe fn coefficients<V: Vector<Scalar = T>>(&self, channel: usize, lanes: V::Lanes) -> Coefficients<V> {
        let from = self.taps.wrapping_add(self.shape.taps() * self.channels + channel);
        // SAFETY: the coefficients of the channels are behind the filter, and the processor has the instructions.
        unsafe {
            let mut by = [V::zero(); COEFFICIENTS];
            for at in 0..COEFFICIENTS {
                by[at] = V::load_lanes(from.add(at * self.channels), lanes);
            }
            by
        }
    }

    /// Any filter, element by element; padding is never multiplied.
    ///
    /// # Safety
    /// As [`Band::run`].
    #[inline(always)]
    pub(crate) unsafe fn any<V: Vector<Scalar = T>>(&self) {
        if self.shape.input_dilation != [1, 1] {
            // SAFETY: the band has the rows, taps and zeros that this function requires for any form.
            return unsafe { self.dilated::<V>() };
        }
        let columns = 0..self.shape.output[1];
        let inner = [self.inside(ROWS, &self.rows), self.inside(COLUMNS, &columns)];
        let channels = || (0..self.channels).step_by(V::LANES);
        // SAFETY: the rows and columns are in the output, and lanes after the last channel are not touched.
        unsafe {
            for row in self.rows.clone() {
                for channel in channels() {
                    self.along::<V>(COLUMNS, &inner[COLUMNS], [row, 0], channel);
                }
            }
            // Near the sides, the windows of several rows are inside the image's rows instead.
            for column in (0..inner[COLUMNS].start).chain(inner[COLUMNS].end..columns.end) {
                for channel in channels() {
                    self.along::<V>(ROWS, &inner[ROWS], [0, column], channel);
                    for row in (self.rows.start..inner[ROWS].start).chain(inner[ROWS].end..self.rows.end) {
                        self.vector::<V, 1>(ROWS, [row, column], channel);
                    }
                }
            }
        }
    }

    /// Those rows or columns of the output whose windows are inside the image.
    fn inside(&self, axis: usize, of: &Range<usize>) -> Range<usize> {
        let shape = &self.shape;
        let (stride, padding) = (shape.stride[axis], shape.padding[axis]);
        let reach = ((shape.window[axis] - 1) * shape.dilation[axis]) as isize;
        let room = shape.input[axis] as isize + padding - reach;
        let end = (room.max(0) as usize).div_ceil(stride).clamp(of.start, of.end);
        (padding.max(0) as usize).div_ceil(stride).clamp(of.start, end)..end
    }

    /// The elements of the filter along an axis that meet the image, in this row or column of the output.
    #[inline(always)]
    fn met(&self, axis: usize, at: usize) -> Range<usize> {
        let shape = &self.shape;
        let (dilation, window) = (shape.dilation[axis], shape.window[axis]);
        let first = (at * shape.stride[axis]) as isize - shape.padding[axis];
        let count = |len: isize| (len.max(0) as usize).div_ceil(dilation).min(window);
        let end = count(shape.input[axis] as isize - first);
        count(-first).min(end)..end
    }

    /// The output elements from `place` on along an axis, in rows or columns with windows inside the image:
    /// several together, the last of which may be computed twice.
    ///
    /// # Safety
    /// As [`Band::run`]; the elements exist.
    #[inline(always)]
    unsafe fn along<V: Vector<Scalar = T>>(
        &self,
        axis: usize,
        range: &Range<usize>,
        mut place: [usize; 2],
        channel: usize,
    ) {
        let together = match range.len() {
            ..TOGETHER => 1,
            TOGETHER..MOST => TOGETHER,
            _ => MOST,
        };
        for at in range.clone().step_by(together) {
            place[axis] = at.min(range.end - together);
            // SAFETY: the elements are in the range.
            unsafe {
                match together {
                    1 => self.vector::<V, 1>(axis, place, channel),
                    TOGETHER => self.vector::<V, TOGETHER>(axis, place, channel),
                    _ => self.vector::<V, MOST>(axis, place, channel),
                }
            }
        }
    }

    /// Dilated input, element by element of the output.
    ///
    /// # Safety
    /// As [`Band::run`].
    #[inline(always)]
    unsafe fn dilated<V: Vector<Scalar = T>>(&self) {
        let [height, width] = self.shape.input;
        let mut lines = [(self.input, self.taps); MAX_SIDE];
        let mut elements = [(0, 0); MAX_SIDE];
        for row in self.rows.clone() {
            let mut met = 0;
            for i in 0..self.shape.window[0] {
                let position = (row * self.shape.stride[0] + i * self.shape.dilation[0]) as isize
                    - self.shape.padding[0];
                if let Some(line) = index_of(position, self.shape.input_dilation[0], height) {
                    let taps = self.taps.wrapping_add(i * self.shape.window[1] * self.channels);
                    lines[met] = (self.input.wrapping_add(line * self.input_strides[0]), taps);
                    met += 1;
                }
            }
            for column in 0..self.shape.output[1] {
                let mut count = 0;
                for j in 0..self.shape.window[1] {
                    let position = (column * self.shape.stride[1] + j * self.shape.dilation[1]) as isize
                        - self.shape.padding[1];
                    if let Some(at) = index_of(position, self.shape.input_dilation[1], width) {
                        elements[count] = (at * self.input_strides[1], j * self.channels);
                        count += 1;
                    }
                }
                let [rows, columns] = self.output_strides;
                let to = self.output.wrapping_add((row - self.rows.start) * rows + column * columns);
                for channel in (0..self.channels).step_by(V::LANES) {
                    // SAFETY: the elements and their taps exist, as do the output's; lanes after the last
                    // channel are not touched.
                    unsafe {
                        let lanes = V::lanes(0, (self.channels - channel).min(V::LANES));
                        let mut sum = V::zero();
                        for (line, taps) in &lines[..met] {
                            for (element, tap) in &elements[..count] {
                                let value = V::load_lanes(line.wrapping_add(element + channel), lanes);
                                let tap = V::load_lanes(taps.wrapping_add(tap + channel), lanes);
                                sum = value.mul_add(tap, sum);
                            }
                        }
                        let mut sums = [sum];
                        self.registers.apply(&mut sums, &self.coefficients::<V>(channel, lanes));
                        sums[0].store_lanes(to.add(channel), lanes);
                    }
                }
            }
        }
    }

    /// `N` output elements from `place` on along an axis in one vector of channels, sharing loads of the
    /// filter. If `N` > 1, their windows are inside the image along the axis.
    ///
    /// # Safety
    /// As [`Band::run`]; the elements exist.
    #[inline(always)]
    unsafe fn vector<V: Vector<Scalar = T>, const N: usize>(
        &self,
        axis: usize,
        place: [usize; 2],
        channel: usize,
    ) {
        let shape = &self.shape;
        let [rows, columns] = [ROWS, COLUMNS].each(|axis| self.met(axis, place[axis]));
        let step = shape.stride[axis] * self.input_strides[axis];
        // The position in the image of an element of the filter, if it meets the image.
        let position = |axis: usize, tap: usize| {
            let at = (place[axis] * shape.stride[axis] + tap * shape.dilation[axis]) as isize;
            (at - shape.padding[axis]) as usize * self.input_strides[axis]
        };
        // SAFETY: elements outside the image are skipped, and lanes after the last channel are not touched.
        unsafe {
            let lanes = V::lanes(0, (self.channels - channel).min(V::LANES));
            let (taps, mut sums) = (self.taps.add(channel), [V::zero(); N]);
            for i in rows {
                let line = self.input.wrapping_add(position(ROWS, i) + channel);
                for j in columns.clone() {
                    let tap = V::load_lanes(taps.add((i * shape.window[1] + j) * self.channels), lanes);
                    let from = line.wrapping_add(position(COLUMNS, j));
                    for n in 0..N {
                        sums[n] = V::load_lanes(from.wrapping_add(n * step), lanes).mul_add(tap, sums[n]);
                    }
                }
            }
            self.put::<V, N>(sums, axis, place, (channel, lanes));
        }
    }

    /// Writes elements that [`Band::vector`] has summed.
    ///
    /// # Safety
    /// As [`Band::vector`].
    #[inline(always)]
    unsafe fn put<V: Vector<Scalar = T>, const N: usize>(
        &self,
        mut sums: [V; N],
        axis: usize,
        [row, column]: [usize; 2],
        (channel, lanes): (usize, V::Lanes),
    ) {
        let [rows, columns] = self.output_strides;
        let offset = (row - self.rows.start) * rows + column * columns + channel;
        // SAFETY: `Band::vector` requires that output and coefficients have these pixels and lanes of channels.
        unsafe {
            self.registers.apply(&mut sums, &self.coefficients::<V>(channel, lanes));
            for n in 0..N {
                let to = self.output.add(offset + n * self.output_strides[axis]);
                sums[n].store_lanes(to, lanes);
            }
        }
    }
}
