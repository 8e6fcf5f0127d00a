/* SPDX-License-Identifier: MIT */

/*
 * The name that plugins of November 2025 include.
 *
 * Generated from tools/xtask/src/generate/plugin_headers.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_SDK_PLUGIN_PLUGIN_API_H
#define HIPDNN_SDK_PLUGIN_PLUGIN_API_H

#include "../../hipdnn_plugin_sdk/PluginApi.h"

#endif
