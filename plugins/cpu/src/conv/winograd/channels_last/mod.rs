//! Winograd's algorithm for tensors with their channels last: each vector holds channels, from the input to the output.
//!
//! Nothing is transposed. A block is some consecutive tiles, whatever lines and images they lie in.

pub(crate) mod exact;
pub(crate) mod kernel;
pub(crate) mod problem;
pub(crate) mod transform;
