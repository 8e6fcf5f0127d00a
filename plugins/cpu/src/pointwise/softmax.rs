//! Softmax of rows in three passes: the maximum, the exponentials and their sum, the quotients.
//!
//! Lines of operations would have the same passes, but for rows of a hundred values their overhead and the
//! latency of the horizontal maximum and sum are too large. Here each pass covers several short rows before
//! the next begins.

use crate::pointwise::transcendental::LN_2;
use crate::simd::isa::Isa;
use crate::simd::vector::{Lanewise, MAX_LANES, Vector, VectorTask, WHOLE};
use crate::tensor::combine::{Largest, Sum, fold_lanes};

/// How many vectors of a row are computed together.
const TOGETHER: usize = 4;

/// How many short rows are computed together: more would not fit in the registers.
const ROWS: usize = 2;

/// The longest row that is transposed.
pub(crate) const LONGEST: usize = 2 * MAX_LANES;

/// Twice as many rows of up to this many vectors are computed together.
const FEW: usize = 8;

/// The longest short rows: together they stay in the L1 cache.
const SHORT: usize = 1024;

/// e to a value that is at most 0, with two operations fewer than the exponential: within 3 units in the last
/// place, or 8 for results that are negligible beside 1. Exactly 1 at 0.
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
        // Without fused multiply-add the rounded product is too inaccurate.
        whole.mul_add(x.broadcast(-LN_2[1]), whole.mul_add(x.broadcast(-LN_2[0]), x))
    } else {
        whole.mul_add(x.broadcast(-std::f32::consts::LN_2), x)
    };
    let mut power = x.broadcast(0.008_290_297);
    for coefficient in COEFFICIENTS {
        power = power.mul_add(rest, x.broadcast(coefficient));
    }
    // Underflow takes some processors a thousand times as long, even in lanes after a row and if masked.
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
    /// Whether a row's sum has the same order whatever the number of rows is.
    pub(crate) is_invariant: bool,
}

impl VectorTask<f32> for Softmax<f32> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        // SAFETY: the processor has the vector's instructions, and all rows exist; each function gets rows of
        // a fitting length.
        unsafe {
            let are_many = self.rows >= V::LANES / 2 || self.is_invariant;
            if self.are_packed::<V>() && !self.is_invariant {
                self.packed::<V>();
            } else if self.len <= LONGEST.min(2 * V::LANES) && are_many {
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
        // SAFETY: this function requires the instructions.
        let (zero, lanes) = unsafe { (V::zero(), V::lanes(0, self.len % V::LANES)) };
        let row_of = |row: usize| Row {
            x: self.x.wrapping_add((first + row) * self.strides[0]),
            y: self.y(first + row),
            len: self.len,
            lanes,
        };
        let (mut most, mut factors, mut lasts) = ([zero; R], [zero; R], [zero; R]);
        for row in 0..R {
            // SAFETY: x has the row, of `len` values.
            (most[row], lasts[row]) = unsafe { row_of(row).largest() };
        }
        for most in &mut most {
            *most = most.broadcast(fold_lanes::<V, Largest>(*most));
        }
        for row in 0..R {
            // SAFETY: x and y have the row, of `len` values.
            (factors[row], lasts[row]) = unsafe { row_of(row).powers(most[row], lasts[row]) };
        }
        for factor in &mut factors {
            *factor = factor.broadcast(1.0 / fold_lanes::<V, Sum>(*factor));
        }
        for row in 0..R {
            // SAFETY: y has the row, of `len` values.
            unsafe { row_of(row).scale(factors[row], lasts[row]) };
        }
    }

    /// A row of y.
    #[inline(always)]
    fn y(&self, row: usize) -> *mut f32 {
        self.y.wrapping_add(row * self.strides[1])
    }
}

/// A row of a softmax. The values after its last whole vector stay in a register.
#[derive(Clone, Copy)]
struct Row<L> {
    x: *const f32,
    y: *mut f32,
    len: usize,
    /// The lanes of the last vector that belong to the row.
    lanes: L,
}

/// Combines [`TOGETHER`] vectors.
#[inline(always)]
fn combined<V: Vector<Scalar = f32>>([a, b, c, d]: [V; TOGETHER], by: Lanewise) -> V {
    a.lanewise(by, b).lanewise(by, c.lanewise(by, d))
}

impl<L: Copy> Row<L> {
    /// How many values are in whole vectors, and how many of these are computed together.
    #[inline(always)]
    fn whole<V: Vector<Lanes = L>>(&self) -> [usize; 2] {
        let whole = self.len - self.len % V::LANES;
        [whole, whole - whole % (TOGETHER * V::LANES)]
    }

    /// The maximum per lane, and the values after the last whole vector, whose other lanes are minus
    /// infinity, which is never the maximum and adds 0 to the sum.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the row has `len` values.
    #[inline(always)]
    unsafe fn largest<V: Vector<Scalar = f32, Lanes = L>>(&self) -> (V, V) {
        let [whole, many] = self.whole::<V>();
        // SAFETY: this function requires the instructions.
        let least = unsafe { V::splat(f32::NEG_INFINITY) };
        // NaN is ignored here, but makes the sum NaN.
        let (mut largest, mut last) = ([least; TOGETHER], least);
        for at in (0..many).step_by(TOGETHER * V::LANES) {
            for (i, largest) in largest.iter_mut().enumerate() {
                // SAFETY: the vector ends at most at `many`, which is at most `len`.
                let x = unsafe { V::load(self.x.add(at + i * V::LANES)) };
                *largest = largest.lanewise(Lanewise::NotBelow, x);
            }
        }
        for at in (many..whole).step_by(V::LANES) {
            // SAFETY: the vector ends at most at `whole`.
            largest[0] = largest[0].lanewise(Lanewise::NotBelow, unsafe { V::load(self.x.add(at)) });
        }
        if whole < self.len {
            let mut values = [f32::NEG_INFINITY; MAX_LANES];
            // SAFETY: the lanes are those of the values from `whole` to `len`.
            unsafe {
                V::load_lanes(self.x.add(whole), self.lanes).store_lanes(values.as_mut_ptr(), self.lanes)
            };
            last = last.with_values(&values);
            largest[1] = largest[1].lanewise(Lanewise::NotBelow, last);
        }
        (combined(largest, Lanewise::NotBelow), last)
    }

    /// Writes the exponentials of whole vectors to y; returns their sum per lane, and the other exponentials.
    ///
    /// # Safety
    /// As [`Row::largest`]; y is writable for `len` values.
    #[inline(always)]
    unsafe fn powers<V: Vector<Scalar = f32, Lanes = L>>(&self, most: V, mut last: V) -> (V, V) {
        let [whole, many] = self.whole::<V>();
        let mut sums = [most.broadcast(0.0); TOGETHER];
        for at in (0..many).step_by(TOGETHER * V::LANES) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the vector ends at most at `many`, which is at most `len`.
                *sum = sum.lanewise(Lanewise::Add, unsafe { self.power(at + i * V::LANES, most) });
            }
        }
        for at in (many..whole).step_by(V::LANES) {
            // SAFETY: the vector ends at most at `whole`.
            sums[0] = sums[0].lanewise(Lanewise::Add, unsafe { self.power(at, most) });
        }
        if whole < self.len {
            last = weight(last.lanewise(Lanewise::Sub, most));
            sums[1] = sums[1].lanewise(Lanewise::Add, last);
        }
        (combined(sums, Lanewise::Add), last)
    }

    /// Writes the exponentials of a vector to y, and returns them.
    ///
    /// # Safety
    /// The processor has the vector's instructions; x and y have the vector from this value on.
    #[inline(always)]
    unsafe fn power<V: Vector<Scalar = f32, Lanes = L>>(&self, at: usize, most: V) -> V {
        // SAFETY: this function requires the vector in x and in y.
        unsafe {
            let power = weight(V::load(self.x.add(at)).lanewise(Lanewise::Sub, most));
            power.store(self.y.add(at));
            power
        }
    }

    /// Multiplies y by a factor.
    ///
    /// # Safety
    /// As [`Row::powers`].
    #[inline(always)]
    unsafe fn scale<V: Vector<Scalar = f32, Lanes = L>>(&self, factor: V, last: V) {
        let [whole, _] = self.whole::<V>();
        for at in (0..whole).step_by(V::LANES) {
            // SAFETY: the vector ends at most at `whole`.
            unsafe { V::load(self.y.add(at)).lanewise(Lanewise::Mul, factor).store(self.y.add(at)) };
        }
        if whole < self.len {
            // SAFETY: the lanes are those of the values from `whole` to `len`.
            unsafe { last.lanewise(Lanewise::Mul, factor).store_lanes(self.y.add(whole), self.lanes) };
        }
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
