/* SPDX-License-Identifier: MIT */

/*
 * What padding holds.
 *
 * Generated from src/ffi/padding_mode.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PADDING_MODE_H
#define HIPDNN_PADDING_MODE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of `HIPDNN_ATTR_RESAMPLE_PADDING_MODE`.
typedef enum
{
    /// The engine's choice.
    HIPDNN_PADDING_NOT_SET = 0,
    /// Negative infinity.
    HIPDNN_PADDING_NEG_INF_PAD = 1,
    /// Zero.
    HIPDNN_PADDING_ZERO_PAD = 2,
} hipdnnPaddingMode_t;

#ifdef __cplusplus
}
#endif

#endif
