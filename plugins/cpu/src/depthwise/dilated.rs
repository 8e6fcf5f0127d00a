//! Dilated input: backward data of convolutions with strides.

use crate::depthwise::band::Band;
use crate::depthwise::shape::{MAX_SIDE, Shape, index_of};
use crate::dtype::element::ComputeType;
use crate::simd::array::Each;
use crate::simd::row::inside;
use crate::simd::vector::{Float, MAX_LANES, Vector};

/// Values of the buffer for an output row sorted by phase; 0 if undilated. Columns of a phase use the same
/// taps.
pub(crate) fn room(shape: &Shape) -> usize {
    let [rows, columns] = shape.input_dilation;
    if [rows, columns] == [1, 1] {
        0
    } else {
        columns.min(shape.output[1]) * run_of(shape.output[1], columns)
    }
}

/// Room for the columns of one phase, in whole vectors.
fn run_of(columns: usize, input_dilation: usize) -> usize {
    columns.div_ceil(input_dilation).next_multiple_of(MAX_LANES)
}

/// Adds the products of a tap with a vector of a row of `width` elements, from here on. `EXACT` skips
/// padding.
///
/// # Safety
/// The processor has the vector's instructions, and the row is readable.
#[inline(always)]
unsafe fn add_tap<V: Vector, const EXACT: bool>(
    sum: V,
    (line, width): (*const V::Scalar, usize),
    first: isize,
    tap: V::Scalar,
) -> V {
    let from = line.wrapping_offset(first);
    // SAFETY: elements outside of the row are not read.
    unsafe {
        if first >= 0 && first as usize + V::LANES <= width {
            return V::load(from).mul_add(sum.broadcast(tap), sum);
        }
        let lanes = inside::<V>(first, 1, width);
        let tap = if EXACT { V::load_lanes([tap; MAX_LANES].as_ptr(), lanes) } else { sum.broadcast(tap) };
        V::load_lanes(from, lanes).mul_add(tap, sum)
    }
}

impl<T: Float> Band<T> {
    /// Any dilated input, row by row and phase by phase.
    ///
    /// # Safety
    /// As [`Band::run`], for one channel and the form [`Form::Dilated`](crate::depthwise::band::Form).
    #[inline(always)]
    pub(crate) unsafe fn dilated<V: Vector<Scalar = T>, const EXACT: bool>(&self) {
        let [height, width] = self.shape.input;
        let run = run_of(self.shape.output[1], self.shape.input_dilation[1]);
        for row in self.rows.clone() {
            let mut lines = [(self.input, self.taps); MAX_SIDE];
            let mut met = 0;
            for i in 0..self.shape.window[0] {
                let position = (row * self.shape.stride[0] + i * self.shape.dilation[0]) as isize
                    - self.shape.padding[0];
                if let Some(line) = index_of(position, self.shape.input_dilation[0], height) {
                    let taps = self.taps.wrapping_add(i * self.shape.window[1]);
                    lines[met] = (self.input.wrapping_add(line * self.input_row), taps);
                    met += 1;
                }
            }
            for phase in 0..self.shape.input_dilation[1].min(self.shape.output[1]) {
                let mut elements = [(0, 0); MAX_SIDE];
                let mut count = 0;
                for j in 0..self.shape.window[1] {
                    let position = (phase + j * self.shape.dilation[1]) as isize - self.shape.padding[1];
                    let step = self.shape.input_dilation[1] as isize;
                    if position.rem_euclid(step) == 0 {
                        elements[count] = (position.div_euclid(step), j);
                        count += 1;
                    }
                }
                let columns = (self.shape.output[1] - phase).div_ceil(self.shape.input_dilation[1]);
                for column in (0..columns).step_by(V::LANES) {
                    // SAFETY: the lines are rows of the image, each with its taps; there is room for a vector of the phase's columns.
                    unsafe {
                        let mut sums = [V::zero()];
                        for (line, taps) in &lines[..met] {
                            for (first, j) in &elements[..count] {
                                let (first, tap) = (first + column as isize, taps.add(*j).read_unaligned());
                                sums[0] = add_tap::<V, EXACT>(sums[0], (*line, width), first, tap);
                            }
                        }
                        self.apply_epilogue(&mut sums, 0);
                        sums[0].store(self.phases.add(phase * run + column));
                    }
                }
            }
            // SAFETY: the output has the row, all of whose columns are computed.
            unsafe {
                let to = self.output.add((row - self.rows.start) * self.output_row);
                self.interleave(to, run);
            }
        }
    }

    /// Writes a row from the buffer, which is sorted by phase.
    ///
    /// # Safety
    /// The row is writable, and the buffer has all of its columns, phases of `run` values.
    #[inline(always)]
    unsafe fn interleave(&self, to: *mut T, run: usize) {
        let from = self.phases.cast_const();
        // SAFETY: this function requires the row, and that all of its columns are there.
        unsafe {
            if self.shape.input_dilation[1] == 2 {
                for i in 0..self.shape.output[1] / 2 {
                    to.add(2 * i).write_unaligned(from.add(i).read());
                    to.add(2 * i + 1).write_unaligned(from.add(run + i).read());
                }
                if self.shape.output[1] % 2 == 1 {
                    to.add(self.shape.output[1] - 1)
                        .write_unaligned(from.add(self.shape.output[1] / 2).read());
                }
                return;
            }
            for column in 0..self.shape.output[1] {
                let (i, phase) =
                    (column / self.shape.input_dilation[1], column % self.shape.input_dilation[1]);
                to.add(column).write_unaligned(from.add(phase * run + i).read());
            }
        }
    }

    /// [`Form::ThreeDilated`](crate::depthwise::band::Form): two output rows, with a vector of even and one
    /// of odd columns.
    ///
    /// # Safety
    /// As [`Band::run`], for this form.
    #[inline(always)]
    pub(crate) unsafe fn pairs<V: Vector<Scalar = T>>(&self) {
        // SAFETY: half a vector is a vector of the same instruction set, and the band has the rows that this function requires.
        unsafe {
            if V::Half::LANES < V::LANES && self.shape.output[1] <= 2 * V::Half::LANES {
                self.pairs_of::<V::Half>();
            } else {
                self.pairs_of::<V>();
            }
        }
    }

    /// The same with vectors of this length.
    ///
    /// # Safety
    /// As [`Band::pairs`].
    #[inline(always)]
    unsafe fn pairs_of<V: Vector<Scalar = T>>(&self) {
        let width = self.shape.input[1];
        // The input of row 0 and column 0.
        let [top, left] = self.shape.padding.each(|n| (1 - n) / 2);
        let pairs = self.rows.start / 2..self.rows.end.div_ceil(2);
        for column in (0..self.shape.output[1]).step_by(2 * V::LANES) {
            let first = left + (column / 2) as isize;
            let count = self.shape.output[1] - column;
            let written = [count.min(V::LANES), count.saturating_sub(V::LANES).min(V::LANES)];
            // SAFETY: this function requires the instructions.
            let (read, written) = unsafe {
                let read = [inside::<V>(first, 1, width), inside::<V>(first + 1, 1, width)];
                (read, [V::lanes(0, written[0]), V::lanes(0, written[1])])
            };
            for channel in 0..self.channels {
                let input = self.input.wrapping_add(channel * self.channel_strides[0]).wrapping_offset(first);
                let output = self.output.wrapping_add(channel * self.channel_strides[1] + column);
                // SAFETY: the channel has its filter, and nothing is read outside the image.
                let (taps, mut above) = unsafe {
                    let above = self.neighbours::<V>(input, top + pairs.start as isize, &read);
                    (self.window_of::<V, 3>(channel), above)
                };
                for pair in pairs.clone() {
                    // SAFETY: nothing is read outside the image.
                    let below = unsafe { self.neighbours::<V>(input, top + pair as isize + 1, &read) };
                    let mut sums = products_of_pair(&taps, above, below);
                    // SAFETY: the channel has its coefficients.
                    unsafe { self.apply_epilogue(&mut sums, channel) };
                    for i in 0..2 {
                        let row = 2 * pair + i;
                        if self.rows.contains(&row) {
                            let to = output.wrapping_add((row - self.rows.start) * self.output_row);
                            let (near, far) = sums[2 * i].zip(sums[2 * i + 1]);
                            // SAFETY: the output has the row, and its columns are those of the lanes.
                            unsafe {
                                near.store_lanes(to, written[0]);
                                far.store_lanes(to.wrapping_add(V::LANES), written[1]);
                            }
                        }
                    }
                    above = below;
                }
            }
        }
    }

    /// Two vectors of a row, the second one element later; zeros if the row is outside. `from` is at row 0.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the values of the lanes are readable in rows of the
    /// image.
    #[inline(always)]
    unsafe fn neighbours<V: Vector<Scalar = T>>(
        &self,
        from: *const T,
        line: isize,
        read: &[V::Lanes; 2],
    ) -> [V; 2] {
        // SAFETY: the processor has the vector's instructions, and the lanes' values are valid.
        unsafe {
            if line < 0 || line >= self.shape.input[0] as isize {
                return [V::zero(); 2];
            }
            let from = from.wrapping_add(line as usize * self.input_row);
            [V::load_lanes(from, read[0]), V::load_lanes(from.wrapping_add(1), read[1])]
        }
    }
}

/// The sums of even and odd columns in an even and an odd output row, from the input rows above and below.
#[inline(always)]
fn products_of_pair<V: Vector>(taps: &[[V; 3]; 3], above: [V; 2], below: [V; 2]) -> [V; 4] {
    let mut sums = [above[0].broadcast(V::Scalar::ZERO); 4];
    sums[0] = above[0].mul_add(taps[1][1], sums[0]);
    sums[1] = above[0].mul_add(taps[1][0], sums[1]);
    sums[1] = above[1].mul_add(taps[1][2], sums[1]);
    sums[2] = above[0].mul_add(taps[0][1], sums[2]);
    sums[2] = below[0].mul_add(taps[2][1], sums[2]);
    sums[3] = above[0].mul_add(taps[0][0], sums[3]);
    sums[3] = above[1].mul_add(taps[0][2], sums[3]);
    sums[3] = below[0].mul_add(taps[2][0], sums[3]);
    sums[3] = below[1].mul_add(taps[2][2], sums[3]);
    sums
}
