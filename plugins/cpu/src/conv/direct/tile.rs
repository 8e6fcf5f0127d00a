//! The micro-kernels of direct convolutions. Operand A is the input, one row per output of a tile; operand B
//! is the packed weights, in vectors of output channels.

use crate::gemm::multiply::{RunTiles, unrolls};
use crate::gemm::prefetch::{PREFETCH_ROWS, prefetch};
use crate::gemm::register::Register;
use crate::gemm::tile::{Gathered, Lhs, Tile};
use crate::simd::array;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;

/// Outputs of the largest tile.
pub(crate) const MAX_PIXELS: usize = 7;

/// Vectors of channels in a tile. Two are enough to hide the latency of additions, and few channels fill them.
const VECTORS: usize = 2;

/// Output strides with a micro-kernel for two tiles.
const MAX_STRIDE: usize = 2;

type RunTile<T> = unsafe fn(&mut Tile<'_, T>);

/// The micro-kernel of an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct TileKernel<T> {
    /// Outputs of a tile.
    pub(crate) pixels: usize,
    /// Output channels of a tile.
    pub(crate) width: usize,
    /// Whether it adds several adjacent terms in each iteration.
    pub(crate) is_unrolled: bool,
    run: RunTile<T>,
    /// Two tiles at once, by output stride minus 1; for processors on which loading weights limits one tile.
    two: Option<[RunTile<T>; MAX_STRIDE]>,
}

impl<T: Float> TileKernel<T> {
    /// The micro-kernel of an instruction set for a number of output channels.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "one tile suits all"))]
    pub(crate) fn of(isa: Isa, channels: usize) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => Self::with::<T::Portable, 4, VECTORS>(),
            // NEON has 32 registers.
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => Self::with::<T::Portable, 7, VECTORS>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                let [two, three] = [Self::with::<T::Avx2, 6, VECTORS>(), Self::with::<T::Avx2, 4, 3>()];
                let padded = |kernel: &Self| channels.next_multiple_of(kernel.width);
                if padded(&three) < padded(&two) { three } else { two }
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                let two = [two::<T::Avx512, 1> as RunTile<T>, two::<T::Avx512, 2>];
                Self { two: isa.has_whole_vectors().then_some(two), ..Self::with::<T::Avx512, 7, VECTORS>() }
            }
        }
    }
}

impl<T> TileKernel<T> {
    /// The micro-kernel of a register type.
    pub(crate) fn with<R: Register<Word = T>, const PIXELS: usize, const VECTORS: usize>() -> Self {
        let run = R::run_tile::<Gathered<T, PIXELS>, PIXELS, VECTORS>;
        Self { pixels: PIXELS, width: VECTORS * R::LANES, is_unrolled: unrolls::<R>(PIXELS), run, two: None }
    }

    /// The output stride for [`TileKernel::run_two`]; `None` if no micro-kernel computes two such tiles.
    pub(crate) fn stride(&self, pixels: &[usize; MAX_PIXELS]) -> Option<usize> {
        let (stride, first) = (pixels[1].wrapping_sub(pixels[0]), pixels[0]);
        let have_stride = || pixels.iter().enumerate().all(|(i, pixel)| *pixel == first + i * stride);
        (self.two.is_some() && (1..=MAX_STRIDE).contains(&stride) && have_stride()).then_some(stride)
    }

    /// Computes a tile of [`TileKernel::pixels`] rows.
    ///
    /// # Safety
    /// The processor supports the kernel's instructions, both operands are readable for each channel and tap, and
    /// `to` is writable.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &mut Tile<'_, T>) {
        // SAFETY: the operands are readable for each channel and tap, and the processor has the instructions.
        unsafe { (self.run)(tile) };
    }

    /// Computes two tiles of [`MAX_PIXELS`] rows each, whose outputs have stride `stride` within each tile.
    ///
    /// # Safety
    /// As [`TileKernel::run`] for both tiles, and [`TileKernel::stride`] returned this stride for both.
    #[inline(always)]
    pub(crate) unsafe fn run_two(&self, tile: &mut Tile<'_, T>, stride: usize) {
        if let Some(two) = self.two {
            // SAFETY: both tiles are valid and have this stride, and the processor has the instructions.
            unsafe { two[stride - 1](tile) };
        }
    }
}

/// The inputs of two tiles' outputs. If outputs have a constant stride, two registers hold all addresses.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "other processors read weights fast enough")
)]
struct TwoTiles<T, const STEP: usize>([*const T; 2]);

// SAFETY: a broadcast element is a function of the register.
unsafe impl<R: Register, const STEP: usize> Lhs<R, { 2 * MAX_PIXELS }> for TwoTiles<R::Word, STEP> {
    const TAPS: bool = true;

    #[inline(always)]
    fn of(tile: &Tile<'_, R::Word>) -> Self {
        Self(array::map([0, MAX_PIXELS], |row| tile.a.wrapping_add(tile.rows[row])))
    }

    #[inline(always)]
    unsafe fn get(&self, row: usize, at: usize) -> R {
        let [first, second] = self.0;
        let (first, pixel) = if row < MAX_PIXELS { (first, row) } else { (second, row - MAX_PIXELS) };
        // SAFETY: this function requires the instructions and the input.
        unsafe { R::splat(first.wrapping_add(at).add(pixel * STEP).read_unaligned()) }
    }

    #[inline(always)]
    fn prefetch(&self, at: usize, channel_stride: usize) {
        // Channels are often in different pages, which the hardware prefetcher does not cross.
        for first in self.0 {
            prefetch(first.wrapping_add(at.wrapping_add(PREFETCH_ROWS * channel_stride)));
        }
    }
}

/// Computes two tiles.
///
/// # Safety
/// As [`TileKernel::run_two`].
#[cfg(target_arch = "x86_64")]
unsafe fn two<R: Register, const STEP: usize>(tile: &mut Tile<'_, R::Word>) {
    // SAFETY: this function requires the instructions and both tiles.
    unsafe { R::run_tile::<TwoTiles<R::Word, STEP>, { 2 * MAX_PIXELS }, VECTORS>(tile) };
}
