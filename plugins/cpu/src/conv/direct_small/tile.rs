//! The micro-kernel: some outputs, or weights, times several output channels. A channel block is half a
//! vector if the instruction set has half vectors, else a vector.
//!
//! [`crate::gemm::kernel`] has neither half vectors nor nine rows, its operand B has all terms in order, and
//! its rows of results have one stride. Here each term is an offset in operand A and a row of operand B, so
//! that taps in the padding are skipped, and rows of results lie anywhere.

use crate::conv::cost::Cost;
use crate::gemm::context::Find;
use crate::gemm::kernel::MicroKernel;
use crate::gemm::multiply::multiply_row;
use crate::gemm::pack::{Pack, Store};
use crate::gemm::prefetch::prefetch;
use crate::gemm::tile::{Gathered, Lhs, Tile};
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Float, Lanewise, Vector};

/// Arguments of the micro-kernel: `tile[tile_offsets[r] + v] = Σ from[rows[r] + terms[j]] · rhs[rhs_rows[j]][v]` over
/// the terms j.
pub(crate) struct AccumulatorTile<'a, T> {
    /// For each row of the tile the offset of its first input.
    pub(crate) rows: &'a [usize],
    /// For each term the offset from that.
    pub(crate) terms: &'a [usize],
    /// The origin of these offsets, which need not be inside the input itself.
    pub(crate) from: *const T,
    /// Operand B: rows of channel blocks.
    pub(crate) rhs: *const T,
    /// For each term the row of B.
    pub(crate) rhs_rows: &'a [usize],
    /// The results.
    pub(crate) tile: *mut T,
    /// For each row its offset in `tile`.
    pub(crate) tile_offsets: &'a [usize],
    /// Whether results are added to the tile.
    pub(crate) add: bool,
}

type RunTile<T> = unsafe fn(&AccumulatorTile<'_, T>);

/// Rows of the highest tile of any width.
#[cfg(target_arch = "x86_64")]
const ROWS: usize = 8;

/// Rows of the highest tile: the taps of a 3 × 3 filter.
pub(crate) const MAX_ROWS: usize = 9;

/// The micro-kernel of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct AccumulatorTileKernel<T: 'static> {
    /// Its rows.
    pub(crate) rows: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// Elements of a channel block: half a vector, or a vector if registers are few.
    pub(crate) channel_block: usize,
    /// The packing of operand B and the storing of results, both from the GEMM.
    pub(crate) pack_rhs: Find<Pack<T>>,
    pub(crate) store: Find<Store<T>>,
    /// By the number of channel blocks in a row.
    run: &'static [RunTile<T>],
    /// Kernels with [`MAX_ROWS`] rows, for few channel blocks.
    tall: &'static [RunTile<T>],
}

/// The micro-kernels of one vector type.
struct Tiles<V, const ROWS: usize>(V);

impl<V: Vector, const ROWS: usize> Tiles<V, ROWS> {
    const WHOLE: [RunTile<V::Scalar>; 3] =
        [run_tile::<V, ROWS, 1, false>, run_tile::<V, ROWS, 2, false>, run_tile::<V, ROWS, 3, false>];
    #[cfg(target_arch = "x86_64")]
    const HALVES: [RunTile<V::Scalar>; 6] = [
        run_tile::<V, ROWS, 0, true>,
        run_tile::<V, ROWS, 1, false>,
        run_tile::<V, ROWS, 1, true>,
        run_tile::<V, ROWS, 2, false>,
        run_tile::<V, ROWS, 2, true>,
        run_tile::<V, ROWS, 3, false>,
    ];
    #[cfg(target_arch = "x86_64")]
    const NARROW: [RunTile<V::Scalar>; 3] =
        [run_tile::<V, ROWS, 0, true>, run_tile::<V, ROWS, 1, false>, run_tile::<V, ROWS, 1, true>];
}

impl<T: Float> AccumulatorTileKernel<T> {
    /// The micro-kernel of an instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => Self::with::<T::Portable, 4>(),
            // NEON has 32 registers.
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => Self::with::<T::Portable, 8>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::with::<T::Avx2, 4>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::with_halves::<T::Avx512>(),
        }
    }

    fn with<V: Vector<Scalar = T>, const ROWS: usize>() -> Self {
        Self {
            rows: ROWS,
            lanes: V::LANES,
            channel_block: V::LANES,
            pack_rhs: V::pack_rhs,
            store: V::store_as,
            run: &Tiles::<V, ROWS>::WHOLE,
            tall: &[],
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn with_halves<V: Vector<Scalar = T>>() -> Self {
        Self {
            rows: ROWS,
            lanes: V::LANES,
            channel_block: <V::Half as Vector>::LANES,
            pack_rhs: V::pack_rhs,
            store: V::store_as,
            run: &Tiles::<V, ROWS>::HALVES,
            tall: &Tiles::<V, MAX_ROWS>::NARROW,
        }
    }

    /// The tile height that covers the rows with the fewest tiles: [`AccumulatorTileKernel::rows`] or one
    /// more.
    pub(crate) fn height(&self, rows: usize, channel_blocks: usize) -> usize {
        let is_tall = channel_blocks <= self.tall.len() && rows.div_ceil(MAX_ROWS) < rows.div_ceil(self.rows);
        if is_tall { MAX_ROWS } else { self.rows }
    }

    /// Channel blocks in the widest row.
    pub(crate) fn most(&self) -> usize {
        self.run.len()
    }

    /// Computes a tile of `height` rows ([`AccumulatorTileKernel::height`] or [`AccumulatorTileKernel::rows`])
    /// and `channel_blocks` channel blocks.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set. The inputs of every row and term, and a row of
    /// channel blocks for each term, are readable; the rows of `tile` are readable and writable.
    pub(crate) unsafe fn run(&self, tile: &AccumulatorTile<'_, T>, (height, channel_blocks): (usize, usize)) {
        assert!(tile.rows.len() >= height && tile.tile_offsets.len() >= height);
        let run = if height == self.rows { self.run } else { self.tall };
        // SAFETY: inputs and rows of B are readable for each term, and the tile has `height` rows.
        unsafe { run[channel_blocks - 1](tile) };
    }
}

/// A tile whose rows are some vectors and, with `HALF`, half a vector.
struct AccumulatorTileTask<'a, 'b, V: Vector, const ROWS: usize, const VECTORS: usize, const HALF: bool>(
    &'a AccumulatorTile<'b, V::Scalar>,
);

impl<V: Vector, const ROWS: usize, const VECTORS: usize, const HALF: bool> IsaTask
    for AccumulatorTileTask<'_, '_, V, ROWS, VECTORS, HALF>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let AccumulatorTile { rows, terms, from, rhs, rhs_rows, tile, tile_offsets: to, add } = *self.0;
        let width = VECTORS * V::LANES + if HALF { <V::Half as Vector>::LANES } else { 0 };
        // SAFETY: `run_tile` is called at the vector's instruction set, with the inputs of all rows.
        let (inputs, zero, zero_half) = unsafe {
            let inputs = <Gathered<_, ROWS> as Lhs<V, ROWS>>::of(&Tile { a: from, rows, ..Tile::EMPTY });
            (inputs, V::zero(), V::Half::zero())
        };
        if add {
            for row in &to[..ROWS] {
                (0..VECTORS).for_each(|vector| prefetch(tile.wrapping_add(row + vector * V::LANES)));
            }
        }
        let mut accumulators = [[zero; VECTORS]; ROWS];
        let mut halves = [[zero_half]; ROWS];
        for (term, row) in terms.iter().zip(rhs_rows) {
            let rhs = rhs.wrapping_add(row * width);
            let (mut columns, mut half) = ([zero; VECTORS], zero_half);
            // SAFETY: a row of operand B has all vectors, and the half one; every row of inputs has the term.
            unsafe {
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = V::load(rhs.add(v * V::LANES));
                }
                if HALF {
                    half = <V::Half as Vector>::load(rhs.add(VECTORS * V::LANES));
                }
                // Row by row, so that an input is in a register only while its row is multiplied.
                for (r, (row, row_end)) in accumulators.iter_mut().zip(&mut halves).enumerate() {
                    multiply_row::<V, VECTORS>(Lhs::<V, ROWS>::get(&inputs, r, *term), columns, row);
                    if HALF {
                        let input = Lhs::<V::Half, ROWS>::get(&inputs, r, *term);
                        multiply_row::<V::Half, 1>(input, [half], row_end);
                    }
                }
            }
        }
        for ((row, [behind]), to) in accumulators.iter().zip(halves).zip(to) {
            // SAFETY: the tile has the row, of all vectors and the half one.
            unsafe {
                for (v, accumulator) in row.iter().enumerate() {
                    let tile = tile.add(to + v * V::LANES);
                    let accumulator =
                        if add { accumulator.lanewise(Lanewise::Add, V::load(tile)) } else { *accumulator };
                    accumulator.store(tile);
                }
                if HALF {
                    let tile = tile.add(to + VECTORS * V::LANES);
                    let accumulator =
                        if add { behind.lanewise(Lanewise::Add, V::Half::load(tile)) } else { behind };
                    accumulator.store(tile);
                }
            }
        }
    }
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`AccumulatorTileKernel::run`].
unsafe fn run_tile<V: Vector, const ROWS: usize, const VECTORS: usize, const HALF: bool>(
    tile: &AccumulatorTile<'_, V::Scalar>,
) {
    // SAFETY: the processor has the vector's instructions. This function requires it.
    unsafe { V::dispatch(AccumulatorTileTask::<V, ROWS, VECTORS, HALF>(tile)) };
}

/// Nanoseconds per element copied in rows of `row`, including the overhead of a row.
pub(crate) fn copied(cost: &Cost, row: usize) -> f64 {
    cost.copy * (0.5 + 2.0 / row.max(1) as f64)
}

/// Channel blocks per panel, and panels, for this many channels.
pub(crate) fn panels<T: Float>(channels: usize, kernel: &AccumulatorTileKernel<T>) -> (usize, usize) {
    let channel_blocks = channels.div_ceil(kernel.channel_block);
    let panels = channel_blocks.div_ceil(kernel.most());
    (channel_blocks.div_ceil(panels), panels)
}
