/* SPDX-License-Identifier: MIT */

/*
 * Convolution or cross-correlation.
 *
 * Generated from src/ffi/convolution_mode.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_CONVOLUTION_MODE_H
#define HIPDNN_CONVOLUTION_MODE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of `HIPDNN_ATTR_CONVOLUTION_CONV_MODE`.
typedef enum
{
    /// The filter is flipped in every spatial dimension, as in mathematics.
    HIPDNN_CONVOLUTION = 0,
    /// The same as HIPDNN_CONVOLUTION.
    HIPDNN_CONVOLUTION_MODE_CONVOLUTION = HIPDNN_CONVOLUTION,
    /// The filter is not flipped, as is usual for neural networks.
    HIPDNN_CROSS_CORRELATION = 1,
    /// The same as HIPDNN_CROSS_CORRELATION.
    HIPDNN_CONVOLUTION_MODE_CROSS_CORRELATION = HIPDNN_CROSS_CORRELATION,
} hipdnnConvolutionMode_t;

#ifdef __cplusplus
}
#endif

#endif
