//! The kinds of descriptors.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// What `hipdnnBackendCreateDescriptor` creates.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnBackendDescriptorType_t {
    /// No descriptor.
    HIPDNN_INVALID_TYPE_EXT = 0,
    /// One engine, for one operation graph.
    HIPDNN_BACKEND_ENGINE_DESCRIPTOR = 1,
    /// An engine with its knob choices.
    HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR = 2,
    /// The engines that can run an operation graph, best first.
    HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 3,
    /// An execution plan, which `hipdnnBackendExecute` runs.
    HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 4,
    /// Reserved.
    HIPDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR = 5,
    /// The value of one knob.
    HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 6,
    /// Describes one knob.
    HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR = 7,
    /// Reserved.
    HIPDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR = 8,
    /// Reserved.
    HIPDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR = 9,
    /// Operations and the tensors that connect them.
    HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 10,
    /// The data pointers and the workspace of one execution.
    HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 11,
    /// Reserved.
    HIPDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR = 12,
    /// Reserved.
    HIPDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR = 13,
    /// A tensor.
    HIPDNN_BACKEND_TENSOR_DESCRIPTOR = 14,
    /// Convolution.
    HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 15,
    /// Convolution backward weights.
    HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 16,
    /// Batch normalization inference with given mean and inverse standard deviation.
    HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT = 17,
    /// Pointwise function of one, two or three operands.
    HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 18,
    /// Convolution backward data.
    HIPDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 19,
    /// Batch normalization backward.
    HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT = 20,
    /// Batch normalization inference with given mean and variance.
    HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT = 21,
    /// Matrix multiplication.
    HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 22,
    /// RMS normalization.
    HIPDNN_BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT = 23,
    /// Scaled dot product attention.
    HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR = 24,
    /// Layer normalization.
    HIPDNN_BACKEND_OPERATION_LAYERNORM_DESCRIPTOR_EXT = 25,
    /// Block-scale quantization.
    HIPDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR = 26,
    /// Batch normalization training.
    HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT = 27,
    /// Block-scale dequantization.
    HIPDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR = 28,
    /// An operation that an engine knows by name.
    HIPDNN_BACKEND_OPERATION_CUSTOM_OP_DESCRIPTOR_EXT = 29,
    /// Scaled dot product attention backward.
    HIPDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT = 30,
    /// Reduction.
    HIPDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 31,
    /// Pooling.
    HIPDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR = 32,
    /// RMS normalization backward.
    HIPDNN_BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT = 33,
    /// Times work on a handle's stream.
    HIPDNN_BACKEND_PROFILING_CONTROL_EXT = 34,
    /// Layer normalization backward.
    HIPDNN_BACKEND_OPERATION_LAYERNORM_BACKWARD_DESCRIPTOR_EXT = 35,
    /// Pooling backward.
    HIPDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR = 36,
    /// Grouped matrix multiplication of a mixture of experts.
    HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR = 37,
    /// Gradient of the grouped matrix multiplication with respect to its weights.
    HIPDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR = 38,
}
