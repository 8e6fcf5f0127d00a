//! Softmax of rows shorter than a vector or two.

use std::ops::Range;

use crate::pointwise::softmax::{LONGEST, Softmax, weight};
use crate::pointwise::softmax_columns::SoftmaxColumns;
use crate::simd::vector::{Lanewise, MAX_LANES, Vector, VectorTask};

/// Transposes a square of vectors. Each pass interleaves its first half with the second.
#[inline(always)]
fn transpose<V: Vector>(square: &mut [V; MAX_LANES]) {
    let mut lanes = V::LANES;
    while lanes > 1 {
        let from = *square;
        for i in 0..V::LANES / 2 {
            let (low, high) = from[i].zip(from[i + V::LANES / 2]);
            (square[2 * i], square[2 * i + 1]) = (low, high);
        }
        lanes /= 2;
    }
}

impl Softmax<f32> {
    /// Whether rows are dense and of 2, 4, 8 or 16 values: a vector then holds several whole rows.
    #[inline(always)]
    pub(crate) fn are_packed<V: Vector<Scalar = f32>>(&self) -> bool {
        self.len.is_power_of_two() && self.len <= V::LANES && self.strides == [self.len; 2]
    }

    /// Computes packed rows.
    ///
    /// # Safety
    /// As [`VectorTask::run`]; the rows [are packed](Softmax::are_packed).
    #[inline(always)]
    pub(crate) unsafe fn packed<V: Vector<Scalar = f32>>(&self) {
        let count = self.len * self.rows;
        let mut at = 0;
        while at < count {
            // SAFETY: the values below the count are valid, as this function requires, and groups of lanes end where rows end.
            unsafe {
                let lanes = V::lanes(0, (count - at).min(V::LANES));
                let x = V::load_lanes(self.x.add(at), lanes);
                let mut most = x;
                let mut distance = self.len / 2;
                while distance > 0 {
                    most = most.lanewise(Lanewise::NotBelow, most.swapped(distance));
                    distance /= 2;
                }
                let power = weight(x.lanewise(Lanewise::Sub, most));
                let (mut sum, mut distance) = (power, self.len / 2);
                while distance > 0 {
                    sum = sum.lanewise(Lanewise::Add, sum.swapped(distance));
                    distance /= 2;
                }
                power.lanewise(Lanewise::Div, sum).store_lanes(self.y.add(at), lanes);
            }
            at += V::LANES;
        }
    }

    /// Computes as many rows from `first` on as a vector has lanes, or the last ones, by transposing them.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows exist and have at most [`LONGEST`] values.
    #[inline(always)]
    pub(crate) unsafe fn transposed<V: Vector<Scalar = f32>>(&self, first: usize) {
        let rows = first..self.rows.min(first + V::LANES);
        let mut columns = [0.0; LONGEST * MAX_LANES];
        let to = columns.as_mut_ptr();
        // SAFETY: this function requires the rows; there is room for a vector for each of at most `LONGEST`
        // values of a row.
        unsafe {
            for at in (0..self.len).step_by(V::LANES) {
                self.read_square::<V>(rows.clone(), at, to.add(at * V::LANES));
            }
            let columns = V::LANES;
            SoftmaxColumns { x: to, y: to, len: self.len, columns, strides: [columns; 2] }.run::<V>();
            for at in (0..self.len).step_by(V::LANES) {
                self.write_square::<V>(rows.clone(), at, to.add(at * V::LANES));
            }
        }
    }

    /// Transposes up to a vector of values of some rows of x, from value `at` on.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows exist, at most as many as a vector has lanes,
    /// and `to` is writable for one vector per value.
    #[inline(always)]
    unsafe fn read_square<V: Vector<Scalar = f32>>(&self, rows: Range<usize>, at: usize, to: *mut f32) {
        let some = (self.len - at).min(V::LANES);
        // SAFETY: the rows have `some` values from `at` on, and `to` has room for as many vectors.
        unsafe {
            let mut square = [V::zero(); MAX_LANES];
            for (row, values) in rows.zip(&mut square) {
                *values = V::load_lanes(self.x.add(row * self.strides[0] + at), V::lanes(0, some));
            }
            transpose(&mut square);
            for (i, values) in square[..some].iter().enumerate() {
                values.store(to.add(i * V::LANES));
            }
        }
    }

    /// Transposes columns back to values of some rows of y, the opposite of [`Softmax::read_square`].
    ///
    /// # Safety
    /// As [`Softmax::read_square`], but `from` is readable.
    #[inline(always)]
    unsafe fn write_square<V: Vector<Scalar = f32>>(&self, rows: Range<usize>, at: usize, from: *const f32) {
        let some = (self.len - at).min(V::LANES);
        // SAFETY: `from` has `some` vectors, and the rows have as many values from `at` on.
        unsafe {
            let mut square = [V::zero(); MAX_LANES];
            for (i, values) in square[..some].iter_mut().enumerate() {
                *values = V::load(from.add(i * V::LANES));
            }
            transpose(&mut square);
            for (row, values) in rows.zip(&square) {
                values.store_lanes(self.y.add(row * self.strides[1] + at), V::lanes(0, some));
            }
        }
    }
}
