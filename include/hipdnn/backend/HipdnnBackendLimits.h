/* SPDX-License-Identifier: MIT */

/*
 * Sizes that a caller can rely on.
 *
 * Generated from src/ffi/limits.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_LIMITS_H
#define HIPDNN_BACKEND_LIMITS_H

#include <stddef.h>

/// Bytes that hold any last error text, its NUL included.
#define HIPDNN_ERROR_STRING_MAX_LENGTH 2048

#endif
