//! The types of operations.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_OPERATION_TYPE_EXT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnOperationType_ext_t {
    /// No operation.
    HIPDNN_OPERATION_TYPE_NOT_SET_EXT = 0,
    /// Convolution.
    HIPDNN_OPERATION_TYPE_CONVOLUTION_FORWARD_EXT = 1,
    /// Convolution backward data.
    HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_DATA_EXT = 2,
    /// Convolution backward weights.
    HIPDNN_OPERATION_TYPE_CONVOLUTION_BACKWARD_WEIGHTS_EXT = 3,
    /// Batch normalization inference with given inverse standard deviation.
    HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT = 4,
    /// Batch normalization backward.
    HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT = 5,
    /// Batch normalization inference with given variance.
    HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT = 6,
    /// Batch normalization training.
    HIPDNN_OPERATION_TYPE_BATCHNORM_EXT = 7,
    /// Pointwise function.
    HIPDNN_OPERATION_TYPE_POINTWISE_EXT = 8,
    /// Matrix multiplication.
    HIPDNN_OPERATION_TYPE_MATMUL_EXT = 9,
    /// RMS normalization.
    HIPDNN_OPERATION_TYPE_RMSNORM_EXT = 10,
    /// Layer normalization.
    HIPDNN_OPERATION_TYPE_LAYERNORM_EXT = 11,
    /// Scaled dot product attention.
    HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT = 12,
    /// Block-scale quantization.
    HIPDNN_OPERATION_TYPE_BLOCK_SCALE_QUANTIZE_EXT = 13,
    /// Scaled dot product attention backward.
    HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT = 14,
    /// Block-scale dequantization.
    HIPDNN_OPERATION_TYPE_BLOCK_SCALE_DEQUANTIZE_EXT = 15,
    /// Custom operation.
    HIPDNN_OPERATION_TYPE_CUSTOM_OP_EXT = 16,
    /// Reduction.
    HIPDNN_OPERATION_TYPE_REDUCTION_EXT = 17,
    /// Pooling.
    HIPDNN_OPERATION_TYPE_RESAMPLE_FWD = 18,
    /// RMS normalization backward.
    HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT = 19,
    /// Layer normalization backward.
    HIPDNN_OPERATION_TYPE_LAYERNORM_BACKWARD_EXT = 20,
    /// Pooling backward.
    HIPDNN_OPERATION_TYPE_RESAMPLE_BWD_EXT = 21,
    /// Grouped matrix multiplication of a mixture of experts.
    HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_EXT = 22,
    /// Gradient of the grouped matrix multiplication with respect to its weights.
    HIPDNN_OPERATION_TYPE_MOE_GROUPED_MATMUL_BWD_EXT = 23,
}

/// The same type: an earlier name.
pub type hipdnnOperationType_t = hipdnnOperationType_ext_t;
