//! The GEMM micro-kernel with operand A transposed: results grow by weights times values.

use crate::dtype::element::Real;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Float, Vector};
use crate::threading::partition::part;

/// Arguments of the micro-kernel: `to[r][j] = to[r][j] + Σ a[l][r] · b[l][j]` over the depth l.
#[derive(Clone, Copy)]
pub(crate) struct TransposedTile<T> {
    /// The first term of the first row.
    pub(crate) a: *const T,
    /// Stride of terms; those of all rows are contiguous.
    pub(crate) a_stride: usize,
    /// The first row of operand B, whose columns are contiguous.
    pub(crate) b: *const T,
    /// Row stride of B.
    pub(crate) b_stride: usize,
    /// Terms of each sum.
    pub(crate) depth: usize,
    /// The accumulators.
    pub(crate) to: *mut T,
    /// Their row stride.
    pub(crate) to_stride: usize,
}

impl<T: Real> TransposedTile<T> {
    /// Computes `rows` rows of `width` elements if values of B may be infinite or NaN: a term whose A is
    /// `nothing` is skipped, whatever its B is.
    ///
    /// # Safety
    /// What the fields name is valid.
    pub(crate) unsafe fn run_with_any(&self, rows: usize, width: usize, nothing: impl Fn(T) -> bool) {
        for l in 0..self.depth {
            for r in 0..rows {
                // SAFETY: everything read and written here is valid, as this function requires.
                unsafe {
                    let factor = self.a.add(l * self.a_stride + r).read();
                    if !nothing(factor) {
                        let to = std::slice::from_raw_parts_mut(self.to.add(r * self.to_stride), width);
                        let b = self.b.add(l * self.b_stride);
                        for (j, to) in to.iter_mut().enumerate() {
                            *to = *to + factor * b.add(j).read_unaligned();
                        }
                    }
                }
            }
        }
    }
}

type RunTile<T> = unsafe fn(&TransposedTile<T>);

/// Vectors in a tile's row at most.
const MAX_VECTORS: usize = 4;

/// The micro-kernels of an instruction set.
pub(crate) struct TransposedTileKernel<T: 'static> {
    /// Rows of the largest tile.
    pub(crate) rows: usize,
    /// Vectors in its rows.
    vectors: usize,
    /// Elements of a vector.
    lanes: usize,
    /// By rows and vectors, each minus 1.
    run: &'static [[RunTile<T>; MAX_VECTORS]],
}

/// The micro-kernels of one vector type.
struct Tiles<V>(V);

impl<V: Vector> Tiles<V> {
    /// For processors with 16 registers.
    #[cfg(not(target_arch = "aarch64"))]
    const FOUR: [[RunTile<V::Scalar>; MAX_VECTORS]; 4] =
        [Self::of_rows::<1>(), Self::of_rows::<2>(), Self::of_rows::<3>(), Self::of_rows::<4>()];

    /// For processors with 32 registers.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const SIX: [[RunTile<V::Scalar>; MAX_VECTORS]; 6] = [
        Self::of_rows::<1>(),
        Self::of_rows::<2>(),
        Self::of_rows::<3>(),
        Self::of_rows::<4>(),
        Self::of_rows::<5>(),
        Self::of_rows::<6>(),
    ];

    const fn of_rows<const ROWS: usize>() -> [RunTile<V::Scalar>; MAX_VECTORS] {
        [grow::<V, ROWS, 1>, grow::<V, ROWS, 2>, grow::<V, ROWS, 3>, grow::<V, ROWS, 4>]
    }
}

impl<T: Float> TransposedTileKernel<T> {
    /// The micro-kernels of an instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => {
                Self { rows: 4, vectors: 2, lanes: T::Portable::LANES, run: &Tiles::<T::Portable>::FOUR }
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => {
                Self { rows: 6, vectors: 4, lanes: T::Portable::LANES, run: &Tiles::<T::Portable>::SIX }
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self { rows: 4, vectors: 3, lanes: T::Avx2::LANES, run: &Tiles::<T::Avx2>::FOUR },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Self { rows: 6, vectors: 4, lanes: T::Avx512::LANES, run: &Tiles::<T::Avx512>::SIX }
            }
        }
    }

    /// Computes `rows` rows, at most those of the largest tile, of `width` elements, a multiple of the vector
    /// length.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set, and what [`TransposedTile`] names is valid.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, growth: &TransposedTile<T>, rows: usize, width: usize) {
        let all = width / self.lanes;
        let parts = all.div_ceil(self.vectors);
        for number in 0..parts {
            let vectors = part(all, parts, number);
            let skipped = vectors.start * self.lanes;
            // SAFETY: whole rows are valid, as this function requires.
            unsafe {
                let part = TransposedTile { b: growth.b.add(skipped), to: growth.to.add(skipped), ..*growth };
                self.run[rows - 1][vectors.len() - 1](&part);
            }
        }
    }
}

struct TransposedTileTask<'a, V: Vector, const ROWS: usize, const VECTORS: usize>(
    &'a TransposedTile<V::Scalar>,
);

impl<V: Vector, const ROWS: usize, const VECTORS: usize> IsaTask
    for TransposedTileTask<'_, V, ROWS, VECTORS>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let TransposedTile { mut a, a_stride, mut b, b_stride, depth, to, to_stride } = *self.0;
        // SAFETY: `grow` is called with memory as `TransposedTileKernel::run` describes it, at the vector's
        // instruction set.
        unsafe {
            let mut sums = [[V::zero(); VECTORS]; ROWS];
            for (r, row) in sums.iter_mut().enumerate() {
                for (v, sum) in row.iter_mut().enumerate() {
                    *sum = V::load(to.add(r * to_stride + v * V::LANES));
                }
            }
            for _ in 0..depth {
                let mut columns = [V::zero(); VECTORS];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = V::load(b.add(v * V::LANES));
                }
                for (r, row) in sums.iter_mut().enumerate() {
                    let factor = V::splat(a.add(r).read());
                    for (sum, column) in row.iter_mut().zip(columns) {
                        *sum = factor.mul_add(column, *sum);
                    }
                }
                a = a.wrapping_add(a_stride);
                b = b.wrapping_add(b_stride);
            }
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    sum.store(to.add(r * to_stride + v * V::LANES));
                }
            }
        }
    }
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`TransposedTileKernel::run`].
unsafe fn grow<V: Vector, const ROWS: usize, const VECTORS: usize>(growth: &TransposedTile<V::Scalar>) {
    // SAFETY: the processor has the vector's instructions. This function requires it.
    unsafe { V::dispatch(TransposedTileTask::<V, ROWS, VECTORS>(growth)) };
}
