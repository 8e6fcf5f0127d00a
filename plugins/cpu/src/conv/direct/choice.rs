//! How a direct convolution is divided into blocks.

use crate::conv::cost::BUFFER;
use crate::conv::geometry::Geometry;
use crate::conv::operands::Operands;

/// Image rows up to which the taps that each row meets are counted.
pub(crate) const MAX_LINES: usize = 1 << 16;

/// Tiles in a block: their accumulators stay in the L2 cache.
pub(crate) const MAX_TILES: usize = 64;

/// Tiles below which a block is not divided any further.
pub(crate) const LEAST_TILES: usize = 4;

/// Divides the outputs into blocks whose planes and accumulators stay in cache; `None` if that is not possible.
pub(crate) fn blocks(
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
pub(crate) fn mean_taps(output: [usize; 3], geometry: &Geometry, taps: usize) -> f64 {
    let lines = output[0] * output[1];
    if !geometry.is_padded() || lines > MAX_LINES {
        return taps as f64;
    }
    let met = |line: usize| {
        let (first, end) = geometry.met(line / output[1], line % output[1]);
        (end - first) as f64
    };
    (0..lines).map(met).sum::<f64>() / lines as f64
}
