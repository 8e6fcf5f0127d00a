//! The micro-kernel: a tile of a few outputs times vectors of output channels.

use crate::conv::implicit_gemm::tile::WEIGHTS_AHEAD;
use crate::conv::prefetch::TilePrefetch;
use crate::gemm::pack::{PREFETCH_ROWS, prefetch};
use crate::gemm::tile::Register;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::Float;

/// Outputs of the largest tile.
pub(crate) const MAX_PIXELS: usize = 7;

/// Arguments of the micro-kernel: `to[p][j] = Σ a[c][t][j] · b[taps[t] + c · channel_stride + pixels[p]]` over
/// channels c and taps t.
pub(crate) struct Tile<'a, T> {
    /// Packed weights: for each channel and tap [`TileKernel::width`] values, from the first tap on.
    pub(crate) a: *const T,
    /// Taps in `a` that are skipped after those of each channel.
    pub(crate) left_out: usize,
    /// The input.
    pub(crate) b: *const T,
    /// Offset of each tap in `b`.
    pub(crate) taps: &'a [usize],
    /// Number of input channels.
    pub(crate) channels: usize,
    /// Stride of channels in `b`.
    pub(crate) channel_stride: usize,
    /// Offset of each output in `b`.
    pub(crate) pixels: &'a [usize; MAX_PIXELS],
    /// What is prefetched meanwhile.
    pub(crate) tile_prefetch: TilePrefetch,
    /// Where accumulators go: [`TileKernel::pixels`] rows of [`TileKernel::width`] values.
    pub(crate) to: *mut T,
}

type RunTile<T> = unsafe fn(&mut Tile<'_, T>);

/// The argument is the offset of the second tile's outputs from the first one's.
type RunTwo<T> = unsafe fn(&mut Tile<'_, T>, usize);

/// Output strides with a micro-kernel for two tiles.
const MAX_STEP: usize = 2;

/// The micro-kernel of an instruction set.
pub(crate) struct TileKernel<T> {
    /// Outputs of a tile.
    pub(crate) pixels: usize,
    /// Output channels of a tile.
    pub(crate) width: usize,
    run: RunTile<T>,
    /// Two tiles at once, by output stride minus 1; for processors where loading weights for a single tile is
    /// the bottleneck.
    two: Option<[RunTwo<T>; MAX_STEP]>,
}

impl<T> Clone for TileKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TileKernel<T> {}

impl<T: Float> TileKernel<T> {
    /// The micro-kernel of an instruction set. Two vectors of channels are enough to hide the latency of an
    /// addition, and small channel counts fill them.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Portable => Self::with::<T::Portable, 4>(),
            // NEON has 32 registers.
            #[cfg(target_arch = "aarch64")]
            Isa::Portable => Self::with::<T::Portable, 7>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::with::<T::Avx2, 6>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                let two = [two::<T::Avx512, 1> as RunTwo<T>, two::<T::Avx512, 2>];
                Self { two: isa.has_whole_vectors().then_some(two), ..Self::with::<T::Avx512, 7>() }
            }
        }
    }
}

impl<T> TileKernel<T> {
    /// The micro-kernel of a register type.
    pub(crate) fn with<R: Register<Word = T>, const PIXELS: usize>() -> Self {
        Self { pixels: PIXELS, width: VECTORS * R::LANES, run: tile::<R, PIXELS>, two: None }
    }

    /// The output stride that [`TileKernel::run_two`] takes; `None` if there is no micro-kernel for two such
    /// tiles.
    pub(crate) fn step(&self, pixels: &[usize; MAX_PIXELS]) -> Option<usize> {
        let (step, first) = (pixels[1].wrapping_sub(pixels[0]), pixels[0]);
        let are_apart = || pixels.iter().enumerate().all(|(i, place)| *place == first + i * step);
        (self.two.is_some() && (1..=MAX_STEP).contains(&step) && are_apart()).then_some(step)
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// The processor supports the kernel's instructions, `a` and `b` are readable wherever the formula reads
    /// them, and `to` is writable.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &mut Tile<'_, T>) {
        // SAFETY: the kernel requires what this function requires.
        unsafe { (self.run)(tile) };
    }

    /// Computes a tile and the next one, whose outputs are `second` elements after the first one's; outputs of
    /// each have stride `step`. Accumulators of the second tile follow those of the first.
    ///
    /// # Safety
    /// As [`TileKernel::run`] for both tiles, and [`TileKernel::step`] returned this stride.
    #[inline(always)]
    pub(crate) unsafe fn run_two(&self, tile: &mut Tile<'_, T>, step: usize, second: usize) {
        if let Some(two) = self.two {
            // SAFETY: the kernel requires what this function requires.
            unsafe { two[step - 1](tile, second) };
        }
    }
}

/// Vectors of channels in a tile.
const VECTORS: usize = 2;

/// A tile of one size.
struct TileTask<'a, 'b, R: Register, const PIXELS: usize>(&'a mut Tile<'b, R::Word>);

impl<R: Register, const PIXELS: usize> IsaTask for TileTask<'_, '_, R, PIXELS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The prefetch state is updated in place; a copy would have to wait for it.
        let Self(tile) = self;
        let Tile { mut a, left_out, mut b, taps, channels, channel_stride, pixels, to, .. } = *tile;
        let mut places = [0; PIXELS];
        places.copy_from_slice(&pixels[..PIXELS]);
        // SAFETY: `tile` is called with memory as `TileKernel::run` describes it, with the register's instructions.
        unsafe {
            let mut sums = [[R::zero(); VECTORS]; PIXELS];
            let mut left = channels;
            while left > 0 {
                let run = tile.tile_prefetch.until(left);
                left -= run;
                for _ in 0..run {
                    for tap in taps {
                        let b = b.add(*tap);
                        let mut weights = [R::zero(); VECTORS];
                        for (v, weights) in weights.iter_mut().enumerate() {
                            *weights = R::load(a.add(v * R::LANES));
                        }
                        for (sums, place) in sums.iter_mut().zip(places) {
                            let number = R::splat(b.add(place).read_unaligned());
                            for (sum, weights) in sums.iter_mut().zip(weights) {
                                *sum = sum.add_product(weights, number);
                            }
                        }
                        a = a.add(VECTORS * R::LANES);
                    }
                    a = a.wrapping_add(left_out * VECTORS * R::LANES);
                    b = b.wrapping_add(channel_stride);
                }
                tile.tile_prefetch.prefetch();
            }
            for (p, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    sum.store(to.add((p * VECTORS + v) * R::LANES));
                }
            }
        }
    }
}

/// Two tiles at once. With a constant stride between outputs, all addresses need two registers only.
struct TwoTask<'a, 'b, R: Register, const STEP: usize>(&'a mut Tile<'b, R::Word>, usize);

impl<R: Register, const STEP: usize> IsaTask for TwoTask<'_, '_, R, STEP> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(tile, second) = self;
        let Tile { mut a, left_out, mut b, taps, channels, channel_stride, pixels, to, .. } = *tile;
        b = b.wrapping_add(pixels[0]);
        // SAFETY: `two` is called with memory as `TileKernel::run_two` describes it, with the register's instructions.
        unsafe {
            let mut sums = [[[R::zero(); VECTORS]; MAX_PIXELS]; 2];
            let mut left = channels;
            while left > 0 {
                let run = tile.tile_prefetch.until(left);
                left -= run;
                if let [tap] = taps {
                    for _ in 0..run {
                        two_products::<R, STEP>(a, b.wrapping_add(*tap), second, channel_stride, &mut sums);
                        a = a.wrapping_add((1 + left_out) * VECTORS * R::LANES);
                        b = b.wrapping_add(channel_stride);
                    }
                } else {
                    for _ in 0..run {
                        for tap in taps {
                            two_products::<R, STEP>(
                                a,
                                b.wrapping_add(*tap),
                                second,
                                channel_stride,
                                &mut sums,
                            );
                            a = a.wrapping_add(VECTORS * R::LANES);
                        }
                        a = a.wrapping_add(left_out * VECTORS * R::LANES);
                        b = b.wrapping_add(channel_stride);
                    }
                }
                tile.tile_prefetch.prefetch();
            }
            for (tile, sums) in sums.iter().enumerate() {
                for (p, sums) in sums.iter().enumerate() {
                    for (v, sum) in sums.iter().enumerate() {
                        sum.store(to.add(((tile * MAX_PIXELS + p) * VECTORS + v) * R::LANES));
                    }
                }
            }
        }
    }
}

/// Adds the products of one channel and tap for two tiles.
///
/// # Safety
/// As [`TileKernel::run_two`] for this channel and tap.
#[inline(always)]
unsafe fn two_products<R: Register, const STEP: usize>(
    a: *const R::Word,
    b: *const R::Word,
    second: usize,
    channel_stride: usize,
    sums: &mut [[[R; VECTORS]; MAX_PIXELS]; 2],
) {
    // SAFETY: the weights and numbers are valid, as this function requires.
    unsafe {
        let mut weights = [R::zero(); VECTORS];
        for (v, weights) in weights.iter_mut().enumerate() {
            *weights = R::load(a.add(v * R::LANES));
            prefetch(a.wrapping_add(WEIGHTS_AHEAD + v * R::LANES));
        }
        for (tile, sums) in sums.iter_mut().enumerate() {
            let from = b.wrapping_add(tile * second);
            // Channels are often in different pages, where the hardware prefetcher does not follow.
            prefetch(from.wrapping_add(PREFETCH_ROWS * channel_stride));
            for (p, sums) in sums.iter_mut().enumerate() {
                let number = R::splat(from.add(p * STEP).read_unaligned());
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = sum.add_product(weights, number);
                }
            }
        }
    }
}

/// Computes two tiles.
///
/// # Safety
/// As [`TileKernel::run_two`].
unsafe fn two<R: Register, const STEP: usize>(tile: &mut Tile<'_, R::Word>, second: usize) {
    // SAFETY: the processor has the instructions. This function requires it.
    unsafe { R::run(TwoTask::<R, STEP>(tile, second)) };
}

/// Computes one size of tile.
///
/// # Safety
/// As [`TileKernel::run`].
unsafe fn tile<R: Register, const PIXELS: usize>(tile: &mut Tile<'_, R::Word>) {
    // SAFETY: the processor has the instructions. This function requires it.
    unsafe { R::run(TileTask::<R, PIXELS>(tile)) };
}
