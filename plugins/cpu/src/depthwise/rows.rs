//! Channels first: a vector is a run of an output row. Each filter element multiplies a shifted run of the
//! input.
//!
//! Loops over registers use indices: iterators and closures may be compiled without these instructions.

#![expect(clippy::needless_range_loop, reason = "see above")]

use std::ops::Range;

use crate::depthwise::band::{Band, Form, ROWS};
use crate::depthwise::shape::Shape;
use crate::simd::array::Each;
use crate::simd::row::{gather, inside, lanes_inside};
use crate::simd::vector::{Float, MAX_LANES, Vector};

/// How many output rows are computed together with any filter: as many as independent sums.
const TOGETHER: usize = 8;

/// With fewer rows, vectors of one row are computed together instead: signals have a single one.
const FEW: usize = 4;

impl<T: Float> Band<T> {
    /// Computes the rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows of the output are writable, the taps and the rows of the input that
    /// they read are readable. The form is that of the convolution; there is one channel unless the filter has another form than any.
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector<Scalar = T>>(&self, form: Form) {
        // SAFETY: the band has the rows and taps that this function requires for any form.
        unsafe {
            if form == Form::Dilated {
                return self.dilated::<V, false>();
            }
            if !V::HAS_SPECIAL_CASES {
                return self.any::<V, false>();
            }
            match form {
                Form::Three => self.strips::<V, 3, 1, ROWS>(),
                Form::ThreeByTwo => self.strips::<V, 3, 2, ROWS>(),
                Form::Five => self.strips::<V, 5, 1, ROWS>(),
                Form::FiveByTwo => self.strips::<V, 5, 2, ROWS>(),
                Form::Seven => self.strips::<V, 7, 1, ROWS>(),
                Form::ThreeDilated => self.pairs::<V>(),
                Form::Any | Form::Dilated => self.any::<V, false>(),
            }
        }
    }

    /// The same for filters with NaN or infinity: padding is never multiplied.
    ///
    /// # Safety
    /// As [`Band::run`], of one channel.
    #[inline(always)]
    pub(crate) unsafe fn run_exactly<V: Vector<Scalar = T>>(&self) {
        // SAFETY: the band has the rows and taps of one channel, as this function requires.
        unsafe {
            if self.shape.input_dilation == [1, 1] {
                self.any::<V, true>();
            } else {
                self.dilated::<V, true>();
            }
        }
    }

    /// The band of one channel.
    #[inline(always)]
    pub(crate) fn alone(&self, channel: usize) -> Self {
        let [input, output, taps] = self.channel_strides.each(|step| step * channel);
        Self {
            channels: 1,
            input: self.input.wrapping_add(input),
            output: self.output.wrapping_add(output),
            taps: self.taps.wrapping_add(taps),
            coefficients: self.coefficients.wrapping_add(channel),
            ..self.clone()
        }
    }

    /// The epilogue of a channel.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the channel has its coefficients.
    #[inline(always)]
    pub(crate) unsafe fn apply_epilogue<V: Vector<Scalar = T>, const N: usize>(
        &self,
        sums: &mut [V; N],
        channel: usize,
    ) {
        // SAFETY: the instructions, and the values of the channels are valid, as this function requires.
        unsafe {
            let [offset, inner, factor, summand] = self.coefficients.add(channel).read();
            let by = [V::splat(offset), V::splat(inner), V::splat(factor), V::splat(summand)];
            self.registers.apply(sums, &by);
        }
    }

    /// Any filter, in blocks of [`TOGETHER`] rows and a vector of columns. `EXACT` skips the padding.
    ///
    /// # Safety
    /// As [`Band::run`], for one channel and undilated input.
    #[inline(always)]
    pub(crate) unsafe fn any<V: Vector<Scalar = T>, const EXACT: bool>(&self) {
        // By the image's rows, not the band's: threads divide these, and both ways add in another order.
        let is_few = V::HAS_SPECIAL_CASES && self.shape.output[0] < FEW;
        match (self.shape.stride[1], self.shape.dilation[1]) {
            // SAFETY: this function requires the band's rows and operands.
            (1, _) if is_few => return unsafe { self.lines_of::<V, EXACT, 1>() },
            // SAFETY: this function requires the band's rows and operands; the filter is not dilated.
            (2, 1) if is_few && !EXACT => return unsafe { self.lines_of::<V, EXACT, 2>() },
            _ => {}
        }
        for row in self.rows.clone().step_by(TOGETHER) {
            // The last block overlaps the previous one.
            let row = row.min(self.rows.end.saturating_sub(TOGETHER)).max(self.rows.start);
            let rows = row..self.rows.end.min(row + TOGETHER);
            for column in (0..self.shape.output[1]).step_by(V::LANES) {
                // SAFETY: rows and column are in the output; this function requires the operands.
                unsafe {
                    let sums = match self.shape.stride[1] {
                        1 => self.sums::<V, EXACT, 1>(&rows, column),
                        2 if V::HAS_SPECIAL_CASES => self.sums::<V, EXACT, 2>(&rows, column),
                        _ => self.sums::<V, EXACT, 0>(&rows, column),
                    };
                    self.put(sums, &rows, column);
                }
            }
        }
    }

    /// The sums of a block. The stride along a row is `S`; with `S` = 0 any.
    ///
    /// Each tap meets the same lanes of all rows: the mask is computed once, and the rows' sums are independent.
    ///
    /// # Safety
    /// As [`Band::any`]; the rows and the column belong to the band.
    #[inline(always)]
    unsafe fn sums<V: Vector<Scalar = T>, const EXACT: bool, const S: usize>(
        &self,
        rows: &Range<usize>,
        column: usize,
    ) -> [V; TOGETHER] {
        let Shape { window, stride, dilation, input: [height, width], .. } = self.shape;
        let columns = (self.shape.output[1] - column).min(V::LANES);
        // Rows missing from the block are placed above the image.
        let mut tops = [isize::MIN / 2; TOGETHER];
        for (top, row) in tops.iter_mut().zip(rows.clone()) {
            *top = self.shape.first_row(row);
        }
        let last = self.shape.first_row(rows.end - 1);
        let is_whole = rows.len() == TOGETHER;
        // SAFETY: this function requires the instructions.
        let mut sums = unsafe { [V::zero(); TOGETHER] };
        for j in 0..window[1] {
            let first = (column * stride[1] + j * dilation[1]) as isize - self.shape.padding[1];
            let met = lanes_inside(first, stride[1], width, columns);
            if met.is_empty() {
                continue;
            }
            let second = first + V::LANES as isize;
            // SAFETY: this function requires the instructions.
            let [all, near, far] = unsafe {
                [V::lanes(met.start, met.end), inside::<V>(first, 1, width), inside::<V>(second, 1, width)]
            };
            for i in 0..window[0] {
                // SAFETY: the filter has the tap, as this function requires.
                let tap = unsafe {
                    let tap = self.taps.add(i * window[1] + j).read_unaligned();
                    if EXACT { V::load_lanes([tap; MAX_LANES].as_ptr(), all) } else { V::splat(tap) }
                };
                let below = i * dilation[0];
                let are_inside = is_whole
                    && tops[0].wrapping_add_unsigned(below) >= 0
                    && last.wrapping_add_unsigned(below) < height as isize;
                for r in 0..TOGETHER {
                    let line = tops[r].wrapping_add_unsigned(below);
                    if !are_inside && (line < 0 || line >= height as isize) {
                        continue;
                    }
                    let line = self.input.wrapping_add(line as usize * self.input_row);
                    let from = line.wrapping_offset(first);
                    // SAFETY: the row is inside the image, and so are the lanes that are read.
                    unsafe {
                        let value = match S {
                            1 => V::load_lanes(from, all),
                            2 => {
                                let far = V::load_lanes(from.wrapping_add(V::LANES), far);
                                V::load_lanes(from, near).unzip(far).0
                            }
                            _ => gather(line, first, stride[1], met.clone()),
                        };
                        sums[r] = value.mul_add(tap, sums[r]);
                    }
                }
            }
        }
        sums
    }

    /// The rows, each some vectors at a time.
    ///
    /// # Safety
    /// As [`Band::run`], for a filter without dilation or the stride `S` = 1.
    #[inline(always)]
    unsafe fn lines_of<V: Vector<Scalar = T>, const EXACT: bool, const S: usize>(&self) {
        for row in self.rows.clone() {
            let (columns, mut column) = (self.shape.output[1], 0);
            // SAFETY: the vectors begin inside the row, and this function requires the operands.
            unsafe {
                while column + TOGETHER * V::LANES <= columns {
                    self.vectors::<V, EXACT, S, TOGETHER>(row, column);
                    column += TOGETHER * V::LANES;
                }
                while column + V::LANES < columns {
                    self.vectors::<V, EXACT, S, 2>(row, column);
                    column += 2 * V::LANES;
                }
                if column < columns {
                    self.vectors::<V, EXACT, S, 1>(row, column);
                }
            }
        }
    }

    /// `N` vectors of a row of the output, the last ones of which may end behind it.
    ///
    /// # Safety
    /// As [`Band::lines_of`].
    #[inline(always)]
    unsafe fn vectors<V: Vector<Scalar = T>, const EXACT: bool, const S: usize, const N: usize>(
        &self,
        row: usize,
        column: usize,
    ) {
        let Shape { window, dilation, padding, input: [height, width], output: [_, columns], .. } =
            self.shape;
        let (top, left) = (self.shape.first_row(row), (column * S) as isize - padding[1]);
        let reach = N * V::LANES * S + (window[1] - 1) * dilation[1];
        let is_inside = left >= 0 && left as usize + reach <= width;
        // SAFETY: this function requires the instructions.
        let mut sums = unsafe { [V::zero(); N] };
        for i in 0..window[0] {
            let line = top.wrapping_add_unsigned(i * dilation[0]);
            if line < 0 || line >= height as isize {
                continue;
            }
            let line = self.input.wrapping_add(line as usize * self.input_row);
            let taps = self.taps.wrapping_add(i * window[1]);
            // SAFETY: the row is inside the image, and the filter has the row of taps.
            unsafe {
                match (is_inside, S) {
                    (true, 1) => self.add_inside(&mut sums, line.wrapping_offset(left), taps),
                    (true, _) => self.add_pairs(&mut sums, line.wrapping_offset(left), taps),
                    (false, _) => self.add_at_edge::<V, EXACT, S, N>(&mut sums, (line, left), taps),
                }
            }
        }
        // SAFETY: the output has the row, and the columns that the masks name.
        unsafe {
            self.apply_epilogue(&mut sums, 0);
            let to = self.output.add((row - self.rows.start) * self.output_row + column);
            for v in 0..N {
                let left = columns.saturating_sub(column + v * V::LANES).min(V::LANES);
                sums[v].store_lanes(to.wrapping_add(v * V::LANES), V::lanes(0, left));
            }
        }
    }

    /// Adds the products of a row of taps and vectors that are inside the image.
    ///
    /// # Safety
    /// The processor has the vector's instructions; `from` and the vectors at each tap's distance are inside a row.
    #[inline(always)]
    unsafe fn add_inside<V: Vector<Scalar = T>, const N: usize>(
        &self,
        sums: &mut [V; N],
        from: *const T,
        taps: *const T,
    ) {
        for j in 0..self.shape.window[1] {
            // SAFETY: this function requires the taps and the vectors.
            unsafe {
                let (tap, from) =
                    (V::splat(taps.add(j).read_unaligned()), from.add(j * self.shape.dilation[1]));
                for v in 0..N {
                    sums[v] = V::load(from.add(v * V::LANES)).mul_add(tap, sums[v]);
                }
            }
        }
    }

    /// The same with a stride of 2: the even and the odd elements of two vectors meet two taps.
    ///
    /// # Safety
    /// As [`Band::add_inside`], for twice as many elements as the vectors have.
    #[inline(always)]
    unsafe fn add_pairs<V: Vector<Scalar = T>, const N: usize>(
        &self,
        sums: &mut [V; N],
        from: *const T,
        taps: *const T,
    ) {
        let window = self.shape.window[1];
        for j in (0..window).step_by(2) {
            // SAFETY: this function requires the taps and the elements.
            unsafe {
                let even = V::splat(taps.add(j).read_unaligned());
                let odd = if j + 1 < window { V::splat(taps.add(j + 1).read_unaligned()) } else { V::zero() };
                for v in 0..N {
                    let from = from.add(j + 2 * v * V::LANES);
                    let (near, far) = V::load(from).unzip(V::load(from.add(V::LANES)));
                    sums[v] = near.mul_add(even, sums[v]);
                    if j + 1 < window {
                        sums[v] = far.mul_add(odd, sums[v]);
                    }
                }
            }
        }
    }

    /// The same for vectors that are inside the image in part; `line` is the beginning of the row. `EXACT` skips the padding.
    ///
    /// # Safety
    /// The processor has the vector's instructions, the row and the taps are readable.
    #[inline(always)]
    unsafe fn add_at_edge<V: Vector<Scalar = T>, const EXACT: bool, const S: usize, const N: usize>(
        &self,
        sums: &mut [V; N],
        (line, left): (*const T, isize),
        taps: *const T,
    ) {
        for j in 0..self.shape.window[1] {
            let first = left.wrapping_add_unsigned(j * self.shape.dilation[1]);
            for v in 0..N {
                let first = first.wrapping_add_unsigned(v * V::LANES * S);
                // SAFETY: this function requires the tap, and lanes outside of the row are not read.
                unsafe {
                    let tap = taps.add(j).read_unaligned();
                    let lanes = inside::<V>(first, 1, self.shape.input[1]);
                    let mut value = V::load_lanes(line.wrapping_offset(first), lanes);
                    if S == 2 {
                        let next = first.wrapping_add_unsigned(V::LANES);
                        let lanes = inside::<V>(next, 1, self.shape.input[1]);
                        value = value.unzip(V::load_lanes(line.wrapping_offset(next), lanes)).0;
                    }
                    let tap =
                        if EXACT { V::load_lanes([tap; MAX_LANES].as_ptr(), lanes) } else { V::splat(tap) };
                    sums[v] = value.mul_add(tap, sums[v]);
                }
            }
        }
    }

    /// Stores the sums of a block after the epilogue.
    ///
    /// # Safety
    /// As [`Band::sums`]; the sums are those of these rows and columns.
    #[inline(always)]
    unsafe fn put<V: Vector<Scalar = T>>(&self, mut sums: [V; TOGETHER], rows: &Range<usize>, column: usize) {
        let columns = (self.shape.output[1] - column).min(V::LANES);
        // SAFETY: the output has the rows, and the columns that the mask names.
        unsafe {
            self.apply_epilogue(&mut sums, 0);
            for r in 0..rows.len() {
                let to = self.output.add((rows.start + r - self.rows.start) * self.output_row + column);
                sums[r].store_lanes(to, V::lanes(0, columns));
            }
        }
    }
}
