/* SPDX-License-Identifier: MIT */

/*
 * How the tokens of a mixture of experts are routed.
 *
 * Generated from src/ffi/moe_grouped_matmul_mode.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_MOE_GROUPED_MATMUL_MODE_H
#define HIPDNN_MOE_GROUPED_MATMUL_MODE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of `HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE`.
typedef enum
{
    /// Tokens already lie in the order of their experts.
    HIPDNN_MOE_GROUPED_MATMUL_MODE_NONE = 0,
    /// Tokens are read through their index.
    HIPDNN_MOE_GROUPED_MATMUL_MODE_GATHER = 1,
    /// Results are written through the tokens' index.
    HIPDNN_MOE_GROUPED_MATMUL_MODE_SCATTER = 2,
} hipdnnMoeGroupedMatmulMode_t;

#ifdef __cplusplus
}
#endif

#endif
