//! The inner loop: a tile of some outputs by some channels, which lie side by side in vectors.

use super::super::super::level::{Level, Work};
use super::super::super::matmul::tile::Register;
use super::super::super::real::FastReal;
use super::super::ahead::Ahead;

/// Outputs of the largest tile.
pub(super) const MOST_PIXELS: usize = 7;

/// What a tile is computed from: `to[p][j] = Σ a[c][t][j] · b[taps[t] + c · pitch + pixels[p]]` over channels and taps.
pub(super) struct Tile<'a, T> {
    /// For each channel and tap a number for each of [`TileKernel::width`] channels of the output, from the first tap on.
    pub(super) a: *const T,
    /// Taps in `a` that are left out behind those of each channel.
    pub(super) left_out: usize,
    /// The input.
    pub(super) b: *const T,
    /// Distance of each tap in `b`.
    pub(super) taps: &'a [usize],
    /// Number of channels.
    pub(super) channels: usize,
    /// Distance of channels in `b`.
    pub(super) pitch: usize,
    /// Distance of each output in `b`.
    pub(super) pixels: &'a [usize; MOST_PIXELS],
    /// What is asked for meanwhile.
    pub(super) ahead: Ahead,
    /// Where the sums go: [`TileKernel::pixels`] rows of as many numbers as there are channels.
    pub(super) to: *mut T,
}

type RunTile<T> = unsafe fn(&Tile<'_, T>);

/// The tile of a level.
pub(super) struct TileKernel<T> {
    /// Outputs of a tile.
    pub(super) pixels: usize,
    /// Channels of a tile.
    pub(super) width: usize,
    run: RunTile<T>,
}

impl<T> Clone for TileKernel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TileKernel<T> {}

impl<T: FastReal> TileKernel<T> {
    /// The kernel of a level. Two vectors of channels suffice to hide how long an addition takes, and fill up soon.
    pub(super) fn of(level: Level) -> Self {
        match level {
            #[cfg(not(target_arch = "aarch64"))]
            Level::Portable => Self::with::<T::Portable, 4>(),
            // 32 registers.
            #[cfg(target_arch = "aarch64")]
            Level::Portable => Self::with::<T::Portable, 7>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Self::with::<T::Avx2, 6>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Self::with::<T::Avx512, 7>(),
        }
    }
}

impl<T> TileKernel<T> {
    /// The kernel of a register.
    pub(super) fn with<R: Register<Word = T>, const PIXELS: usize>() -> Self {
        Self { pixels: PIXELS, width: VECTORS * R::LANES, run: tile::<R, PIXELS> }
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// The kernel's instructions are such that the processor has. `a` and `b` are readable wherever the sums name them, and
    /// `to` is writable for all of them.
    #[inline(always)]
    pub(super) unsafe fn run(&self, tile: &Tile<'_, T>) {
        // SAFETY: the caller promises what the kernel needs.
        unsafe { (self.run)(tile) };
    }
}

/// Vectors of channels in a tile.
const VECTORS: usize = 2;

/// One size of the tile.
struct TileWork<'a, 'b, R: Register, const PIXELS: usize>(&'a Tile<'b, R::Word>);

impl<R: Register, const PIXELS: usize> Work for TileWork<'_, '_, R, PIXELS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Tile { mut a, left_out, mut b, taps, channels, pitch, pixels, mut ahead, to } = *self.0;
        let mut places = [0; PIXELS];
        places.copy_from_slice(&pixels[..PIXELS]);
        // SAFETY: `tile` is called with memory as `TileKernel::run` describes it, with the register's instructions.
        unsafe {
            let mut sums = [[R::zero(); VECTORS]; PIXELS];
            let mut left = channels;
            while left > 0 {
                let run = ahead.until(left);
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
                    b = b.wrapping_add(pitch);
                }
                ahead.ask();
            }
            for (p, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    sum.store(to.add((p * VECTORS + v) * R::LANES));
                }
            }
        }
    }
}

/// Computes one size of tile.
///
/// # Safety
/// As [`TileKernel::run`].
unsafe fn tile<R: Register, const PIXELS: usize>(tile: &Tile<'_, R::Word>) {
    // SAFETY: the caller promises that the processor has the instructions.
    unsafe { R::run(TileWork::<R, PIXELS>(tile)) };
}
