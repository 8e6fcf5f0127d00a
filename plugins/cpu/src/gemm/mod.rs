//! Multiplication of matrices on packed operands: packing and the micro-kernels that compute one tile in registers.
//!
//! Nothing here knows of convolutions or of the operations of a graph.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod pack;
pub(crate) mod pairs;
#[cfg(test)]
mod pairs_tests;
pub(crate) mod tile;
