//! Scaled dot product attention and its gradients.
//!
//! Queries are [B, H, Sq, D], keys [B, Hk, Skv, D] and values [B, Hv, Skv, Dv], with any strides. [`shape`]
//! has the sizes and the layout of sequences, [`options`] the modifications of scores, [`alibi`] one of them.

pub mod alibi;
mod fields;
mod grouped;
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

/// The scales of 8-bit tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Of the queries.
    pub descale_q: Option<HeadFactor>,
    /// Of the keys.
    pub descale_k: Option<HeadFactor>,
    /// Of the values.
    pub descale_v: Option<HeadFactor>,
    /// Of the probabilities, after rounding.
    pub descale_s: Option<Scalar>,
    /// Of the probabilities, before rounding.
    pub scale_s: Option<Scalar>,
    /// Of the output, before rounding.
    pub scale_o: Option<Scalar>,
}

/// o = softmax(scale · q · kᵀ + …) · v.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The sizes.
    pub shape: Shape,
    /// Rows of queries that the lengths of sequences count as one: 1 unless [`Attention::grouped`].
    pub rows_of_query: usize,
    /// The queries.
    pub q: Sequences,
    /// The keys.
    pub k: Sequences,
    /// The values.
    pub v: Sequences,
    /// The output.
    pub o: Sequences,
    /// How scores are modified.
    pub options: Options,
    /// Which tiles of the scores are computed.
    pub block_mask: Option<BlockMask>,
    /// An additional score per head that has no value.
    pub sink: Option<Parameter>,
    /// The scales of 8-bit tensors.
    pub factors: Factors,
    /// Receives ln Σ eˢ of each row.
    pub stats: Option<Sequences>,
    /// Receives the maximum of each row.
    pub max: Option<Sequences>,
    /// Receives Σ e^(s - max) of each row.
    pub sum_exp: Option<Sequences>,
    /// Receives 1 for what dropout keeps, and 0 for what it drops.
    pub rng_dump: Option<Operand>,
    /// Receives the largest probability.
    pub amax_s: Option<Scalar>,
    /// Receives the largest magnitude of the output.
    pub amax_o: Option<Scalar>,
}

impl Attention {
    /// The attention of a graph's operation. A refusal names the invalid argument.
    pub(crate) fn of(graph: &Graph, operation: &Operation, sdpa: &Sdpa) -> Result<Box<Self>, Refusal> {
        Fields::new(graph, operation).attention(sdpa)
    }
}

/// The gradients of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionGradients {
    /// The sizes.
    pub shape: Shape,
    /// The queries.
    pub q: Sequences,
    /// The keys.
    pub k: Sequences,
    /// The values.
    pub v: Sequences,
    /// The output.
    pub o: Sequences,
    /// The gradient of the output.
    pub d_o: Sequences,
    /// ln Σ eˢ of each row.
    pub stats: Sequences,
    /// The gradient of the queries.
    pub dq: Sequences,
    /// The gradient of the keys.
    pub dk: Sequences,
    /// The gradient of the values.
    pub dv: Sequences,
    /// The gradient of the additive mask, with the shape of the mask.
    pub dbias: Option<Operand>,
    /// How scores are modified.
    pub options: Options,
}

impl AttentionGradients {
    /// The gradients of a graph's operation. A refusal names the invalid argument.
    pub(crate) fn of(
        graph: &Graph,
        operation: &Operation,
        sdpa: &SdpaBackward,
    ) -> Result<Box<Self>, Refusal> {
        Fields::new(graph, operation).gradients(sdpa)
    }
}
