//! The transformations of F(2 × 2, 3 × 3), for windows with step 1 and with step 2.
//!
//! Along each dimension a tile with step 1 has the elements a, b, c, e, of which a - c, b + c, c - b and b - e are multiplied with
//! f, (f + g + h) / 2, (f - g + h) / 2 and h of the window f, g, h. With step 2 it has a, b, c, d, e, of which a - c, c, c - e, b and d
//! are multiplied with f, f + h, h, g and g.

use super::super::super::level::VectorWork;
use super::super::super::real::FastReal;
use super::super::super::vector::{Lanewise, Vector};
use crate::element::Real;

/// Elements along a side of a tile of the input, and places along it in what is multiplied: with step 1, and with step 2.
pub(super) const SIDES: [usize; 2] = [4, 5];

/// The first of five numbers for each element of a side.
#[inline(always)]
fn first<V: Copy, const SIDE: usize>(numbers: [V; 5]) -> [V; SIDE] {
    let mut some = [numbers[0]; SIDE];
    some.copy_from_slice(&numbers[..SIDE]);
    some
}

#[inline(always)]
unsafe fn sum<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe { a.lanewise(Lanewise::Add, b) }
}

#[inline(always)]
unsafe fn difference<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller promises the instructions.
    unsafe { a.lanewise(Lanewise::Sub, b) }
}

/// G g Gᵀ of windows.
pub(super) struct Filters<T, const SIDE: usize> {
    /// Element by element of the window `len` numbers, so far apart.
    pub(super) from: *const T,
    pub(super) apart: usize,
    pub(super) len: usize,
    /// Place by place as many, so far apart.
    pub(super) to: *mut T,
    pub(super) to_apart: usize,
}

#[inline(always)]
unsafe fn filter<V: Vector, const SIDE: usize>([a, b, c]: [V; 3]) -> [V; SIDE] {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let outer = sum(a, c);
        let places = if SIDE == SIDES[0] {
            let half = V::splat(V::Number::from_f64(0.5));
            let plus = sum(outer, b).lanewise(Lanewise::Mul, half);
            [a, plus, difference(outer, b).lanewise(Lanewise::Mul, half), c, c]
        } else {
            [a, outer, c, b, b]
        };
        first(places)
    }
}

impl<T: FastReal, const SIDE: usize> VectorWork<T> for Filters<T, SIDE> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) {
        let Self { from, apart, len, to, to_apart } = self;
        // SAFETY: the caller promises the numbers, and the instructions; lanes beyond the last number are not touched.
        unsafe {
            for first in (0..len).step_by(V::LANES) {
                let lanes = V::lanes(0, (len - first).min(V::LANES));
                let mut rows = [[V::zero(); SIDE]; 3];
                for (row, places) in rows.iter_mut().enumerate() {
                    let mut elements = [V::zero(); 3];
                    for (column, element) in elements.iter_mut().enumerate() {
                        *element = V::load_lanes(from.add((3 * row + column) * apart + first), lanes);
                    }
                    *places = filter(elements);
                }
                let [above, middle, below] = rows;
                for (column, ((a, b), c)) in above.into_iter().zip(middle).zip(below).enumerate() {
                    let places = filter::<V, SIDE>([a, b, c]);
                    for (row, number) in places.into_iter().enumerate() {
                        number.store_lanes(to.add((SIDE * row + column) * to_apart + first), lanes);
                    }
                }
            }
        }
    }
}

/// Tiles that lie side by side in the planes.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    /// The first one among those that are transformed, and its column in the planes.
    pub(super) place: usize,
    pub(super) column: usize,
    pub(super) len: usize,
}

/// Bᵀ d B of tiles, for each channel.
pub(super) struct Inputs<'a, T, const SIDE: usize> {
    pub(super) planes: *const T,
    /// Distance of the rows of a tile.
    pub(super) row: usize,
    pub(super) channels: usize,
    /// Distance of channels in the planes.
    pub(super) pitch: usize,
    /// The tiles, in their order and without gaps.
    pub(super) lines: &'a [Line],
    /// Numbers from a row of what is written to the next: a vector more than there are tiles.
    pub(super) width: usize,
    /// Place by place, so far apart, a row for each channel.
    pub(super) place: usize,
    pub(super) to: *mut T,
}

/// The elements at even and at odd places of two vectors.
///
/// # Safety
/// They are readable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn pair<V: Vector>(from: *const V::Number) -> (V, V) {
    // SAFETY: the caller promises both.
    unsafe { V::load(from).unzip(V::load(from.add(V::LANES))) }
}

/// What each tile of a vector has in a row, element by element, given the first tile's first.
///
/// # Safety
/// So many numbers are readable as a vector of tiles meets, and a vector more, and the processor has the vector's instructions.
#[inline(always)]
pub(super) unsafe fn elements<V: Vector, const SIDE: usize>(from: *const V::Number) -> [V; SIDE] {
    // SAFETY: the caller promises both.
    unsafe {
        let elements = if SIDE == SIDES[0] {
            let ((a, b), (c, e)) = (pair::<V>(from), pair::<V>(from.add(2)));
            [a, b, c, e, e]
        } else {
            let (low, high) = (pair::<V>(from), pair::<V>(from.add(2 * V::LANES)));
            let ((a, c), (b, d)) = (low.0.unzip(high.0), low.1.unzip(high.1));
            let (low, high) = (pair::<V>(from.add(4)), pair::<V>(from.add(4 + 2 * V::LANES)));
            [a, b, c, d, low.0.unzip(high.0).0]
        };
        first(elements)
    }
}

#[inline(always)]
unsafe fn input<V: Vector, const SIDE: usize>(d: [V; SIDE]) -> [V; SIDE] {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let (a, b, c) = (d[0], d[1], d[2]);
        let places = if SIDE == SIDES[0] {
            let last = difference(b, d[3]);
            [difference(a, c), sum(b, c), difference(c, b), last, last]
        } else {
            [difference(a, c), c, difference(c, d[SIDE - 1]), b, d[3]]
        };
        first(places)
    }
}

impl<T: FastReal, const SIDE: usize> VectorWork<T> for Inputs<'_, T, SIDE> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) {
        let Self { planes, row, channels, pitch, lines, width, place, to } = self;
        let count = lines.last().map_or(0, |line| line.place + line.len);
        // SAFETY: there are whole vectors of planes behind each line, and rows to write to; the caller promises the instructions.
        unsafe {
            for channel in 0..channels {
                let to = to.add(channel * width);
                // What is beyond the last tile is a number like others, too.
                if count % V::LANES != 0 {
                    for number in 0..SIDE * SIDE {
                        V::zero().store(to.add(number * place + count / V::LANES * V::LANES));
                    }
                }
                for line in lines {
                    for first in (0..line.len).step_by(V::LANES) {
                        let from = planes.add(channel * pitch + line.column + 2 * (SIDE - 3) * first);
                        // Lanes beyond the line are written again by the next one.
                        let to = to.add(line.place + first);
                        let mut rows = [[V::zero(); SIDE]; SIDE];
                        for (number, elements_of) in rows.iter_mut().enumerate() {
                            *elements_of = input(elements::<V, SIDE>(from.add(number * row)));
                        }
                        for column in 0..SIDE {
                            let mut elements = [V::zero(); SIDE];
                            for (element, row) in elements.iter_mut().zip(&rows) {
                                *element = row[column];
                            }
                            let places = input::<V, SIDE>(elements);
                            for (row, number) in places.into_iter().enumerate() {
                                number.store(to.add((SIDE * row + column) * place));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Aᵀ m A of vectors of tiles, for each row, and what is computed of it. Tells whether the sums of the rows are finite.
pub(super) struct Outputs<T, const SIDE: usize> {
    /// Place by place `rows` rows.
    pub(super) sums: *const T,
    pub(super) rows: usize,
    /// Rows that there are.
    pub(super) present: usize,
    pub(super) vectors: usize,
    /// Numbers in a row of the sums.
    pub(super) width: usize,
    /// A number for each row that is added, and their distance.
    pub(super) bias: Option<(*const T, usize)>,
    /// Whether what is negative becomes zero, at last.
    pub(super) positive: bool,
    /// For each row two lines of twice the width.
    pub(super) to: *mut T,
}

#[inline(always)]
unsafe fn output<V: Vector, const SIDE: usize>(m: [V; SIDE]) -> [V; 2] {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let (third, last) = if SIDE == SIDES[0] { (m[2], m[3]) } else { (m[3], m[SIDE - 1]) };
        let second = difference(m[1], m[2]);
        [
            sum(sum(m[0], m[1]), third),
            if SIDE == SIDES[0] { difference(second, last) } else { sum(second, last) },
        ]
    }
}

impl<T: FastReal, const SIDE: usize> VectorWork<T> for Outputs<T, SIDE> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) -> bool {
        let Self { sums, rows, present, vectors, width, bias, positive, to } = self;
        // SAFETY: the caller promises all rows, and the instructions.
        unsafe {
            let mut zeros = V::zero();
            for row in 0..present {
                let bias = bias.map(|(first, apart)| V::splat(first.add(row * apart).read_unaligned()));
                for vector in 0..vectors {
                    let from = sums.add(row * width + vector * V::LANES);
                    let mut lines = [[V::zero(); SIDE]; 2];
                    let [above, below] = &mut lines;
                    for (column, (above, below)) in above.iter_mut().zip(below).enumerate() {
                        let mut numbers = [V::zero(); SIDE];
                        for (line, number) in numbers.iter_mut().enumerate() {
                            *number = V::load(from.add((SIDE * line + column) * rows * width));
                        }
                        [*above, *below] = output(numbers);
                    }
                    for (line, numbers) in lines.into_iter().enumerate() {
                        let mut pair = output(numbers);
                        for number in &mut pair {
                            // Not zero where it is not finite.
                            zeros = number.mul_add(V::zero(), zeros);
                            if let Some(bias) = bias {
                                *number = sum(*number, bias);
                            }
                            if positive {
                                *number = number.lanewise(Lanewise::Positive, *number);
                            }
                        }
                        let (first, second) = pair[0].zip(pair[1]);
                        let to = to.add((2 * row + line) * 2 * width + 2 * vector * V::LANES);
                        first.store(to);
                        second.store(to.add(V::LANES));
                    }
                }
            }
            zeros.sum() == T::ZERO
        }
    }
}

/// Aᵀ m A of a single tile, as [`Outputs`] has it, of numbers place by place.
pub(super) fn outputs_of<T: FastReal>(side: usize, m: impl Fn(usize) -> T) -> [T; 4] {
    let pair = |m: &dyn Fn(usize) -> T| {
        if side == SIDES[0] {
            [m(0) + m(1) + m(2), m(1) - m(2) - m(3)]
        } else {
            [m(0) + m(1) + m(3), m(1) - m(2) + m(4)]
        }
    };
    let mut lines = [[T::ZERO; SIDES[1]]; 2];
    let [above, below] = &mut lines;
    for (column, (above, below)) in above.iter_mut().zip(below).enumerate().take(side) {
        [*above, *below] = pair(&|row| m(side * row + column));
    }
    let [[a, b], [c, d]] = lines.map(|line| pair(&|column| line[column]));
    [a, b, c, d]
}
