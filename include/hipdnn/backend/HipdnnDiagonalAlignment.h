/* SPDX-License-Identifier: MIT */

/*
 * Where the diagonal of an attention mask starts.
 *
 * Generated from src/ffi/diagonal_alignment.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_DIAGONAL_ALIGNMENT_H
#define HIPDNN_DIAGONAL_ALIGNMENT_H

#ifdef __cplusplus
extern "C" {
#endif

/// The value of the attributes whose name ends in `DIAGONAL_ALIGNMENT_EXT`.
typedef enum
{
    /// At the first query and the first key.
    HIPDNN_DIAGONAL_ALIGNMENT_TOP_LEFT_EXT = 0,
    /// At the last query and the last key.
    HIPDNN_DIAGONAL_ALIGNMENT_BOTTOM_RIGHT_EXT = 1,
} hipdnnDiagonalAlignment_t;

#ifdef __cplusplus
}
#endif

#endif
