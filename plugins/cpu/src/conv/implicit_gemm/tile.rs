//! The GEMM micro-kernel of convolutions: operand B is addressed by taps and channels, and the epilogue runs before
//! results are stored.

use crate::conv::prefetch::TilePrefetch;
use crate::gemm::pack::prefetch;
use crate::gemm::tile::{load, prefetch_row};
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Float, Lanewise, Vector, relu};

/// Arguments of the micro-kernel: `tile[r][j] = Σ a[r][c][t] · b[taps[t] + c · channel_stride + j]` over channels c
/// and taps t, then the epilogue.
pub(crate) struct GemmTile<'a, T> {
    /// Offset of each tap in `b`.
    pub(crate) taps: &'a [usize],
    /// Number of input channels.
    pub(crate) channels: usize,
    /// Stride of channels in `b`.
    pub(crate) channel_stride: usize,
    /// Packed weights: for each channel and tap one value for each of [`GemmTileKernel::rows`] rows. With
    /// `stride`, the first row of weights in place.
    pub(crate) a: *const T,
    /// Row stride of weights in place.
    pub(crate) stride: Option<usize>,
    /// The planes, from the first column.
    pub(crate) b: *const T,
    /// The results.
    pub(crate) tile: *mut T,
    /// Row stride of `tile`.
    pub(crate) row: usize,
    /// The bias of each row, and its stride; null if there is none.
    pub(crate) bias: *const T,
    pub(crate) bias_stride: usize,
    /// The residual, and its row stride; null if there is none.
    pub(crate) residual: *const T,
    pub(crate) residual_row: usize,
    /// Whether RELU follows.
    pub(crate) relu: bool,
    /// What is prefetched meanwhile, and whether that includes `tile` and the residual.
    pub(crate) tile_prefetch: TilePrefetch,
    pub(crate) is_far: bool,
    /// Whether upcoming rows of `b` are prefetched: they are consecutive and do not stay in the L1 cache.
    pub(crate) prefetches_rows: bool,
    /// Where the vectors of the rows of `b` are copied to, row after row; null for nowhere. Only with a single
    /// tap, and by tiles of all [`GemmTileKernel::rows`].
    pub(crate) keep: *mut T,
}

impl<T: Float> GemmTile<'_, T> {
    /// Computes a column of the tile again if some of its taps are in the padding, without these taps: zero
    /// times a weight that is NaN or infinite is NaN. A packed panel has `height` rows.
    ///
    /// # Safety
    /// The tile has the rows and the column, and the filter's taps have as many channels each.
    pub(crate) unsafe fn column_again(
        &self,
        (rows, height): (usize, usize),
        column: usize,
        window: usize,
        meets: impl Fn(usize) -> bool,
    ) {
        if (0..window).all(&meets) {
            return;
        }
        let mut sums = [T::ZERO; MAX_ROWS];
        // Here a filter of several taps may be given as one tap with more channels.
        let (taps, terms) = (self.taps.len(), self.channels * self.taps.len() / window);
        let stride = self.channel_stride * (window / taps);
        for tap in (0..window).filter(|tap| meets(*tap)) {
            let first = self.taps[tap % taps] + tap / taps * self.channel_stride + column;
            for term in 0..terms {
                let number = tap + term * window;
                // SAFETY: the weights and numbers are valid, as this function requires; panels have
                // memory for all of their rows.
                unsafe {
                    let b = self.b.add(first + term * stride).read_unaligned();
                    if self.stride.is_none() && height == MAX_ROWS {
                        let weights = self.a.add(number * height).cast::<[T; MAX_ROWS]>().read_unaligned();
                        for (sum, weight) in sums.iter_mut().zip(weights) {
                            *sum = *sum + weight * b;
                        }
                        continue;
                    }
                    for (row, sum) in sums.iter_mut().enumerate().take(rows) {
                        let place = self.stride.map_or(number * height + row, |stride| row * stride + number);
                        *sum = *sum + self.a.add(place).read_unaligned() * b;
                    }
                }
            }
        }
        for (row, sum) in sums.into_iter().enumerate().take(rows) {
            // SAFETY: the tile, and what is added are valid, as this function requires.
            unsafe {
                let sum = self.with_epilogue(sum, row, column);
                self.tile.add(row * self.row + column).write_unaligned(sum);
            }
        }
    }

    /// Applies the epilogue to one accumulator.
    ///
    /// # Safety
    /// Bias and residual are null, or have the row and column.
    pub(crate) unsafe fn with_epilogue(&self, mut sum: T, row: usize, column: usize) -> T {
        // SAFETY: both are valid, as this function requires.
        unsafe {
            if !self.bias.is_null() {
                sum = sum + self.bias.add(row * self.bias_stride).read_unaligned();
            }
            if !self.residual.is_null() {
                sum = sum + self.residual.add(row * self.residual_row + column).read_unaligned();
            }
        }
        if self.relu { relu(sum) } else { sum }
    }
}

/// Rows of a tile at most.
const MAX_ROWS: usize = 8;

/// A micro-kernel of one size; the argument is the number of valid rows.
type RunGemmTile<T> = unsafe fn(&mut GemmTile<'_, T>, usize);

/// How many values of `a` ahead are prefetched, together with rows of `b`: hardware prefetching stops at the end of
/// each page.
pub(crate) const WEIGHTS_AHEAD: usize = 512;

/// Vectors in the rows of the widest tile.
const MAX_VECTORS: usize = 3;

/// The GEMM micro-kernel of one instruction set.
pub(crate) struct GemmTileKernel<T: 'static> {
    /// Rows in a panel of `a` and in the tile.
    pub(crate) rows: usize,
    /// Vectors in its rows, at most.
    pub(crate) vectors: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// By packed or strided weights, by number of rows (1, 2, 4, 8), and by number of vectors.
    run: &'static [[[RunGemmTile<T>; MAX_VECTORS]; 4]; 2],
}

impl<T> Clone for GemmTileKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GemmTileKernel<T> {}

/// The micro-kernels of one vector type, for panels of `PANEL` rows.
struct Tiles<V, const PANEL: usize>(V);

impl<V: Vector, const PANEL: usize> Tiles<V, PANEL> {
    const ALL: [[[RunGemmTile<V::Scalar>; MAX_VECTORS]; 4]; 2] = [
        [
            Self::of_rows::<1, false>(),
            Self::of_rows::<2, false>(),
            Self::of_rows::<4, false>(),
            Self::of_rows::<PANEL, false>(),
        ],
        [
            Self::of_rows::<1, true>(),
            Self::of_rows::<2, true>(),
            Self::of_rows::<4, true>(),
            Self::of_rows::<PANEL, true>(),
        ],
    ];

    const fn of_rows<const ROWS: usize, const APART: bool>() -> [RunGemmTile<V::Scalar>; MAX_VECTORS] {
        [
            product::<V, PANEL, ROWS, 1, APART>,
            product::<V, PANEL, ROWS, 2, APART>,
            product::<V, PANEL, ROWS, 3, APART>,
        ]
    }
}

impl<T: Float> GemmTileKernel<T> {
    /// The micro-kernel of an instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => Self::with::<T::Portable, 4>(2),
            // NEON has 32 registers.
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => Self::with::<T::Portable, 8>(3),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::with::<T::Avx2, 4>(3),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::with::<T::Avx512, 8>(3),
        }
    }

    fn with<V: Vector<Scalar = T>, const PANEL: usize>(vectors: usize) -> Self {
        Self { rows: PANEL, vectors, lanes: V::LANES, run: &Tiles::<V, PANEL>::ALL }
    }

    /// Columns of the widest tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// Whether a tile of this many rows writes exactly these rows.
    pub(crate) fn is_height(&self, rows: usize) -> bool {
        [1, 2, 4, self.rows].contains(&rows)
    }

    /// Computes the first `rows` rows and `vectors` vectors of a tile. The rest of the tile may be overwritten
    /// with anything.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set. Of `a`, [`GemmTileKernel::rows`] values are
    /// readable for each channel and tap, or `rows` rows; of `b`, whole vectors from each tap and channel; of
    /// the residual, `rows` rows of whole vectors; of the bias, `rows` values. `tile` is writable for
    /// [`GemmTileKernel::rows`] rows, or for `rows` if [`GemmTileKernel::is_height`], of whole vectors; `keep`
    /// is writable for as many rows of whole vectors as there are channels.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, product: &mut GemmTile<'_, T>, rows: usize, vectors: usize) {
        let by_rows = &self.run[usize::from(product.stride.is_some())];
        let by_vectors = match rows {
            0..=1 => &by_rows[0],
            2 => &by_rows[1],
            3..=4 => &by_rows[2],
            _ => &by_rows[3],
        };
        // SAFETY: the kernel requires what this function requires.
        unsafe { by_vectors[vectors - 1](product, rows) };
    }
}

/// A tile of one size.
struct GemmTileTask<
    'a,
    'b,
    V: Vector,
    const PANEL: usize,
    const ROWS: usize,
    const VECTORS: usize,
    const APART: bool,
>(&'a mut GemmTile<'b, V::Scalar>, usize);

impl<V: Vector, const PANEL: usize, const ROWS: usize, const VECTORS: usize, const APART: bool> IsaTask
    for GemmTileTask<'_, '_, V, PANEL, ROWS, VECTORS, APART>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(product, present) = self;
        // The prefetch state is updated in place; a copy would have to wait for the stores of the tile
        // before.
        let GemmTile { taps, channels, channel_stride, a, mut b, mut keep, .. } = *product;
        if product.is_far {
            for row in 0..ROWS.min(present) {
                let tile = product.tile.wrapping_add(row * product.row);
                let residual = product.residual.wrapping_add(row * product.residual_row);
                for v in 0..VECTORS {
                    prefetch(tile.wrapping_add(v * V::LANES));
                    if !product.residual.is_null() {
                        prefetch(residual.wrapping_add(v * V::LANES));
                    }
                }
            }
        }
        // SAFETY: `product` is called with memory as `GemmTileKernel::run` describes it, at the vector's
        // instruction set.
        unsafe {
            let mut sums = [[V::zero(); VECTORS]; ROWS];
            // Pointers to each row of weights in place, or into a packed panel, where all advance by
            // whole panels.
            let mut rows = [a; ROWS];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = match product.stride {
                    // Slots beyond the last row repeat it.
                    Some(stride) if APART => a.add(r.min(present - 1) * stride),
                    _ => a.add(r),
                };
            }
            let mut at = 0;
            let step = if APART { 1 } else { PANEL };
            let mut left = channels;
            while left > 0 {
                let run = product.tile_prefetch.until(left);
                left -= run;
                if let [tap] = taps {
                    let mut b = b.wrapping_add(*tap);
                    if ROWS == PANEL && !keep.is_null() {
                        for _ in 0..run {
                            prefetch_row::<V, VECTORS>(b, channel_stride);
                            let columns = load::<V, VECTORS>(b);
                            for (v, column) in columns.iter().enumerate() {
                                column.store(keep.add(v * V::LANES));
                            }
                            multiply::<V, ROWS, VECTORS, APART>(&rows, a, at, columns, &mut sums);
                            at += step;
                            b = b.wrapping_add(channel_stride);
                            keep = keep.add(VECTORS * V::LANES);
                        }
                    } else if product.prefetches_rows {
                        for _ in 0..run {
                            prefetch_row::<V, VECTORS>(b, channel_stride);
                            if !APART {
                                prefetch(a.wrapping_add(at + WEIGHTS_AHEAD));
                            }
                            let columns = load::<V, VECTORS>(b);
                            multiply::<V, ROWS, VECTORS, APART>(&rows, a, at, columns, &mut sums);
                            at += step;
                            b = b.wrapping_add(channel_stride);
                        }
                    } else {
                        for _ in 0..run {
                            let columns = load::<V, VECTORS>(b);
                            multiply::<V, ROWS, VECTORS, APART>(&rows, a, at, columns, &mut sums);
                            at += step;
                            b = b.wrapping_add(channel_stride);
                        }
                    }
                } else {
                    let mut b = b;
                    for _ in 0..run {
                        for tap in taps {
                            let columns = load::<V, VECTORS>(b.add(*tap));
                            multiply::<V, ROWS, VECTORS, APART>(&rows, a, at, columns, &mut sums);
                            at += step;
                        }
                        b = b.wrapping_add(channel_stride);
                    }
                }
                b = b.wrapping_add(run * channel_stride);
                product.tile_prefetch.prefetch();
            }
            if !product.bias.is_null() {
                for (r, row) in sums.iter_mut().enumerate() {
                    let bias = product.bias.add(r.min(present - 1) * product.bias_stride).read_unaligned();
                    let bias = V::splat(bias);
                    for sum in row {
                        *sum = sum.lanewise(Lanewise::Add, bias);
                    }
                }
            }
            if !product.residual.is_null() {
                for (r, row) in sums.iter_mut().enumerate() {
                    let residual = product.residual.add(r.min(present - 1) * product.residual_row);
                    for (v, sum) in row.iter_mut().enumerate() {
                        *sum = sum.lanewise(Lanewise::Add, V::load(residual.add(v * V::LANES)));
                    }
                }
            }
            if product.relu {
                for row in &mut sums {
                    for sum in row {
                        *sum = sum.lanewise(Lanewise::Relu, *sum);
                    }
                }
            }
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    sum.store(product.tile.add(r * product.row + v * V::LANES));
                }
            }
        }
    }
}

/// Adds the products of one channel and tap: one value of each row, at offset `at`, times vectors of columns.
///
/// # Safety
/// The values are readable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn multiply<V: Vector, const ROWS: usize, const VECTORS: usize, const APART: bool>(
    rows: &[*const V::Scalar; ROWS],
    panel: *const V::Scalar,
    at: usize,
    columns: [V; VECTORS],
    sums: &mut [[V; VECTORS]; ROWS],
) {
    // SAFETY: everything read and written here is valid, as this function requires.
    unsafe {
        for (r, sums) in sums.iter_mut().enumerate() {
            let weight = if APART { rows[r].add(at) } else { panel.add(at + r) };
            let weight = V::splat(weight.read_unaligned());
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = weight.mul_add(column, *sum);
            }
        }
    }
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`GemmTileKernel::run`].
unsafe fn product<
    V: Vector,
    const PANEL: usize,
    const ROWS: usize,
    const VECTORS: usize,
    const APART: bool,
>(
    product: &mut GemmTile<'_, V::Scalar>,
    rows: usize,
) {
    // SAFETY: the processor has the vector's instructions. This function requires it.
    unsafe { V::dispatch(GemmTileTask::<V, PANEL, ROWS, VECTORS, APART>(product, rows)) };
}
