//! The transforms of Winograd F(2 × 2, 3 × 3), for convolutions with stride 1 and with stride 2, and of F(4 × 4, 3 × 3).
//!
//! Along each dimension a tile of F(2 × 2, 3 × 3) with stride 1 has the elements a, b, c, e. The transformed
//! elements a - c, b + c, c - b and b - e are multiplied with f, (f + g + h) / 2, (f - g + h) / 2 and h of
//! the filter f, g, h. With stride 2 a tile has a, b, c, d, e, and a - c, c, c - e, b and d are multiplied
//! with f, f + h, h, g and g.
//!
//! F(4 × 4, 3 × 3) is Toom-Cook interpolation at 0, ±[`POINTS`] and infinity. Among points with exact powers
//! these have nearly the smallest errors: half of those of 0, ±1, ±2. Points that differ only in sign share
//! partial sums.

#![expect(clippy::needless_range_loop, reason = "iterators over registers are calls, see `simd::array`")]

use crate::dtype::element::ComputeType;
use crate::simd::array;
use crate::simd::clip::Clip;
use crate::simd::vector::{Float, Lanewise, MAX_LANES, Vector, VectorTask};

/// The size of a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tile {
    /// Elements along a side, of the input and of the transformed input.
    pub(crate) side: usize,
    /// Outputs along a side.
    pub(crate) outputs: usize,
    /// Stride of the convolution.
    pub(crate) stride: usize,
}

impl Tile {
    /// The tile of F(`outputs` × `outputs`, 3 × 3) for a stride; `None` if it does not exist.
    pub(crate) fn of(outputs: usize, stride: usize) -> Option<Self> {
        matches!((outputs, stride), (2, 1 | 2) | (4, 1)).then_some(Self {
            side: (outputs - 1) * stride + 3,
            outputs,
            stride,
        })
    }

    /// Transformed elements of a tile.
    pub(crate) fn positions(self) -> usize {
        self.side * self.side
    }

    /// Stride of tiles in the input.
    pub(crate) const fn input_stride(self) -> usize {
        self.outputs * self.stride
    }
}

/// Evaluates an expression with the elements and the outputs along a side of a tile as constants.
macro_rules! with_sides {
    ($tile:expr, $side:ident, $outputs:ident => $work:expr) => {
        match $tile.side {
            4 => {
                const $side: usize = 4;
                const $outputs: usize = 2;
                $work
            }
            5 => {
                const $side: usize = 5;
                const $outputs: usize = 2;
                $work
            }
            _ => {
                const $side: usize = 6;
                const $outputs: usize = 4;
                $work
            }
        }
    };
}
pub(crate) use with_sides;

/// The most elements along a side.
pub(crate) const MAX_SIDE: usize = 6;

/// The most outputs of a tile.
pub(crate) const MAX_OUTPUTS: usize = 16;

/// The points of F(4 × 4, 3 × 3) above 0, and their squares.
pub(crate) const POINTS: [f64; 2] = [0.625, 1.5];

const SQUARES: [f64; 2] = [POINTS[0] * POINTS[0], POINTS[1] * POINTS[1]];

/// The first of six vectors.
#[inline(always)]
fn first<V: Copy, const COUNT: usize>(vectors: [V; MAX_SIDE]) -> [V; COUNT] {
    array::from_fn(|i| vectors[i])
}

#[inline(always)]
fn sum<V: Vector>(a: V, b: V) -> V {
    a.lanewise(Lanewise::Add, b)
}

#[inline(always)]
fn difference<V: Vector>(a: V, b: V) -> V {
    a.lanewise(Lanewise::Sub, b)
}

#[inline(always)]
fn times<V: Vector>(factor: f64, a: V) -> V {
    a.lanewise(Lanewise::Mul, a.broadcast(V::Scalar::from_f64(factor)))
}

/// `summand + factor · a`.
#[inline(always)]
fn plus<V: Vector>(summand: V, factor: f64, a: V) -> V {
    a.mul_add(a.broadcast(V::Scalar::from_f64(factor)), summand)
}

/// G g Gᵀ of filters.
pub(crate) struct Filters<T, const SIDE: usize> {
    /// `len` values for each element of the filter, and the stride of elements.
    pub(crate) from: *const T,
    pub(crate) stride: usize,
    pub(crate) len: usize,
    /// Likewise for each transformed element.
    pub(crate) to: *mut T,
    pub(crate) to_stride: usize,
}

/// One dimension of the filter's transform.
#[inline(always)]
fn filter<V: Vector, const SIDE: usize>([a, b, c]: [V; 3]) -> [V; SIDE] {
    let transformed = match SIDE {
        4 => {
            let outer = sum(a, c);
            [a, times(0.5, sum(outer, b)), times(0.5, difference(outer, b)), c, c, c]
        }
        5 => [a, sum(a, c), c, b, b, b],
        _ => {
            // The filter's polynomial at both signs of a point, divided by the product of the point's
            // differences from the others.
            let pair = |index: usize| {
                let (point, square) = (POINTS[index], SQUARES[index]);
                let by = 1.0 / (2.0 * square * (square - SQUARES[1 - index]));
                let even = plus(times(by, a), square * by, c);
                (plus(even, point * by, b), plus(even, -point * by, b))
            };
            let (near, far) = (pair(0), pair(1));
            [times(1.0 / (SQUARES[0] * SQUARES[1]), a), near.0, near.1, far.0, far.1, c]
        }
    };
    first(transformed)
}

impl<T: Float, const SIDE: usize> VectorTask<T> for Filters<T, SIDE> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let Self { from, stride, len, to, to_stride } = self;
        // SAFETY: there are `len` values for each element; lanes after the last one are not touched.
        unsafe {
            for first in (0..len).step_by(V::LANES) {
                let lanes = V::lanes(0, (len - first).min(V::LANES));
                let mut rows = [[V::zero(); SIDE]; 3];
                for (row, transformed) in rows.iter_mut().enumerate() {
                    let mut elements = [V::zero(); 3];
                    for (column, element) in elements.iter_mut().enumerate() {
                        *element = V::load_lanes(from.add((3 * row + column) * stride + first), lanes);
                    }
                    *transformed = filter(elements);
                }
                let [above, middle, below] = rows;
                for column in 0..SIDE {
                    let transformed = filter::<V, SIDE>([above[column], middle[column], below[column]]);
                    for row in 0..SIDE {
                        let to = to.add((SIDE * row + column) * to_stride + first);
                        transformed[row].store_lanes(to, lanes);
                    }
                }
            }
        }
    }
}

/// Adjacent tiles in the planes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Line {
    /// The index of the first one among the transformed tiles, and its column in the planes.
    pub(crate) first_tile: usize,
    pub(crate) column: usize,
    pub(crate) len: usize,
}

/// Bᵀ d B of tiles, for each channel.
pub(crate) struct Inputs<'a, T, const SIDE: usize, const OUTPUTS: usize> {
    pub(crate) planes: *const T,
    /// Offset of each row of a tile.
    pub(crate) rows: [usize; MAX_SIDE],
    pub(crate) channels: usize,
    /// Stride of channels in the planes.
    pub(crate) row_stride: usize,
    /// The tiles, in consecutive order.
    pub(crate) lines: &'a [Line],
    /// Row stride of the transformed input: a vector more than there are tiles.
    pub(crate) width: usize,
    /// A row per channel for each transformed element, and the stride of transformed elements.
    pub(crate) position_stride: usize,
    pub(crate) to: *mut T,
}

/// The elements at even and at odd offsets of two vectors.
///
/// # Safety
/// Two vectors are readable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn pair<V: Vector>(from: *const V::Scalar) -> (V, V) {
    // SAFETY: this function requires the instructions and both vectors.
    unsafe { V::load(from).unzip(V::load(from.add(V::LANES))) }
}

/// For each element of a tile's row, a vector with that element of consecutive tiles, the first at `from`.
///
/// # Safety
/// The row of a vector of tiles and one more vector are readable, and the processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn elements<V: Vector, const SIDE: usize>(from: *const V::Scalar) -> [V; SIDE] {
    // SAFETY: this function requires the instructions and the row.
    unsafe {
        let elements = if SIDE == 4 {
            let ((a, b), (c, e)) = (pair::<V>(from), pair::<V>(from.add(2)));
            [a, b, c, e, e, e]
        } else {
            // Tiles have stride 4.
            let (low, high) = (pair::<V>(from), pair::<V>(from.add(2 * V::LANES)));
            let ((a, c), (b, d)) = (low.0.unzip(high.0), low.1.unzip(high.1));
            let (low, high) = (pair::<V>(from.add(4)), pair::<V>(from.add(4 + 2 * V::LANES)));
            [a, b, c, d, low.0.unzip(high.0).0, low.1.unzip(high.1).0]
        };
        first(elements)
    }
}

/// One dimension of the input's transform.
#[inline(always)]
pub(super) fn input<V: Vector, const SIDE: usize>(elements: [V; SIDE]) -> [V; SIDE] {
    let [a, b, c, d] = [elements[0], elements[1], elements[2], elements[3]];
    let last = elements[SIDE - 1];
    let transformed = match SIDE {
        4 => {
            let last = difference(b, last);
            [difference(a, c), sum(b, c), difference(c, b), last, last, last]
        }
        5 => [difference(a, c), c, difference(c, last), b, d, d],
        _ => {
            let e = elements[4];
            let pair = |index: usize| {
                let other = -SQUARES[1 - index];
                let (even, odd) = (plus(e, other, c), plus(d, other, b));
                (plus(even, POINTS[index], odd), plus(even, -POINTS[index], odd))
            };
            let (near, far) = (pair(0), pair(1));
            let [total, product] = [-SQUARES[0] - SQUARES[1], SQUARES[0] * SQUARES[1]];
            let zero = plus(plus(e, total, c), product, a);
            [zero, near.0, near.1, far.0, far.1, plus(plus(last, total, d), product, b)]
        }
    };
    first(transformed)
}

/// How many columns of the planes are transformed before their rows.
const COLUMNS: usize = 384;

/// Transformed columns of the planes: for each transformed element of a column, the columns of some lines.
#[repr(align(64))]
struct Downward<T, const SIDE: usize>([[T; COLUMNS + MAX_LANES]; SIDE]);

impl<T: Float, const SIDE: usize, const OUTPUTS: usize> Inputs<'_, T, SIDE, OUTPUTS> {
    /// Stride of tiles in a line.
    const STRIDE: usize = OUTPUTS * (SIDE - 3) / (OUTPUTS - 1);

    /// Transforms columns of a channel.
    ///
    /// # Safety
    /// There are `count` columns and a vector more, and the processor has the vector's instructions.
    #[inline(always)]
    unsafe fn down<V: Vector<Scalar = T>>(&self, from: *const T, count: usize, to: &mut Downward<T, SIDE>) {
        for column in (0..count).step_by(V::LANES) {
            // SAFETY: this function requires the instructions and the columns.
            unsafe {
                let transformed =
                    input(array::from_fn::<V, SIDE>(|row| V::load(from.add(self.rows[row] + column))));
                for row in 0..SIDE {
                    transformed[row].store(to.0[row].as_mut_ptr().add(column));
                }
            }
        }
    }

    /// Transforms the rows of a line of tiles, given the row among the transformed elements and its first column.
    ///
    /// # Safety
    /// Whole vectors after the line are readable and writable, and the processor has the vector's instructions.
    #[inline(always)]
    unsafe fn across<V: Vector<Scalar = T>>(&self, row: usize, line: &Line, from: *const T, to: *mut T) {
        for first in (0..line.len).step_by(V::LANES) {
            // The next line overwrites lanes after this one.
            // SAFETY: this function requires the instructions and whole vectors after the line.
            unsafe {
                let transformed = input(elements::<V, SIDE>(from.add(Self::STRIDE * first)));
                let to = to.add(SIDE * row * self.position_stride + line.first_tile + first);
                for column in 0..SIDE {
                    transformed[column].store(to.add(column * self.position_stride));
                }
            }
        }
    }
}

impl<T: Float, const SIDE: usize, const OUTPUTS: usize> VectorTask<T> for Inputs<'_, T, SIDE, OUTPUTS> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let lines = self.lines;
        let count = lines.last().map_or(0, |line| line.first_tile + line.len);
        let mut down = Downward([[T::ZERO; COLUMNS + MAX_LANES]; SIDE]);
        // The end of the columns that a line reads, and of those that its tiles have.
        let reach = |line: &Line| line.column + Self::STRIDE * line.len.next_multiple_of(V::LANES) + 4;
        let end = |line: &Line| line.column + Self::STRIDE * (line.len - 1) + SIDE;
        for channel in 0..self.channels {
            let to = self.to.wrapping_add(channel * self.width);
            // Lanes after the last tile are also multiplied, so they must be initialized.
            if !count.is_multiple_of(V::LANES) {
                for index in 0..SIDE * SIDE {
                    let rest = to.wrapping_add(index * self.position_stride + count / V::LANES * V::LANES);
                    // SAFETY: a row of the result has a vector more than there are tiles.
                    unsafe { V::zero().store(rest) };
                }
            }
            let mut rest = lines;
            while let [first, ..] = rest {
                let near = |line: &&Line| reach(line) <= first.column + COLUMNS;
                let (some, others) = rest.split_at(rest.iter().take_while(near).count().max(1));
                rest = others;
                let columns = some.last().map_or(0, end) - first.column;
                let from = self.planes.wrapping_add(channel * self.row_stride + first.column);
                // SAFETY: planes have the lines' columns, and a vector behind them.
                unsafe { self.down::<V>(from, columns, &mut down) };
                for (row, columns) in down.0.iter().enumerate() {
                    for line in some {
                        // SAFETY: the row has the columns of these lines and whole vectors behind them, and the result its rows.
                        unsafe {
                            let from = columns.as_ptr().add(line.column - first.column);
                            if line.len <= V::LANES / 2 {
                                self.across::<V::Half>(row, line, from, to);
                            } else {
                                self.across::<V>(row, line, from, to);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Aᵀ m A of vectors of tiles, for each row, then the epilogue. Returns whether the sums of the rows are finite.
pub(crate) struct Outputs<T, const SIDE: usize, const OUTPUTS: usize> {
    /// For each transformed element `rows` rows.
    pub(crate) sums: *const T,
    pub(crate) rows: usize,
    /// Rows with results.
    pub(crate) present: usize,
    pub(crate) vectors: usize,
    /// Row stride of the sums.
    pub(crate) width: usize,
    /// A value that is added to each row, and the stride of these values.
    pub(crate) bias: Option<(*const T, usize)>,
    pub(crate) clip: Clip<T>,
    /// `OUTPUTS` lines per row, with the outputs of `width` tiles.
    pub(crate) to: *mut T,
}

/// One dimension of the output's transform.
#[inline(always)]
pub(super) fn output<V: Vector, const SIDE: usize, const OUTPUTS: usize>(m: [V; SIDE]) -> [V; OUTPUTS] {
    let last = m[SIDE - 1];
    let lines = match SIDE {
        4 => {
            let (a, b) = (sum(sum(m[0], m[1]), m[2]), difference(difference(m[1], m[2]), last));
            [a, b, b, b, b, b]
        }
        5 => {
            let (a, b) = (sum(sum(m[0], m[1]), m[3]), sum(difference(m[1], m[2]), last));
            [a, b, b, b, b, b]
        }
        _ => {
            let (near, far) = ((sum(m[1], m[2]), difference(m[1], m[2])), (m[3], m[4]));
            let far = (sum(far.0, far.1), difference(far.0, far.1));
            let [[p, q], [pp, qq]] = [POINTS, SQUARES];
            let third = plus(plus(last, p * pp, near.1), q * qq, far.1);
            [
                sum(sum(m[0], near.0), far.0),
                plus(times(p, near.1), q, far.1),
                plus(times(pp, near.0), qq, far.0),
                third,
                third,
                third,
            ]
        }
    };
    first(lines)
}

/// Writes vectors with their elements interleaved.
///
/// # Safety
/// All of them are writable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn store_interleaved<V: Vector, const OUTPUTS: usize>(vectors: [V; OUTPUTS], to: *mut V::Scalar) {
    // SAFETY: this function requires the instructions and room for the vectors.
    unsafe {
        let interleaved = if OUTPUTS == 2 {
            let (first, second) = vectors[0].zip(vectors[1]);
            [first, second, second, second]
        } else {
            let (even, odd) = (vectors[0].zip(vectors[2]), vectors[1].zip(vectors[OUTPUTS - 1]));
            let (low, high) = (even.0.zip(odd.0), even.1.zip(odd.1));
            [low.0, low.1, high.0, high.1]
        };
        for vector in 0..OUTPUTS {
            interleaved[vector].store(to.add(vector * V::LANES));
        }
    }
}

impl<T: Float, const SIDE: usize, const OUTPUTS: usize> VectorTask<T> for Outputs<T, SIDE, OUTPUTS> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) -> bool {
        let Self { sums, rows, present, vectors, width, bias, clip, to } = self;
        // SAFETY: this function requires the instructions.
        let zero = unsafe { V::zero() };
        let mut zeros = zero;
        for row in 0..present {
            let bias = bias.map(|(first, stride)| {
                // SAFETY: there is a bias for each row.
                zero.broadcast(unsafe { first.add(row * stride).read_unaligned() })
            });
            for vector in 0..vectors {
                let from = sums.wrapping_add(row * width + vector * V::LANES);
                let mut lines = [[zero; SIDE]; OUTPUTS];
                for column in 0..SIDE {
                    // SAFETY: there are rows of sums for each transformed element.
                    let elements = array::from_fn(|line| unsafe {
                        V::load(from.add((SIDE * line + column) * rows * width))
                    });
                    let transformed = output::<V, SIDE, OUTPUTS>(elements);
                    for line in 0..OUTPUTS {
                        lines[line][column] = transformed[line];
                    }
                }
                for line in 0..OUTPUTS {
                    let mut outputs = output::<V, SIDE, OUTPUTS>(lines[line]);
                    for value in &mut outputs {
                        // Zero times infinity or NaN is NaN.
                        zeros = value.mul_add(zero, zeros);
                        if let Some(bias) = bias {
                            *value = sum(*value, bias);
                        }
                    }
                    clip.vectors(&mut outputs);
                    let offset = (OUTPUTS * row + line) * width + vector * V::LANES;
                    // SAFETY: the result has the line of the row, of whole vectors.
                    unsafe { store_interleaved(outputs, to.add(OUTPUTS * offset)) };
                }
            }
        }
        zeros.sum() == T::ZERO
    }
}
