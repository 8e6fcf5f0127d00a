/* SPDX-License-Identifier: MIT */

/*
 * The version of the headers, and of the library they came with.
 *
 * Generated from Cargo.toml by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_VERSION_H
#define HIPDNN_BACKEND_VERSION_H

#include <stddef.h>

#define HIPDNN_BACKEND_VERSION_MAJOR 0
#define HIPDNN_BACKEND_VERSION_MINOR 6
#define HIPDNN_BACKEND_VERSION_PATCH 0

/// `MAJOR.MINOR.PATCH`. The library's own `hipdnnVersionString_ext` adds a fourth part: the commit it was built from.
#define HIPDNN_BACKEND_VERSION_STRING "0.6.0"

#endif
