//! Convolutions of small images on vectors of output channels.
//!
//! If rows of images are shorter than a vector, neither column tiles nor im2col pay. Here a vector holds several
//! channels of one output. It is multiplied with one input element, which may be anywhere, so all taps read the
//! same image, zero-padded if necessary. The results are transposed unless the output is channels last.

pub(crate) mod kernel;
pub(crate) mod outputs;
pub(crate) mod planes;
pub(crate) mod store;
pub(crate) mod tile;
