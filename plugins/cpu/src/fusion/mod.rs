//! Turns a graph into the kernels that compute it.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod byte_epilogue;
pub(crate) mod checked;
pub(crate) mod delayed;
#[cfg(test)]
mod delayed_tests;
pub(crate) mod dequantized;
pub(crate) mod exact;
pub mod feeders;
#[cfg(test)]
mod feeders_tests;
pub mod graph;
pub mod node;
pub mod norm;
pub(crate) mod quantized;
pub mod relu_backward;
#[cfg(test)]
mod relu_backward_tests;
mod separable;
#[cfg(test)]
mod separable_tests;
#[cfg(test)]
mod softmax_tests;
pub mod state;
pub(crate) mod table;
pub mod uses;
