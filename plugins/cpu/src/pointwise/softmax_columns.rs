//! Softmax of columns: a lane for each column, so that neither maxima nor sums cross lanes.

use crate::pointwise::softmax::weight;
use crate::simd::row::{read, write};
use crate::simd::vector::{Lanewise, Vector, VectorTask};

/// Vectors of columns that are computed together.
const TOGETHER: usize = 4;

/// The longest of these: together they stay in the L2 cache.
const LONG: usize = 2048;

/// y = e^(x - max x) / Σ e^(x - max x) of each column, as [`crate::pointwise::softmax::Softmax`] of rows.
pub(crate) struct SoftmaxColumns<T> {
    pub(crate) x: *const T,
    pub(crate) y: *mut T,
    /// Values of a column.
    pub(crate) len: usize,
    /// Columns, side by side.
    pub(crate) columns: usize,
    /// Strides of the values of a column of x and y.
    pub(crate) strides: [usize; 2],
}

impl VectorTask<f32> for SoftmaxColumns<f32> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        let mut column = 0;
        // SAFETY: the instructions, and all columns are valid, as this function requires.
        unsafe {
            while self.len <= LONG && column + TOGETHER * V::LANES <= self.columns {
                self.some::<V, TOGETHER>(column, None);
                column += TOGETHER * V::LANES;
            }
            while column < self.columns {
                let lanes = V::lanes(0, (self.columns - column).min(V::LANES));
                self.some::<V, 1>(column, Some(lanes));
                column += V::LANES;
            }
        }
    }
}

impl SoftmaxColumns<f32> {
    /// Computes `N` vectors of columns, or some lanes.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the columns from `first` on exist.
    #[inline(always)]
    unsafe fn some<V: Vector<Scalar = f32>, const N: usize>(&self, first: usize, lanes: Option<V::Lanes>) {
        let (x, y) = (self.x.wrapping_add(first), self.y.wrapping_add(first));
        // SAFETY: this function requires the instructions and the columns.
        unsafe {
            // NaN is ignored here, but makes the sum NaN.
            let mut most = [V::splat(f32::NEG_INFINITY); N];
            for at in 0..self.len {
                let x = x.add(at * self.strides[0]);
                for (n, most) in most.iter_mut().enumerate() {
                    *most = most.lanewise(Lanewise::NotBelow, read(x.add(n * V::LANES), lanes));
                }
            }
            let mut sums = [V::zero(); N];
            for at in 0..self.len {
                let (x, y) = (x.add(at * self.strides[0]), y.add(at * self.strides[1]));
                for (n, sum) in sums.iter_mut().enumerate() {
                    let value = read::<V>(x.add(n * V::LANES), lanes);
                    let power = weight(value.lanewise(Lanewise::Sub, most[n]));
                    write(power, y.add(n * V::LANES), lanes);
                    *sum = sum.lanewise(Lanewise::Add, power);
                }
            }
            for sum in &mut sums {
                *sum = V::splat(1.0).lanewise(Lanewise::Div, *sum);
            }
            for at in 0..self.len {
                let y = y.add(at * self.strides[1]);
                for (n, factor) in sums.iter().enumerate() {
                    let y = y.add(n * V::LANES);
                    write(read::<V>(y, lanes).lanewise(Lanewise::Mul, *factor), y, lanes);
                }
            }
        }
    }
}
