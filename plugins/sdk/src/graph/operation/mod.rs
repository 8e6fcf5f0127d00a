//! The operations of graph nodes.
//!
//! Each operation is declared once, in its own file: its fields with their wire index and C API attribute.
//! All generic code (reading and writing bytes, descriptors, checks, the schema) is driven by that
//! declaration. `docs/architecture.md` lists what else a new operation needs.

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
