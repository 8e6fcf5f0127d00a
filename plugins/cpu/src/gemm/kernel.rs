//! The micro-kernel: computes one MR × NR tile of a product in registers.
//!
//! Every GEMM but one uses it: of matrices, of convolutions and of attention. What differs is how the rows of operand
//! A are addressed ([`Lhs`]), how the rows of operand B are ([`Tile::taps`]), what accumulators start from, and the
//! epilogue, which is applied before results are stored. The exception is `conv::direct_small::tile`.

use std::marker::PhantomData;

use crate::gemm::prefetch::{PREFETCH_ROWS, PREFETCH_WORDS, prefetch};
use crate::gemm::register::{Register, load};
use crate::gemm::tile::{Lhs, Order, Panel, RegisterEpilogue, Rows, Tile};
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::Float;

type RunTile<T> = unsafe fn(&mut Tile<'_, T>);

/// The argument is the number of vectors in a row.
type RunLine<T> = unsafe fn(&Tile<'_, T>, usize);

/// Vectors in a tile's row at most.
const MAX_VECTORS: usize = 3;

/// Rows of a tile at most.
pub(crate) const MAX_ROWS: usize = 8;

/// The micro-kernels of an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct MicroKernel<T: 'static> {
    /// Rows of the largest tile (MR).
    pub(crate) rows: usize,
    /// Vectors in its rows (NR is `vectors * lanes`).
    pub(crate) vectors: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// Vectors in a row of the wide tile.
    pub(crate) wide: usize,
    /// By rows minus 1, by [`Order`], and by vectors minus 1.
    run: &'static [[[RunTile<T>; MAX_VECTORS]; 2]],
    run_wide: RunTile<T>,
    run_line: RunLine<T>,
}

/// Rows of the wide tile. With so few rows, reading operand B is the bottleneck, and is faster in longer runs.
pub(crate) const WIDE_ROWS: usize = 2;

/// Vectors of the longest line, which is a tile of one row. Its accumulators stay in the L1 cache.
pub(crate) const MAX_LINE: usize = 256;

/// Terms that are added to a line's accumulators together: as many rows of B are read at once, each from beginning
/// to end.
const LINE_TERMS: usize = 8;

/// The micro-kernels of one register type.
struct Tiles<R>(R);

impl<R: Register> Tiles<R> {
    /// For processors with 16 registers.
    #[cfg(not(target_arch = "aarch64"))]
    const FOUR: [[[RunTile<R::Word>; MAX_VECTORS]; 2]; 4] =
        [Self::of_rows::<1>(), Self::of_rows::<2>(), Self::of_rows::<3>(), Self::of_rows::<4>()];

    /// For processors with 32 registers.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const EIGHT: [[[RunTile<R::Word>; MAX_VECTORS]; 2]; MAX_ROWS] = [
        Self::of_rows::<1>(),
        Self::of_rows::<2>(),
        Self::of_rows::<3>(),
        Self::of_rows::<4>(),
        Self::of_rows::<5>(),
        Self::of_rows::<6>(),
        Self::of_rows::<7>(),
        Self::of_rows::<8>(),
    ];

    const fn of_rows<const MR: usize>() -> [[RunTile<R::Word>; MAX_VECTORS]; 2] {
        [Self::of_order::<Rows<R::Word, MR>, MR>(), Self::of_order::<Panel<R::Word>, MR>()]
    }

    const fn of_order<A: Lhs<R, MR>, const MR: usize>() -> [RunTile<R::Word>; MAX_VECTORS] {
        [run_tile::<R, A, MR, 1>, run_tile::<R, A, MR, 2>, run_tile::<R, A, MR, 3>]
    }
}

impl<T: Float> MicroKernel<T> {
    /// The micro-kernels of an instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => Self::of_four::<T::Portable>(2),
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => Self::of_eight::<T::Portable>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::of_four::<T::Avx2>(3),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::of_eight::<T::Avx512>(),
        }
    }

    #[cfg(not(target_arch = "aarch64"))]
    fn of_four<R: Register<Word = T>>(vectors: usize) -> Self {
        let run_wide = run_tile::<R, Rows<T, WIDE_ROWS>, WIDE_ROWS, 4>;
        let (run, run_line) = (&Tiles::<R>::FOUR, run_line::<R>);
        Self { rows: 4, vectors, lanes: R::LANES, wide: 4, run, run_wide, run_line }
    }
}

impl<T: 'static> MicroKernel<T> {
    /// The micro-kernels of a register type of which there are 32.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) fn of_eight<R: Register<Word = T>>() -> Self {
        let run_wide = run_tile::<R, Rows<T, WIDE_ROWS>, WIDE_ROWS, 12>;
        let (run, run_line) = (&Tiles::<R>::EIGHT, run_line::<R>);
        Self { rows: MAX_ROWS, vectors: 3, lanes: R::LANES, wide: 12, run, run_wide, run_line }
    }

    /// Columns of the largest tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// Computes a tile of `rows` rows and `vectors` vectors: at least 1 and at most those of the largest tile. In
    /// [`Order::Rows`] it may also be the wide tile, or one row and up to [`MAX_LINE`] vectors if `keep` is null and
    /// there is a single tap.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set. The terms of each row of `a`, and whole vectors of each
    /// row of `b`, of `to`, and of `from`, the residual and `keep` unless these are null, are valid, as is the bias
    /// of each row.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &mut Tile<'_, T>, rows: usize, vectors: usize) {
        // SAFETY: rows and columns of the tile are valid, and the processor has the instructions of the micro-kernel.
        unsafe {
            if vectors <= MAX_VECTORS {
                self.run[rows - 1][usize::from(tile.order == Order::Panel)][vectors - 1](tile);
            } else if rows == 1 {
                (self.run_line)(tile, vectors);
            } else {
                (self.run_wide)(tile);
            }
        }
    }
}

/// A tile of one size.
struct TileTask<'t, 'a, R: Register, A, const MR: usize, const NR: usize>(
    &'t mut Tile<'a, R::Word>,
    PhantomData<A>,
);

impl<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize> IsaTask
    for TileTask<'_, '_, R, A, MR, NR>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let tile = self.0;
        // SAFETY: `run_tile` is called with memory as `MicroKernel::run` describes it, with the register's
        // instructions.
        unsafe {
            if tile.prefetches_results {
                let RegisterEpilogue { residual, residual_stride, .. } = tile.epilogue;
                for r in 0..MR {
                    prefetch_row::<R, NR>(tile.to.wrapping_add(r * tile.to_stride));
                    if !residual.is_null() {
                        prefetch_row::<R, NR>(residual.wrapping_add(r * residual_stride));
                    }
                }
            }
            let mut acc = [[R::zero(); NR]; MR];
            if !tile.from.is_null() {
                for (r, row) in acc.iter_mut().enumerate() {
                    *row = load(tile.from.add(r * tile.from_stride));
                }
            }
            let mut position = Position { a: A::of(tile), at: 0, b: tile.b, keep: tile.keep };
            let (taps, mut left) = (tile.taps, tile.depth);
            while left > 0 {
                let run = tile.tile_prefetch.as_ref().map_or(left, |prefetch| prefetch.until(left));
                left -= run;
                let strides = [tile.a_stride, tile.b_stride];
                if let [tap] = taps {
                    let tap = &[*tap];
                    if !A::TAPS && !position.keep.is_null() {
                        position.multiply::<R, MR, NR, true, true>(run, tap, strides, &mut acc);
                    } else if tile.prefetches {
                        position.multiply::<R, MR, NR, false, true>(run, tap, strides, &mut acc);
                    } else {
                        position.multiply::<R, MR, NR, false, false>(run, tap, strides, &mut acc);
                    }
                } else if A::TAPS && tile.prefetches {
                    position.multiply::<R, MR, NR, false, true>(run, taps, strides, &mut acc);
                } else {
                    position.multiply::<R, MR, NR, false, false>(run, taps, strides, &mut acc);
                }
                if let Some(prefetch) = &mut tile.tile_prefetch {
                    prefetch.prefetch();
                }
            }
            tile.epilogue.apply(&mut acc, 0);
            for (r, row) in acc.iter().enumerate() {
                store(row, tile.to.add(r * tile.to_stride));
            }
        }
    }
}

/// How far a tile has come.
struct Position<A, T> {
    a: A,
    /// Offset of the next term in operand A.
    at: usize,
    b: *const T,
    keep: *mut T,
}

impl<A, T: Copy + 'static> Position<A, T> {
    /// Adds the products of `run` more l and all taps.
    ///
    /// # Safety
    /// As [`MicroKernel::run`].
    #[inline(always)]
    unsafe fn multiply<
        R: Register<Word = T>,
        const MR: usize,
        const NR: usize,
        const KEEP: bool,
        const PREFETCH: bool,
    >(
        &mut self,
        run: usize,
        taps: &(impl AsRef<[usize]> + ?Sized),
        [a_stride, b_stride]: [usize; 2],
        acc: &mut [[R; NR]; MR],
    ) where
        A: Lhs<R, MR>,
    {
        for _ in 0..run {
            let mut packed = self.b;
            for tap in taps.as_ref() {
                let (at, b) = if A::TAPS {
                    (self.at.wrapping_add(*tap), packed)
                } else {
                    (self.at, self.b.wrapping_add(*tap))
                };
                if PREFETCH {
                    // Rows are often in different pages, where hardware prefetching does not follow.
                    let offset = if A::TAPS { PREFETCH_WORDS } else { PREFETCH_ROWS * b_stride };
                    prefetch_row::<R, NR>(b.wrapping_add(offset));
                    self.a.prefetch(at, a_stride);
                }
                // SAFETY: the caller has the instructions, the terms and the rows.
                unsafe {
                    let columns = load::<R, NR>(b);
                    if KEEP {
                        store(&columns, self.keep);
                        self.keep = self.keep.add(NR * R::LANES);
                    }
                    multiply(&self.a, at, columns, acc);
                }
                if A::TAPS {
                    packed = packed.wrapping_add(NR * R::LANES);
                } else {
                    self.at = A::next(self.at, a_stride);
                }
            }
            self.b = self.b.wrapping_add(b_stride);
            if A::TAPS {
                self.at = self.at.wrapping_add(a_stride);
            }
        }
    }
}

/// Prefetches a row of vectors; it need not exist.
#[inline(always)]
fn prefetch_row<R: Register, const NR: usize>(row: *const R::Word) {
    (0..NR).for_each(|v| prefetch(row.wrapping_add(v * R::LANES)));
}

/// Stores a row of vectors.
///
/// # Safety
/// They are writable, and the processor has the register's instructions.
#[inline(always)]
pub(crate) unsafe fn store<R: Register, const NR: usize>(row: &[R; NR], to: *mut R::Word) {
    for (v, vector) in row.iter().enumerate() {
        // SAFETY: the caller has the instructions and the row.
        unsafe { vector.store(to.add(v * R::LANES)) };
    }
}

/// Adds the products of the term at offset `at` of each row and the columns.
///
/// # Safety
/// The rows have the term, and the processor has the register's instructions.
#[inline(always)]
pub(crate) unsafe fn multiply<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize>(
    a: &A,
    at: usize,
    b: [R; NR],
    acc: &mut [[R; NR]; MR],
) {
    for (r, row) in acc.iter_mut().enumerate() {
        // SAFETY: the caller has the instructions and the term.
        unsafe {
            let a = a.get(r, at);
            for (acc, b) in row.iter_mut().zip(b) {
                *acc = acc.add_product(a, b);
            }
        }
    }
}

/// One row of any number of vectors, with accumulators in memory.
struct LineTask<'t, 'a, R: Register>(&'t Tile<'a, R::Word>, usize);

impl<R: Register> IsaTask for LineTask<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Tile { a, b, b_stride, depth, from, epilogue, to, .. }, vectors) = self;
        let whole = depth - depth % LINE_TERMS;
        // SAFETY: `run_line` is called with memory as `MicroKernel::run` describes it, with the register's
        // instructions.
        unsafe {
            for v in (0..vectors).map(|v| v * R::LANES) {
                let acc = if from.is_null() { R::zero() } else { R::load(from.add(v)) };
                acc.store(to.add(v));
            }
            for l in (0..whole).step_by(LINE_TERMS) {
                line_terms::<R, LINE_TERMS>(
                    a.add(l),
                    (b.wrapping_add(l * b_stride), *b_stride),
                    *to,
                    vectors,
                );
            }
            for l in whole..*depth {
                line_terms::<R, 1>(a.add(l), (b.wrapping_add(l * b_stride), *b_stride), *to, vectors);
            }
            if !epilogue.is_none() {
                for v in (0..vectors).map(|v| v * R::LANES) {
                    let mut acc = [[R::load(to.add(v))]];
                    epilogue.apply(&mut acc, v);
                    acc[0][0].store(to.add(v));
                }
            }
        }
    }
}

/// Adds some terms to the accumulators of a line.
///
/// # Safety
/// The terms, as many rows of vectors and the accumulators are valid, and the processor has the register's
/// instructions.
#[inline(always)]
unsafe fn line_terms<R: Register, const TERMS: usize>(
    a: *const R::Word,
    (b, b_stride): (*const R::Word, usize),
    to: *mut R::Word,
    vectors: usize,
) {
    // SAFETY: the caller has the instructions, the terms, the rows and the accumulators.
    unsafe {
        let mut terms = [R::zero(); TERMS];
        for (l, term) in terms.iter_mut().enumerate() {
            *term = R::splat(a.add(l).read_unaligned());
        }
        for v in 0..vectors {
            let to = to.add(v * R::LANES);
            let mut acc = R::load(to);
            for (l, term) in terms.iter().enumerate() {
                acc = acc.add_product(*term, R::load(b.wrapping_add(l * b_stride + v * R::LANES)));
            }
            acc.store(to);
        }
    }
}

/// Computes a line.
///
/// # Safety
/// As [`MicroKernel::run`].
unsafe fn run_line<R: Register>(tile: &Tile<'_, R::Word>, vectors: usize) {
    // SAFETY: the caller has the instructions.
    unsafe { R::run(LineTask::<R>(tile, vectors)) };
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`MicroKernel::run`].
pub(crate) unsafe fn run_tile<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize>(
    tile: &mut Tile<'_, R::Word>,
) {
    // SAFETY: the caller has the instructions.
    unsafe { R::run(TileTask::<R, A, MR, NR>(tile, PhantomData)) };
}

/// Estimated nanoseconds of a multiply-add.
pub(crate) fn fused<T>(isa: Isa) -> f64 {
    let per_nanosecond = match isa {
        Isa::Portable => 6.0,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => 18.0,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => 50.0,
    };
    size_of::<T>() as f64 / 4.0 / per_nanosecond
}
