//! Divides a direct convolution into blocks.

use crate::conv::cost::BUFFER;
use crate::conv::direct::problem::Scheme;
use crate::conv::geometry::Geometry;
use crate::conv::operands::Operands;
use crate::gemm::accumulator::Accumulator;
use crate::kernel::Refusal;

/// The most image rows for which the taps that each row meets are counted.
pub(crate) const MAX_LINES: usize = 1 << 16;

/// The most tiles in a block: their accumulators stay in the L2 cache.
pub(crate) const MAX_TILES: usize = 64;

/// With fewer tiles, a block is not divided further.
pub(crate) const LEAST_TILES: usize = 4;

/// The blocks of a direct convolution, and what it costs.
pub(crate) struct Blocks {
    pub(crate) geometry: Geometry,
    /// Whether the input is read in place.
    pub(crate) in_place: bool,
    /// Estimated nanoseconds on one thread: of an execution, and of packing its weights.
    pub(crate) time: f64,
    pub(crate) pack_time: f64,
}

impl<T: Accumulator> Scheme<T> {
    /// The blocks of a convolution, which needs a single sub-problem.
    pub(crate) fn blocks(&self, operands: &Operands) -> Result<Blocks, Refusal> {
        let part = operands.whole().ok_or("backward data with a stride")?;
        let (windows, cost) = (&operands.windows, &self.cost);
        let words = operands.channels.div_ceil(self.terms);
        let whole = Geometry::new(windows, false, 1, windows.output, 1);
        let in_place = self.is_readable && !whole.is_padded();
        let geometry = blocks(operands, words, whole, in_place, self.kernel.pixels)
            .ok_or("no block of outputs is small enough")?;
        let panels = operands.rows.div_ceil(self.kernel.width);
        let pixels = windows.batch as f64 * windows.output.iter().map(|n| *n as f64).product::<f64>();
        let products = (operands.groups * panels * self.kernel.width) as f64 * pixels;
        let copied = if in_place { 0 } else { geometry.blocks() * geometry.channel() };
        let copied = copied as f64 * (operands.groups * operands.channels) as f64;
        let packed = (operands.groups * panels * self.kernel.width) as f64 * (words * part.taps.len()) as f64;
        let depth = operands.channels as f64 * mean_taps(windows.output, &geometry, part.taps.len());
        // Results are transposed while they are stored.
        let stored = cost.copy
            * match operands.output.strides.channel {
                1 if self.in_registers.is_some() => 0.25,
                1 => 1.0,
                _ => 1.5,
            };
        let time = products * (depth * cost.fused + stored) + copied * cost.copy;
        Ok(Blocks { geometry, in_place, time, pack_time: packed * cost.copy })
    }

    /// Estimated nanoseconds of an execution on one thread.
    pub(crate) fn time(&self, operands: &Operands, constant_weights: bool) -> Result<f64, Refusal> {
        let Blocks { time, pack_time, .. } = self.blocks(operands)?;
        Ok(time + if constant_weights { 0.0 } else { pack_time })
    }
}

/// Divides the outputs into blocks whose planes and accumulators stay in cache; `None` if that is not possible.
fn blocks(
    operands: &Operands,
    words: usize,
    whole: Geometry,
    in_place: bool,
    pixels: usize,
) -> Option<Geometry> {
    let windows = &operands.windows;
    let tiles = |images: usize, size: [usize; 3]| {
        size.iter()
            .try_fold(images, |all, side| all.checked_mul(*side))
            .map_or(usize::MAX, |n| n.div_ceil(pixels))
    };
    let is_near = |geometry: &Geometry| in_place || words.saturating_mul(geometry.channel()) <= BUFFER;
    let mut size = windows.output;
    let mut best = whole;
    while tiles(1, size) > MAX_TILES || (!is_near(&best) && tiles(1, size) > 2 * LEAST_TILES) {
        let axis = (0..3).find(|axis| size[*axis] > 1)?;
        size[axis] = size[axis].div_ceil(2);
        best = Geometry::new(windows, false, 1, size, 1);
    }
    let mut images = 1;
    while size == windows.output && images < windows.batch && tiles(2 * images, size) <= MAX_TILES {
        let larger = Geometry::new(windows, false, (2 * images).min(windows.batch), size, 1);
        if !is_near(&larger) {
            break;
        }
        images *= 2;
        best = larger;
    }
    let elements = words as f64 * best.channel() as f64;
    (elements <= (1_u64 << 32) as f64).then_some(best)
}

/// Taps per output inside the image, on average.
fn mean_taps(output: [usize; 3], geometry: &Geometry, taps: usize) -> f64 {
    let lines = output[0] * output[1];
    if !geometry.is_padded() || lines > MAX_LINES {
        return taps as f64;
    }
    let met = |line: usize| {
        let (first, end) = geometry.met(line / output[1], line % output[1], 0..output[2]);
        (end - first) as f64
    };
    (0..lines).map(met).sum::<f64>() / lines as f64
}
