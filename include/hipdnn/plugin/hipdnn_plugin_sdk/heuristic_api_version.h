/* SPDX-License-Identifier: MIT */

/*
 * The version of the heuristic plugin interface.
 *
 * A host loads heuristic plugins of its own major version. It is another number than that of the engine plugin interface.
 *
 * Generated from plugins/sdk/src/ffi/heuristic_api_version.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_HEURISTIC_API_VERSION_H
#define HIPDNN_PLUGIN_SDK_HEURISTIC_API_VERSION_H

#include <stddef.h>

/// Changes that break.
#define HIPDNN_HEURISTIC_API_VERSION_MAJOR 0

/// Additions.
#define HIPDNN_HEURISTIC_API_VERSION_MINOR 1

/// Corrections.
#define HIPDNN_HEURISTIC_API_VERSION_PATCH 0

/// What `hipdnnPluginGetApiVersion` answers.
#define HIPDNN_HEURISTIC_API_VERSION "0.1.0"

#endif
