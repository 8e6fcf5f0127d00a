//! The GEMM micro-kernel: computes one MR × NR tile of the result in registers.

use crate::gemm::pack::{PREFETCH_ROWS, prefetch};
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Float, Lanewise, Vector};

/// Arguments of the micro-kernel: `to[r][j] = from[r][j] + Σ a[r][l] · b[l][j] + add[j]` over the depth l.
pub(crate) struct Tile<T> {
    /// The first row of operand A; the terms of a row are contiguous.
    pub(crate) a: *const T,
    /// Row stride of A.
    pub(crate) a_stride: usize,
    /// The first row of operand B; the columns of a row are contiguous.
    pub(crate) b: *const T,
    /// Row stride of B.
    pub(crate) b_stride: usize,
    /// Whether upcoming rows of `b` are prefetched.
    pub(crate) prefetches: bool,
    /// Where whole vectors of the rows of `b` are copied to, row after row; null for nowhere. Then they are
    /// always prefetched.
    pub(crate) keep: *mut T,
    /// Terms of each sum.
    pub(crate) depth: usize,
    /// Initial accumulators; null for zeros.
    pub(crate) from: *const T,
    /// Row stride of `from`.
    pub(crate) from_stride: usize,
    /// A row that is added to every row at the end; null for none.
    pub(crate) add: *const T,
    /// Where the results go; may be `from`.
    pub(crate) to: *mut T,
    /// Row stride of `to`.
    pub(crate) to_stride: usize,
}

/// A register as the micro-kernel sees it: of accumulators, or of operands, which have as many bits but may be
/// several smaller values.
///
/// # Safety
/// An implementation's functions need no instructions but those that `run` compiles for. They are
/// `#[inline(always)]`.
pub(crate) unsafe trait Register: Copy {
    /// An accumulator, or an operand of as many bits.
    type Word: Copy + 'static;
    /// Words of a register.
    const LANES: usize;

    /// Zero in all lanes.
    ///
    /// # Safety
    /// The processor has the instructions that the register needs, as for all functions here.
    unsafe fn zero() -> Self;

    /// The same word in all lanes.
    ///
    /// # Safety
    /// As [`Register::zero`].
    unsafe fn splat(word: Self::Word) -> Self;

    /// Reads words; no alignment is needed.
    ///
    /// # Safety
    /// As [`Register::zero`], and `LANES` words are readable.
    unsafe fn load(from: *const Self::Word) -> Self;

    /// Writes words; no alignment is needed.
    ///
    /// # Safety
    /// As [`Register::zero`], and `LANES` words are writable.
    unsafe fn store(self, to: *mut Self::Word);

    /// The accumulators plus the product of two operands in each lane.
    ///
    /// # Safety
    /// As [`Register::zero`].
    unsafe fn add_product(self, factor: Self, other: Self) -> Self;

    /// The sum of two registers of accumulators.
    ///
    /// # Safety
    /// As [`Register::zero`].
    unsafe fn plus(self, other: Self) -> Self;

    /// Runs a task compiled for the instructions.
    ///
    /// # Safety
    /// As [`Register::zero`].
    unsafe fn run<W: IsaTask>(work: W) -> W::Output;
}

// SAFETY: a vector's functions need no instructions but those of its instruction set.
unsafe impl<V: Vector> Register for V {
    type Word = V::Scalar;
    const LANES: usize = V::LANES;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { V::zero() }
    }

    #[inline(always)]
    unsafe fn splat(word: V::Scalar) -> Self {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { V::splat(word) }
    }

    #[inline(always)]
    unsafe fn load(from: *const V::Scalar) -> Self {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { V::load(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut V::Scalar) {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { Vector::store(self, to) }
    }

    #[inline(always)]
    unsafe fn add_product(self, factor: Self, other: Self) -> Self {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { factor.mul_add(other, self) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { self.lanewise(Lanewise::Add, other) }
    }

    #[inline(always)]
    unsafe fn run<W: IsaTask>(work: W) -> W::Output {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe { V::dispatch(work) }
    }
}

type RunTile<T> = unsafe fn(&Tile<T>);

/// The argument is the number of vectors in a row.
type RunLine<T> = unsafe fn(&Tile<T>, usize);

/// Vectors in a tile's row at most.
const MAX_VECTORS: usize = 3;

/// The micro-kernels of an instruction set.
pub(crate) struct TileKernel<T: 'static> {
    /// Rows of the largest tile (MR).
    pub(crate) rows: usize,
    /// Vectors in its rows (NR is `vectors * lanes`).
    pub(crate) vectors: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// Vectors in a row of the wide tile.
    pub(crate) wide: usize,
    /// By rows and vectors, each minus 1.
    run: &'static [[RunTile<T>; MAX_VECTORS]],
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

impl<T: 'static> Clone for TileKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: 'static> Copy for TileKernel<T> {}

/// The micro-kernels of one vector type.
struct Tiles<V>(V);

impl<V: Register> Tiles<V> {
    /// For processors with 16 registers.
    #[cfg(not(target_arch = "aarch64"))]
    const FOUR: [[RunTile<V::Word>; MAX_VECTORS]; 4] =
        [Self::of_rows::<1>(), Self::of_rows::<2>(), Self::of_rows::<3>(), Self::of_rows::<4>()];

    /// For processors with 32 registers.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const EIGHT: [[RunTile<V::Word>; MAX_VECTORS]; 8] = [
        Self::of_rows::<1>(),
        Self::of_rows::<2>(),
        Self::of_rows::<3>(),
        Self::of_rows::<4>(),
        Self::of_rows::<5>(),
        Self::of_rows::<6>(),
        Self::of_rows::<7>(),
        Self::of_rows::<8>(),
    ];

    const fn of_rows<const ROWS: usize>() -> [RunTile<V::Word>; MAX_VECTORS] {
        [tile::<V, ROWS, 1>, tile::<V, ROWS, 2>, tile::<V, ROWS, 3>]
    }
}

impl<T: Float> TileKernel<T> {
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
    fn of_four<V: Vector<Scalar = T>>(vectors: usize) -> Self {
        let (run, run_wide, run_line) =
            (&Tiles::<V>::FOUR, tile::<V, WIDE_ROWS, 4> as RunTile<T>, line::<V> as RunLine<T>);
        Self { rows: 4, vectors, lanes: <V as Register>::LANES, wide: 4, run, run_wide, run_line }
    }
}

impl<T: 'static> TileKernel<T> {
    /// The micro-kernels of a register type of which there are 32.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) fn of_eight<V: Register<Word = T>>() -> Self {
        let (run, run_wide, run_line) =
            (&Tiles::<V>::EIGHT, tile::<V, WIDE_ROWS, 12> as RunTile<T>, line::<V> as RunLine<T>);
        Self { rows: 8, vectors: 3, lanes: V::LANES, wide: 12, run, run_wide, run_line }
    }

    /// Columns of the largest tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// Computes a tile of `rows` rows and `vectors` vectors: at least 1 and at most those of the largest tile,
    /// or of the wide tile; or one row and up to [`MAX_LINE`] vectors if `keep` is null.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set. `depth` values of each row of `a`, and whole
    /// vectors of each row of `b`, of `to`, and of `from`, `add` and `keep` unless these are null, are valid.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &Tile<T>, rows: usize, vectors: usize) {
        // SAFETY: the kernel requires what this function requires.
        unsafe {
            if vectors <= MAX_VECTORS {
                self.run[rows - 1][vectors - 1](tile);
            } else if rows == 1 {
                (self.run_line)(tile, vectors);
            } else {
                (self.run_wide)(tile);
            }
        }
    }
}

/// A tile of one size.
struct TileTask<'a, V: Register, const ROWS: usize, const VECTORS: usize>(&'a Tile<V::Word>);

impl<V: Register, const ROWS: usize, const VECTORS: usize> IsaTask for TileTask<'_, V, ROWS, VECTORS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Tile { a, a_stride, b, b_stride, prefetches, keep, depth, from, from_stride, add, to, to_stride } =
            *self.0;
        // SAFETY: `tile` is called with memory as `TileKernel::run` describes it, at the vector's
        // instruction set.
        unsafe {
            let mut sums = [[V::zero(); VECTORS]; ROWS];
            if !from.is_null() {
                for (r, row) in sums.iter_mut().enumerate() {
                    for (v, sum) in row.iter_mut().enumerate() {
                        *sum = V::load(from.add(r * from_stride + v * V::LANES));
                    }
                }
            }
            let mut rows = [a; ROWS];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = a.add(r * a_stride);
            }
            let mut b = b;
            if !keep.is_null() {
                let mut keep = keep;
                for l in 0..depth {
                    // Rows are often in different pages, where hardware prefetching does not
                    // follow.
                    prefetch_row::<V, VECTORS>(b, b_stride);
                    let columns = load::<V, VECTORS>(b);
                    for (v, column) in columns.iter().enumerate() {
                        column.store(keep.add(v * V::LANES));
                    }
                    multiply(&rows, l, columns, &mut sums);
                    b = b.wrapping_add(b_stride);
                    keep = keep.add(VECTORS * V::LANES);
                }
            } else if prefetches {
                for l in 0..depth {
                    prefetch_row::<V, VECTORS>(b, b_stride);
                    let columns = load::<V, VECTORS>(b);
                    multiply(&rows, l, columns, &mut sums);
                    b = b.wrapping_add(b_stride);
                }
            } else {
                for l in 0..depth {
                    let columns = load::<V, VECTORS>(b);
                    multiply(&rows, l, columns, &mut sums);
                    b = b.wrapping_add(b_stride);
                }
            }
            if !add.is_null() {
                let added = load::<V, VECTORS>(add);
                for row in &mut sums {
                    for (sum, added) in row.iter_mut().zip(added) {
                        *sum = sum.plus(added);
                    }
                }
            }
            for (r, row) in sums.iter().enumerate() {
                for (v, sum) in row.iter().enumerate() {
                    sum.store(to.add(r * to_stride + v * V::LANES));
                }
            }
        }
    }
}

/// Prefetches the row of vectors [`PREFETCH_ROWS`] rows further on; it need not exist.
#[inline(always)]
pub(crate) fn prefetch_row<V: Register, const VECTORS: usize>(row: *const V::Word, row_stride: usize) {
    let row = row.wrapping_add(PREFETCH_ROWS * row_stride);
    for v in 0..VECTORS {
        prefetch(row.wrapping_add(v * V::LANES));
    }
}

/// Loads a row of vectors.
///
/// # Safety
/// They are readable, and the processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn load<V: Register, const VECTORS: usize>(from: *const V::Word) -> [V; VECTORS] {
    // SAFETY: everything read and written here is valid, as this function requires.
    unsafe {
        let mut vectors = [V::zero(); VECTORS];
        for (v, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(from.add(v * V::LANES));
        }
        vectors
    }
}

/// Adds the products of term `l` of each row and the columns.
///
/// # Safety
/// The term is readable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn multiply<V: Register, const ROWS: usize, const VECTORS: usize>(
    rows: &[*const V::Word; ROWS],
    l: usize,
    columns: [V; VECTORS],
    sums: &mut [[V; VECTORS]; ROWS],
) {
    for (row, sums) in rows.iter().zip(sums) {
        // SAFETY: everything read and written here is valid, as this function requires.
        unsafe {
            let factor = V::splat(row.add(l).read_unaligned());
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = sum.add_product(factor, column);
            }
        }
    }
}

/// One row of any number of vectors, with accumulators in memory.
struct LineTask<'a, V: Register>(&'a Tile<V::Word>, usize);

impl<V: Register> IsaTask for LineTask<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Tile { a, b, b_stride, depth, from, add, to, .. }, vectors) = self;
        let whole = depth - depth % LINE_TERMS;
        // SAFETY: `line` is called with memory as `TileKernel::run` describes it, with the register's instructions.
        unsafe {
            for v in 0..vectors {
                let sum = if from.is_null() { V::zero() } else { V::load(from.add(v * V::LANES)) };
                sum.store(to.add(v * V::LANES));
            }
            for l in (0..whole).step_by(LINE_TERMS) {
                terms::<V, LINE_TERMS>(a.add(l), (b.wrapping_add(l * b_stride), *b_stride), *to, vectors);
            }
            for l in whole..*depth {
                terms::<V, 1>(a.add(l), (b.wrapping_add(l * b_stride), *b_stride), *to, vectors);
            }
            if !add.is_null() {
                for v in 0..vectors {
                    let sum = V::load(to.add(v * V::LANES)).plus(V::load(add.add(v * V::LANES)));
                    sum.store(to.add(v * V::LANES));
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
unsafe fn terms<V: Register, const TERMS: usize>(
    a: *const V::Word,
    (b, row_stride): (*const V::Word, usize),
    to: *mut V::Word,
    vectors: usize,
) {
    // SAFETY: everything read and written here is valid, as this function requires.
    unsafe {
        let mut factors = [V::zero(); TERMS];
        for (term, factor) in factors.iter_mut().enumerate() {
            *factor = V::splat(a.add(term).read_unaligned());
        }
        for v in 0..vectors {
            let to = to.add(v * V::LANES);
            let mut sum = V::load(to);
            for (term, factor) in factors.iter().enumerate() {
                sum = sum.add_product(*factor, V::load(b.wrapping_add(term * row_stride + v * V::LANES)));
            }
            sum.store(to);
        }
    }
}

/// Computes a line.
///
/// # Safety
/// As [`TileKernel::run`].
unsafe fn line<V: Register>(tile: &Tile<V::Word>, vectors: usize) {
    // SAFETY: the processor has the register's instructions. This function requires it.
    unsafe { V::run(LineTask::<V>(tile, vectors)) };
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`TileKernel::run`].
unsafe fn tile<V: Register, const ROWS: usize, const VECTORS: usize>(tile: &Tile<V::Word>) {
    // SAFETY: the processor has the register's instructions. This function requires it.
    unsafe { V::run(TileTask::<V, ROWS, VECTORS>(tile)) };
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
