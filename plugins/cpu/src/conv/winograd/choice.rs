//! Where Winograd's algorithm is the faster one, and with which tiles.

use crate::conv::operands::Operands;
use crate::conv::winograd::kernel::square;
use crate::conv::winograd::transform::Tile;
use crate::simd::isa::Isa;

/// Channels of input and output below which transforming takes too long whatever the estimate says.
const LEAST_CHANNELS: usize = 16;

/// Tiles that are multiplied at once: others are computed in vain.
const TOGETHER: f64 = 16.0;

/// What a multiplication takes, measured by those of other forms, in whose tiles there are more of them; and where transformed filters
/// have more numbers than this, so that they come from far away for each tile of the product. With step 1, and with step 2.
const PRODUCT: [[f64; 2]; 2] = [[1.03, 1.06], [1.05, 1.22]];

const NEAR: f64 = (1 << 19) as f64;

/// What it costs, in multiplications, to copy and transform a tile for each channel of the input and of the output: of 2 × 2 outputs with
/// step 1 and with step 2, and of 4 × 4; and a line of these.
const TILE: [f64; 3] = [150.0, 250.0, 350.0];

const LINE: [f64; 3] = [0.0, 0.0, 1100.0];

/// What it costs to read a number of a filter for the first time, and a transformed one: usually, and of filters that stay the same and come
/// from far away, where vectors are multiplied as wholes, so that there are more multiplications in the time.
const NUMBER: f64 = 5.0;

const TRANSFORMED: [f64; 2] = [7.0, 20.0];

/// What it costs to transform a window of 3 × 3 for each 16 places, and to pack it for other forms, where that is to be done each time.
const FILTER: [f64; 2] = [300.0, 100.0];

/// What it costs to write a number of a transformed filter to memory that is new, as the first of many executions does; and how much an
/// execution costs, about 5 ms of a thread, of which the first should take at most three times as long as later ones.
const FIRST: f64 = 400.0;

const LONG: f64 = 3e8;

/// How much of the time of another form it may take, and with larger tiles of that with smaller ones: numbers are less exact.
const SHARE: f64 = 0.9;

/// Numbers of the transformed filters.
fn numbers(operands: &Operands, tile: Tile) -> f64 {
    (tile.places() * operands.channels * operands.rows) as f64
}

/// What a convolution costs with tiles of so many outputs along a side, in multiplications; none where there is no such form.
fn cost(operands: &Operands, outputs: usize, isa: Isa, constant_weights: bool) -> Option<f64> {
    let windows = &operands.windows;
    let tile = Tile::of(outputs, windows.stride[1])?;
    let along = |side: usize| side.div_ceil(outputs) as f64;
    let [depth, height, width] = windows.output;
    let lines = (windows.batch * depth) as f64 * along(height);
    let tiles = lines * along(width);
    let (places, channels, rows) = (tile.places() as f64, operands.channels as f64, operands.rows as f64);
    let is_far = numbers(operands, tile) > NEAR;
    let products = PRODUCT[tile.stride - 1][usize::from(is_far)] * (tiles / TOGETHER).ceil() * TOGETHER;
    let read = TRANSFORMED[usize::from(constant_weights && is_far && isa.has_whole_vectors())];
    let transform = if constant_weights { 0.0 } else { FILTER[0] / 16.0 };
    let form = if outputs == 2 { tile.stride - 1 } else { 2 };
    let transformed = (tiles * TILE[form] + lines * LINE[form]) * (channels + rows);
    Some(channels * rows * places * (products + read + transform) + transformed)
}

/// The outputs along a side of a tile with which a convolution, or a data gradient, is guessed to be the fastest; none where other forms
/// are. Results show it, so that it does not depend on the number of threads.
pub(crate) fn fastest(operands: &Operands, isa: Isa, constant_weights: bool) -> Option<usize> {
    if operands.channels.min(operands.rows) < LEAST_CHANNELS || square(operands).is_none() {
        return None;
    }
    let windows = &operands.windows;
    let outputs = windows.batch as f64 * windows.output.map(|side| side as f64).iter().product::<f64>();
    let pack = if constant_weights { 0.0 } else { FILTER[1] };
    let other = operands.channels as f64 * operands.rows as f64 * (9.0 * (outputs + NUMBER) + pack);
    let costs = [2, 4].map(|outputs| cost(operands, outputs, isa, constant_weights).unwrap_or(f64::INFINITY));
    let is_slow_at_first = constant_weights
        && costs[1] > LONG
        && Tile::of(4, 1).is_some_and(|tile| numbers(operands, tile) * FIRST > 2.0 * costs[1]);
    if costs[1] < SHARE * costs[0] && costs[1] < SHARE * other && !is_slow_at_first {
        Some(4)
    } else {
        (costs[0] < SHARE * other).then_some(2)
    }
}
