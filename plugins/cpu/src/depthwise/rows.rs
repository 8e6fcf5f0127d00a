//! Rows of one channel's image: a vector is a run of neighbours in a row of the output, and the window's elements are each
//! multiplied with the same run a little farther left or right, or in the row above or below.
//!
//! Loops over registers are over indices: what iterators and closures do may be compiled without the instructions of their caller.

#![expect(clippy::needless_range_loop, reason = "see above")]

use crate::depthwise::Shape;
use crate::depthwise::tiles::{ROWS_OF_FIVE, ROWS_OF_THREE};
use crate::simd::real::Float;
use crate::simd::vector::Vector;
use crate::tensor::image::{MAX_LANES, inside, load_strided};

/// Some rows of the output of some channels, and what they are made of.
#[derive(Clone)]
pub(crate) struct Band<T> {
    /// How many channels, and how far these are apart in the image, in the output and in the windows.
    pub(crate) channels: usize,
    pub(crate) steps: [usize; 3],
    /// The image, as if it began with row 0, and the distance of its rows.
    pub(crate) input: *const T,
    pub(crate) input_row: usize,
    /// Its rows and columns.
    pub(crate) size: [usize; 2],
    /// The first of the output's rows that are computed, the distance of its rows, and which rows these are.
    pub(crate) output: *mut T,
    pub(crate) output_row: usize,
    pub(crate) rows: std::ops::Range<usize>,
    /// Columns of the output.
    pub(crate) columns: usize,
    /// The window, row by row.
    pub(crate) taps: *const T,
    pub(crate) window: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) padding: [isize; 2],
    /// How far the image's rows and columns are apart where windows meet them, and [`room`](crate::depthwise::gaps::room) for a row where they are.
    pub(crate) input_dilation: [usize; 2],
    pub(crate) between: *mut T,
    /// For each channel what a sum is multiplied with and what is added to it, and where sums end.
    pub(crate) ends: *const [T; 2],
    pub(crate) bounds: Option<(T, T)>,
}

/// The forms of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Windows of 3 by 3 neighbours, the step in both directions 1 or 2.
    Three,
    ThreeByTwo,
    /// Windows of 5 by 5 neighbours.
    Five,
    FiveByTwo,
    /// All others.
    Any,
    /// Images with gaps.
    Apart,
    /// The same with every other row and column a gap, of windows of 3 by 3 neighbours, the first of which begins beside an element of the
    /// image in both directions.
    ThreeApart,
}

impl Form {
    /// The form for a convolution.
    pub(crate) fn of(shape: &Shape) -> Self {
        if shape.input_dilation != [1, 1] {
            let is_beside = shape.padding.iter().all(|n| n.rem_euclid(2) == 1);
            let is_three = (shape.dilation, shape.window, shape.input_dilation) == ([1, 1], [3, 3], [2, 2]);
            return if is_three && is_beside { Self::ThreeApart } else { Self::Apart };
        }
        match (shape.dilation, shape.window, shape.stride) {
            ([1, 1], [3, 3], [1, 1]) => Self::Three,
            ([1, 1], [3, 3], [2, 2]) => Self::ThreeByTwo,
            ([1, 1], [5, 5], [1, 1]) => Self::Five,
            ([1, 1], [5, 5], [2, 2]) => Self::FiveByTwo,
            _ => Self::Any,
        }
    }

    /// Rows of the output that are computed together.
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::Three | Self::ThreeByTwo => ROWS_OF_THREE,
            _ => ROWS_OF_FIVE,
        }
    }
}

impl<T: Float> Band<T> {
    /// Computes the rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows of the output are writable, the taps and the rows of the input that
    /// their windows meet are readable. The form is that of the convolution; there is one channel where it is none of windows of 3 by 3 or 5
    /// by 5.
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector<Scalar = T>>(&self, form: Form) {
        // SAFETY: the caller promises all of it.
        unsafe {
            if form == Form::Apart {
                return self.with_gaps::<V, false>();
            }
            match form {
                Form::Three => self.strips::<V, 3, 1, ROWS_OF_THREE>(),
                Form::ThreeByTwo => self.strips::<V, 3, 2, ROWS_OF_THREE>(),
                Form::Five => self.strips::<V, 5, 1, ROWS_OF_FIVE>(),
                Form::FiveByTwo => self.strips::<V, 5, 2, ROWS_OF_FIVE>(),
                Form::ThreeApart => self.pairs::<V>(),
                Form::Any | Form::Apart => self.any::<V, false>(),
            }
        }
    }

    /// The same without the products of zeros beside the image, where the window may have what is not finite.
    ///
    /// # Safety
    /// As [`Band::run`], of one channel.
    #[inline(always)]
    pub(crate) unsafe fn run_exactly<V: Vector<Scalar = T>>(&self) {
        // SAFETY: the caller promises all of it.
        unsafe {
            if self.input_dilation == [1, 1] {
                self.any::<V, true>();
            } else {
                self.with_gaps::<V, true>();
            }
        }
    }

    /// One of the channels.
    #[inline(always)]
    pub(crate) fn alone(&self, channel: usize) -> Self {
        let [input, output, taps] = self.steps.map(|step| step * channel);
        Self {
            channels: 1,
            input: self.input.wrapping_add(input),
            output: self.output.wrapping_add(output),
            taps: self.taps.wrapping_add(taps),
            ends: self.ends.wrapping_add(channel),
            ..self.clone()
        }
    }

    /// What is done with sums of a channel.
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector<Scalar = T>, const N: usize>(
        &self,
        sums: &mut [V; N],
        channel: usize,
    ) {
        // SAFETY: the caller promises the instructions, and the numbers of the channels.
        unsafe {
            let [factor, summand] = self.ends.add(channel).read();
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

    /// Any window, vector by vector. `EXACT` multiplies nothing with the zeros that stand for what is outside.
    #[inline(always)]
    pub(crate) unsafe fn any<V: Vector<Scalar = T>, const EXACT: bool>(&self) {
        for row in self.rows.clone() {
            let mut column = 0;
            while column < self.columns {
                // SAFETY: as the caller promises.
                unsafe { self.vector::<V, EXACT>(row, column) };
                column += V::LANES;
            }
        }
    }

    #[inline(always)]
    unsafe fn vector<V: Vector<Scalar = T>, const EXACT: bool>(&self, row: usize, column: usize) {
        let height = self.size[0] as isize;
        let step = self.stride[1];
        // SAFETY: as the caller promises; rows and lanes outside of the image are not read.
        unsafe {
            let mut sum = V::zero();
            for i in 0..self.window[0] {
                let line = (row * self.stride[0] + i * self.dilation[0]) as isize - self.padding[0];
                if line < 0 || line >= height {
                    continue;
                }
                let line = self.input.wrapping_offset(line * self.input_row as isize);
                for j in 0..self.window[1] {
                    let first = (column * step + j * self.dilation[1]) as isize - self.padding[1];
                    let tap = self.taps.add(i * self.window[1] + j).read_unaligned();
                    let value = load_strided::<V>(line, first, step, self.size[1]);
                    let tap = if EXACT {
                        let taps = [tap; MAX_LANES];
                        V::load_lanes(taps.as_ptr(), inside::<V>(first, step, self.size[1]))
                    } else {
                        V::splat(tap)
                    };
                    sum = value.mul_add(tap, sum);
                }
            }
            let mut sums = [sum];
            self.finish(&mut sums, 0);
            let to = self.output.add((row - self.rows.start) * self.output_row + column);
            sums[0].store_lanes(to, V::lanes(0, (self.columns - column).min(V::LANES)));
        }
    }
}
