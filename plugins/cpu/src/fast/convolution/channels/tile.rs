//! A tile of sums: some outputs, or weights, of several channels.

use super::super::super::level::{Level, Work};
use super::super::super::matmul::pack::prefetch;
use super::super::super::real::FastReal;
use super::super::super::vector::{Lanewise, Vector};

/// What a tile is computed from: `tile[r][v] = Σ from[rows[r] + terms[j]] · right[j][v]`.
pub(super) struct Sums<'a, T> {
    /// For each of [`SumsKernel::rows`] rows the place of its first number.
    pub(super) rows: &'a [usize],
    /// How far the number of each term is from that.
    pub(super) terms: &'a [usize],
    /// The numbers.
    pub(super) from: *const T,
    /// For each term a row of vectors.
    pub(super) right: *const T,
    /// Rows of vectors, side by side.
    pub(super) tile: *mut T,
    /// Whether the sums are added to what the tile holds.
    pub(super) add: bool,
}

type Run<T> = unsafe fn(&Sums<'_, T>);

/// Vectors in the widest row.
pub(super) const MOST_VECTORS: usize = 3;
/// Rows of the highest tile.
pub(super) const MOST_ROWS: usize = 8;

/// The tile at one level.
pub(super) struct SumsKernel<T: 'static> {
    /// Its rows.
    pub(super) rows: usize,
    /// Numbers in a vector.
    pub(super) lanes: usize,
    /// By number of vectors in a row.
    run: &'static [Run<T>; MOST_VECTORS],
}

impl<T> Clone for SumsKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SumsKernel<T> {}

/// The tiles of one vector.
struct Tiles<V, const ROWS: usize>(V);

impl<V: Vector, const ROWS: usize> Tiles<V, ROWS> {
    const ALL: [Run<V::Number>; MOST_VECTORS] = [sums::<V, ROWS, 1>, sums::<V, ROWS, 2>, sums::<V, ROWS, 3>];
}

impl<T: FastReal> SumsKernel<T> {
    /// The kernel of a level.
    pub(super) fn of(level: Level) -> Self {
        match level {
            #[cfg(not(target_arch = "aarch64"))]
            Level::Portable => Self::with::<T::Portable, 4>(),
            // 32 registers.
            #[cfg(target_arch = "aarch64")]
            Level::Portable => Self::with::<T::Portable, 8>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Self::with::<T::Avx2, 4>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Self::with::<T::Avx512, MOST_ROWS>(),
        }
    }

    fn with<V: Vector<Number = T>, const ROWS: usize>() -> Self {
        Self { rows: ROWS, lanes: V::LANES, run: &Tiles::<V, ROWS>::ALL }
    }

    /// Computes a tile of `vectors` vectors.
    ///
    /// # Safety
    /// The kernel's level is one that the processor has. The numbers of every row and term, and a row of vectors for each
    /// term, are readable; `tile` is readable and writable as a whole.
    pub(super) unsafe fn run(&self, sums: &Sums<'_, T>, vectors: usize) {
        assert!(sums.rows.len() >= self.rows);
        // SAFETY: the caller promises what the kernel needs.
        unsafe { self.run[vectors - 1](sums) };
    }
}

struct SumsWork<'a, 'b, V: Vector, const ROWS: usize, const VECTORS: usize>(&'a Sums<'b, V::Number>);

impl<V: Vector, const ROWS: usize, const VECTORS: usize> Work for SumsWork<'_, '_, V, ROWS, VECTORS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sums { rows, terms, from, mut right, tile, add } = *self.0;
        // SAFETY: `sums` is called with memory as `SumsKernel::run` describes it, at the vector's level.
        unsafe {
            let mut places = [from; ROWS];
            for (place, row) in places.iter_mut().zip(rows) {
                *place = from.add(*row);
            }
            if add {
                (0..ROWS * VECTORS).for_each(|vector| prefetch(tile.add(vector * V::LANES)));
            }
            let mut sums = [[V::zero(); VECTORS]; ROWS];
            for term in terms {
                let mut columns = [V::zero(); VECTORS];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = V::load(right.add(v * V::LANES));
                }
                right = right.add(VECTORS * V::LANES);
                for (place, sums) in places.iter().zip(&mut sums) {
                    let number = V::splat(place.add(*term).read_unaligned());
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = number.mul_add(column, *sum);
                    }
                }
            }
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    let tile = tile.add((r * VECTORS + v) * V::LANES);
                    let sum = if add { sum.lanewise(Lanewise::Add, V::load(tile)) } else { *sum };
                    sum.store(tile);
                }
            }
        }
    }
}

/// Computes one size of tile.
///
/// # Safety
/// As [`SumsKernel::run`].
unsafe fn sums<V: Vector, const ROWS: usize, const VECTORS: usize>(sums: &Sums<'_, V::Number>) {
    // SAFETY: the caller promises that the processor has the vector's level.
    unsafe { V::LEVEL.run(SumsWork::<V, ROWS, VECTORS>(sums)) };
}
