//! Vectors as plain arrays, left to the compiler.

use crate::simd::isa::{Isa, IsaTask, run_portable};
use crate::simd::vector::{Float, Lanewise, PartialVector, Vector, relu};

/// A vector as an array, for single elements and for targets without vectors.
#[derive(Clone, Copy)]
pub(crate) struct PortableVector<T, const N: usize>(pub(crate) [T; N]);

// SAFETY: only needs instructions of the target's baseline.
unsafe impl<T: Float, const N: usize> Vector for PortableVector<T, N> {
    const ISA: Isa = Isa::Portable;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output {
        run_portable(work)
    }

    #[inline(always)]
    unsafe fn call<W: IsaTask>(work: W) -> W::Output {
        work.run_portable()
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([T::ZERO; N])
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self([value; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: N values are readable, as the trait requires.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: N values are writable, as the trait requires.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, summand: Self) -> Self {
        let mut result = summand.0;
        for ((r, a), b) in result.iter_mut().zip(self.0).zip(factor.0) {
            *r = a.fused(b, *r);
        }
        Self(result)
    }

    #[inline(always)]
    fn sum(self) -> T {
        self.0.into_iter().fold(T::ZERO, |sum, value| sum + value)
    }

    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn lanewise(self, operation: Lanewise, other: Self) -> Self {
        let mut result = self.0;
        for (x, y) in result.iter_mut().zip(other.0) {
            *x = match operation {
                Lanewise::Add => *x + y,
                Lanewise::Sub => *x - y,
                Lanewise::Mul => *x * y,
                Lanewise::Div => *x / y,
                Lanewise::Max => {
                    if (*x >= y) | (*x != *x) {
                        *x
                    } else {
                        y
                    }
                }
                Lanewise::Min => {
                    if (*x <= y) | (*x != *x) {
                        *x
                    } else {
                        y
                    }
                }
                Lanewise::Abs => x.abs(),
                Lanewise::Neg => -*x,
                Lanewise::Relu => relu(*x),
                Lanewise::Identity => *x,
                Lanewise::Sqrt => x.sqrt(),
                Lanewise::NotBelow => {
                    if *x < y {
                        y
                    } else {
                        *x
                    }
                }
                Lanewise::NotAbove => {
                    if *x > y {
                        y
                    } else {
                        *x
                    }
                }
                Lanewise::Scale => x.scaled(y),
            };
        }
        Self(result)
    }

    #[inline(always)]
    fn swapped(self, distance: usize) -> Self {
        let mut result = self.0;
        for (i, value) in result.iter_mut().enumerate() {
            *value = self.0[(i ^ distance) % N];
        }
        Self(result)
    }

    #[inline(always)]
    fn where_above_0(self, yes: Self, no: Self) -> Self {
        let mut result = no.0;
        for ((result, x), yes) in result.iter_mut().zip(self.0).zip(yes.0) {
            *result = if x > T::ZERO { yes } else { *result };
        }
        Self(result)
    }
}

// SAFETY: only needs instructions of the target's baseline.
unsafe impl<T: Float, const N: usize> PartialVector for PortableVector<T, N> {
    type Scalar = T;
    type Half = Self;
    type Lanes = (usize, usize);

    #[inline(always)]
    unsafe fn lanes(low: usize, high: usize) -> (usize, usize) {
        (low, high)
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const T, (low, high): (usize, usize)) -> Self {
        let mut values = [T::ZERO; N];
        for (i, value) in values.iter_mut().enumerate() {
            if low <= i && i < high {
                // SAFETY: the lanes' elements are valid, as the trait requires.
                *value = unsafe { from.wrapping_add(i).read_unaligned() };
            }
        }
        Self(values)
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut T, (low, high): (usize, usize)) {
        for (i, value) in self.0.into_iter().enumerate() {
            if low <= i && i < high {
                // SAFETY: the lanes' elements are valid, as the trait requires.
                unsafe { to.wrapping_add(i).write_unaligned(value) };
            }
        }
    }

    #[inline(always)]
    fn unzip(self, next: Self) -> (Self, Self) {
        let (mut even, mut odd) = (self.0, self.0);
        for i in 0..N {
            let pair = if 2 * i < N { &self.0 } else { &next.0 };
            (even[i], odd[i]) = (pair[2 * i % N], pair[(2 * i + 1) % N]);
        }
        (Self(even), Self(odd))
    }

    #[inline(always)]
    fn zip(self, other: Self) -> (Self, Self) {
        let (mut low, mut high) = (self.0, self.0);
        for i in 0..N {
            let turn =
                |lane: usize| if lane.is_multiple_of(2) { self.0[lane / 2] } else { other.0[lane / 2] };
            (low[i], high[i]) = (turn(i), turn(N + i));
        }
        (Self(low), Self(high))
    }

    #[inline(always)]
    fn following(self) -> Self {
        let mut result = self.0;
        for (i, value) in result.iter_mut().enumerate() {
            *value = self.0[(i + 1) % N];
        }
        Self(result)
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        let mut result = self.0;
        for ((x, low), high) in result.iter_mut().zip(low.0).zip(high.0) {
            let raised = if *x < low { low } else { *x };
            *x = if raised > high { high } else { raised };
        }
        Self(result)
    }

    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn where_larger(self, than: Self, yes: Self, no: Self) -> Self {
        let mut result = no.0;
        for (i, value) in result.iter_mut().enumerate() {
            let (x, y) = (self.0[i], than.0[i]);
            if (x > y) | ((x != x) & (y == y)) {
                *value = yes.0[i];
            }
        }
        Self(result)
    }
}
