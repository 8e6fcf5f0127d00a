//! The micro-kernel of dot products along the columns.

use crate::gemm::multiply::multiply;
use crate::gemm::register::Register;
use crate::gemm::tile::{Lhs, Tile};
use crate::simd::array;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Float, Vector};

/// Arguments of the micro-kernel: `tile[k][p] = Σ a[k · row_stride + j] · b[pairs[p] + j]` over the columns j.
pub(crate) struct DotTile<'a, T> {
    /// Number of columns, a multiple of [`DotTileKernel::lanes`].
    pub(crate) columns: usize,
    /// The first row of `a`.
    pub(crate) a: *const T,
    /// Row stride of `a`.
    pub(crate) row_stride: usize,
    /// The planes.
    pub(crate) b: *const T,
    /// Offsets of the runs in `b`, [`DotTileKernel::pairs`] of them.
    pub(crate) pairs: &'a [usize],
    /// The results: [`DotTileKernel::rows`] rows of [`DotTileKernel::pairs`] values.
    pub(crate) tile: *mut T,
}

/// The micro-kernel of dot products for one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct DotTileKernel<T> {
    /// Rows of `a` and of the tile.
    pub(crate) rows: usize,
    /// Columns of the tile.
    pub(crate) pairs: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    pub(crate) run: unsafe fn(&DotTile<'_, T>),
}

impl<T: Float> DotTileKernel<T> {
    /// The micro-kernel of an instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => Self::with::<T::Portable, 2, 4>(),
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => Self::with::<T::Portable, 4, 6>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::with::<T::Avx2, 2, 4>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::with::<T::Avx512, 4, 6>(),
        }
    }

    fn with<V: Vector<Scalar = T>, const ROWS: usize, const PAIRS: usize>() -> Self {
        Self { rows: ROWS, pairs: PAIRS, lanes: V::LANES, run: dots::<V, ROWS, PAIRS> }
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set, the rows of `a` and the runs of `b` are readable
    /// for `columns` values, and `tile` is writable.
    pub(crate) unsafe fn run(&self, dots: &DotTile<'_, T>) {
        assert!(dots.pairs.len() >= self.pairs);
        // SAFETY: there are offsets for all pairs; rows and runs are readable for `columns` values.
        unsafe { (self.run)(dots) };
    }
}

/// Operand A, where a register holds consecutive terms of one row.
#[derive(Clone, Copy)]
struct Vectors<T, const MR: usize>([*const T; MR]);

// SAFETY: loading is a function of the register.
unsafe impl<R: Register, const MR: usize> Lhs<R, MR> for Vectors<R::Word, MR> {
    fn of(tile: &Tile<'_, R::Word>) -> Self {
        Self(array::from_fn(|row| tile.a.wrapping_add(row * tile.a_stride)))
    }

    #[inline(always)]
    unsafe fn get(&self, row: usize, at: usize) -> R {
        // SAFETY: this function requires the instructions and the terms.
        unsafe { R::load(self.0[row].add(at)) }
    }
}

/// A tile of one size.
pub(crate) struct DotTileTask<'a, 'b, V: Vector, const ROWS: usize, const PAIRS: usize>(
    &'a DotTile<'b, V::Scalar>,
);

impl<V: Vector, const ROWS: usize, const PAIRS: usize> IsaTask for DotTileTask<'_, '_, V, ROWS, PAIRS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let DotTile { columns, a, row_stride, b, pairs, tile } = *self.0;
        let rows = <Vectors<_, ROWS> as Lhs<V, ROWS>>::of(&Tile { a, a_stride: row_stride, ..Tile::EMPTY });
        let runs: [_; PAIRS] = array::from_fn(|pair| b.wrapping_add(pairs[pair]));
        // SAFETY: `dots` is called with memory as `DotTileKernel::run` describes it, at the vector's
        // instruction set.
        unsafe {
            let mut sums = [[V::zero(); PAIRS]; ROWS];
            for column in (0..columns).step_by(V::LANES) {
                let mut right = [V::zero(); PAIRS];
                for (right, run) in right.iter_mut().zip(runs) {
                    *right = Vector::load(run.add(column));
                }
                multiply::<V, Vectors<V::Scalar, ROWS>, ROWS, PAIRS>(&rows, column, right, &mut sums);
            }
            for (r, row) in sums.iter().enumerate() {
                for (p, sum) in row.iter().enumerate() {
                    tile.add(r * PAIRS + p).write(sum.sum());
                }
            }
        }
    }
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`DotTileKernel::run`].
pub(crate) unsafe fn dots<V: Vector, const ROWS: usize, const PAIRS: usize>(dots: &DotTile<'_, V::Scalar>) {
    // SAFETY: the processor has the vector's instructions. This function requires it.
    unsafe { V::dispatch(DotTileTask::<V, ROWS, PAIRS>(dots)) };
}
