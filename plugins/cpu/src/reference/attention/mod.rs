//! Attention, query by query.
//!
//! Results are computed in double precision for any compute type and rounded once, so any difference between
//! an engine and the reference is that engine's error.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are below the four dimensions of a tensor, the two of a table or the four words of a generator"
)]

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod scores;

use hipdnn_plugin_planner::problem::attention::{Attention, AttentionGradients};

use crate::kernel::{Kernel, Refusal, boxed};

pub(crate) fn plan(attention: &Attention) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| forward::Forward::new(attention))
}

pub(crate) fn plan_gradients(gradients: &AttentionGradients) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| backward::Backward::new(gradients))
}
