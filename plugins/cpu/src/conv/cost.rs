//! Estimates times, and chooses the block sizes that minimize them.

use crate::conv::geometry::{Geometry, Windows};
use crate::kernel::Refusal;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::threading::partition::Threads;

/// Elements of a block's planes that stay in the L2 cache.
pub(crate) const BUFFER: usize = 64 << 10;

/// With fewer column tiles, a box is not divided further.
pub(crate) const LEAST_TILES: usize = 4;

/// Costs in nanoseconds on one thread.
pub(crate) struct Cost {
    /// One multiply-add.
    pub(crate) fused: f64,
    /// One copied element.
    pub(crate) copy: f64,
}

impl Cost {
    /// A rough estimate for an instruction set.
    pub(crate) fn of<T: Float>(isa: Isa) -> Self {
        let per_nanosecond = match isa {
            Isa::Portable => 6.0,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => 18.0,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => 50.0,
        };
        Self { fused: size_of::<T>() as f64 / 4.0 / per_nanosecond, copy: 0.4 }
    }
}

/// The size of a convolution.
pub(crate) struct Shape<'a> {
    pub(crate) windows: &'a Windows,
    /// Taps of all sub-problems together.
    pub(crate) taps: usize,
    pub(crate) groups: usize,
    /// Input channels that are copied into planes together.
    pub(crate) channels: usize,
    /// Output channels computed from each plane.
    pub(crate) rows: usize,
    /// Columns are computed in vectors of this length, and in tiles.
    pub(crate) round: usize,
    pub(crate) tile: usize,
    /// Whether each tap has its own planes; `None` for the faster estimate.
    pub(crate) unrolled: Option<bool>,
    /// Whether the input is read in place.
    pub(crate) in_place: bool,
    /// The threads that share the blocks.
    pub(crate) threads: Threads,
}

impl Shape<'_> {
    /// The geometry with the least estimated time for planes of about `buffer` elements, and that time.
    pub(crate) fn best(&self, cost: &Cost, buffer: usize) -> Result<(Geometry, f64), Refusal> {
        let form = |unrolled| {
            let geometry = self.blocks(unrolled, buffer, cost);
            let time = self.time(&geometry, cost);
            (geometry, time)
        };
        let best = match self.unrolled {
            Some(unrolled) => form(unrolled),
            None => {
                let (shared, unrolled) = (form(false), form(true));
                if unrolled.1 < shared.1 { unrolled } else { shared }
            }
        };
        let elements = self.channels as f64 * best.0.channel() as f64;
        if elements > (1_u64 << 32) as f64 {
            return Err(format!("a block of the convolution has {elements} elements, expected at most 2^32"));
        }
        Ok(best)
    }

    /// Estimated nanoseconds on one thread.
    fn time(&self, geometry: &Geometry, cost: &Cost) -> f64 {
        let blocks = (geometry.blocks() * self.groups) as f64;
        let columns = geometry.largest().next_multiple_of(self.round) as f64;
        let channels = self.channels as f64;
        let taps = self.taps as f64;
        let copied = if self.in_place { 0.0 } else { channels * geometry.channel() as f64 };
        blocks
            * (columns * self.rows as f64 * (channels * taps * cost.fused + cost.copy) + copied * cost.copy)
    }

    fn blocks(&self, unrolled: bool, buffer: usize, cost: &Cost) -> Geometry {
        let windows = self.windows;
        let geometry =
            |images: usize, size: [usize; 3]| Geometry::new(windows, unrolled, images, size, self.round);
        let elements = |geometry: &Geometry| self.channels.saturating_mul(geometry.channel());
        let mut size = windows.output;
        let mut best = geometry(1, size);
        let halved = |size: [usize; 3]| {
            let axis = (0..3).find(|axis| size[*axis] > 1)?;
            let mut half = size;
            half[axis] = size[axis].div_ceil(2);
            Some(half)
        };
        while elements(&best) > buffer && best.largest() > 2 * LEAST_TILES * self.tile {
            let Some(half) = halved(size) else { break };
            size = half;
            best = geometry(1, size);
        }
        // Small problems need fewer blocks than there are workers.
        let workers = self.threads.workers_for_reduction(self.time(&best, cost), usize::MAX).count();
        let wanted = if workers > 1 { 3 * workers } else { 1 };
        if size == windows.output && !self.in_place {
            let mut images = 1;
            while images < windows.batch && windows.batch.div_ceil(2 * images) * self.groups >= wanted {
                let larger = geometry((2 * images).min(windows.batch), size);
                if elements(&larger) > buffer {
                    break;
                }
                images *= 2;
                best = larger;
            }
        }
        while best.blocks() * self.groups < wanted && best.largest() > 2 * LEAST_TILES * self.tile {
            let Some(half) = halved(size) else { break };
            size = half;
            best = geometry(1, size);
        }
        best
    }
}
