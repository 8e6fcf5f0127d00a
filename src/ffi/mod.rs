//! The types of the C interface, under their C names: one file per public header. The library, the plugin SDK and the tools
//! take all its constants from here.
//!
//! The headers in `include/hipdnn/backend` are generated from these files by `cargo xtask generate`, so the text here
//! is written for readers of C. Entry points never take these enums from C: they take the integers of [`raw`] and convert
//! with [`CEnum::from_raw`], which returns `None` for unknown values.

#![expect(non_camel_case_types, non_snake_case, reason = "the names are those of the C interface")]

pub mod attention_implementation;
pub mod attribute_name;
pub mod attribute_type;
pub mod autotune_cache_write_outcome;
pub mod behavior_note;
pub mod callback_types;
pub mod convolution_mode;
pub mod data_type;
pub mod descriptor_type;
pub mod diagonal_alignment;
pub mod flatbuffer_data;
pub mod handles;
pub mod heuristic_type;
pub mod hip;
pub mod limits;
pub mod log_callback_mode;
pub mod moe_grouped_matmul_mode;
pub mod norm_fwd_phase;
pub mod numerical_note;
pub mod operation_type;
pub mod padding_mode;
pub mod plugin_loading_mode;
pub mod plugin_unloading_mode;
pub mod pointwise_mode;
pub mod raw;
pub mod reduce_tensor_op;
pub mod resample_mode;
pub mod serialized_content_flags;
pub mod status;

pub use attention_implementation::hipdnnAttentionImplementation_t;
pub use attribute_name::hipdnnBackendAttributeName_t;
pub use attribute_type::hipdnnBackendAttributeType_t;
pub use autotune_cache_write_outcome::hipdnnAutotuneCacheWriteOutcome_ext_t;
pub use behavior_note::hipdnnBackendBehaviorNote_t;
pub use callback_types::{
    hipdnnCallback_t, hipdnnSeverity_t, hipdnnUserLogCallback_t, hipdnnUserLogCallbackHandle_t,
};
pub use convolution_mode::hipdnnConvolutionMode_t;
pub use data_type::hipdnnDataType_t;
pub use descriptor_type::hipdnnBackendDescriptorType_t;
pub use diagonal_alignment::hipdnnDiagonalAlignment_t;
pub use flatbuffer_data::hipdnnBackendFlatbufferData_t;
pub use handles::{HipdnnBackendDescriptor, hipdnnBackendDescriptor_t, hipdnnHandle, hipdnnHandle_t};
pub use heuristic_type::hipdnnBackendHeurMode_t;
pub use hip::{hipStream_t, ihipStream_t};
pub use limits::HIPDNN_ERROR_STRING_MAX_LENGTH;
pub use log_callback_mode::hipdnnLogCallbackMode_t;
pub use moe_grouped_matmul_mode::hipdnnMoeGroupedMatmulMode_t;
pub use norm_fwd_phase::hipdnnNormFwdPhase_t;
pub use numerical_note::hipdnnBackendNumericalNote_t;
pub use operation_type::hipdnnOperationType_ext_t;
pub use padding_mode::hipdnnPaddingMode_t;
pub use plugin_loading_mode::hipdnnPluginLoadingMode_ext_t;
pub use plugin_unloading_mode::hipdnnPluginUnloadingMode_ext_t;
pub use pointwise_mode::hipdnnPointwiseMode_t;
pub use raw::CEnum;
pub use reduce_tensor_op::hipdnnReduceTensorOp_t;
pub use resample_mode::hipdnnResampleMode_t;
pub use serialized_content_flags::hipdnnSerializedContentFlags_t;
pub use status::hipdnnStatus_t;
