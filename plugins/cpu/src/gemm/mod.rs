//! The parts of a GEMM: micro-kernels that compute one tile in registers, and packing of their operands.
//!
//! Nothing here knows of tensors, convolutions or graphs: operations have their own loops around a tile.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod accumulator;
#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bfloat16_tiles;
pub(crate) mod byte_kernel;
#[cfg(test)]
mod byte_kernel_tests;
pub(crate) mod byte_tile;
pub(crate) mod context;
pub(crate) mod dots;
pub(crate) mod im2col;
pub(crate) mod kernel;
#[cfg(test)]
mod kernel_tests;
pub(crate) mod multiply;
pub(crate) mod pack;
pub(crate) mod pairs;
#[cfg(test)]
mod pairs_tests;
pub(crate) mod prefetch;
pub(crate) mod register;
pub(crate) mod session;
pub(crate) mod tile;
