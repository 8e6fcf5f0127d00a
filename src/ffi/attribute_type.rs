//! The types of attribute elements.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The type of the elements of an attribute array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnBackendAttributeType_t {
    /// `hipdnnHandle_t`.
    HIPDNN_TYPE_HANDLE = 0,
    /// `hipdnnDataType_t`.
    HIPDNN_TYPE_DATA_TYPE = 1,
    /// C++ `bool`, C `_Bool`: one byte.
    HIPDNN_TYPE_BOOLEAN = 2,
    /// `int64_t`.
    HIPDNN_TYPE_INT64 = 3,
    /// `float`.
    HIPDNN_TYPE_FLOAT = 4,
    /// `double`.
    HIPDNN_TYPE_DOUBLE = 5,
    /// `void*`.
    HIPDNN_TYPE_VOID_PTR = 6,
    /// `hipdnnBackendHeurMode_t`.
    HIPDNN_TYPE_HEUR_MODE = 7,
    /// Reserved; a CHAR string names a knob.
    HIPDNN_TYPE_KNOB_TYPE = 8,
    /// Reserved.
    HIPDNN_TYPE_NAN_PROPOGATION = 9,
    /// `hipdnnBackendNumericalNote_t`.
    HIPDNN_TYPE_NUMERICAL_NOTE = 10,
    /// Reserved.
    HIPDNN_TYPE_LAYOUT_TYPE = 11,
    /// `hipdnnBackendAttributeName_t`.
    HIPDNN_TYPE_ATTRIB_NAME = 12,
    /// `hipdnnBackendDescriptor_t`.
    HIPDNN_TYPE_BACKEND_DESCRIPTOR = 13,
    /// Reserved.
    HIPDNN_TYPE_GENSTATS_MODE = 14,
    /// Reserved.
    HIPDNN_TYPE_BN_FINALIZE_STATS_MODE = 15,
    /// `hipdnnBackendBehaviorNote_t`.
    HIPDNN_TYPE_BEHAVIOR_NOTE = 16,
    /// Reserved.
    HIPDNN_TYPE_TENSOR_REORDERING_MODE = 17,
    /// `int32_t`.
    HIPDNN_TYPE_INT32 = 18,
    /// `char`; a string needs no terminating NUL when it is set.
    HIPDNN_TYPE_CHAR = 19,
    /// Reserved.
    HIPDNN_TYPE_SIGNAL_MODE = 20,
    /// Reserved.
    HIPDNN_TYPE_FRACTION = 21,
    /// `hipdnnNormFwdPhase_t`.
    HIPDNN_TYPE_NORM_FWD_PHASE = 22,
    /// Reserved.
    HIPDNN_TYPE_RNG_DISTRIBUTION = 23,
    /// `hipdnnConvolutionMode_t`.
    HIPDNN_TYPE_CONVOLUTION_MODE = 24,
    /// `hipdnnPointwiseMode_t`.
    HIPDNN_TYPE_POINTWISE_MODE = 25,
    /// `hipdnnDiagonalAlignment_t`.
    HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT = 26,
    /// `hipdnnAttentionImplementation_t`.
    HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT = 27,
    /// `hipdnnReduceTensorOp_t`.
    HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE = 28,
    /// `hipdnnResampleMode_t`.
    HIPDNN_TYPE_RESAMPLE_MODE = 29,
    /// `hipdnnPaddingMode_t`.
    HIPDNN_TYPE_PADDING_MODE = 30,
    /// `hipdnnMoeGroupedMatmulMode_t`.
    HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE = 31,
    /// `hipdnnBackendFlatbufferData_t`.
    HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT = 10000,
    /// `hipdnnOperationType_ext_t`.
    HIPDNN_TYPE_OPERATION_TYPE_EXT = 10001,
}
