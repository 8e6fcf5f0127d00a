//! The inner loop of the products: a tile of the result, which stays in registers.

use crate::gemm::pack::{PREFETCH_ROWS, prefetch};
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Float, Lanewise, Vector};

/// What a tile is computed from: `to[r][j] = from[r][j] + Σ a[r][l] · b[l][j] + add[j]` over the depth.
pub(crate) struct Tile<T> {
    /// The first row of the operand A, whose terms lie side by side.
    pub(crate) a: *const T,
    /// Distance of its rows.
    pub(crate) a_stride: usize,
    /// The first row of the operand B, whose columns lie side by side.
    pub(crate) b: *const T,
    /// Distance of its rows.
    pub(crate) b_stride: usize,
    /// Whether rows of `b` are prefetched some time before they are read.
    pub(crate) prefetches: bool,
    /// Where whole vectors of the rows of `b` are copied to, one row after the other; null for nowhere. Then
    /// they are always prefetched.
    pub(crate) keep: *mut T,
    /// Terms of each sum.
    pub(crate) depth: usize,
    /// Sums to go on from; null to begin with zeros.
    pub(crate) from: *const T,
    /// Distance of rows in `from`.
    pub(crate) from_stride: usize,
    /// A row that is added to every row of the sums at last; null for none.
    pub(crate) add: *const T,
    /// Where the sums go; may be `from`.
    pub(crate) to: *mut T,
    /// Distance of rows in `to`.
    pub(crate) to_stride: usize,
}

/// A register as a tile sees it: of sums, and of what is multiplied, which is as wide as a sum but may be several smaller factors.
///
/// # Safety
/// An implementation's functions need no instructions but those that `run` compiles for. They are `#[inline(always)]`.
pub(crate) unsafe trait Register: Copy {
    /// A sum, or what is multiplied.
    type Word: Copy + 'static;
    /// How many of them there are.
    const LANES: usize;

    /// All lanes 0.
    ///
    /// # Safety
    /// The processor has the instructions that the register needs, as for all functions here.
    unsafe fn zero() -> Self;

    /// All lanes the same word.
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

    /// Sums, and a product in each lane.
    ///
    /// # Safety
    /// As [`Register::zero`].
    unsafe fn add_product(self, factor: Self, other: Self) -> Self;

    /// Sums of sums.
    ///
    /// # Safety
    /// As [`Register::zero`].
    unsafe fn plus(self, other: Self) -> Self;

    /// Runs work that is compiled for the instructions.
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

/// The number is that of the vectors in a row.
type RunLine<T> = unsafe fn(&Tile<T>, usize);

/// Vectors in a tile's row at most.
const MAX_VECTORS: usize = 3;

/// The micro-kernels of an instruction set.
pub(crate) struct TileKernel<T: 'static> {
    /// Rows of the largest tile.
    pub(crate) rows: usize,
    /// Vectors in its rows.
    pub(crate) vectors: usize,
    /// Numbers in a vector.
    pub(crate) lanes: usize,
    /// Vectors in a row of the wide tile.
    pub(crate) wide: usize,
    /// By rows and vectors, each less one.
    run: &'static [[RunTile<T>; MAX_VECTORS]],
    run_wide: RunTile<T>,
    run_line: RunLine<T>,
}

/// Rows of the wide tile. With as few rows, reading the operand B takes all the time, and is faster the more of it
/// lies side by side.
pub(crate) const WIDE_ROWS: usize = 2;

/// Vectors of the longest line, a tile of one row. Its sums stay in the L1 cache.
pub(crate) const MAX_LINE: usize = 256;

/// Terms that are added to a line's sums together: as many rows of the operand B are read at once, each from its
/// beginning to its end.
const LINE_TERMS: usize = 8;

impl<T: 'static> Clone for TileKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: 'static> Copy for TileKernel<T> {}

/// The tiles of one vector.
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
    /// The tiles of a register of which there are 32.
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

    /// Computes a tile of `rows` rows and `vectors` vectors, each at least 1 and at most those of the largest
    /// tile, or of as many as the wide tile has; or of one row and up to [`MAX_LINE`] vectors, where nothing is
    /// kept.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set. `depth` numbers of each row of `a` and whole
    /// vectors of each row of `b`, of `from`, `add` and `keep` unless they are null, and of `to` are there.
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

/// One size of tile.
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
                    // The rows are often a page apart, which no processor foresees.
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

/// Asks for the row of vectors that is [`PREFETCH_ROWS`] rows behind this one, whether it is there or not.
#[inline(always)]
pub(crate) fn prefetch_row<V: Register, const VECTORS: usize>(row: *const V::Word, row_stride: usize) {
    let row = row.wrapping_add(PREFETCH_ROWS * row_stride);
    for v in 0..VECTORS {
        prefetch(row.wrapping_add(v * V::LANES));
    }
}

/// A row of vectors.
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

/// Adds term `l` of each row times the columns.
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

/// One row of any number of vectors, whose sums are in memory.
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

/// Adds some terms to the sums of a line.
///
/// # Safety
/// The terms, as many rows of vectors and the sums are there, and the processor has the register's instructions.
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

/// Computes one size of tile.
///
/// # Safety
/// As [`TileKernel::run`].
unsafe fn tile<V: Register, const ROWS: usize, const VECTORS: usize>(tile: &Tile<V::Word>) {
    // SAFETY: the processor has the register's instructions. This function requires it.
    unsafe { V::run(TileTask::<V, ROWS, VECTORS>(tile)) };
}

/// Nanoseconds of a multiplication and addition, roughly.
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
