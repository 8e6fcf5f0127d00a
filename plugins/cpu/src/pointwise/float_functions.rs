//! The functions in single and double precision.

use crate::pointwise::functions::{All, ColumnFunction, Functions, RowFunction};
use crate::pointwise::smooth::{Smooth, with_constant};
use crate::pointwise::smooth_vectors::{exactly, in_single};
use crate::pointwise::transcendental::exponential;
use crate::simd::portable::PortableVector;
use crate::simd::vector::Vector;

impl Functions for f64 {
    const TIME: f64 = 8.0;
    const SOFTMAX: Option<RowFunction<Self>> = None;
    const SOFTMAX_COLUMNS: Option<ColumnFunction<Self>> = None;

    #[inline(always)]
    fn exponential(self) -> Self {
        self.exp()
    }

    #[inline(always)]
    fn in_registers(smooth: Smooth) -> bool {
        // Only loops over these are vectorized.
        use Smooth::{AddSquare, Reciprocal, ReluBwd, Rsqrt};
        !matches!(smooth, AddSquare | Reciprocal | ReluBwd | Rsqrt)
    }

    #[inline(always)]
    unsafe fn smooth<V: Vector<Scalar = Self>>(all: &All<Self>) {
        for i in 0..all.count {
            // SAFETY: this function requires `count` vectors of the operands and of the results.
            unsafe {
                let [x, y] = all.operands::<V>(i);
                exactly(all.smooth, x, y, all.parameter).store(all.to.add(i * V::LANES));
            }
        }
    }
}

impl Functions for f32 {
    const TIME: f64 = 0.4;
    // SAFETY: the caller of a `RowFunction` promises the instruction set and the rows.
    const SOFTMAX: Option<RowFunction<Self>> = Some(|isa, rows| unsafe { isa.run_vectors(rows) });
    // SAFETY: the caller of a `ColumnFunction` promises the instruction set and the columns.
    const SOFTMAX_COLUMNS: Option<ColumnFunction<Self>> =
        Some(|isa, columns| unsafe { isa.run_vectors(columns) });

    #[inline(always)]
    fn exponential(self) -> Self {
        let (one, mut result) = (self, 0.0);
        // SAFETY: a portable vector needs no instructions; both values are valid.
        unsafe { exponential(PortableVector::<Self, 1>::load(&raw const one)).store(&raw mut result) };
        result
    }

    #[inline(always)]
    fn in_registers(_smooth: Smooth) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn smooth<V: Vector<Scalar = Self>>(all: &All<Self>) {
        // SAFETY: this function requires `count` vectors of the operands and of the results.
        unsafe {
            with_constant!(all.smooth, S => {
                for i in 0..all.count {
                    let [x, y] = all.operands::<V>(i);
                    in_single(S, x, y, all.parameter).store(all.to.add(i * V::LANES));
                }
            });
        }
    }
}
