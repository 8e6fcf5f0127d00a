/* SPDX-License-Identifier: MIT */

/*
 * How a reduction combines elements.
 *
 * Generated from src/ffi/reduce_tensor_op.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_REDUCE_TENSOR_OP_H
#define HIPDNN_REDUCE_TENSOR_OP_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of `HIPDNN_ATTR_REDUCTION_OPERATOR`.
typedef enum
{
    /// Sum.
    HIPDNN_REDUCE_TENSOR_ADD = 1,
    /// The same as HIPDNN_REDUCE_TENSOR_ADD.
    HIPDNN_REDUCTION_ADD = HIPDNN_REDUCE_TENSOR_ADD,
    /// Product.
    HIPDNN_REDUCE_TENSOR_MUL = 2,
    /// The same as HIPDNN_REDUCE_TENSOR_MUL.
    HIPDNN_REDUCTION_MUL = HIPDNN_REDUCE_TENSOR_MUL,
    /// Minimum.
    HIPDNN_REDUCE_TENSOR_MIN = 3,
    /// The same as HIPDNN_REDUCE_TENSOR_MIN.
    HIPDNN_REDUCTION_MIN = HIPDNN_REDUCE_TENSOR_MIN,
    /// Maximum.
    HIPDNN_REDUCE_TENSOR_MAX = 4,
    /// The same as HIPDNN_REDUCE_TENSOR_MAX.
    HIPDNN_REDUCTION_MAX = HIPDNN_REDUCE_TENSOR_MAX,
    /// Maximum absolute value.
    HIPDNN_REDUCE_TENSOR_AMAX = 5,
    /// The same as HIPDNN_REDUCE_TENSOR_AMAX.
    HIPDNN_REDUCTION_AMAX = HIPDNN_REDUCE_TENSOR_AMAX,
    /// Mean.
    HIPDNN_REDUCE_TENSOR_AVG = 6,
    /// The same as HIPDNN_REDUCE_TENSOR_AVG.
    HIPDNN_REDUCTION_AVG = HIPDNN_REDUCE_TENSOR_AVG,
    /// Sum of absolute values.
    HIPDNN_REDUCE_TENSOR_NORM1 = 7,
    /// The same as HIPDNN_REDUCE_TENSOR_NORM1.
    HIPDNN_REDUCTION_NORM1 = HIPDNN_REDUCE_TENSOR_NORM1,
    /// Square root of the sum of squares.
    HIPDNN_REDUCE_TENSOR_NORM2 = 8,
    /// The same as HIPDNN_REDUCE_TENSOR_NORM2.
    HIPDNN_REDUCTION_NORM2 = HIPDNN_REDUCE_TENSOR_NORM2,
    /// Product of the elements that are not zero.
    HIPDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 9,
    /// The same as HIPDNN_REDUCE_TENSOR_MUL_NO_ZEROS.
    HIPDNN_REDUCTION_MUL_NO_ZEROS = HIPDNN_REDUCE_TENSOR_MUL_NO_ZEROS,
} hipdnnReduceTensorOp_t;

/// The same type: an earlier name.
typedef hipdnnReduceTensorOp_t hipdnnReductionMode_t;

#ifdef __cplusplus
}
#endif

#endif
