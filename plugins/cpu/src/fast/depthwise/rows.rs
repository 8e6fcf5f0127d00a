//! Rows of one channel's image: a vector is a run of neighbours in a row of the output, and the window's elements are each
//! multiplied with the same run a little farther left or right, or in the row above or below.
//!
//! Loops over registers are over indices: what iterators and closures do may be compiled without the instructions of their caller.

#![expect(clippy::needless_range_loop, reason = "see above")]

use super::{MOST_SIDE, Shape, number};
use crate::fast::image::{MOST_LANES, apart, inside};
use crate::fast::real::FastReal;
use crate::fast::vector::Vector;

/// Rows of the output that are computed together: they share rows of the input.
pub(super) const TOGETHER: usize = 4;

/// Some rows of the output of one channel, and what they are made of.
pub(super) struct Band<T> {
    /// The image, as if it began with row 0, and the distance of its rows.
    pub(super) input: *const T,
    pub(super) input_row: usize,
    /// Its rows and columns.
    pub(super) size: [usize; 2],
    /// The first of the output's rows that are computed, the distance of its rows, and which rows these are.
    pub(super) output: *mut T,
    pub(super) output_row: usize,
    pub(super) rows: std::ops::Range<usize>,
    /// Columns of the output.
    pub(super) columns: usize,
    /// The window, row by row.
    pub(super) taps: *const T,
    pub(super) window: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) padding: [isize; 2],
    /// How far the image's rows and columns are apart where windows meet them, and [`room`] for a row where they are.
    pub(super) apart: [usize; 2],
    pub(super) between: *mut T,
    /// What a sum is multiplied with, what is added to it, and where it ends.
    pub(super) factor: T,
    pub(super) summand: T,
    pub(super) bounds: Option<(T, T)>,
}

/// The forms of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
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
}

/// Numbers that are in a row of the output, the columns that meet the same elements of a window side by side; 0 without gaps.
pub(super) fn room(shape: &Shape) -> usize {
    let [rows, columns] = shape.apart;
    if [rows, columns] == [1, 1] {
        0
    } else {
        columns.min(shape.output[1]) * run_of(shape.output[1], columns)
    }
}

/// Room for every column that meets the same elements of a window, in whole vectors.
fn run_of(columns: usize, apart: usize) -> usize {
    columns.div_ceil(apart).next_multiple_of(MOST_LANES)
}

impl Form {
    /// The form for a convolution.
    pub(super) fn of(shape: &Shape) -> Self {
        if shape.apart != [1, 1] {
            return Self::Apart;
        }
        match (shape.dilation, shape.window, shape.stride) {
            ([1, 1], [3, 3], [1, 1]) => Self::Three,
            ([1, 1], [3, 3], [2, 2]) => Self::ThreeByTwo,
            ([1, 1], [5, 5], [1, 1]) => Self::Five,
            ([1, 1], [5, 5], [2, 2]) => Self::FiveByTwo,
            _ => Self::Any,
        }
    }
}

/// Adds the products of a line of the input, the one `AT` lines below the first that a tile meets.
#[inline(always)]
unsafe fn line_of<V: Vector, const K: usize, const S: usize, const EDGE: bool, const AT: usize>(
    from: *const V::Number,
    lanes: &[[V::Lanes; 2]; K],
    taps: &[[V; K]; K],
    sums: &mut [V; TOGETHER],
) {
    // SAFETY: the caller promises the instructions and the numbers.
    unsafe {
        let mut values = [V::zero(); K];
        if S == 1 {
            for i in 0..K {
                let from = from.wrapping_add(i);
                values[i] = if EDGE { V::load_lanes(from, lanes[i][0]) } else { V::load(from) };
            }
        } else {
            for pair in 0..K.div_ceil(2) {
                let i = 2 * pair;
                let from = from.wrapping_add(i);
                let next = from.wrapping_add(V::LANES);
                let (even, odd) = if EDGE {
                    V::load_lanes(from, lanes[i][0]).unzip(V::load_lanes(next, lanes[i][1]))
                } else {
                    V::load(from).unzip(V::load(next))
                };
                values[i] = even;
                if i + 1 < K {
                    values[i + 1] = odd;
                }
            }
        }
        for r in 0..TOGETHER {
            if AT >= r * S && AT - r * S < K {
                for i in 0..K {
                    sums[r] = values[i].mul_add(taps[AT - r * S][i], sums[r]);
                }
            }
        }
    }
}

impl<T: FastReal> Band<T> {
    /// Computes the rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows of the output are writable, the taps and the rows of the input that
    /// their windows meet are readable. The form is that of the convolution.
    #[inline(always)]
    pub(super) unsafe fn run<V: Vector<Number = T>>(&self, form: Form) {
        // SAFETY: the caller promises all of it.
        unsafe {
            if form == Form::Apart {
                return self.with_gaps::<V, false>();
            }
            if self.rows.len() < TOGETHER {
                return self.any::<V, false>();
            }
            match form {
                Form::Three => self.tiles::<V, 3, 1>(),
                Form::ThreeByTwo => self.tiles::<V, 3, 2>(),
                Form::Five => self.tiles::<V, 5, 1>(),
                Form::FiveByTwo => self.tiles::<V, 5, 2>(),
                Form::Any | Form::Apart => self.any::<V, false>(),
            }
        }
    }

    /// The same without the products of zeros beside the image, where the window may have what is not finite.
    ///
    /// # Safety
    /// As [`Band::run`].
    #[inline(always)]
    pub(super) unsafe fn run_exactly<V: Vector<Number = T>>(&self) {
        // SAFETY: the caller promises all of it.
        unsafe {
            if self.apart == [1, 1] {
                self.any::<V, true>();
            } else {
                self.with_gaps::<V, true>();
            }
        }
    }

    /// An image with gaps, row by row: of the columns that meet the same elements of the window one vector after the other.
    #[inline(always)]
    unsafe fn with_gaps<V: Vector<Number = T>, const EXACT: bool>(&self) {
        let [height, width] = self.size;
        let run = run_of(self.columns, self.apart[1]);
        // SAFETY: as the caller promises; rows and lanes outside of the image are not read. There is room for each of the columns.
        unsafe {
            for row in self.rows.clone() {
                let mut lines = [(self.input, self.taps); MOST_SIDE];
                let mut met = 0;
                for i in 0..self.window[0] {
                    let place = (row * self.stride[0] + i * self.dilation[0]) as isize - self.padding[0];
                    if let Some(line) = number(place, self.apart[0], height) {
                        let taps = self.taps.add(i * self.window[1]);
                        lines[met] = (self.input.wrapping_add(line * self.input_row), taps);
                        met += 1;
                    }
                }
                for phase in 0..self.apart[1].min(self.columns) {
                    let mut elements = [(0, 0); MOST_SIDE];
                    let mut count = 0;
                    for j in 0..self.window[1] {
                        let place = (phase + j * self.dilation[1]) as isize - self.padding[1];
                        let step = self.apart[1] as isize;
                        if place.rem_euclid(step) == 0 {
                            elements[count] = (place.div_euclid(step), j);
                            count += 1;
                        }
                    }
                    let columns = (self.columns - phase).div_ceil(self.apart[1]);
                    for column in (0..columns).step_by(V::LANES) {
                        let mut sum = V::zero();
                        for (line, taps) in &lines[..met] {
                            for (first, j) in &elements[..count] {
                                let first = first + column as isize;
                                let tap = taps.add(*j).read();
                                let from = line.wrapping_offset(first);
                                if first >= 0 && first as usize + V::LANES <= width {
                                    sum = V::load(from).mul_add(V::splat(tap), sum);
                                    continue;
                                }
                                let lanes = inside::<V>(first, 1, width);
                                let tap = if EXACT {
                                    let taps = [tap; MOST_LANES];
                                    V::load_lanes(taps.as_ptr(), lanes)
                                } else {
                                    V::splat(tap)
                                };
                                sum = V::load_lanes(from, lanes).mul_add(tap, sum);
                            }
                        }
                        let mut sums = [sum];
                        self.finish(&mut sums);
                        sums[0].store(self.between.add(phase * run + column));
                    }
                }
                let to = self.output.add((row - self.rows.start) * self.output_row);
                self.side_by_side(to, run);
            }
        }
    }

    /// Writes a row of which each run has the columns of a phase.
    #[inline(always)]
    unsafe fn side_by_side(&self, to: *mut T, run: usize) {
        let from = self.between.cast_const();
        // SAFETY: the caller promises the row, and that all of its columns are there.
        unsafe {
            if self.apart[1] == 2 {
                for i in 0..self.columns / 2 {
                    to.add(2 * i).write_unaligned(from.add(i).read());
                    to.add(2 * i + 1).write_unaligned(from.add(run + i).read());
                }
                if self.columns % 2 == 1 {
                    to.add(self.columns - 1).write_unaligned(from.add(self.columns / 2).read());
                }
                return;
            }
            for column in 0..self.columns {
                let (i, phase) = (column / self.apart[1], column % self.apart[1]);
                to.add(column).write_unaligned(from.add(phase * run + i).read());
            }
        }
    }

    /// Windows of `K` by `K` neighbours, `S` apart: tile by tile of some rows and one vector of columns.
    #[inline(always)]
    unsafe fn tiles<V: Vector<Number = T>, const K: usize, const S: usize>(&self) {
        // SAFETY: as the caller promises; a vector that is read without lanes lies inside of its row.
        unsafe {
            let taps = self.window_of::<V, K>();
            let half = self.window_of::<V::Half, K>();
            // Columns whose windows and the vectors that they are read with lie inside of the image.
            let left = self.padding[1].max(0) as usize;
            let reach = V::LANES * S + (K - 1) / S * S;
            let mut row = self.rows.start;
            while row < self.rows.end {
                // The last rows are computed once more with those before them, where they are fewer.
                row = row.min(self.rows.end - TOGETHER);
                let mut column = 0;
                while column < self.columns {
                    let count = (self.columns - column).min(V::LANES);
                    let first = (column * S) as isize - self.padding[1];
                    if count <= V::Half::LANES && V::Half::LANES < V::LANES {
                        self.tile::<V::Half, K, S, true>(&half, row, column);
                        column += V::Half::LANES;
                        continue;
                    }
                    if count == V::LANES
                        && column * S >= left
                        && first + reach as isize <= self.size[1] as isize
                    {
                        self.tile::<V, K, S, false>(&taps, row, column);
                    } else {
                        self.tile::<V, K, S, true>(&taps, row, column);
                    }
                    column += V::LANES;
                }
                row += TOGETHER;
            }
        }
    }

    /// The window, each of its numbers in all lanes.
    #[inline(always)]
    unsafe fn window_of<V: Vector<Number = T>, const K: usize>(&self) -> [[V; K]; K] {
        // SAFETY: as the caller promises.
        unsafe {
            let mut taps = [[V::zero(); K]; K];
            for i in 0..K {
                for j in 0..K {
                    taps[i][j] = V::splat(self.taps.add(i * K + j).read());
                }
            }
            taps
        }
    }

    /// Some rows of one vector of columns; `EDGE` where it or what it is made of may reach beyond the image's sides.
    #[inline(always)]
    unsafe fn tile<V: Vector<Number = T>, const K: usize, const S: usize, const EDGE: bool>(
        &self,
        taps: &[[V; K]; K],
        row: usize,
        column: usize,
    ) {
        // SAFETY: as the caller promises; rows outside of the image are not read.
        unsafe {
            let first = (column * S) as isize - self.padding[1];
            let width = self.size[1];
            let mut sums = [V::zero(); TOGETHER];
            // Of each vector that is read in a row, the lanes that lie inside.
            let mut lanes = [[V::lanes(0, 0); 2]; K];
            if EDGE {
                for i in 0..K {
                    let at = first + i as isize;
                    lanes[i][0] = inside::<V>(at, 1, width);
                    if S == 2 {
                        lanes[i][1] = inside::<V>(at + V::LANES as isize, 1, width);
                    }
                }
            }
            let top = (row * S) as isize - self.padding[0];
            // Written out, so that sums and window stay in registers.
            macro_rules! lines {
                ($($at:literal)*) => {$(
                    if $at < (TOGETHER - 1) * S + K {
                        let line = top + $at;
                        if line >= 0 && line < self.size[0] as isize {
                            let from = self.input.wrapping_offset(line * self.input_row as isize + first);
                            line_of::<V, K, S, EDGE, $at>(from, &lanes, taps, &mut sums);
                        }
                    }
                )*};
            }
            lines!(0 1 2 3 4 5 6 7 8 9 10);
            self.finish(&mut sums);
            let to = self.output.add((row - self.rows.start) * self.output_row + column);
            let whole = V::lanes(0, (self.columns - column).min(V::LANES));
            for r in 0..TOGETHER {
                let to = to.add(r * self.output_row);
                if EDGE {
                    sums[r].store_lanes(to, whole);
                } else {
                    sums[r].store(to);
                }
            }
        }
    }

    /// What is done with sums.
    #[inline(always)]
    unsafe fn finish<V: Vector<Number = T>, const N: usize>(&self, sums: &mut [V; N]) {
        // SAFETY: the caller promises the instructions.
        unsafe {
            let (factor, summand) = (V::splat(self.factor), V::splat(self.summand));
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
    unsafe fn any<V: Vector<Number = T>, const EXACT: bool>(&self) {
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
    unsafe fn vector<V: Vector<Number = T>, const EXACT: bool>(&self, row: usize, column: usize) {
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
                    let value = apart::<V>(line, first, step, self.size[1]);
                    let tap = if EXACT {
                        let taps = [tap; MOST_LANES];
                        V::load_lanes(taps.as_ptr(), inside::<V>(first, step, self.size[1]))
                    } else {
                        V::splat(tap)
                    };
                    sum = value.mul_add(tap, sum);
                }
            }
            let mut sums = [sum];
            self.finish(&mut sums);
            let to = self.output.add((row - self.rows.start) * self.output_row + column);
            sums[0].store_lanes(to, V::lanes(0, (self.columns - column).min(V::LANES)));
        }
    }
}
