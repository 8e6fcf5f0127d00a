/* SPDX-License-Identifier: MIT */

/*
 * The plugin interface, written down from its description and not from the generator: numbers, layouts, and signatures,
 * each declared again. A declaration that differs from the header's does not compile.
 */

#include <hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn_plugin_sdk/PluginApi.h>
#include <hipdnn_plugin_sdk/engine_api_version.h>

#define VALUE(number, name) _Static_assert((long)(name) == (number), #name " is not " #number)

/* hipdnnPluginStatus_t */
_Static_assert(sizeof(hipdnnPluginStatus_t) == sizeof(int), "hipdnnPluginStatus_t is not an int");
VALUE(0, HIPDNN_PLUGIN_STATUS_SUCCESS);
VALUE(1, HIPDNN_PLUGIN_STATUS_BAD_PARAM);
VALUE(2, HIPDNN_PLUGIN_STATUS_INVALID_VALUE);
VALUE(3, HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR);
VALUE(4, HIPDNN_PLUGIN_STATUS_ALLOC_FAILED);
VALUE(5, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE);
VALUE(6, HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED);

/* hipdnnPluginType_t */
_Static_assert(sizeof(hipdnnPluginType_t) == sizeof(int), "hipdnnPluginType_t is not an int");
VALUE(0, HIPDNN_PLUGIN_TYPE_UNSPECIFIED);
VALUE(1, HIPDNN_PLUGIN_TYPE_ENGINE);
VALUE(2, HIPDNN_PLUGIN_TYPE_HEURISTIC);

/* hipdnnSeverity_t */
VALUE(0, HIPDNN_SEV_INFO);
VALUE(1, HIPDNN_SEV_WARN);
VALUE(2, HIPDNN_SEV_ERROR);
VALUE(3, HIPDNN_SEV_FATAL);
VALUE(4, HIPDNN_SEV_OFF);

VALUE(2048, HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH);
VALUE(1, HIPDNN_ENGINE_API_VERSION_MAJOR);

/* Structs. */
_Static_assert(sizeof(hipdnnPluginConstData_t) == sizeof(void*) + sizeof(size_t), "hipdnnPluginConstData_t");
_Static_assert(offsetof(hipdnnPluginConstData_t, ptr) == 0, "ptr");
_Static_assert(offsetof(hipdnnPluginConstData_t, size) == sizeof(void*), "size");
_Static_assert(_Generic(((hipdnnPluginConstData_t*)0)->ptr, const void*: 1, default: 0), "ptr's type");
_Static_assert(_Generic(((hipdnnPluginConstData_t*)0)->size, size_t: 1, default: 0), "size's type");
_Static_assert(sizeof(hipdnnPluginDeviceBuffer_t) == sizeof(int64_t) + sizeof(void*), "hipdnnPluginDeviceBuffer_t");
_Static_assert(offsetof(hipdnnPluginDeviceBuffer_t, uid) == 0, "uid");
_Static_assert(offsetof(hipdnnPluginDeviceBuffer_t, ptr) == sizeof(int64_t), "ptr");
_Static_assert(_Generic(((hipdnnPluginDeviceBuffer_t*)0)->uid, int64_t: 1, default: 0), "uid's type");
_Static_assert(_Generic(((hipdnnPluginDeviceBuffer_t*)0)->ptr, void*: 1, default: 0), "ptr's type");
_Static_assert(sizeof(hipdnnEnginePluginHandle_t) == sizeof(void*), "hipdnnEnginePluginHandle_t");
_Static_assert(sizeof(hipdnnEnginePluginExecutionContext_t) == sizeof(void*), "hipdnnEnginePluginExecutionContext_t");

/* What every plugin has. */
hipdnnPluginStatus_t hipdnnPluginGetName(const char** name);
hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version);
hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version);
hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type);
void hipdnnPluginGetLastErrorString(const char** error_str);
hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(void (*callback)(hipdnnSeverity_t, const char*));
hipdnnPluginStatus_t hipdnnPluginSetLogLevel(hipdnnSeverity_t level);

/* What an engine plugin has. */
hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* engine_ids, uint32_t max_engines,
                                                       uint32_t* num_engines);
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char** name);
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineKind_ext(int64_t engine_id, uint32_t* device, uint32_t* implementation);
hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle);
hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle);
hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipStream_t stream);
hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              int64_t* engine_ids, uint32_t max_engines,
                                                              uint32_t* num_engines);
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                        const hipdnnPluginConstData_t* op_graph,
                                                        hipdnnPluginConstData_t* engine_details);
hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t handle,
                                                            hipdnnPluginConstData_t* engine_details);
hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t handle,
                                                        const hipdnnPluginConstData_t* engine_config,
                                                        const hipdnnPluginConstData_t* op_graph,
                                                        size_t* workspace_size);
hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* engine_config,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              hipdnnEnginePluginExecutionContext_t* execution_context);
hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                               hipdnnEnginePluginExecutionContext_t execution_context);
hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, size_t* workspace_size);
hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t handle,
                                                      hipdnnEnginePluginExecutionContext_t execution_context,
                                                      void* workspace, const hipdnnPluginDeviceBuffer_t* device_buffers,
                                                      uint32_t num_device_buffers);
hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, void* workspace,
    const hipdnnPluginDeviceBuffer_t* device_buffers, uint32_t num_device_buffers, uint32_t num_overrides,
    const int64_t* override_unique_ids, const uint32_t* override_lengths, const int64_t* const* override_shapes,
    const int64_t* const* override_strides);
hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                 hipdnnEnginePluginExecutionContext_t execution_context,
                                                                 hipdnnPluginConstData_t* serialized_context);
hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                         hipdnnPluginConstData_t* serialized_context);
hipdnnPluginStatus_t
hipdnnEnginePluginDescribeExecutionContext_ext(hipdnnEnginePluginHandle_t handle,
                                               hipdnnEnginePluginExecutionContext_t execution_context,
                                               size_t requested_size, size_t* size, char* json);
hipdnnPluginStatus_t hipdnnEnginePluginDescribeNumerics_ext(hipdnnEnginePluginHandle_t handle,
                                                            const hipdnnPluginConstData_t* engine_config,
                                                            const hipdnnPluginConstData_t* op_graph,
                                                            size_t requested_size, size_t* size, char* json);
hipdnnPluginStatus_t hipdnnEnginePluginIsExecutionContextShareable_ext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, uint32_t* is_shareable);
hipdnnPluginStatus_t hipdnnEnginePluginSetStepCallback_ext(void (*callback)(const char* name, uint64_t begin,
                                                                            uint64_t end));
hipdnnPluginStatus_t hipdnnEnginePluginOfferAllEngines_ext(uint32_t all);
hipdnnPluginStatus_t
hipdnnEnginePluginCreateExecutionContextFromSerialized(hipdnnEnginePluginHandle_t handle,
                                                       const hipdnnPluginConstData_t* serialized_context,
                                                       hipdnnEnginePluginExecutionContext_t* execution_context);

int main(void) { return 0; }
