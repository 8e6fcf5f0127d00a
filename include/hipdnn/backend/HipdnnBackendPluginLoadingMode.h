/* SPDX-License-Identifier: MIT */

/*
 * How a program's plugin paths combine with the default ones.
 *
 * Generated from src/ffi/plugin_loading_mode.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_PLUGIN_LOADING_MODE_H
#define HIPDNN_BACKEND_PLUGIN_LOADING_MODE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The mode of `hipdnnSetEnginePluginPaths_ext`.
typedef enum
{
    /// The paths are searched in addition to the default ones.
    HIPDNN_PLUGIN_LOADING_ADDITIVE = 0,
    /// The same as HIPDNN_PLUGIN_LOADING_ADDITIVE.
    HIPDNN_DEFAULT_PLUGIN_LOADING_MODE = HIPDNN_PLUGIN_LOADING_ADDITIVE,
    /// The paths are searched instead of all others.
    HIPDNN_PLUGIN_LOADING_ABSOLUTE = 1,
} hipdnnPluginLoadingMode_ext_t;

#ifdef __cplusplus
}
#endif

#endif
