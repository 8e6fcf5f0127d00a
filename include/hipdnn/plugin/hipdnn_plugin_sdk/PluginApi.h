/* SPDX-License-Identifier: MIT */

/*
 * The functions that plugins of every kind export.
 *
 * A host may call them from several threads concurrently. On failure, every function with a status stores a text for
 * the calling thread, which `hipdnnPluginGetLastErrorString` returns. No exception may leave a function.
 *
 * Generated from plugins/sdk/src/ffi/plugin_api.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_PLUGIN_API_H
#define HIPDNN_PLUGIN_SDK_PLUGIN_API_H

#include "../hipdnn_data_sdk/logging/CallbackTypes.h"
#include "PluginApiDataTypes.h"

#ifndef HIPDNN_PLUGIN_EXPORT
#if defined(HIPDNN_PLUGIN_STATIC_DEFINE)
#define HIPDNN_PLUGIN_EXPORT
#elif defined(_WIN32)
#define HIPDNN_PLUGIN_EXPORT __declspec(dllexport)
#else
#define HIPDNN_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif
#endif

#ifndef HIPDNN_PLUGIN_NODISCARD
#ifdef __cplusplus
#define HIPDNN_PLUGIN_NODISCARD [[nodiscard]]
#else
#define HIPDNN_PLUGIN_NODISCARD
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Maximum length of an error text that a host keeps, including its NUL.
#define HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH 2048

/// Required. The plugin's name: NUL-terminated UTF-8 that is valid while the library is loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetName(const char **name);

/// Required. The plugin's own version, as text that is valid while the library is loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetVersion(const char **version);

/// The version of the plugin interface that the plugin was built for, HIPDNN_ENGINE_API_VERSION for an engine
/// plugin. Plugins without this function are treated as those of November 2025: they only get graphs that the
/// layout of that time can express, in that layout.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char **version);

/// Required. The kind of plugin.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t *type);

/// Required. Why the last failed call of this thread failed: NUL-terminated UTF-8 of at most
/// HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH bytes, valid until this thread's next call. A null argument is ignored.
HIPDNN_PLUGIN_EXPORT void hipdnnPluginGetLastErrorString(const char **error_str);

/// Optional. Sets the callback for log lines; null disables them. The callback may be called from any thread. The
/// host only appends a line end. Lines sent while the host queries applicable engines are shown to the user as
/// the reasons if no engine applies.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback);

/// Optional. Sets the minimum severity of log lines. The host filters, too.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLogLevel(hipdnnSeverity_t level);

#ifdef __cplusplus
}
#endif

#endif
