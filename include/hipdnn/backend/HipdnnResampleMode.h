/* SPDX-License-Identifier: MIT */

/*
 * How pooling reduces a window.
 *
 * Generated from src/ffi/resample_mode.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_RESAMPLE_MODE_H
#define HIPDNN_RESAMPLE_MODE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of `HIPDNN_ATTR_RESAMPLE_MODE`.
typedef enum
{
    /// Maximum.
    HIPDNN_RESAMPLE_MAXPOOL = 1,
    /// Average without padding.
    HIPDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING = 2,
    /// Average with padding: the sum divided by the window size.
    HIPDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING = 3,
} hipdnnResampleMode_t;

#ifdef __cplusplus
}
#endif

#endif
