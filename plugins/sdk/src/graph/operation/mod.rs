//! The operations a node can be.
//!
//! An operation is declared once, in a file of its own: its fields with their place on the wire and their attribute in the
//! C API. Everything that treats operations alike (reading and writing bytes, descriptors, checks, the schema) works from that
//! declaration. What else a new operation needs is listed in `docs/architecture.md`.

#[macro_use]
mod declare;

pub use declare::{EnumKind, Field, FieldKind, JsonField, JsonForm, OperationSpec, Value};

use super::GraphError;

operations! {
    1 batchnorm_inference::BatchnormInference,
    2 pointwise::Pointwise,
    3 batchnorm_backward::BatchnormBackward,
    4 batchnorm::Batchnorm,
    5 convolution_forward::ConvolutionForward,
    6 convolution_backward_data::ConvolutionBackwardData,
    7 convolution_backward_filter::ConvolutionBackwardFilter,
    8 batchnorm_inference_variance::BatchnormInferenceVariance,
    9 matmul::Matmul,
    10 rmsnorm::RmsNorm,
    11 layernorm::Layernorm,
    12 sdpa::Sdpa,
    13 block_scale_dequantize::BlockScaleDequantize,
    14 block_scale_quantize::BlockScaleQuantize,
    15 sdpa_backward::SdpaBackward,
    16 custom_op::CustomOp,
    17 rmsnorm_backward::RmsNormBackward,
    18 reduction::Reduction,
    19 resample_forward::ResampleForward,
    20 layernorm_backward::LayernormBackward,
    21 resample_backward::ResampleBackward,
    22 moe_grouped_matmul::MoeGroupedMatmul,
    23 moe_grouped_matmul_backward::MoeGroupedMatmulBackward,
}
