//! Convolutions of small images, with output channels along the vectors.
//!
//! Where rows of images are shorter than a vector, neither tiles of columns nor copies of them for each tap are worth their
//! time. Here a vector has one output of several channels. What it is multiplied with is one number of the input, which
//! may lie anywhere, so all taps read the same image, with zeros around it where the window reaches beyond. The outputs are
//! transposed when they are complete, unless channels lie side by side.

pub(crate) mod kernel;
pub(crate) mod outputs;
pub(crate) mod planes;
pub(crate) mod tile;

use crate::conv::cost::Cost;
use crate::conv::direct_small::tile::AccumulatorTileKernel;
use crate::simd::real::Float;

/// Nanoseconds for a number that is copied in rows of `row`, each of which costs something, too.
pub(crate) fn copied(cost: &Cost, row: usize) -> f64 {
    cost.copy * (0.5 + 2.0 / row.max(1) as f64)
}

/// How so many channels are divided into panels: pieces in a panel, and panels.
fn panels<T: Float>(channels: usize, kernel: &AccumulatorTileKernel<T>) -> (usize, usize) {
    let pieces = channels.div_ceil(kernel.piece);
    let panels = pieces.div_ceil(kernel.most());
    (pieces.div_ceil(panels), panels)
}
