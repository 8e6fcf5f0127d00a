//! Small filters, tile by tile: some rows of one vector of columns.
//!
//! Loops over registers use indices: iterators and closures may be compiled without these instructions.

#![expect(clippy::needless_range_loop, reason = "see above")]

use std::hint::black_box;

use crate::depthwise::band::Band;
use crate::depthwise::shape::Shape;
#[cfg(target_arch = "x86_64")]
use crate::simd::isa::Isa;
use crate::simd::row::inside;
use crate::simd::vector::{Float, Lanewise, Vector};

/// The longest side of these filters.
const SIDE: usize = 7;

/// The rows of a tile.
#[derive(Clone, Copy)]
struct Lines {
    /// The first row of the output, and the number of rows.
    row: usize,
    count: usize,
    /// The first row of the input, possibly above the image, and a bit for each row inside.
    top: isize,
    met: u32,
}

/// Columns of the output in a tile.
#[inline(always)]
const fn columns_of<V: Vector, const K: usize, const S: usize>() -> usize {
    if S == 1 { V::LANES } else { V::LANES - (K - 1) / 2 }
}

/// Sums of each output, which are added at the end: an addition waits for the one before it, so a processor with registers
/// for two sums, of the filter's even and odd rows, computes nearly twice as fast.
const fn sums_of<V: Vector, const K: usize>() -> usize {
    match V::ISA {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if K < 7 => 2,
        _ => 1,
    }
}

/// The values of an input row for each column of the filter.
///
/// # Safety
/// The processor has the vector's instructions; from `from` on, the values of the lanes are readable, or with
/// `EDGE` unset all of the vectors.
#[inline(always)]
unsafe fn met<V: Vector, const K: usize, const S: usize, const EDGE: bool>(
    from: *const V::Scalar,
    lanes: &[V::Lanes; SIDE],
) -> [V; K] {
    // SAFETY: the processor has the vector's instructions, and the values are valid.
    unsafe {
        let mut values = [V::zero(); K];
        if S == 1 {
            for i in 0..K {
                let from = from.wrapping_add(i);
                values[i] = if EDGE { V::load_lanes(from, lanes[i]) } else { V::load(from) };
            }
            return values;
        }
        let next = from.wrapping_add(V::LANES);
        let (near, far) = if EDGE {
            (V::load_lanes(from, lanes[0]), V::load_lanes(next, lanes[1]))
        } else {
            (V::load(from), V::load(next))
        };
        (values[0], values[1]) = near.unzip(far);
        for i in 2..K {
            values[i] = values[i - 2].following();
        }
        values
    }
}

impl<T: Float> Band<T> {
    /// Filters of `K` × `K` with stride `S`, in tiles of `R` rows and one vector of columns, or half one at
    /// the end.
    ///
    /// # Safety
    /// As [`Band::run`], for a filter of this form.
    #[inline(always)]
    pub(crate) unsafe fn strips<V: Vector<Scalar = T>, const K: usize, const S: usize, const R: usize>(
        &self,
    ) {
        // A vector with so few lanes has no complete window.
        if columns_of::<V, K, S>() == 0 {
            for channel in 0..self.channels {
                // SAFETY: the channel is one of the band, whose rows and taps this function requires.
                unsafe { self.alone(channel).any::<V, false>() };
            }
            return;
        }
        let has_half = V::Half::LANES < V::LANES;
        let of_half = if has_half { columns_of::<V::Half, K, S>() } else { 0 };
        // SAFETY: the output's columns fit the chosen tile; this function requires the rows and taps.
        unsafe {
            if self.shape.output[1] <= of_half {
                return self.narrow::<V::Half, K, S, R>();
            }
            if self.shape.output[1] <= columns_of::<V, K, S>() {
                return self.narrow::<V, K, S, R>();
            }
            let left = self.shape.output[1] % columns_of::<V, K, S>();
            let end = if left <= of_half { self.shape.output[1] - left } else { self.shape.output[1] };
            for channel in 0..self.channels {
                self.wide::<V, K, S, R, true>(channel, 0..end);
                if end < self.shape.output[1] {
                    self.wide::<V::Half, K, S, R, false>(channel, end..self.shape.output[1]);
                }
            }
        }
    }

    /// The rows of tiles.
    #[inline(always)]
    fn lines<const K: usize, const S: usize, const R: usize>(&self) -> impl Iterator<Item = Lines> {
        let Shape { padding, input: size, .. } = self.shape;
        let end = self.rows.end;
        self.rows.clone().step_by(R).map(move |row| {
            let count = (end - row).min(R);
            let top = (row * S) as isize - padding[0];
            let from_top = |line: isize| (line - top).clamp(0, ((count - 1) * S + K) as isize);
            let below = |line: isize| (1_u32 << from_top(line)) - 1;
            Lines { row, count, top, met: below(size[0] as isize) & !below(0) }
        })
    }

    /// The lanes inside the image of a tile's vectors, for a tile that begins at this input column.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    unsafe fn read<V: Vector<Scalar = T>, const S: usize>(&self, first: isize) -> [V::Lanes; SIDE] {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        unsafe {
            let mut lanes = [V::lanes(0, 0); SIDE];
            for i in 0..SIDE {
                let offset = if S == 1 { i } else { i * V::LANES };
                lanes[i] = inside::<V>(first + offset as isize, 1, self.shape.input[1]);
            }
            lanes
        }
    }

    /// Images as wide as one tile: all channels share the masks.
    ///
    /// # Safety
    /// As [`Band::strips`]; the output is no wider than a tile.
    #[inline(always)]
    unsafe fn narrow<V: Vector<Scalar = T>, const K: usize, const S: usize, const R: usize>(&self) {
        // SAFETY: the masks are those of the image's and the output's columns, and the rows those of the band.
        unsafe {
            let read = self.read::<V, S>(-self.shape.padding[1]);
            let written = V::lanes(0, self.shape.output[1]);
            for lines in self.lines::<K, S, R>() {
                for channel in 0..self.channels {
                    let taps = self.window_of::<V, K>(channel);
                    self.tile::<V, K, S, R, true>(&taps, (channel, lines, 0), &read, written);
                }
            }
        }
    }

    /// Some columns of a channel, starting at a tile; `INNER` if tiles may need no masks.
    ///
    /// # Safety
    /// As [`Band::strips`]; the columns and the channel belong to the band.
    #[inline(always)]
    unsafe fn wide<V, const K: usize, const S: usize, const R: usize, const INNER: bool>(
        &self,
        channel: usize,
        columns: std::ops::Range<usize>,
    ) where
        V: Vector<Scalar = T>,
    {
        let width = self.shape.input[1] as isize;
        let reach = (V::LANES * S + if S == 1 { K - 1 } else { 0 }) as isize;
        let first = |column: usize| (column * S) as isize - self.shape.padding[1];
        // Usually only the first and the last tile need masks.
        let last = columns.start + (columns.len() - 1) / columns_of::<V, K, S>() * columns_of::<V, K, S>();
        // SAFETY: this function requires the instructions, and the channel's filter.
        let (taps, edges, none) = unsafe {
            let edges = [self.read::<V, S>(first(columns.start)), self.read::<V, S>(first(last))];
            (self.window_of::<V, K>(channel), edges, V::lanes(0, 0))
        };
        for lines in self.lines::<K, S, R>() {
            for column in columns.clone().step_by(columns_of::<V, K, S>()) {
                let first = first(column);
                let is_inner = INNER && first >= 0 && first + reach <= width;
                let at = (channel, lines, column);
                // SAFETY: the band has the rows; a vector read or written without masks lies inside its row.
                unsafe {
                    if is_inner && column + V::LANES <= columns.end {
                        // The next tile overwrites the columns after this one.
                        self.tile::<V, K, S, R, false>(&taps, at, &[none; SIDE], none);
                    } else {
                        let count = (columns.end - column).min(columns_of::<V, K, S>());
                        let read = if column == columns.start {
                            edges[0]
                        } else if column == last {
                            edges[1]
                        } else {
                            self.read::<V, S>(first)
                        };
                        self.tile::<V, K, S, R, true>(&taps, at, &read, V::lanes(0, count));
                    }
                }
            }
        }
    }

    /// The filter of a channel, each element broadcast.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the channel has a filter of `K` × `K` elements.
    #[inline(always)]
    pub(crate) unsafe fn window_of<V: Vector<Scalar = T>, const K: usize>(
        &self,
        channel: usize,
    ) -> [[V; K]; K] {
        // SAFETY: the filter of a channel has K × K taps one after the other.
        unsafe {
            let from = self.taps.add(channel * self.channel_strides[2]);
            let mut taps = [[V::zero(); K]; K];
            for i in 0..K {
                for j in 0..K {
                    taps[i][j] = V::splat(from.add(i * K + j).read_unaligned());
                }
            }
            taps
        }
    }

    /// One tile; `EDGE` if it needs masks.
    ///
    /// # Safety
    /// As [`Band::strips`], for rows and columns of the band. The lanes read are inside the image and those
    /// written inside the output; without `EDGE`, whole vectors are.
    #[inline(always)]
    unsafe fn tile<V, const K: usize, const S: usize, const R: usize, const EDGE: bool>(
        &self,
        taps: &[[V; K]; K],
        (channel, lines, column): (usize, Lines, usize),
        read: &[V::Lanes; SIDE],
        written: V::Lanes,
    ) where
        V: Vector<Scalar = T>,
    {
        let first = (column * S) as isize - self.shape.padding[1];
        let offset = lines.top * self.input_row as isize + first;
        // Opaque, here and below: else the optimizer spills every row's address to memory in the outer loops.
        let mut from =
            black_box(self.input.wrapping_add(channel * self.channel_strides[0]).wrapping_offset(offset));
        // SAFETY: this function requires the instructions.
        let mut sums = unsafe { [[V::zero(); R]; 2] };
        // Unrolled, so that accumulators and filter stay in registers.
        macro_rules! each {
            ($($at:literal)*) => {$(
                if $at < (R - 1) * S + K {
                    if lines.met & (1 << $at) != 0 {
                        // SAFETY: the row is inside the image, and only its lanes inside are read.
                        let values = unsafe { met::<V, K, S, EDGE>(from, read) };
                        for r in 0..R {
                            if $at >= r * S && $at - r * S < K {
                                let of = ($at - r * S) % sums_of::<V, K>();
                                for i in 0..K {
                                    sums[of][r] = values[i].mul_add(taps[$at - r * S][i], sums[of][r]);
                                }
                            }
                        }
                    }
                    from = from.wrapping_add(self.input_row);
                }
            )*};
        }
        each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
        let [mut sums, others] = sums;
        if sums_of::<V, K>() > 1 {
            for r in 0..R {
                sums[r] = sums[r].lanewise(Lanewise::Add, others[r]);
            }
        }
        // SAFETY: the channel has its coefficients, and the output the rows and the lanes that are written.
        unsafe {
            self.apply_epilogue(&mut sums, channel);
            let row = (lines.row - self.rows.start) * self.output_row;
            let mut to =
                black_box(self.output.wrapping_add(channel * self.channel_strides[1] + row + column));
            for r in 0..R {
                if r < lines.count {
                    if EDGE {
                        sums[r].store_lanes(to, written);
                    } else {
                        sums[r].store(to);
                    }
                }
                to = to.wrapping_add(self.output_row);
            }
        }
    }
}
