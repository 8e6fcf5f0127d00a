/* SPDX-License-Identifier: MIT */

/*
 * The version of the heuristic plugin interface.
 *
 * Hosts load only heuristic plugins of their own major version. It is independent of the engine plugin interface's
 * version.
 *
 * Generated from plugins/sdk/src/ffi/heuristic_api_version.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_HEURISTIC_API_VERSION_H
#define HIPDNN_PLUGIN_SDK_HEURISTIC_API_VERSION_H

#include <stddef.h>

/// Incompatible changes.
#define HIPDNN_HEURISTIC_API_VERSION_MAJOR 0

/// Additions.
#define HIPDNN_HEURISTIC_API_VERSION_MINOR 1

/// Fixes.
#define HIPDNN_HEURISTIC_API_VERSION_PATCH 0

/// What `hipdnnPluginGetApiVersion` answers.
#define HIPDNN_HEURISTIC_API_VERSION "0.1.0"

#endif
