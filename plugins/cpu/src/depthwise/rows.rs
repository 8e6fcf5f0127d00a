//! Channels first: a vector is a run of a row of the output. Each element of the filter is multiplied with a shifted run of the input.
//!
//! Loops over registers are over indices: iterators and closures may be compiled without the instructions of their caller.

#![expect(clippy::needless_range_loop, reason = "see above")]

use crate::depthwise::band::{Band, Form, ROWS_OF_FIVE, ROWS_OF_THREE};
use crate::simd::row::{inside, load_strided};
use crate::simd::vector::{Float, MAX_LANES, Vector};

impl<T: Float> Band<T> {
    /// Computes the rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows of the output are writable, the taps and the rows of the input that
    /// they read are readable. The form is that of the convolution; there is one channel unless the filter is 3 × 3 or 5 × 5.
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector<Scalar = T>>(&self, form: Form) {
        // SAFETY: the band has the rows and taps that this function requires, for whichever form.
        unsafe {
            if form == Form::Dilated {
                return self.dilated::<V, false>();
            }
            match form {
                Form::Three => self.strips::<V, 3, 1, ROWS_OF_THREE>(),
                Form::ThreeByTwo => self.strips::<V, 3, 2, ROWS_OF_THREE>(),
                Form::Five => self.strips::<V, 5, 1, ROWS_OF_FIVE>(),
                Form::FiveByTwo => self.strips::<V, 5, 2, ROWS_OF_FIVE>(),
                Form::ThreeDilated => self.pairs::<V>(),
                Form::Any | Form::Dilated => self.any::<V, false>(),
            }
        }
    }

    /// The same for filters with NaN or infinity: nothing is multiplied with padding.
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

    /// One of the channels.
    #[inline(always)]
    pub(crate) fn alone(&self, channel: usize) -> Self {
        let [input, output, taps] = self.channel_strides.map(|step| step * channel);
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
    #[inline(always)]
    pub(crate) unsafe fn apply_epilogue<V: Vector<Scalar = T>, const N: usize>(
        &self,
        sums: &mut [V; N],
        channel: usize,
    ) {
        // SAFETY: the instructions, and the values of the channels are valid, as this function requires.
        unsafe {
            let [factor, summand] = self.coefficients.add(channel).read();
            let (factor, summand) = (V::splat(factor), V::splat(summand));
            for i in 0..N {
                sums[i] = sums[i].mul_add(factor, summand);
            }
            if let Some((low, high)) = self.bounds {
                let (low, high) = (V::splat(low), V::splat(high));
                for i in 0..N {
                    sums[i] = sums[i].clamp(low, high);
                }
            }
        }
    }

    /// Any filter, vector by vector. `EXACT` multiplies nothing with padding.
    #[inline(always)]
    pub(crate) unsafe fn any<V: Vector<Scalar = T>, const EXACT: bool>(&self) {
        for row in self.rows.clone() {
            let mut column = 0;
            while column < self.shape.output[1] {
                // SAFETY: row and column are of the output; the vector writes the lanes inside of it alone.
                unsafe { self.vector::<V, EXACT>(row, column) };
                column += V::LANES;
            }
        }
    }

    #[inline(always)]
    unsafe fn vector<V: Vector<Scalar = T>, const EXACT: bool>(&self, row: usize, column: usize) {
        let height = self.shape.input[0] as isize;
        let step = self.shape.stride[1];
        // SAFETY: the operands are valid, as this function requires; rows and lanes outside of the image are not read.
        unsafe {
            let mut sum = V::zero();
            for i in 0..self.shape.window[0] {
                let line = (row * self.shape.stride[0] + i * self.shape.dilation[0]) as isize
                    - self.shape.padding[0];
                if line < 0 || line >= height {
                    continue;
                }
                let line = self.input.wrapping_offset(line * self.input_row as isize);
                for j in 0..self.shape.window[1] {
                    let first = (column * step + j * self.shape.dilation[1]) as isize - self.shape.padding[1];
                    let tap = self.taps.add(i * self.shape.window[1] + j).read_unaligned();
                    let value = load_strided::<V>(line, first, step, self.shape.input[1]);
                    let tap = if EXACT {
                        let taps = [tap; MAX_LANES];
                        V::load_lanes(taps.as_ptr(), inside::<V>(first, step, self.shape.input[1]))
                    } else {
                        V::splat(tap)
                    };
                    sum = value.mul_add(tap, sum);
                }
            }
            let mut sums = [sum];
            self.apply_epilogue(&mut sums, 0);
            let to = self.output.add((row - self.rows.start) * self.output_row + column);
            sums[0].store_lanes(to, V::lanes(0, (self.shape.output[1] - column).min(V::LANES)));
        }
    }
}
