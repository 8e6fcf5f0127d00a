/* SPDX-License-Identifier: MIT */

/*
 * The version of the engine plugin interface.
 *
 * Hosts load only plugins of their own major version. A graph that needs a newer version than a plugin's is not
 * offered to the plugin.
 *
 * Generated from plugins/sdk/src/ffi/engine_api_version.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_ENGINE_API_VERSION_H
#define HIPDNN_PLUGIN_SDK_ENGINE_API_VERSION_H

#include <stddef.h>

/// Incompatible changes.
#define HIPDNN_ENGINE_API_VERSION_MAJOR 1

/// Additions.
#define HIPDNN_ENGINE_API_VERSION_MINOR 0

/// Fixes.
#define HIPDNN_ENGINE_API_VERSION_PATCH 0

/// What `hipdnnPluginGetApiVersion` answers.
#define HIPDNN_ENGINE_API_VERSION "1.0.0"

#endif
