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
    /// Product.
    HIPDNN_REDUCE_TENSOR_MUL = 2,
    /// Least.
    HIPDNN_REDUCE_TENSOR_MIN = 3,
    /// Greatest.
    HIPDNN_REDUCE_TENSOR_MAX = 4,
    /// Greatest absolute value.
    HIPDNN_REDUCE_TENSOR_AMAX = 5,
    /// Mean.
    HIPDNN_REDUCE_TENSOR_AVG = 6,
    /// Sum of absolute values.
    HIPDNN_REDUCE_TENSOR_NORM1 = 7,
    /// Root of the sum of squares.
    HIPDNN_REDUCE_TENSOR_NORM2 = 8,
    /// Product of the elements that are not zero.
    HIPDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 9,
} hipdnnReduceTensorOp_t;

#ifdef __cplusplus
}
#endif

#endif
