//! Mixture of experts: groups of rows times the matrix of their expert, and the gradient of the matrices, on the micro-kernels of
//! [`crate::gemm`].
//!
//! Tensors say at execution which rows are whose, so blocks and panels are those of all rows, and a block is divided where
//! another expert begins. What the tensors say is copied and bounded before anything is written.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned, and from copies that are bounded when they are made"
)]

pub(crate) mod gemm;
pub(crate) mod groups;
pub(crate) mod panels;
#[cfg(test)]
mod tests;

pub(crate) use crate::moe::gemm::{plan, plan_gradient};
