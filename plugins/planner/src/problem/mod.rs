//! Problems: the parameters of each node's operation, with all shapes checked against each other.
//!
//! Plugins match on [`Problem`] without a wildcard arm, so that they do not compile until they handle a new
//! operation.

pub mod attention;
pub mod batchnorm;
pub mod block_scale;
pub mod convolution;
pub mod matmul;
pub mod mixture;
pub mod normalization;
pub mod pointwise;
pub mod reduction;
pub mod resample;

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation};

use self::attention::{Attention, AttentionGradients};
use self::batchnorm::Batchnorm;
use self::block_scale::BlockScale;
use self::convolution::Convolution;
use self::matmul::Matmul;
use self::mixture::{Mixture, MixtureGradient};
use self::normalization::Normalization;
use self::pointwise::Pointwise;
use self::reduction::Reduction;
use self::resample::Resample;
use crate::layout::Layout;
use crate::{Refusal, in_own_frame};

/// The problem of a node, one variant per kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// A convolution or one of its gradients.
    Convolution(Box<Convolution>),
    /// A batch normalization in one of its variants.
    Batchnorm(Box<Batchnorm>),
    /// A pointwise operation.
    Pointwise(Box<Pointwise>),
    /// An attention.
    Attention(Box<Attention>),
    /// The gradients of an attention.
    AttentionGradients(Box<AttentionGradients>),
    /// The matrix multiplications of a mixture of experts.
    Mixture(Box<Mixture>),
    /// The gradient of their matrices.
    MixtureGradient(Box<MixtureGradient>),
    /// A matrix multiplication.
    Matmul(Box<Matmul>),
    /// A reduction.
    Reduction(Box<Reduction>),
    /// A pooling or its gradient.
    Resample(Box<Resample>),
    /// A normalization of rows or its gradients.
    Normalization(Normalization),
    /// A block scale operation.
    BlockScale(BlockScale),
}

/// The operations that no engine computes: [`Problem::of`] refuses them.
pub const NOT_COMPUTED: &[&str] = &["CustomOp"];

impl Problem {
    /// The problem of a graph's operation.
    ///
    /// # Errors
    /// The inconsistent argument.
    pub fn of(graph: &Graph, operation: &Operation) -> Result<Self, Refusal> {
        let operands = Operands::new(graph, operation);
        match operation {
            Operation::ConvolutionForward(c) => made(|| Convolution::forward(&operands, c)),
            Operation::ConvolutionBackwardData(c) => made(|| Convolution::backward_data(&operands, c)),
            Operation::ConvolutionBackwardFilter(c) => made(|| Convolution::backward_filter(&operands, c)),
            Operation::BatchnormInference(_) => made(|| Batchnorm::inference(operands)),
            Operation::BatchnormInferenceVariance(_) => made(|| Batchnorm::inference_variance(operands)),
            Operation::Batchnorm(b) => made(|| Batchnorm::training(operands, b)),
            Operation::BatchnormBackward(b) => made(|| Batchnorm::backward(operands, b)),
            Operation::Pointwise(p) => made(|| Pointwise::of(&operands, p)),
            Operation::Sdpa(s) => made(|| Attention::of(graph, operation, s)),
            Operation::SdpaBackward(s) => made(|| AttentionGradients::of(graph, operation, s)),
            Operation::MoeGroupedMatmul(m) => made(|| Mixture::of(&operands, m)),
            Operation::MoeGroupedMatmulBackward(_) => made(|| MixtureGradient::of(&operands)),
            Operation::Matmul(_) => made(|| Matmul::of(&operands)),
            Operation::Reduction(r) => made(|| Reduction::of(&operands, r.mode)),
            Operation::ResampleForward(r) => made(|| Resample::forward(&operands, r)),
            Operation::ResampleBackward(r) => made(|| Resample::backward(&operands, r)),
            Operation::Layernorm(n) => made(|| Normalization::layernorm(operands, n.normalized_dim_count)),
            Operation::LayernormBackward(n) => {
                made(|| Normalization::layernorm_backward(operands, n.normalized_dim_count))
            }
            Operation::RmsNorm(_) => made(|| Normalization::rms(operands)),
            Operation::RmsNormBackward(_) => made(|| Normalization::rms_backward(operands)),
            Operation::BlockScaleQuantize(q) => made(|| BlockScale::quantize(&operands, q)),
            Operation::BlockScaleDequantize(d) => made(|| BlockScale::dequantize(&operands, d)),
            Operation::CustomOp(_) => Err("operation is not one that the engines compute".to_owned()),
        }
    }
}

fn made<P: Into<Problem>>(make: impl FnOnce() -> Result<P, Refusal>) -> Result<Problem, Refusal> {
    in_own_frame(|| Ok(make()?.into()))
}

macro_rules! from_boxed {
    ($($name:ident)+) => {
        $(impl From<$name> for Problem {
            fn from(problem: $name) -> Self {
                Self::$name(Box::new(problem))
            }
        })+
    };
}

impl From<Normalization> for Problem {
    fn from(problem: Normalization) -> Self {
        Self::Normalization(problem)
    }
}

impl From<BlockScale> for Problem {
    fn from(problem: BlockScale) -> Self {
        Self::BlockScale(problem)
    }
}

impl From<Box<Attention>> for Problem {
    fn from(problem: Box<Attention>) -> Self {
        Self::Attention(problem)
    }
}

impl From<Box<AttentionGradients>> for Problem {
    fn from(problem: Box<AttentionGradients>) -> Self {
        Self::AttentionGradients(problem)
    }
}

from_boxed! { Convolution Batchnorm Pointwise Mixture MixtureGradient Matmul Reduction Resample }

/// A tensor from a node's view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// Its index among the kernel's pointers.
    pub slot: usize,
    /// The type of its elements.
    pub data_type: DataType,
    /// Its layout.
    pub layout: Layout,
}

impl Operand {
    /// The size and stride of the only dimension that is not 1; no size if there are several.
    pub(crate) fn line(&self) -> (Option<usize>, usize) {
        let dims = self.layout.dims().iter().zip(self.layout.strides());
        let mut long = dims.filter(|(dim, _)| **dim != 1);
        match (long.next(), long.next()) {
            (None, _) => (Some(1), 0),
            (Some((dim, stride)), None) => (Some(*dim), *stride),
            _ => (None, 0),
        }
    }
}

/// Finds the operands of one operation. A kernel's pointers are in the order of [`pointers`], in which absent
/// optional tensors leave no gap.
pub struct Operands<'a> {
    graph: &'a Graph,
    slots: Vec<(&'static str, i64)>,
}

impl<'a> Operands<'a> {
    /// The operands of this operation of the graph.
    pub fn new(graph: &'a Graph, operation: &Operation) -> Self {
        Self { graph, slots: named_tensors(operation) }
    }

    /// The operand in the field `name`, if set.
    pub fn optional(&self, name: &str) -> Result<Option<Operand>, Refusal> {
        let Some((slot, uid)) = self
            .slots
            .iter()
            .enumerate()
            .find(|(_, (field, _))| *field == name)
            .map(|(i, (_, uid))| (i, *uid))
        else {
            return Ok(None);
        };
        let tensor = self
            .graph
            .tensor(uid)
            .ok_or_else(|| format!("{name}: no tensor of the graph has the uid {uid}"))?;
        let layout = Layout::of(tensor).map_err(|refusal| format!("{name}: {refusal}"))?;
        Ok(Some(Operand { slot, data_type: tensor.data_type, layout }))
    }

    /// The operand in the field `name`.
    pub fn required(&self, name: &str) -> Result<Operand, Refusal> {
        self.optional(name)?.ok_or_else(|| format!("{name}: absent, expected a tensor"))
    }

    /// The operand in the field `name`, of the dimensions of x.
    pub(crate) fn like(&self, name: &str, x: &Operand) -> Result<Operand, Refusal> {
        let operand = self.required(name)?;
        let (have, expected) = (operand.layout.dims(), x.layout.dims());
        if have != expected {
            return Err(format!("{name}: dims are {have:?}, expected {expected:?} as in x"));
        }
        Ok(operand)
    }
}

/// The tensors whose pointers a kernel receives: those of the operation in the order of `Operation::tensors`,
/// then the offsets of each ragged one.
pub fn pointers(graph: &Graph, operation: &Operation) -> Vec<i64> {
    let mut uids = operation.tensors();
    uids.extend(ragged_tensors(graph, operation).into_iter().map(|(_, _, offsets)| offsets));
    uids
}

/// The ragged tensors of an operation that supports them: the field's name, the tensor and its offsets
/// tensor.
pub(crate) fn ragged_tensors(graph: &Graph, operation: &Operation) -> Vec<(&'static str, i64, i64)> {
    if !may_be_ragged(operation) {
        return Vec::new();
    }
    let ragged = named_tensors(operation).into_iter().filter_map(|(name, uid)| {
        let offsets = graph.tensor(uid)?.ragged_offset_uid?;
        Some((name, uid, offsets))
    });
    ragged.collect()
}

/// The tensors of an operation that contain indices or offsets into others.
pub fn index_tensors(graph: &Graph, operation: &Operation) -> Vec<i64> {
    const NAMES: &[&str] = &[
        "seq_len_q",
        "seq_len_kv",
        "page_table_k",
        "page_table_v",
        "first_token_offset",
        "token_index",
        "token_ks",
    ];
    let named = named_tensors(operation).into_iter();
    let named = named.filter(|(name, _)| NAMES.contains(name)).map(|(_, uid)| uid);
    named.chain(ragged_tensors(graph, operation).into_iter().map(|(_, _, offsets)| offsets)).collect()
}

/// Whether an operation supports ragged tensors, with sequences of different lengths.
pub(crate) fn may_be_ragged(operation: &Operation) -> bool {
    matches!(operation, Operation::Sdpa(_) | Operation::SdpaBackward(_))
}

/// The tensors of an operation in the order of `Operation::tensors`, each with the name of its field.
pub fn named_tensors(operation: &Operation) -> Vec<(&'static str, i64)> {
    use hipdnn_plugin_sdk::graph::operation::Value;
    let mut tensors = Vec::new();
    for (field, value) in operation.spec().fields.iter().zip(operation.values()) {
        match value {
            Value::Uid(Some(uid)) => tensors.push((field.name, uid)),
            Value::Uids(uids) => tensors.extend(uids.into_iter().map(|uid| (field.name, uid))),
            _ => {}
        }
    }
    tensors
}
