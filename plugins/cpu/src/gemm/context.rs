//! The micro-kernel that planning chose: its tile sizes and functions, like a context in BLIS.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::kernel::{LONG_VECTORS, LongTiles, MAX_ROWS, MicroKernel, RunLine, RunTile, Tiles};
use crate::gemm::pack::{Pack, Store};
use crate::gemm::tile::{Order, Tile};
use crate::kernel::Refusal;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;

/// Finds the routine for a dtype; the string names the operand in a refusal.
pub(crate) type Find<R> = fn(&str, DataType) -> Result<R, Refusal>;

/// The functions and sizes of a [`MicroKernel`].
#[derive(Clone, Copy)]
pub(crate) struct Context<T: 'static> {
    /// Rows of the largest tile (MR).
    pub(crate) rows: usize,
    /// Vectors in its rows (NR is `vectors * lanes`).
    pub(crate) vectors: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// Vectors in a row of the wide tile.
    pub(crate) wide: usize,
    /// Terms of a sum in one word.
    pub(crate) terms: usize,
    /// K block of sums longer than `max_k_block`.
    pub(crate) k_block: usize,
    pub(crate) max_k_block: usize,
    pub(crate) pack_lhs: Find<Pack<T>>,
    pub(crate) pack_rhs: Find<Pack<T>>,
    pub(crate) store: Find<Store<T>>,
    pub(super) run: Tiles<T>,
    pub(super) long: LongTiles<T>,
    pub(super) run_wide: RunTile<T>,
    pub(super) run_line: RunLine<T>,
}

impl<T: Float> Context<T> {
    /// The micro-kernel of an instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            Isa::Portable => Self::with::<T::Portable>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::with::<T::Avx2>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::with::<T::Avx512>(),
        }
    }
}

impl<T: 'static> Context<T> {
    /// One micro-kernel.
    pub(crate) fn with<K: MicroKernel<Word = T>>() -> Self {
        Self {
            rows: K::MR,
            vectors: K::VECTORS,
            lanes: K::LANES,
            wide: K::WIDE,
            terms: K::TERMS,
            k_block: K::K_BLOCK,
            max_k_block: K::MAX_K_BLOCK,
            pack_lhs: K::pack_lhs,
            pack_rhs: K::pack_rhs,
            store: K::store_as,
            run: K::TILES,
            long: K::LONG,
            run_wide: K::RUN_WIDE,
            run_line: K::RUN_LINE,
        }
    }

    /// Whether tiles are those of the hardware, which have more rows than registers hold and need a
    /// [`Session`](crate::gemm::session::Session).
    pub(crate) fn uses_tiles(&self) -> bool {
        self.rows > MAX_ROWS
    }

    /// Columns of the largest tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// The largest tile for results whose rows have this many vectors: its rows, and vectors in a row.
    pub(crate) fn largest_for(&self, vectors: usize) -> (usize, usize) {
        match vectors.is_multiple_of(LONG_VECTORS) && !self.long.is_empty() {
            true => (self.long.len(), LONG_VECTORS),
            false => (self.rows, self.vectors),
        }
    }

    /// Computes a tile of `rows` rows and `vectors` vectors, at least 1 and at most those of
    /// [`Context::largest_for`]. In [`Order::Rows`] also the wide tile, or one row of up to
    /// [`MAX_LINE`](crate::gemm::kernel::MAX_LINE) vectors if `keep` is null and there is a single tap.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set. The terms of each row of `a`, whole vectors of
    /// each row of `b`, of `to`, and of `from`, the residual and `keep` unless null, and the bias of each row
    /// are valid. If the kernel uses hardware tiles, they are configured on this thread.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &mut Tile<'_, T>, rows: usize, vectors: usize) {
        // SAFETY: this function requires the tile's rows and columns and the micro-kernel's instructions.
        unsafe {
            if vectors <= self.vectors {
                self.run[rows - 1][usize::from(tile.order == Order::Panel)][vectors - 1](tile);
            } else if vectors == LONG_VECTORS && rows <= self.long.len() {
                self.long[rows - 1][usize::from(tile.order == Order::Panel)](tile);
            } else if rows == 1 {
                (self.run_line)(tile, vectors);
            } else {
                (self.run_wide)(tile);
            }
        }
    }
}
