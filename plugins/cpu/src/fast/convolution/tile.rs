//! The two inner loops of convolution: a tile of a matrix product, and a tile of scalar products.

use super::super::level::{Level, Work};
use super::super::real::FastReal;
use super::super::vector::Vector;

/// What a tile of a product is computed from: `tile[r][j] = Σ a[t][c][r] · b[taps[t] + c · pitch + j]` over taps and channels.
pub(super) struct Product<'a, T> {
    /// Distance of each tap in `b`.
    pub(super) taps: &'a [usize],
    /// Number of channels.
    pub(super) channels: usize,
    /// Distance of channels in `b`.
    pub(super) pitch: usize,
    /// For each tap and channel one number for each of [`ProductKernel::rows`] rows.
    pub(super) a: *const T,
    /// The planes, from the first column.
    pub(super) b: *const T,
    /// As many rows as the kernel has.
    pub(super) tile: *mut T,
    /// Distance of rows in `tile`, at least [`ProductKernel::columns`].
    pub(super) row: usize,
}

/// One size of the tile of a product.
type RunProduct<T> = unsafe fn(&Product<'_, T>);

/// The tile of a product at one level.
pub(super) struct ProductKernel<T> {
    /// Rows in a panel of `a` and in the tile.
    pub(super) rows: usize,
    /// Columns of the tile.
    pub(super) columns: usize,
    /// Numbers in a vector.
    lanes: usize,
    /// By number of rows, 1, 2, 4, 8, and whether all vectors of columns are computed or only the first.
    run: [[RunProduct<T>; 2]; 4],
}

impl<T> Clone for ProductKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ProductKernel<T> {}

impl<T: FastReal> ProductKernel<T> {
    /// The kernel of a level.
    pub(super) fn of(level: Level) -> Self {
        match level {
            #[cfg(not(target_arch = "aarch64"))]
            Level::Portable => Self::with::<T::Portable, 4, 2>(),
            // 32 registers.
            #[cfg(target_arch = "aarch64")]
            Level::Portable => Self::with::<T::Portable, 8, 3>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Self::with::<T::Avx2, 4, 3>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Self::with::<T::Avx512, 8, 2>(),
        }
    }

    fn with<V: Vector<Number = T>, const PANEL: usize, const VECTORS: usize>() -> Self {
        Self {
            rows: PANEL,
            columns: VECTORS * V::LANES,
            lanes: V::LANES,
            run: [
                [product::<V, PANEL, 1, VECTORS>, product::<V, PANEL, 1, 1>],
                [product::<V, PANEL, 2, VECTORS>, product::<V, PANEL, 2, 1>],
                [product::<V, PANEL, 4, VECTORS>, product::<V, PANEL, 4, 1>],
                [product::<V, PANEL, PANEL, VECTORS>, product::<V, PANEL, PANEL, 1>],
            ],
        }
    }

    /// Computes the first `rows` rows and `columns` columns of a tile; what else the tile holds afterwards is not said.
    ///
    /// # Safety
    /// The kernel's level is one that the processor has. Of `a`, [`ProductKernel::rows`] numbers are readable for each tap
    /// and channel; of `b`, [`ProductKernel::columns`] from each tap and channel; `tile` is writable as a whole.
    #[inline(always)]
    pub(super) unsafe fn run(&self, product: &Product<'_, T>, rows: usize, columns: usize) {
        let by_rows = match rows {
            0..=1 => &self.run[0],
            2 => &self.run[1],
            3..=4 => &self.run[2],
            _ => &self.run[3],
        };
        let kernel = by_rows[usize::from(columns <= self.lanes)];
        // SAFETY: the caller promises what the kernel needs.
        unsafe { kernel(product) };
    }
}

/// One size of the tile of a product.
struct ProductWork<'a, 'b, V: Vector, const PANEL: usize, const ROWS: usize, const VECTORS: usize>(
    &'a Product<'b, V::Number>,
);

impl<V: Vector, const PANEL: usize, const ROWS: usize, const VECTORS: usize> Work
    for ProductWork<'_, '_, V, PANEL, ROWS, VECTORS>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Product { taps, channels, pitch, a, b, tile, row: row_pitch } = *self.0;
        // SAFETY: `product` is called with memory as `ProductKernel::run` describes it, at the vector's level.
        unsafe {
            let mut sums = [[V::zero(); VECTORS]; ROWS];
            let mut a = a;
            for tap in taps {
                let mut b = b.add(*tap);
                for _ in 0..channels {
                    let mut columns = [V::zero(); VECTORS];
                    for (v, column) in columns.iter_mut().enumerate() {
                        *column = V::load(b.add(v * V::LANES));
                    }
                    for (r, row) in sums.iter_mut().enumerate() {
                        let weight = V::splat(a.add(r).read());
                        for (sum, column) in row.iter_mut().zip(columns) {
                            *sum = weight.mul_add(column, *sum);
                        }
                    }
                    a = a.add(PANEL);
                    b = b.wrapping_add(pitch);
                }
            }
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    sum.store(tile.add(r * row_pitch + v * V::LANES));
                }
            }
        }
    }
}

/// Computes one size of tile.
///
/// # Safety
/// As [`ProductKernel::run`].
unsafe fn product<V: Vector, const PANEL: usize, const ROWS: usize, const VECTORS: usize>(
    product: &Product<'_, V::Number>,
) {
    // SAFETY: the caller promises that the processor has the vector's level.
    unsafe { V::LEVEL.run(ProductWork::<V, PANEL, ROWS, VECTORS>(product)) };
}

/// What a tile of scalar products is computed from: `tile[k][p] = Σ a[k · pitch + j] · b[pairs[p] + j]` over the columns.
pub(super) struct Dots<'a, T> {
    /// Number of columns, a multiple of [`DotsKernel::lanes`].
    pub(super) columns: usize,
    /// The first row of `a`.
    pub(super) a: *const T,
    /// Distance of rows in `a`.
    pub(super) pitch: usize,
    /// The planes.
    pub(super) b: *const T,
    /// Beginnings of the runs in `b`, one for each of [`DotsKernel::pairs`].
    pub(super) pairs: &'a [usize],
    /// Rows of [`DotsKernel::pairs`] numbers, as many as [`DotsKernel::rows`].
    pub(super) tile: *mut T,
}

/// The tile of scalar products at one level.
pub(super) struct DotsKernel<T> {
    /// Rows of `a` and of the tile.
    pub(super) rows: usize,
    /// Columns of the tile.
    pub(super) pairs: usize,
    /// Numbers in a vector.
    pub(super) lanes: usize,
    run: unsafe fn(&Dots<'_, T>),
}

impl<T> Clone for DotsKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DotsKernel<T> {}

impl<T: FastReal> DotsKernel<T> {
    /// The kernel of a level.
    pub(super) fn of(level: Level) -> Self {
        match level {
            #[cfg(not(target_arch = "aarch64"))]
            Level::Portable => Self::with::<T::Portable, 2, 4>(),
            #[cfg(target_arch = "aarch64")]
            Level::Portable => Self::with::<T::Portable, 4, 6>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Self::with::<T::Avx2, 2, 4>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Self::with::<T::Avx512, 4, 6>(),
        }
    }

    fn with<V: Vector<Number = T>, const ROWS: usize, const PAIRS: usize>() -> Self {
        Self { rows: ROWS, pairs: PAIRS, lanes: V::LANES, run: dots::<V, ROWS, PAIRS> }
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// The kernel's level is one that the processor has. The rows of `a` and the runs of `b` are readable for `columns`
    /// numbers, `tile` is writable as a whole.
    pub(super) unsafe fn run(&self, dots: &Dots<'_, T>) {
        assert!(dots.pairs.len() >= self.pairs);
        // SAFETY: the caller promises what the kernel needs.
        unsafe { (self.run)(dots) };
    }
}

/// One size of the tile of scalar products.
struct DotsWork<'a, 'b, V: Vector, const ROWS: usize, const PAIRS: usize>(&'a Dots<'b, V::Number>);

impl<V: Vector, const ROWS: usize, const PAIRS: usize> Work for DotsWork<'_, '_, V, ROWS, PAIRS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Dots { columns, a, pitch, b, pairs, tile } = *self.0;
        // SAFETY: `dots` is called with memory as `DotsKernel::run` describes it, at the vector's level.
        unsafe {
            let mut runs = [b; PAIRS];
            for (run, pair) in runs.iter_mut().zip(pairs) {
                *run = b.add(*pair);
            }
            let mut sums = [[V::zero(); PAIRS]; ROWS];
            let mut column = 0;
            while column < columns {
                let mut rows = [V::zero(); ROWS];
                for (r, row) in rows.iter_mut().enumerate() {
                    *row = V::load(a.add(r * pitch + column));
                }
                for (p, run) in runs.iter().enumerate() {
                    let number = V::load(run.add(column));
                    for (sum, row) in sums.iter_mut().zip(rows) {
                        sum[p] = row.mul_add(number, sum[p]);
                    }
                }
                column += V::LANES;
            }
            for (r, row) in sums.iter().enumerate() {
                for (p, sum) in row.iter().enumerate() {
                    tile.add(r * PAIRS + p).write(sum.sum());
                }
            }
        }
    }
}

/// Computes one size of tile.
///
/// # Safety
/// As [`DotsKernel::run`].
unsafe fn dots<V: Vector, const ROWS: usize, const PAIRS: usize>(dots: &Dots<'_, V::Number>) {
    // SAFETY: the caller promises that the processor has the vector's level.
    unsafe { V::LEVEL.run(DotsWork::<V, ROWS, PAIRS>(dots)) };
}
