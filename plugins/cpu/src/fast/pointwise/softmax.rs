//! Softmax of a row in three passes: the largest number, the exponentials and their sum, the quotients.
//!
//! As a line of operations it would be the same three passes, but softmax is what rows are most often made for, and rows of a
//! hundred numbers leave no time to look at a list of operations.

use super::functions::exponential_of_negative;
use crate::fast::join::{Largest, MOST_LANES, Sum, of_lanes};
use crate::fast::level::VectorWork;
use crate::fast::vector::{Lanewise, Vector};

/// Vectors that are computed together.
const TOGETHER: usize = 4;

/// y = e^(x - max x) / Σ e^(x - max x) of a row. NaN in x, and infinity, make all of y NaN. `y` may be `x`.
pub(super) struct Softmax {
    pub(super) x: *const f32,
    pub(super) y: *mut f32,
    pub(super) len: usize,
}

impl VectorWork<f32> for Softmax {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = f32>>(self) {
        let Self { x, y, len } = self;
        let whole = len - len % V::LANES;
        let many = whole - whole % (TOGETHER * V::LANES);
        // What fills no vector: minus infinity behind it is never the largest, and adds 0 to the sum.
        let mut last = [f32::NEG_INFINITY; MOST_LANES];
        // SAFETY: the caller promises the instructions, and `len` numbers of x and y.
        unsafe {
            for i in whole..len {
                last[i - whole] = x.add(i).read_unaligned();
            }
            // A NaN is passed over, but makes the sum NaN.
            let mut largest = [V::splat(f32::NEG_INFINITY); TOGETHER];
            for at in (0..many).step_by(TOGETHER * V::LANES) {
                for (i, largest) in largest.iter_mut().enumerate() {
                    *largest = largest.lanewise(Lanewise::NotBelow, V::load(x.add(at + i * V::LANES)));
                }
            }
            for at in (many..whole).step_by(V::LANES) {
                largest[0] = largest[0].lanewise(Lanewise::NotBelow, V::load(x.add(at)));
            }
            largest[1] = largest[1].lanewise(Lanewise::NotBelow, V::load(last.as_ptr()));
            let [a, b, c, d] = largest;
            let most = a
                .lanewise(Lanewise::NotBelow, b)
                .lanewise(Lanewise::NotBelow, c.lanewise(Lanewise::NotBelow, d));
            let most = V::splat(of_lanes::<V, Largest>(most));
            let mut sums = [V::zero(); TOGETHER];
            for at in (0..many).step_by(TOGETHER * V::LANES) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let at = at + i * V::LANES;
                    let power = exponential_of_negative(V::load(x.add(at)).lanewise(Lanewise::Sub, most));
                    power.store(y.add(at));
                    *sum = sum.lanewise(Lanewise::Add, power);
                }
            }
            for at in (many..whole).step_by(V::LANES) {
                let power = exponential_of_negative(V::load(x.add(at)).lanewise(Lanewise::Sub, most));
                power.store(y.add(at));
                sums[0] = sums[0].lanewise(Lanewise::Add, power);
            }
            let mut end = V::zero();
            if whole < len {
                end = exponential_of_negative(V::load(last.as_ptr()).lanewise(Lanewise::Sub, most));
                sums[1] = sums[1].lanewise(Lanewise::Add, end);
            }
            let [a, b, c, d] = sums;
            let sum = a.lanewise(Lanewise::Add, b).lanewise(Lanewise::Add, c.lanewise(Lanewise::Add, d));
            let factor = V::splat(1.0 / of_lanes::<V, Sum>(sum));
            for at in (0..many).step_by(TOGETHER * V::LANES) {
                for i in 0..TOGETHER {
                    let y = y.add(at + i * V::LANES);
                    V::load(y).lanewise(Lanewise::Mul, factor).store(y);
                }
            }
            for at in (many..whole).step_by(V::LANES) {
                V::load(y.add(at)).lanewise(Lanewise::Mul, factor).store(y.add(at));
            }
            if whole < len {
                end.lanewise(Lanewise::Mul, factor).store(last.as_mut_ptr());
                for i in whole..len {
                    y.add(i).write_unaligned(last[i - whole]);
                }
            }
        }
    }
}
