//! Softmax of columns: one lane per column, so that neither maxima nor sums cross lanes.

use crate::pointwise::softmax::weight;
use crate::simd::row::{read, write};
use crate::simd::vector::{Lanewise, Vector, VectorTask};

/// How many vectors of columns are computed together.
const TOGETHER: usize = 4;

/// The longest columns of these: together they stay in the L2 cache.
const LONG: usize = 2048;

/// y = e^(x - max x) / Σ e^(x - max x) of each column, like [`crate::pointwise::softmax::Softmax`] for rows.
pub(crate) struct SoftmaxColumns<T> {
    pub(crate) x: *const T,
    pub(crate) y: *mut T,
    /// Values of a column.
    pub(crate) len: usize,
    /// Adjacent columns.
    pub(crate) columns: usize,
    /// Strides of the values of a column of x and y.
    pub(crate) strides: [usize; 2],
}

impl VectorTask<f32> for SoftmaxColumns<f32> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        let mut column = 0;
        // SAFETY: this function requires the instructions and all columns.
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
        // SAFETY: the processor has the vector's instructions, and the `N` vectors of columns from `first` on exist in x and y.
        unsafe {
            let most = self.largest::<V, N>(first, lanes);
            let mut factors = self.powers(first, &most, lanes);
            for factor in &mut factors {
                *factor = V::splat(1.0).lanewise(Lanewise::Div, *factor);
            }
            self.scale(first, &factors, lanes);
        }
    }

    /// The maxima of columns. NaN is ignored here, but makes the sum NaN.
    ///
    /// # Safety
    /// As [`SoftmaxColumns::some`].
    #[inline(always)]
    unsafe fn largest<V: Vector<Scalar = f32>, const N: usize>(
        &self,
        first: usize,
        lanes: Option<V::Lanes>,
    ) -> [V; N] {
        // SAFETY: rows are below `len`, and the vectors of columns from `first` on exist, or their lanes.
        unsafe {
            let mut most = [V::splat(f32::NEG_INFINITY); N];
            for at in 0..self.len {
                let x = self.x.add(first + at * self.strides[0]);
                for (n, most) in most.iter_mut().enumerate() {
                    *most = most.lanewise(Lanewise::NotBelow, read(x.add(n * V::LANES), lanes));
                }
            }
            most
        }
    }

    /// Writes the exponentials of columns to y, and returns their sums.
    ///
    /// # Safety
    /// As [`SoftmaxColumns::some`].
    #[inline(always)]
    unsafe fn powers<V: Vector<Scalar = f32>, const N: usize>(
        &self,
        first: usize,
        most: &[V; N],
        lanes: Option<V::Lanes>,
    ) -> [V; N] {
        // SAFETY: rows are below `len`, and the vectors of columns from `first` on exist in x and y, or their lanes.
        unsafe {
            let mut sums = [V::zero(); N];
            for at in 0..self.len {
                let x = self.x.add(first + at * self.strides[0]);
                let y = self.y.add(first + at * self.strides[1]);
                for (n, sum) in sums.iter_mut().enumerate() {
                    let value = read::<V>(x.add(n * V::LANES), lanes);
                    let power = weight(value.lanewise(Lanewise::Sub, most[n]));
                    write(power, y.add(n * V::LANES), lanes);
                    *sum = sum.lanewise(Lanewise::Add, power);
                }
            }
            sums
        }
    }

    /// Multiplies columns of y by their factors.
    ///
    /// # Safety
    /// As [`SoftmaxColumns::some`].
    #[inline(always)]
    unsafe fn scale<V: Vector<Scalar = f32>, const N: usize>(
        &self,
        first: usize,
        factors: &[V; N],
        lanes: Option<V::Lanes>,
    ) {
        for at in 0..self.len {
            for (n, factor) in factors.iter().enumerate() {
                // SAFETY: the row is below `len`, and the vector of columns exists, or its lanes.
                unsafe {
                    let y = self.y.add(first + at * self.strides[1] + n * V::LANES);
                    write(read::<V>(y, lanes).lanewise(Lanewise::Mul, *factor), y, lanes);
                }
            }
        }
    }
}
