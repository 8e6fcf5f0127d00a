//! Mixture of experts: groups of rows times the matrix of their expert, and the gradient of the matrices,
//! with the micro-kernels of [`crate::gemm`].
//!
//! Tensors assign rows to experts at execution, so blocks and panels cover all rows, and a block is split
//! where another expert begins. The assignments are copied and clamped before anything is written.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that planning checks, and from copies that are clamped"
)]

pub(crate) mod gemm;
pub(crate) mod groups;
pub(crate) mod panels;
#[cfg(test)]
mod tests;

pub(crate) use crate::moe::gemm::{plan, plan_gradient};
