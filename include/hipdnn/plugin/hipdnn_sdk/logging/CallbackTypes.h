/* SPDX-License-Identifier: MIT */

/*
 * The name that plugins of November 2025 include.
 *
 * Generated from tools/xtask/src/generate/plugin_headers.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_SDK_LOGGING_CALLBACK_TYPES_H
#define HIPDNN_SDK_LOGGING_CALLBACK_TYPES_H

#include "../../hipdnn_data_sdk/logging/CallbackTypes.h"

#endif
