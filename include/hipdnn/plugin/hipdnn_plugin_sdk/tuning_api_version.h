/* SPDX-License-Identifier: MIT */

/*
 * The version of the tuning plugin interface.
 *
 * A host loads tuning plugins of its own major version. It is another number than those of the other interfaces.
 *
 * Generated from bindings/rust/src/tuning/ffi/version.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_TUNING_API_VERSION_H
#define HIPDNN_PLUGIN_SDK_TUNING_API_VERSION_H

#include <stddef.h>

/// Changes that break.
#define HIPDNN_TUNING_API_VERSION_MAJOR 0

/// Additions.
#define HIPDNN_TUNING_API_VERSION_MINOR 1

/// Corrections.
#define HIPDNN_TUNING_API_VERSION_PATCH 0

/// What `hipdnnPluginGetApiVersion` answers.
#define HIPDNN_TUNING_API_VERSION "0.1.0"

#endif
