//! Where Winograd's algorithm is the faster one.

use super::super::operands::Operands;
use super::square;
use super::transform::Tile;

/// Channels of input and output below which transforming takes too long whatever the estimate says.
const LEAST_CHANNELS: usize = 16;
/// Tiles that are multiplied at once: others are computed in vain.
const TOGETHER: f64 = 16.0;
/// What a multiplication takes, measured by those of other forms, in whose tiles there are more of them; and where transformed filters
/// have more numbers than this, so that they come from far away for each tile of the product.
const PRODUCT: [f64; 2] = [1.05, 1.22];
const NEAR: f64 = (1 << 19) as f64;
/// What a tile of 2 × 2 outputs costs for each channel of the input and of the output, to be copied and transformed, in multiplications,
/// with step 1 and with step 2.
const TILE: [f64; 2] = [150.0, 250.0];
/// What it costs to read a number of a filter for the first time.
const NUMBER: f64 = 5.0;
/// What it costs to transform a window of 3 × 3, and to pack it for other forms, where that is to be done each time.
const FILTER: [f64; 2] = [300.0, 100.0];
/// How much of the time of another form it may take: numbers are less exact.
const SHARE: f64 = 0.9;

/// The outputs along a side of a tile with which a convolution, or a data gradient, is guessed to be the fastest; none where other forms
/// are. Results show it, so that it does not depend on the number of threads.
pub(in super::super) fn fastest(operands: &Operands, constant_weights: bool) -> Option<usize> {
    if operands.channels.min(operands.rows) < LEAST_CHANNELS || square(operands).is_none() {
        return None;
    }
    let windows = &operands.windows;
    let output = windows.output.map(|side| side as f64);
    let outputs = windows.batch as f64 * output.iter().product::<f64>();
    let (channels, rows) = (operands.channels as f64, operands.rows as f64);
    let [transform, pack] = if constant_weights { [0.0; 2] } else { FILTER };
    let tile = Tile::of(2, windows.step[1])?;
    let tiles = windows.batch as f64 * output[0] * (output[1] / 2.0).ceil() * (output[2] / 2.0).ceil();
    let (places, cost) = (tile.places() as f64, TILE[tile.step - 1]);
    let is_far = places * channels * rows > NEAR;
    let products = PRODUCT[usize::from(is_far)] * (tiles / TOGETHER).ceil() * TOGETHER;
    let filter = places * (products + NUMBER + transform / 16.0);
    let winograd = channels * rows * filter + tiles * (channels + rows) * cost;
    let other = channels * rows * (9.0 * (outputs + NUMBER) + pack);
    (winograd < SHARE * other).then_some(2)
}
