//! Convolutions of small images, with output channels along the vectors.
//!
//! Where rows of images are shorter than a vector, neither tiles of columns nor copies of them for each tap are worth their
//! time. Here a vector has one output of several channels. What it is multiplied with is one number of the input, which
//! may lie anywhere, so all taps read the same image, with zeros around it where the window reaches beyond. The outputs are
//! transposed when they are complete, unless channels lie side by side.

pub(crate) mod kernel;
pub(crate) mod outputs;
pub(crate) mod planes;
pub(crate) mod store;
pub(crate) mod tile;
