//! Scaled dot product attention and its gradients.
//!
//! Queries are [B, H, Sq, D], keys [B, Hk, Skv, D] and values [B, Hv, Skv, Dv], in whatever order of strides. [`shape`] has
//! the numbers of their shapes and where their sequences lie, [`options`] what happens to the scores, [`alibi`] one of these by formula.

pub mod alibi;
mod fields;
pub mod options;
pub mod shape;
mod tensors;

use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{Graph, Operation};

use self::fields::Fields;
use self::options::{BlockMask, HeadFactor, Options};
use self::shape::{Sequences, Shape};
use super::Operand;
use super::batchnorm::{Parameter, Scalar};
use crate::Refusal;

/// The factors of tensors with eight bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Of the queries.
    pub descale_q: Option<HeadFactor>,
    /// Of the keys.
    pub descale_k: Option<HeadFactor>,
    /// Of the values.
    pub descale_v: Option<HeadFactor>,
    /// Of the probabilities, after they were rounded.
    pub descale_s: Option<Scalar>,
    /// Of the probabilities, before they are rounded.
    pub scale_s: Option<Scalar>,
    /// Of the result, before it is rounded.
    pub scale_o: Option<Scalar>,
}

/// o = softmax(scale · q · kᵀ + …) · v.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The numbers of the shapes.
    pub shape: Shape,
    /// The queries.
    pub q: Sequences,
    /// The keys.
    pub k: Sequences,
    /// The values.
    pub v: Sequences,
    /// The result.
    pub o: Sequences,
    /// What happens to the scores.
    pub options: Options,
    /// Which tiles of the scores count.
    pub block_mask: Option<BlockMask>,
    /// One more score for each head that gives nothing.
    pub sink: Option<Parameter>,
    /// The factors of tensors with eight bits.
    pub factors: Factors,
    /// Where ln Σ eˢ of each row goes.
    pub stats: Option<Sequences>,
    /// Where the maximum of each row goes.
    pub max: Option<Sequences>,
    /// Where Σ e^(s - max) of each row goes.
    pub sum_exp: Option<Sequences>,
    /// Where 1 goes for what dropout keeps, and 0 for what it drops.
    pub rng_dump: Option<Operand>,
    /// Where the largest probability goes.
    pub amax_s: Option<Scalar>,
    /// Where the largest magnitude of the result goes.
    pub amax_o: Option<Scalar>,
}

impl Attention {
    /// The attention of a graph's operation. The refusal names the argument that does not fit.
    pub(crate) fn of(graph: &Graph, operation: &Operation, sdpa: &Sdpa) -> Result<Box<Self>, Refusal> {
        Fields::new(graph, operation).attention(sdpa)
    }
}

/// The gradients of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionGradients {
    /// The numbers of the shapes.
    pub shape: Shape,
    /// The queries.
    pub q: Sequences,
    /// The keys.
    pub k: Sequences,
    /// The values.
    pub v: Sequences,
    /// The result.
    pub o: Sequences,
    /// The gradient of the result.
    pub d_o: Sequences,
    /// ln Σ eˢ of each row.
    pub stats: Sequences,
    /// The gradient of the queries.
    pub dq: Sequences,
    /// The gradient of the keys.
    pub dk: Sequences,
    /// The gradient of the values.
    pub dv: Sequences,
    /// The gradient of the mask that is added, with the shape of the mask.
    pub dbias: Option<Operand>,
    /// What happens to the scores.
    pub options: Options,
}

impl AttentionGradients {
    /// The gradients of a graph's operation. The refusal names the argument that does not fit.
    pub(crate) fn of(
        graph: &Graph,
        operation: &Operation,
        sdpa: &SdpaBackward,
    ) -> Result<Box<Self>, Refusal> {
        Fields::new(graph, operation).gradients(sdpa)
    }
}
