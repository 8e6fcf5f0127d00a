//! Softmax of rows in three passes: the maximum, the exponentials and their sum, the quotients.
//!
//! Lines of operations would have the same passes. But rows of a hundred values are too short for the overhead of lists of operations, and
//! for the latency of the horizontal maximum and sum: each pass goes over several short rows before the next one begins.

use crate::pointwise::transcendental::LN_2;
use crate::simd::isa::Isa;
use crate::simd::vector::{Lanewise, MAX_LANES, Vector, VectorTask, WHOLE};
use crate::tensor::combine::{Largest, Sum, fold_lanes};

/// Vectors of a row that are computed together.
const TOGETHER: usize = 4;

/// Short rows that are computed together: more would not fit the registers.
const ROWS: usize = 2;

/// The longest row that is transposed.
pub(crate) const LONGEST: usize = 2 * MAX_LANES;

/// Rows of up to so many vectors are computed twice as many at once.
const FEW: usize = 8;

/// The longest of these: together they stay in the L1 cache.
const SHORT: usize = 1024;

/// e to a value that is at most 0, with two operations less than the exponential: within 3 units in the last place, or 8 for results that
/// are negligible beside 1. That of 0 is exactly 1.
#[inline(always)]
pub(crate) fn weight<V: Vector<Scalar = f32>>(x: V) -> V {
    /// Below this, the result is 0.
    const LOWEST: f32 = -104.0;
    const COEFFICIENTS: [f32; 5] = [0.041_898_02, 0.166_676_37, 0.499_991_48, 0.999_999_7, 1.0];

    let below = x.broadcast(LOWEST).lanewise(Lanewise::Sub, x);
    let x = x.lanewise(Lanewise::NotBelow, x.broadcast(LOWEST));
    let shifted = x.mul_add(x.broadcast(std::f32::consts::LOG2_E), x.broadcast(WHOLE));
    let whole = shifted.lanewise(Lanewise::Sub, x.broadcast(WHOLE));
    let rest = if V::ISA == Isa::Portable {
        // Without fused multiply-add the rounded product is too inexact.
        whole.mul_add(x.broadcast(-LN_2[1]), whole.mul_add(x.broadcast(-LN_2[0]), x))
    } else {
        whole.mul_add(x.broadcast(-std::f32::consts::LN_2), x)
    };
    let mut power = x.broadcast(0.008_290_297);
    for coefficient in COEFFICIENTS {
        power = power.mul_add(rest, x.broadcast(coefficient));
    }
    // A result that underflows takes some processors a thousand times as long as 0, also in the lanes behind a row and for masked values.
    below.where_above_0(x.broadcast(0.0), power).lanewise(Lanewise::Scale, whole)
}

/// y = e^(x - max x) / Σ e^(x - max x) of each row. NaN in x, and infinity, make all of y NaN. `y` may be `x`.
pub(crate) struct Softmax<T> {
    pub(crate) x: *const T,
    pub(crate) y: *mut T,
    /// Values of a row.
    pub(crate) len: usize,
    pub(crate) rows: usize,
    /// Strides of the rows of x and y.
    pub(crate) strides: [usize; 2],
}

impl VectorTask<f32> for Softmax<f32> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        // SAFETY: the processor has the vector's instructions, and all rows exist; each function gets rows of the length it is for.
        unsafe {
            if self.are_packed::<V>() {
                self.packed::<V>();
            } else if self.len <= LONGEST.min(2 * V::LANES) && self.rows >= V::LANES / 2 {
                for row in (0..self.rows).step_by(V::LANES) {
                    self.transposed::<V>(row);
                }
            } else {
                let mut row = 0;
                if self.len <= FEW * V::LANES {
                    row = self.groups::<V, { 2 * ROWS }>(row);
                }
                if self.len <= SHORT {
                    row = self.groups::<V, ROWS>(row);
                }
                self.groups::<V, 1>(row);
            }
        }
    }
}

impl Softmax<f32> {
    /// Computes the rows from `first` on in groups of `R`, and returns the first row of an incomplete group.
    ///
    /// # Safety
    /// The processor has the vector's instructions; all rows exist.
    #[inline(always)]
    unsafe fn groups<V: Vector<Scalar = f32>, const R: usize>(&self, first: usize) -> usize {
        let mut row = first;
        while row + R <= self.rows {
            // SAFETY: the group ends at `rows`, up to which this function requires all rows.
            unsafe { self.some::<V, R>(row) };
            row += R;
        }
        row
    }

    /// Computes `R` rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the rows from `first` on exist.
    #[inline(always)]
    unsafe fn some<V: Vector<Scalar = f32>, const R: usize>(&self, first: usize) {
        let len = self.len;
        let whole = len - len % V::LANES;
        let many = whole - whole % (TOGETHER * V::LANES);
        // SAFETY: this function requires the instructions.
        let lanes = unsafe { V::lanes(0, len - whole) };
        // The values after the last whole vector; the lanes of minus infinity are never the maximum, and add 0 to the sum.
        let mut last = [[f32::NEG_INFINITY; MAX_LANES]; R];
        // SAFETY: this function requires the instructions, and `len` values of x and y in each row.
        unsafe {
            let mut most = [V::zero(); R];
            for (row, most) in most.iter_mut().enumerate() {
                let x = self.x.add((first + row) * self.strides[0]);
                if whole < len {
                    V::load_lanes(x.add(whole), lanes).store_lanes(last[row].as_mut_ptr(), lanes);
                }
                // NaN is ignored here, but makes the sum NaN.
                let mut largest = [V::splat(f32::NEG_INFINITY); TOGETHER];
                for at in (0..many).step_by(TOGETHER * V::LANES) {
                    for (i, largest) in largest.iter_mut().enumerate() {
                        *largest = largest.lanewise(Lanewise::NotBelow, V::load(x.add(at + i * V::LANES)));
                    }
                }
                for at in (many..whole).step_by(V::LANES) {
                    largest[0] = largest[0].lanewise(Lanewise::NotBelow, V::load(x.add(at)));
                }
                if whole < len {
                    largest[1] = largest[1].lanewise(Lanewise::NotBelow, V::load(last[row].as_ptr()));
                }
                let [a, b, c, d] = largest;
                *most = a
                    .lanewise(Lanewise::NotBelow, b)
                    .lanewise(Lanewise::NotBelow, c.lanewise(Lanewise::NotBelow, d));
            }
            for most in &mut most {
                *most = V::splat(fold_lanes::<V, Largest>(*most));
            }
            let mut factors = [V::zero(); R];
            for (row, factor) in factors.iter_mut().enumerate() {
                let (x, y) = (self.x.add((first + row) * self.strides[0]), self.y(first + row));
                let most = most[row];
                let mut sums = [V::zero(); TOGETHER];
                for at in (0..many).step_by(TOGETHER * V::LANES) {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let at = at + i * V::LANES;
                        let power = weight(V::load(x.add(at)).lanewise(Lanewise::Sub, most));
                        power.store(y.add(at));
                        *sum = sum.lanewise(Lanewise::Add, power);
                    }
                }
                for at in (many..whole).step_by(V::LANES) {
                    let power = weight(V::load(x.add(at)).lanewise(Lanewise::Sub, most));
                    power.store(y.add(at));
                    sums[0] = sums[0].lanewise(Lanewise::Add, power);
                }
                if whole < len {
                    let end = V::load(last[row].as_ptr());
                    let end = weight(end.lanewise(Lanewise::Sub, most));
                    end.store(last[row].as_mut_ptr());
                    sums[1] = sums[1].lanewise(Lanewise::Add, end);
                }
                let [a, b, c, d] = sums;
                *factor = a.lanewise(Lanewise::Add, b).lanewise(Lanewise::Add, c.lanewise(Lanewise::Add, d));
            }
            for factor in &mut factors {
                *factor = V::splat(1.0 / fold_lanes::<V, Sum>(*factor));
            }
            for (row, factor) in factors.into_iter().enumerate() {
                let y = self.y(first + row);
                for at in (0..whole).step_by(V::LANES) {
                    V::load(y.add(at)).lanewise(Lanewise::Mul, factor).store(y.add(at));
                }
                if whole < len {
                    let end = V::load(last[row].as_ptr()).lanewise(Lanewise::Mul, factor);
                    end.store_lanes(y.add(whole), lanes);
                }
            }
        }
    }

    /// A row of y.
    #[inline(always)]
    fn y(&self, row: usize) -> *mut f32 {
        self.y.wrapping_add(row * self.strides[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Function, each};

    #[derive(Clone, Copy)]
    struct Weight;

    impl Function for Weight {
        #[inline(always)]
        fn of<V: Vector<Scalar = f32>>(self, x: V) -> V {
            weight(x)
        }
    }

    #[test]
    fn weights_are_exponentials() {
        let x: Vec<f32> = (0..1_600_000).map(|step| -1e-4 * step as f32).collect();
        for isa in Isa::available() {
            let y = each(*isa, Weight, &x);
            assert_eq!(y[0], 1.0);
            for (x, y) in x.iter().zip(&y) {
                let exact = f64::from(*x).exp();
                let units = if *x > -10.0 { 3.0 } else { 8.0 };
                let bound = exact * units * 2.0_f64.powi(-24) + 1.5e-45;
                assert!((f64::from(*y) - exact).abs() <= bound, "{y} of {x} at {isa:?}, expected {exact}");
            }
        }
    }
}
