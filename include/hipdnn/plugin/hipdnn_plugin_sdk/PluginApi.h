/* SPDX-License-Identifier: MIT */

/*
 * The functions that every plugin exports, whatever its kind.
 *
 * A host may call from several threads at once. Every function with a status keeps, on failure, a text for the calling
 * thread, which `hipdnnPluginGetLastErrorString` hands out. No exception may leave a function.
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

/// The longest error text that a host keeps, with its NUL.
#define HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH 2048

/// Required. The plugin's name: NUL terminated UTF-8 that lives as long as the library is loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetName(const char **name);

/// Required. The plugin's own version, as text that lives as long as the library is loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetVersion(const char **version);

/// The version of the plugin interface that the plugin was built for, HIPDNN_ENGINE_API_VERSION for an engine plugin.
/// A plugin without this function is taken for one of November 2025: it is given graphs in the layout of that time,
/// and only those that this layout can express.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char **version);

/// Required. What the library is.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t *type);

/// Required. Why the last failed call of this thread failed: NUL terminated UTF-8 of at most
/// HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH bytes. It lives until this thread's next call. A null argument does nothing.
HIPDNN_PLUGIN_EXPORT void hipdnnPluginGetLastErrorString(const char **error_str);

/// Optional. Where log lines go from now on; null for nowhere. The callback may be called from any thread. The host
/// adds nothing to a line but its end. Lines sent while the host asks which engines apply are shown to the user as the
/// reasons when none does.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback);

/// Optional. Lines below this severity are not wanted from now on. The host also filters by itself.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLogLevel(hipdnnSeverity_t level);

#ifdef __cplusplus
}
#endif

#endif
