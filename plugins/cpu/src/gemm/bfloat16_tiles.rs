//! Products of `bfloat16` by hardware tiles: the micro-kernel for tiles of 32 × 32 sums.
//!
//! Operands are packed as pairs. What hardware tiles leave, terms beyond a multiple of 32 and the epilogue, the
//! micro-kernel of pairs does on the sums in memory.

use crate::gemm::amx::{self, Product, SIDE, Terms, WORDS};
use crate::gemm::context::Context;
use crate::gemm::kernel::{MAX_ROWS, MicroKernel, RunTile, Tiles};
use crate::gemm::pairs::Bfloat16Pairs;
use crate::gemm::tile::{Order, RegisterEpilogue, Tile};

/// With fewer rows of operand A, reading operand B is the bottleneck.
pub(crate) const LEAST_ROWS: usize = SIDE;

/// Estimated nanoseconds of a multiply-add.
pub(crate) const TIME: f64 = 1.0 / 400.0;

/// The most words multiplied in one pass: a panel of them stays in the L2 cache.
const MAX_K_BLOCK: usize = 4096;

const K_BLOCK: usize = 2048;

/// The tiles of this many rows.
macro_rules! rows {
    ($($rows:literal)*) => {
        &[$([[run::<$rows, 1>, run::<$rows, 2>, run::<$rows, 2>]; 2]),*]
    };
}

const TILES: Tiles<f32> =
    rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

impl Context<f32> {
    /// The micro-kernel. Its tiles need a [`Session`](crate::gemm::session::Session), and are read in [`Order::Rows`].
    pub(crate) fn of_bfloat16_tiles() -> Self {
        Self {
            rows: TILES.len(),
            vectors: 2,
            k_block: K_BLOCK,
            max_k_block: MAX_K_BLOCK,
            run: TILES,
            ..Self::with::<Bfloat16Pairs>()
        }
    }
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`Context::run`], with tiles configured on this thread.
unsafe fn run<const ROWS: usize, const VECTORS: usize>(tile: &mut Tile<'_, f32>) {
    // SAFETY: this function requires the tile and the configuration.
    unsafe { run_tile(tile, ROWS, VECTORS) };
}

/// # Safety
/// As [`run`].
unsafe fn run_tile(tile: &Tile<'_, f32>, rows: usize, vectors: usize) {
    debug_assert!(tile.order == Order::Rows && tile.taps == [0] && tile.keep.is_null());
    let whole = if rows < SIDE { 0 } else { tile.depth - tile.depth % WORDS };
    if whole > 0 {
        // SAFETY: the tile has these rows, vectors and terms, and tiles are configured.
        unsafe { multiply(tile, rows, vectors, whole) };
    }
    if whole < tile.depth || !tile.epilogue.is_none() {
        // SAFETY: the tile has these rows, and its sums of the first terms are there.
        unsafe { finish(tile, rows, vectors, whole) };
    }
}

/// Computes a tile over taps: rows of operand A have `depth` words, a multiple of 16, for each tap in turn. Operand A
/// and the result have rows up to a multiple of 16.
///
/// # Safety
/// As [`Context::run`], with tiles configured on this thread.
pub(crate) unsafe fn run_padded(tile: &Tile<'_, f32>, rows: usize, vectors: usize) {
    // SAFETY: the tile has these rows, vectors and terms, and tiles are configured.
    unsafe {
        multiply(tile, rows.next_multiple_of(SIDE), vectors, tile.depth);
        if !tile.epilogue.is_none() {
            finish(tile, rows, vectors, tile.depth);
        }
    }
}

/// Multiplies the first words of each tap, at least 16 rows.
///
/// # Safety
/// As [`run`].
unsafe fn multiply(tile: &Tile<'_, f32>, rows: usize, vectors: usize, words: usize) {
    // The second 16 rows end with the last one; rows that are computed twice have the same sums.
    let second = rows - SIDE;
    let row = |first: *const f32, stride: usize| first.wrapping_add(second * stride).cast::<u8>();
    let bytes = |stride: usize| size_of::<f32>() * stride;
    let has_sums = !tile.from.is_null();
    let taps = tile.taps.as_ptr_range();
    let product = Product {
        a: tile.a.cast(),
        second_a: row(tile.a, tile.a_stride),
        a_stride: bytes(tile.a_stride),
        b: tile.b.cast(),
        b_stride: bytes(tile.b_stride),
        words,
        taps: taps.start,
        taps_end: taps.end,
        from: tile.from.cast(),
        second_from: if has_sums { row(tile.from, tile.from_stride) } else { std::ptr::null() },
        from_stride: bytes(tile.from_stride),
        to: tile.to.cast(),
        second_to: row(tile.to, tile.to_stride).cast_mut(),
        to_stride: bytes(tile.to_stride),
    };
    // SAFETY: the tile has these rows, vectors and terms, and tiles are configured.
    unsafe { amx::run(&product, Terms::Bfloat16, [second > 0, vectors > 1]) };
}

/// The kernels of pairs, by rows minus 1 and by vectors minus 1.
const OF_PAIRS: Tiles<f32> = <Bfloat16Pairs as MicroKernel>::TILES;

/// Adds the terms from `done` words on, and applies the epilogue.
///
/// # Safety
/// As [`run`]; if `done` is not 0, the sums of the terms before are stored.
unsafe fn finish(tile: &Tile<'_, f32>, rows: usize, vectors: usize, done: usize) {
    for first in (0..rows).step_by(MAX_ROWS) {
        let to = tile.to.wrapping_add(first * tile.to_stride);
        let (from, from_stride) = match tile.from {
            _ if done > 0 => (to.cast_const(), tile.to_stride),
            from if from.is_null() => (from, 0),
            from => (from.wrapping_add(first * tile.from_stride), tile.from_stride),
        };
        let RegisterEpilogue { bias, bias_stride, residual, residual_stride, .. } = tile.epilogue;
        let of_row = |first: *const f32, offset: usize| {
            if first.is_null() { first } else { first.wrapping_add(offset) }
        };
        let mut rest = Tile {
            a: tile.a.wrapping_add(first * tile.a_stride + done),
            a_stride: tile.a_stride,
            b: tile.b.wrapping_add(done * tile.b_stride),
            b_stride: tile.b_stride,
            depth: tile.depth - done,
            from,
            from_stride,
            epilogue: RegisterEpilogue {
                bias: of_row(bias, first * bias_stride),
                residual: of_row(residual, first * residual_stride),
                ..tile.epilogue
            },
            to,
            to_stride: tile.to_stride,
            ..Tile::EMPTY
        };
        let run: RunTile<f32> = OF_PAIRS[(rows - first).min(MAX_ROWS) - 1][0][vectors - 1];
        // SAFETY: the tile has these rows, vectors and terms, and the processor pairs, as those with tiles do.
        unsafe { run(&mut rest) };
    }
}
