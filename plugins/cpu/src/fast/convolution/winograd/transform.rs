//! The transformations of F(2 × 2, 3 × 3).

use super::super::super::join::MOST_LANES;
use super::super::super::level::VectorWork;
use super::super::super::real::FastReal;
use super::super::super::vector::{Lanewise, Vector};

/// Places in a tile of the input, and in what is multiplied.
pub(super) const PLACES: usize = 16;

/// G g Gᵀ of a window, row by row.
pub(super) fn window<T: FastReal>(elements: &[T; 9]) -> [T; PLACES] {
    let half = T::from_f64(0.5);
    let along = |[a, b, c]: [T; 3]| [a, (a + b + c) * half, (a - b + c) * half, c];
    let [a, b, c] =
        [0, 1, 2].map(|row| along([elements[3 * row], elements[3 * row + 1], elements[3 * row + 2]]));
    let mut places = [T::ZERO; PLACES];
    for column in 0..4 {
        let column_of = along([a[column], b[column], c[column]]);
        for (row, number) in column_of.into_iter().enumerate() {
            places[4 * row + column] = number;
        }
    }
    places
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

/// Bᵀ d B of vectors of tiles, for each channel.
pub(super) struct Inputs<'a, T> {
    /// What the first tile meets at a distance of 0.
    pub(super) planes: *const T,
    /// Distance of each place.
    pub(super) taps: &'a [usize],
    pub(super) channels: usize,
    /// Distance of channels in the planes.
    pub(super) pitch: usize,
    /// Vectors of tiles, and numbers in a row of what is written.
    pub(super) vectors: usize,
    pub(super) width: usize,
    /// Place by place a row for each channel.
    pub(super) to: *mut T,
}

impl<T: FastReal> VectorWork<T> for Inputs<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) {
        let Self { planes, taps, channels, pitch, vectors, width, to } = self;
        // SAFETY: there are whole vectors of planes behind each tap, and rows to write to; the caller promises the instructions.
        unsafe {
            for channel in 0..channels {
                for vector in 0..vectors {
                    let from = planes.add(channel * pitch + vector * V::LANES);
                    let mut d = [[V::zero(); 4]; 4];
                    for (place, tap) in taps.iter().enumerate().take(PLACES) {
                        d[place / 4][place % 4] = V::load(from.add(*tap));
                    }
                    let mut rows = [[V::zero(); 4]; 4];
                    for column in 0..4 {
                        let [a, b, c, e] = [d[0][column], d[1][column], d[2][column], d[3][column]];
                        rows[0][column] = difference(a, c);
                        rows[1][column] = sum(b, c);
                        rows[2][column] = difference(c, b);
                        rows[3][column] = difference(b, e);
                    }
                    for (row, [a, b, c, e]) in rows.into_iter().enumerate() {
                        let places = [difference(a, c), sum(b, c), difference(c, b), difference(b, e)];
                        for (column, number) in places.into_iter().enumerate() {
                            let row = (4 * row + column) * channels + channel;
                            number.store(to.add(row * width + vector * V::LANES));
                        }
                    }
                }
            }
        }
    }
}

/// Aᵀ m A of vectors of tiles, for each row, and what is computed of it. Tells whether the sums of the rows are finite.
pub(super) struct Outputs<T> {
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

impl<T: FastReal> VectorWork<T> for Outputs<T> {
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
                    let mut lines = [[V::zero(); 4]; 2];
                    let [above, below] = &mut lines;
                    for (column, (above, below)) in above.iter_mut().zip(below).enumerate() {
                        let m =
                            [0, 1, 2, 3].map(|line| V::load(from.add((4 * line + column) * rows * width)));
                        *above = sum(sum(m[0], m[1]), m[2]);
                        *below = difference(difference(m[1], m[2]), m[3]);
                    }
                    for (line, [a, b, c, e]) in lines.into_iter().enumerate() {
                        let mut pair = [sum(sum(a, b), c), difference(difference(b, c), e)];
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
                        let mut numbers = [[T::ZERO; MOST_LANES]; 2];
                        pair[0].store(numbers[0].as_mut_ptr());
                        pair[1].store(numbers[1].as_mut_ptr());
                        let to = to.add((2 * row + line) * 2 * width + 2 * vector * V::LANES);
                        let [even, odd] = numbers;
                        for (lane, (even, odd)) in even.into_iter().zip(odd).enumerate().take(V::LANES) {
                            to.add(2 * lane).write(even);
                            to.add(2 * lane + 1).write(odd);
                        }
                    }
                }
            }
            zeros.sum() == T::ZERO
        }
    }
}
