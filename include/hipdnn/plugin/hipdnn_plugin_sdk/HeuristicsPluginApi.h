/* SPDX-License-Identifier: MIT */

/*
 * The name that plugins for AMD's newest interface include.
 *
 * Generated from tools/xtask/src/generate/plugin_headers.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_HEURISTICS_PLUGIN_API_H
#define HIPDNN_PLUGIN_SDK_HEURISTICS_PLUGIN_API_H

#include "HeuristicPluginApi.h"

#endif
