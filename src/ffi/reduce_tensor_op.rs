//! How a reduction combines elements.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_REDUCTION_OPERATOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnReduceTensorOp_t {
    /// Sum.
    HIPDNN_REDUCE_TENSOR_ADD = 1,
    /// Product.
    HIPDNN_REDUCE_TENSOR_MUL = 2,
    /// Minimum.
    HIPDNN_REDUCE_TENSOR_MIN = 3,
    /// Maximum.
    HIPDNN_REDUCE_TENSOR_MAX = 4,
    /// Maximum absolute value.
    HIPDNN_REDUCE_TENSOR_AMAX = 5,
    /// Mean.
    HIPDNN_REDUCE_TENSOR_AVG = 6,
    /// Sum of absolute values.
    HIPDNN_REDUCE_TENSOR_NORM1 = 7,
    /// Square root of the sum of squares.
    HIPDNN_REDUCE_TENSOR_NORM2 = 8,
    /// Product of the elements that are not zero.
    HIPDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 9,
}

/// The same type: an earlier name.
pub type hipdnnReductionMode_t = hipdnnReduceTensorOp_t;
