/* SPDX-License-Identifier: MIT */

/*
 * When plugins are unloaded.
 *
 * Generated from src/ffi/plugin_unloading_mode.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_PLUGIN_UNLOADING_MODE_H
#define HIPDNN_BACKEND_PLUGIN_UNLOADING_MODE_H

#ifdef __cplusplus
extern "C" {
#endif

/// When plugins that no handle uses are unloaded.
typedef enum
{
    /// At process exit, or when engine paths are set.
    HIPDNN_PLUGIN_UNLOAD_LAZY = 0,
    /// The same as HIPDNN_PLUGIN_UNLOAD_LAZY.
    HIPDNN_DEFAULT_PLUGIN_UNLOADING_MODE = HIPDNN_PLUGIN_UNLOAD_LAZY,
    /// With the last handle.
    HIPDNN_PLUGIN_UNLOAD_EAGER = 1,
} hipdnnPluginUnloadingMode_ext_t;

#ifdef __cplusplus
}
#endif

#endif
