//! Convolution and its gradients: the choice of algorithm, and the algorithms.
//!
//! [`list`] chooses. [`spatial`] makes the [`operands`] that most algorithms share, as they do the tiling of
//! images in [`geometry`] and the epilogues in [`epilogue`].

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod as_matmul;
pub(crate) mod backward_weights;
#[cfg(target_arch = "x86_64")]
mod bfloat16_tiles;
mod by_tap;
pub(crate) mod cost;
pub(crate) mod cropped;
pub(crate) mod direct;
pub(crate) mod direct_small;
pub(crate) mod epilogue;
pub(crate) mod geometry;
pub(crate) mod im2col;
pub(crate) mod implicit_gemm;
pub(crate) mod interleaved;
pub(crate) mod invariant;
pub(crate) mod list;
pub(crate) mod nan;
pub(crate) mod operands;
pub(crate) mod planes;
pub(crate) mod prefetch;
pub(crate) mod problem;
mod shifted;
pub(crate) mod spatial;
pub(crate) mod strided_backward_data;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod winograd;

pub(crate) use crate::conv::list::plan;
