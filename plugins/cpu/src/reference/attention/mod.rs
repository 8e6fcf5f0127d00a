//! Attention, one query after the other, as the formulas say.
//!
//! All is computed in double precision whatever the compute type, and rounded once, when it is written. So a difference
//! between an engine and the reference is that engine's own error.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are below the four dimensions of a tensor, the two of a table or the four words of a generator"
)]

mod backward;
mod forward;
mod philox;
mod scores;
mod sequences;

pub(crate) use crate::reference::attention::scores::slope;
pub(crate) use crate::reference::attention::sequences::integer;
pub(crate) use crate::reference::attention::sequences::{Lengths, Sequence};

use hipdnn_plugin_problem::problem::attention::{Attention, AttentionGradients};

use crate::kernel::{Kernel, Refusal};
use crate::problem::batchnorm::Scalar;
use crate::reference::Single;

pub(crate) fn plan(attention: &Attention) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(forward::Forward::new(attention)?))
}

pub(crate) fn plan_gradients(gradients: &AttentionGradients) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(backward::Backward::new(gradients)?))
}

fn single(argument: &str, scalar: Option<&Scalar>) -> Result<Option<Single<f64>>, Refusal> {
    scalar.map(|scalar| Single::of(argument, scalar)).transpose()
}

/// A factor, 1 where there is none.
///
/// # Safety
/// As for [`Memory::bind`](crate::reference::Memory::bind).
unsafe fn factor(single: Option<&Single<f64>>, tensors: &[*mut u8]) -> f64 {
    // SAFETY: passed on.
    single.map_or(1.0, |single| unsafe { single.get(tensors) })
}
