/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The functions that hosts look for, made for a plugin's manager.
 */
#pragma once

/** A function of the interface that turns exceptions into a status. */
#define HIPDNN_PLUGIN_CALL(name, parameters, ...)                                                        \
    extern "C" hipdnnPluginStatus_t name parameters                                                      \
    {                                                                                                    \
        return ::hipdnn_plugin::detail::guarded([&]() { __VA_ARGS__; });                                 \
    }

/* The functions of every plugin. */
#define HIPDNN_PLUGIN_COMMON(kind, plugin_name, plugin_version, plugin_api_version)                      \
    HIPDNN_PLUGIN_CALL(hipdnnPluginGetName, (const char **name), *name = plugin_name)                    \
    HIPDNN_PLUGIN_CALL(hipdnnPluginGetVersion, (const char **version), *version = plugin_version)        \
    HIPDNN_PLUGIN_CALL(hipdnnPluginGetApiVersion, (const char **version), *version = plugin_api_version) \
    HIPDNN_PLUGIN_CALL(hipdnnPluginGetType, (hipdnnPluginType_t * type), *type = kind)                   \
    HIPDNN_PLUGIN_CALL(hipdnnPluginSetLoggingCallback, (hipdnnCallback_t callback),                      \
                       ::hipdnn_plugin::detail::log_callback() = callback)                               \
    HIPDNN_PLUGIN_CALL(hipdnnPluginSetLogLevel, (hipdnnSeverity_t level),                                \
                       ::hipdnn_plugin::detail::log_level() = level)                                     \
    extern "C" void hipdnnPluginGetLastErrorString(const char **error_str)                               \
    {                                                                                                    \
        if (error_str != nullptr)                                                                        \
        {                                                                                                \
            *error_str = ::hipdnn_plugin::detail::last_error().c_str();                                  \
        }                                                                                                \
    }

/** Exports a plugin's functions; use it once, in one source file, outside of namespaces. */
#define HIPDNN_EXPORT_ENGINE_PLUGIN(Manager)                                                                               \
    using HipdnnPluginExports = ::hipdnn_plugin::detail::Exports<Manager>;                                                 \
    HIPDNN_PLUGIN_COMMON(HIPDNN_PLUGIN_TYPE_ENGINE, HipdnnPluginExports::manager().name(),                                 \
                         HipdnnPluginExports::manager().version(), HipdnnPluginExports::api_version())                     \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetAllEngineIds, (int64_t * ids, uint32_t most, uint32_t * count),                \
                       HipdnnPluginExports::all_engines(ids, most, count))                                                 \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetEngineName, (int64_t id, const char **name),                                   \
                       *name = HipdnnPluginExports::engine(id).name())                                                     \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetEngineKind_ext,                                                                \
                       (int64_t id, uint32_t * device, uint32_t * implementation),                                         \
                       HipdnnPluginExports::kind(id, device, implementation))                                              \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginCreate, (hipdnnEnginePluginHandle_t * handle),                                    \
                       *handle = new HipdnnEnginePluginHandle())                                                           \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginDestroy, (hipdnnEnginePluginHandle_t handle), delete handle)                      \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginSetStream, (hipdnnEnginePluginHandle_t handle, hipStream_t stream),               \
                       ::hipdnn_plugin::detail::require(handle, "handle"); handle->stream = stream)                        \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetApplicableEngineIds,                                                           \
                       (hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t *graph, int64_t *ids, uint32_t most,     \
                        uint32_t *count),                                                                                  \
                       HipdnnPluginExports::applicable(graph, ids, most, count))                                           \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetEngineDetails,                                                                 \
                       (hipdnnEnginePluginHandle_t, int64_t id, const hipdnnPluginConstData_t *graph,                      \
                        hipdnnPluginConstData_t *details),                                                                 \
                       ::hipdnn_plugin::detail::require(details, "engine_details");                                        \
                       HipdnnPluginExports::hand_out(::hipdnn_plugin::detail::write_details(HipdnnPluginExports::engine(id), \
                                                                                           HipdnnPluginExports::graph_of(graph)), \
                                                     details))                                                             \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginDestroyEngineDetails,                                                             \
                       (hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t * details), HipdnnPluginExports::take_back(details)) \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetWorkspaceSize,                                                                 \
                       (hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t *config,                                 \
                        const hipdnnPluginConstData_t *graph, size_t *size),                                               \
                       *size = HipdnnPluginExports::make_plan(config, graph)->workspace_size())                            \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginDescribeNumerics_ext,                                                             \
                       (hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t *config,                                 \
                        const hipdnnPluginConstData_t *graph, size_t room, size_t *size, char *json),                      \
                       HipdnnPluginExports::describe_numerics(config, graph, room, size, json))                            \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginCreateExecutionContext,                                                           \
                       (hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t *config,                                 \
                        const hipdnnPluginConstData_t *graph, hipdnnEnginePluginExecutionContext_t *context),              \
                       ::hipdnn_plugin::detail::require(context, "execution_context");                                     \
                       auto plan = HipdnnPluginExports::make_plan(config, graph);                                          \
                       *context = new HipdnnEnginePluginExecutionContext{::hipdnn_plugin::detail::configured_engine(config), \
                                                                         std::move(plan)})                                 \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginDestroyExecutionContext,                                                          \
                       (hipdnnEnginePluginHandle_t, hipdnnEnginePluginExecutionContext_t context), delete context)         \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext,                                             \
                       (hipdnnEnginePluginHandle_t, hipdnnEnginePluginExecutionContext_t context, size_t *size),           \
                       ::hipdnn_plugin::detail::require(context, "execution_context");                                     \
                       *size = context->plan->workspace_size())                                                            \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginExecuteOpGraph,                                                                   \
                       (hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context, void *workspace,  \
                        const hipdnnPluginDeviceBuffer_t *buffers, uint32_t count),                                        \
                       const auto given = HipdnnPluginExports::execution(handle, context, workspace, buffers, count);      \
                       context->plan->execute(given))                                                                      \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginExecuteOpGraphWithOverrides,                                                      \
                       (hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context, void *workspace,  \
                        const hipdnnPluginDeviceBuffer_t *buffers, uint32_t count, uint32_t overrides,                     \
                        const int64_t *uids, const uint32_t *lengths, const int64_t *const *shapes,                        \
                        const int64_t *const *strides),                                                                    \
                       const auto given = HipdnnPluginExports::execution(handle, context, workspace, buffers, count);      \
                       context->plan->execute_with_overrides(                                                              \
                           given, HipdnnPluginExports::overrides(overrides, uids, lengths, shapes, strides)))              \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginSerializeExecutionContext,                                                        \
                       (hipdnnEnginePluginHandle_t, hipdnnEnginePluginExecutionContext_t context,                          \
                        hipdnnPluginConstData_t *data),                                                                    \
                       HipdnnPluginExports::save(context, data))                                                           \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginSerializeExecutionContextWithEngineId,                                            \
                       (hipdnnEnginePluginHandle_t, int64_t, hipdnnEnginePluginExecutionContext_t context,                 \
                        hipdnnPluginConstData_t *data),                                                                    \
                       HipdnnPluginExports::save(context, data))                                                           \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginDestroySerializedExecutionContext,                                                \
                       (hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t * data), HipdnnPluginExports::take_back(data)) \
    HIPDNN_PLUGIN_CALL(hipdnnEnginePluginCreateExecutionContextFromSerialized,                                             \
                       (hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t *data,                                   \
                        hipdnnEnginePluginExecutionContext_t *context),                                                    \
                       HipdnnPluginExports::load(data, context))                                                           \
    static_assert(true, "a semicolon follows")

/** Exports an engine plugin: its name, its version and the classes of the engines, best first. Instead of HIPDNN_EXPORT_ENGINE_PLUGIN. */
#define HIPDNN_EXPORT_ENGINES(plugin_name, plugin_version, ...)                    \
    struct HipdnnPluginManager : ::hipdnn_plugin::ManagerOf<__VA_ARGS__>           \
    {                                                                              \
        const char *name() const override { return plugin_name; }                  \
        const char *version() const override { return plugin_version; }            \
    };                                                                             \
    HIPDNN_EXPORT_ENGINE_PLUGIN(HipdnnPluginManager)
