//! The CPU engines of hipDNN, as an engine plugin.
//!
//! [`prepare`](hipdnn_plugin_planner::prepare::prepare) resolves and checks a graph. Each of its nodes becomes a [`kernel`],
//! which a [`plan`](plan::steps::Plan) runs in order. [`mod@reference`] has a plain kernel for every operation.

mod attention;
mod batchnorm;
mod block_scale;
mod conv;
mod depthwise;
pub mod dtype;
pub mod fusion;
mod gemm;
mod int8;
pub mod kernel;
mod matmul;
pub mod memory;
mod moe;
mod norm;
pub mod plan;
pub mod plugin;
mod pointwise;
mod pooling;
mod reduction;
pub mod reference;
pub mod settings;
pub mod simd;
mod tensor;
pub mod threading;

#[cfg(test)]
mod testing;

use hipdnn_plugin_planner::{layout, prepare, problem, workspace};
