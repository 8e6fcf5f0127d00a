/* SPDX-License-Identifier: MIT */

/*
 * Inference or training.
 *
 * Generated from src/ffi/norm_fwd_phase.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_NORM_FWD_PHASE_H
#define HIPDNN_NORM_FWD_PHASE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of the attributes whose name ends in `FWD_PHASE_EXT`.
typedef enum
{
    /// Inference: statistics are not written.
    HIPDNN_NORM_FWD_INFERENCE = 1,
    /// Training: statistics are written for the backward pass.
    HIPDNN_NORM_FWD_TRAINING = 2,
} hipdnnNormFwdPhase_t;

#ifdef __cplusplus
}
#endif

#endif
