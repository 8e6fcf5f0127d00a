/* SPDX-License-Identifier: MIT */

/*
 * How attention is implemented.
 *
 * Generated from src/ffi/attention_implementation.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_ATTENTION_IMPLEMENTATION_H
#define HIPDNN_ATTENTION_IMPLEMENTATION_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of `HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT`.
typedef enum
{
    /// The engine's choice.
    HIPDNN_ATTENTION_IMPLEMENTATION_AUTO_EXT = 0,
    /// From separate operations.
    HIPDNN_ATTENTION_IMPLEMENTATION_COMPOSITE_EXT = 1,
    /// As one operation.
    HIPDNN_ATTENTION_IMPLEMENTATION_UNIFIED_EXT = 2,
} hipdnnAttentionImplementation_t;

#ifdef __cplusplus
}
#endif

#endif
