//! The micro-kernel: what an instruction set contributes to a GEMM, as in BLIS.
//!
//! It computes one MR × NR tile of the result in registers, and packs both operands in the order in which it
//! reads them. All GEMMs use it (matrices, convolutions, attention, mixtures of experts) except
//! `conv::direct_small::tile`. They differ in how rows of operand A ([`Lhs`]) and of operand B
//! ([`Tile::taps`]) are addressed, in the initial accumulators, and in the epilogue on the tile in registers.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::im2col::Strip;
use crate::gemm::multiply::RunTiles;
use crate::gemm::pack::{Pack, Store, pack_of, store_of};
use crate::gemm::register::Register;
use crate::gemm::tile::{Lhs, Panel, Rows, Tile};
use crate::kernel::Refusal;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector};

/// Computes a tile of one size.
pub(crate) type RunTile<T> = unsafe fn(&mut Tile<'_, T>);

/// Computes one row; the argument is the number of vectors.
pub(crate) type RunLine<T> = unsafe fn(&Tile<'_, T>, usize);

/// By rows minus 1, by [`Order`](crate::gemm::tile::Order), and by vectors minus 1.
pub(crate) type Tiles<T> = &'static [[[RunTile<T>; MAX_VECTORS]; 2]];

/// The most vectors in a tile's row.
pub(crate) const MAX_VECTORS: usize = 3;

/// The most rows of a tile.
pub(crate) const MAX_ROWS: usize = 8;

/// Rows of the wide tile. With so few rows, reading operand B is the bottleneck, and is faster in longer runs.
pub(crate) const WIDE_ROWS: usize = 2;

/// Vectors in a row of the long tile, which has at most [`LONG_ROWS`] rows: as many accumulators as the
/// largest tile, for rows of 4, 8 or 12 vectors, which are whole long tiles.
pub(crate) const LONG_VECTORS: usize = 4;

const LONG_ROWS: usize = 6;

/// By rows minus 1, and by [`Order`](crate::gemm::tile::Order).
pub(crate) type LongTiles<T> = &'static [[RunTile<T>; 2]];

/// Vectors of the longest line, a tile of one row. Its accumulators stay in the L1 cache.
pub(crate) const MAX_LINE: usize = 256;

/// The micro-kernel of a register type: one of vectors per instruction set, and those of pairs of 16 bits.
///
/// # Safety
/// As [`Register`]: tiles and packing routines need no other instructions than those that its `run` compiles
/// for.
pub(crate) unsafe trait MicroKernel: Register {
    /// Rows of the largest tile.
    const MR: usize;
    /// Vectors in its rows: NR is `VECTORS * LANES`.
    const VECTORS: usize;
    /// Vectors in a row of the wide tile, which has [`WIDE_ROWS`] rows.
    const WIDE: usize;
    /// Terms of a sum in one word.
    const TERMS: usize = 1;
    /// The most words multiplied in one pass (K block): a panel of them stays in the L2 cache.
    const MAX_K_BLOCK: usize = 1536;
    /// K block of longer sums.
    const K_BLOCK: usize = 1024;

    /// The tiles of each size.
    const TILES: Tiles<Self::Word>;
    /// The long tiles; empty with 16 registers.
    const LONG: LongTiles<Self::Word> = &[];
    /// The wide tile.
    const RUN_WIDE: RunTile<Self::Word>;
    /// One row of up to [`MAX_LINE`] vectors.
    const RUN_LINE: RunLine<Self::Word> = Self::run_line;

    /// The routine that packs operand A, called `name` in a refusal. The copy has the operand's rows.
    fn pack_lhs(name: &str, data_type: DataType) -> Result<Pack<Self::Word>, Refusal>;

    /// The routine that packs operand B. Rows of the copy are words of terms.
    fn pack_rhs(name: &str, data_type: DataType) -> Result<Pack<Self::Word>, Refusal>;

    /// The routine that stores accumulators.
    fn store_as(name: &str, data_type: DataType) -> Result<Store<Self::Word>, Refusal>;

    /// Packs operand B from rows of an image: a strip of columns from each channel.
    ///
    /// # Safety
    /// As [`Strip::pack`].
    #[inline(always)]
    unsafe fn pack_im2col(strip: &Strip<Self::Word>)
    where
        Self: Vector<Scalar = Self::Word>,
        Self::Word: Float,
    {
        // SAFETY: this function requires the instructions and the strip.
        unsafe { strip.pack::<Self>() };
    }
}

/// Tiles of `MR` rows.
const fn of_rows<R: MicroKernel, const MR: usize>() -> [[RunTile<R::Word>; MAX_VECTORS]; 2] {
    [of_order::<R, Rows<R::Word, MR>, MR>(), of_order::<R, Panel<R::Word>, MR>()]
}

const fn of_order<R: MicroKernel, A: Lhs<R, MR>, const MR: usize>() -> [RunTile<R::Word>; MAX_VECTORS] {
    let two: RunTile<R::Word> = R::run_tile::<A, MR, 2>;
    // No tile has more vectors than the largest.
    [R::run_tile::<A, MR, 1>, two, if R::VECTORS < MAX_VECTORS { two } else { R::run_tile::<A, MR, 3> }]
}

/// Tiles of `MR` rows of [`LONG_VECTORS`] vectors.
const fn long<R: Register, const MR: usize>() -> [RunTile<R::Word>; 2] {
    [R::run_tile::<Rows<R::Word, MR>, MR, LONG_VECTORS>, R::run_tile::<Panel<R::Word>, MR, LONG_VECTORS>]
}

/// The tiles for 16 and for 32 registers.
pub(crate) struct TileTable<R>(R);

impl<R: MicroKernel> TileTable<R> {
    pub(crate) const FOUR: Tiles<R::Word> =
        &[of_rows::<R, 1>(), of_rows::<R, 2>(), of_rows::<R, 3>(), of_rows::<R, 4>()];
    const LONG: LongTiles<R::Word> = &[
        long::<R, 1>(),
        long::<R, 2>(),
        long::<R, 3>(),
        long::<R, 4>(),
        long::<R, 5>(),
        long::<R, LONG_ROWS>(),
    ];
    pub(crate) const EIGHT: Tiles<R::Word> = &[
        of_rows::<R, 1>(),
        of_rows::<R, 2>(),
        of_rows::<R, 3>(),
        of_rows::<R, 4>(),
        of_rows::<R, 5>(),
        of_rows::<R, 6>(),
        of_rows::<R, 7>(),
        of_rows::<R, 8>(),
    ];
}

/// Whether tiles fill 32 registers: in single precision. Double precision has the tiles for 16.
const fn is_large<V: Vector>() -> bool {
    has_32_registers(V::ISA) && size_of::<V::Scalar>() == size_of::<f32>()
}

/// Whether there are 32 registers: AVX-512 and NEON.
const fn has_32_registers(isa: Isa) -> bool {
    match isa {
        Isa::Portable => cfg!(target_arch = "aarch64"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => false,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => true,
    }
}

// SAFETY: tiles and routines only use the vector's functions.
unsafe impl<V: Vector> MicroKernel for V {
    const MR: usize = if is_large::<V>() { MAX_ROWS } else { 4 };
    // Portable vectors compile to more than one register each.
    const VECTORS: usize = match V::ISA {
        Isa::Portable if !has_32_registers(V::ISA) => 2,
        _ => MAX_VECTORS,
    };
    const WIDE: usize = if is_large::<V>() { 12 } else { 4 };
    const TILES: Tiles<V::Scalar> =
        if is_large::<V>() { TileTable::<V>::EIGHT } else { TileTable::<V>::FOUR };
    const LONG: LongTiles<V::Scalar> = if is_large::<V>() { TileTable::<V>::LONG } else { &[] };
    const RUN_WIDE: RunTile<V::Scalar> = if is_large::<V>() {
        V::run_tile::<Rows<V::Scalar, WIDE_ROWS>, WIDE_ROWS, 12>
    } else {
        V::run_tile::<Rows<V::Scalar, WIDE_ROWS>, WIDE_ROWS, 4>
    };

    fn pack_lhs(name: &str, data_type: DataType) -> Result<Pack<V::Scalar>, Refusal> {
        pack_of(name, data_type)
    }

    fn pack_rhs(name: &str, data_type: DataType) -> Result<Pack<V::Scalar>, Refusal> {
        pack_of(name, data_type)
    }

    fn store_as(name: &str, data_type: DataType) -> Result<Store<V::Scalar>, Refusal> {
        store_of(name, data_type)
    }
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
