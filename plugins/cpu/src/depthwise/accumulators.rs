//! The accumulators of backward weights: one per element of a filter, in registers.
//!
//! Loops over registers use indices: iterators and closures may be compiled without these instructions.

#![expect(clippy::needless_range_loop, reason = "see above")]

use crate::depthwise::shape::Shape;
use crate::simd::array::Each;
use crate::simd::row::{inside, load_strided};
use crate::simd::vector::{Float, Vector};

/// Channels whose accumulators are contiguous: a cache line, and the longest vector.
pub(crate) const TOGETHER: usize = 16;

/// The elements of a filter's row that are summed together, unless it is 3 × 3.
const SIDE: usize = 5;

/// The planes of a channel with contiguous rows: a vector is a run of a row.
pub(crate) struct Rows<'a, T> {
    pub(crate) shape: &'a Shape,
    /// The image, and the stride of its rows.
    pub(crate) input: *const T,
    pub(crate) input_row: usize,
    /// The output's gradient, and the stride of its rows.
    pub(crate) gradient: *const T,
    pub(crate) gradient_row: usize,
    /// The accumulators, row by row of the filter.
    pub(crate) accumulators: *mut T,
}

impl<T: Float> Rows<'_, T> {
    /// Adds all products to the accumulators.
    ///
    /// # Safety
    /// The processor has the vector's instructions; both planes are readable, the accumulators writable.
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector<Scalar = T>>(&self) {
        let Shape { window, stride, dilation, .. } = *self.shape;
        // SAFETY: each block has elements of the filter, of both planes' channel; this function requires the planes.
        unsafe {
            match (window, stride, dilation) {
                ([3, 3], [_, 1], [_, 1]) if V::HAS_SPECIAL_CASES => self.block::<V, 3, 3, 1>([0, 0]),
                ([3, 3], [_, 2], [_, 1]) if V::HAS_SPECIAL_CASES => self.block::<V, 3, 3, 2>([0, 0]),
                _ => {
                    for i in 0..window[0] {
                        for j in (0..window[1]).step_by(SIDE) {
                            self.block::<V, 1, SIDE, 0>([i, j]);
                        }
                    }
                }
            }
        }
    }

    /// `R` rows of `K` elements of the filter, from this one on. The stride along a row is `S`, undilated;
    /// with `S` = 0 any.
    ///
    /// # Safety
    /// As [`Rows::run`]; the filter has the rows and the first column.
    #[inline(always)]
    unsafe fn block<V: Vector<Scalar = T>, const R: usize, const K: usize, const S: usize>(
        &self,
        [i0, j0]: [usize; 2],
    ) {
        let Shape { window, stride, dilation, padding, input, output, .. } = *self.shape;
        let column_stride = if S == 0 { stride[1] } else { S };
        let count = K.min(window[1] - j0);
        let left = (j0 * dilation[1]) as isize - padding[1];
        // Vectors of dy whose windows are inside the image.
        let mut inner = 0..0;
        if S > 0 {
            let first = (padding[1].max(0) as usize).div_ceil(S * V::LANES);
            let reach = V::LANES * S + (K - 1) / S * S;
            let room = input[1] as isize + padding[1] - reach as isize + (S * V::LANES) as isize;
            let last = (output[1] / V::LANES).min(room.max(0) as usize / (S * V::LANES));
            inner = first..last.max(first);
        }
        // SAFETY: this function requires the instructions.
        let (zero, none) = unsafe { (V::zero(), V::lanes(0, 0)) };
        let mut accumulators = [[zero; K]; R];
        for row in 0..output[0] {
            let gradient = self.gradient.wrapping_add(row * self.gradient_row);
            let lines = self.lines::<R>(row, i0);
            for vector in inner.clone() {
                let column = vector * V::LANES;
                // SAFETY: the row of dy has the vector.
                let d = unsafe { V::load(gradient.add(column)) };
                let at = (column * S) as isize + left;
                for i in 0..R {
                    if let Some(line) = lines[i] {
                        // SAFETY: the windows of an inner vector are inside the row.
                        let values = unsafe { neighbours::<V, K, S>(line.wrapping_offset(at)) };
                        for j in 0..K {
                            accumulators[i][j] = values[j].mul_add(d, accumulators[i][j]);
                        }
                    }
                }
            }
        }
        for vector in (0..inner.start).chain(inner.end..output[1].div_ceil(V::LANES)) {
            let column = vector * V::LANES;
            let columns = (output[1] - column).min(V::LANES);
            // For each element of the filter: the first and the end position in a row, and the lanes between.
            let mut met = [(0, 0, none); K];
            for j in 0..count {
                let first = (column * column_stride + j * dilation[1]) as isize + left;
                let end = first + ((columns - 1) * column_stride + 1) as isize;
                let end = end.clamp(0, input[1] as isize) as usize;
                // SAFETY: this function requires the instructions.
                met[j] = (first, end, unsafe { inside::<V>(first, column_stride, end) });
            }
            for row in 0..output[0] {
                let gradient = self.gradient.wrapping_add(row * self.gradient_row + column);
                let lines = self.lines::<R>(row, i0);
                for j in 0..count {
                    let (first, end, lanes) = met[j];
                    // SAFETY: the row of dy has the lanes.
                    let d = unsafe { V::load_lanes(gradient, lanes) };
                    for i in 0..R {
                        if let Some(line) = lines[i] {
                            // SAFETY: the row is inside the image, and so are the elements before `end`.
                            let value: V = unsafe { load_strided(line, first, column_stride, end) };
                            accumulators[i][j] = value.mul_add(d, accumulators[i][j]);
                        }
                    }
                }
            }
        }
        for i in 0..R {
            for j in 0..count {
                // SAFETY: there is an accumulator for each element of the filter.
                unsafe {
                    let to = self.accumulators.add((i0 + i) * window[1] + j0 + j);
                    to.write(to.read() + accumulators[i][j].sum());
                }
            }
        }
    }

    /// The rows of the image for rows of the filter and this row of the output; `None` in the padding.
    #[inline(always)]
    fn lines<const R: usize>(&self, row: usize, i0: usize) -> [Option<*const T>; R] {
        let mut lines = [None; R];
        for i in 0..R {
            let line = self.shape.first_row(row) + ((i0 + i) * self.shape.dilation[0]) as isize;
            if line >= 0 && line < self.shape.input[0] as isize {
                lines[i] = Some(self.input.wrapping_add(line as usize * self.input_row));
            }
        }
        lines
    }
}

/// For each of `K` neighbours, the values from it on with stride `S`.
///
/// # Safety
/// The processor has the vector's instructions; all values of the vectors are readable, as are those between
/// and after them up to a whole number of vectors.
#[inline(always)]
unsafe fn neighbours<V: Vector, const K: usize, const S: usize>(from: *const V::Scalar) -> [V; K] {
    // SAFETY: the processor has the vector's instructions, and the values are valid.
    unsafe {
        let mut values = [V::zero(); K];
        if S == 1 {
            for j in 0..K {
                values[j] = V::load(from.add(j));
            }
        } else {
            for pair in 0..K.div_ceil(2) {
                let from = from.add(2 * pair);
                let (even, odd) = V::load(from).unzip(V::load(from.add(V::LANES)));
                values[2 * pair] = even;
                if 2 * pair + 1 < K {
                    values[2 * pair + 1] = odd;
                }
            }
        }
        values
    }
}

/// Images whose channels are contiguous: a vector is a run of channels.
pub(crate) struct Pixels<'a, T> {
    pub(crate) shape: &'a Shape,
    /// The image, addressed from row 0, and the strides of its rows and columns.
    pub(crate) input: *const T,
    pub(crate) input_strides: [usize; 2],
    /// The output's gradient, and the strides of its rows and columns.
    pub(crate) gradient: *const T,
    pub(crate) gradient_strides: [usize; 2],
}

impl<T: Float> Pixels<'_, T> {
    /// Adds the products of a row of dy, in a vector of channels from `channel` on, to the accumulators,
    /// [`TOGETHER`] per element of the filter.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the row and the rows of the image in its windows are readable and have the
    /// channels, the accumulators are writable.
    #[inline(always)]
    pub(crate) unsafe fn row<V: Vector<Scalar = T>>(&self, row: usize, channel: usize, accumulators: *mut T) {
        let window = self.shape.window;
        // SAFETY: each block has elements of the filter; this function requires the row, the image's rows and the accumulators.
        unsafe {
            if V::HAS_SPECIAL_CASES && window == [3, 3] {
                self.block::<V, 3, 3>(row, channel, [0, 0], accumulators);
                return;
            }
            for i in 0..window[0] {
                for j in (0..window[1]).step_by(SIDE) {
                    self.block::<V, 1, SIDE>(row, channel, [i, j], accumulators);
                }
            }
        }
    }

    /// `R` rows of `K` elements of the filter, from this one on.
    ///
    /// # Safety
    /// As [`Pixels::row`]; the filter has the rows and the first column.
    #[inline(always)]
    unsafe fn block<V: Vector<Scalar = T>, const R: usize, const K: usize>(
        &self,
        row: usize,
        channel: usize,
        [i0, j0]: [usize; 2],
        to: *mut T,
    ) {
        let Shape { window, stride, dilation, padding, input, output, .. } = *self.shape;
        let count = K.min(window[1] - j0);
        let width = input[1] as isize;
        // The column of the image for column 0 of dy.
        let first = |j: usize| ((j0 + j) * dilation[1]) as isize - padding[1];
        // Columns of dy for which the element of the filter is inside the image.
        let meets = |j: usize| {
            let (low, high) = (-first(j), width - first(j));
            let column_stride = stride[1] as isize;
            let [low, high] = [low, high].each(|at| (at.max(0) + column_stride - 1) / column_stride);
            low.min(output[1] as isize) as usize..high.min(output[1] as isize) as usize
        };
        let mut lines = [None; R];
        for i in 0..R {
            let line = self.shape.first_row(row) + ((i0 + i) * dilation[0]) as isize;
            if line >= 0 && line < input[0] as isize {
                lines[i] = Some(self.input.wrapping_add(line as usize * self.input_strides[0] + channel));
            }
        }
        let gradient = self.gradient.wrapping_add(row * self.gradient_strides[0] + channel);
        // SAFETY: this function requires the instructions.
        let mut accumulators = unsafe { [[V::zero(); K]; R] };
        for i in 0..R {
            for j in 0..count {
                // SAFETY: there are accumulators for each element of the filter.
                accumulators[i][j] = unsafe { V::load(to.add(((i0 + i) * window[1] + j0 + j) * TOGETHER)) };
            }
        }
        // All elements of the filter at once where all are inside the image, separately in other columns.
        let inner = if count == K { meets(0).start..meets(K - 1).end } else { 0..0 };
        for column in inner.clone() {
            // SAFETY: the row of dy has the column, with a vector of channels.
            let d = unsafe { V::load(gradient.add(column * self.gradient_strides[1])) };
            for i in 0..R {
                if let Some(line) = lines[i] {
                    for j in 0..K {
                        let at = (column * stride[1]) as isize + first(j);
                        // SAFETY: the row is inside the image, and so is the column, with a vector of channels.
                        let value =
                            unsafe { V::load(line.wrapping_add(at as usize * self.input_strides[1])) };
                        accumulators[i][j] = value.mul_add(d, accumulators[i][j]);
                    }
                }
            }
        }
        for j in 0..count {
            let met = meets(j);
            let before = met.start..met.end.min(inner.start);
            let behind = before.end.max(inner.end).max(met.start)..met.end;
            for column in before.chain(behind) {
                // SAFETY: the row of dy has the column, with a vector of channels.
                let d = unsafe { V::load(gradient.add(column * self.gradient_strides[1])) };
                let at = ((column * stride[1]) as isize + first(j)) as usize * self.input_strides[1];
                for i in 0..R {
                    if let Some(line) = lines[i] {
                        // SAFETY: the row is inside the image, and so is a column that the element meets, with a vector of channels.
                        let value = unsafe { V::load(line.wrapping_add(at)) };
                        accumulators[i][j] = value.mul_add(d, accumulators[i][j]);
                    }
                }
            }
        }
        for i in 0..R {
            for j in 0..count {
                // SAFETY: there are accumulators for each element of the filter.
                unsafe { accumulators[i][j].store(to.add(((i0 + i) * window[1] + j0 + j) * TOGETHER)) };
            }
        }
    }
}
