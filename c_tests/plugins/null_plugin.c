/* SPDX-License-Identifier: MIT */

/*
 * An engine plugin that does nothing: one engine, applicable to every graph, without workspace. What a call through the
 * library costs with it is the library's own cost.
 */

#include <hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn_plugin_sdk/engine_api_version.h>

static const char ENGINE_NAME[] = "NULL_ENGINE";
/* The 64-bit FNV-1a hash of the name. */
#define ENGINE_ID INT64_C(-8545303469368193377)

/* EngineDetails with nothing but the id: offset of the table, its list of slots, the table. */
static const struct {
    uint32_t root;
    uint16_t slots_size, table_size, engine_id, padding;
    int32_t back;
    int64_t id;
} DETAILS = {12, 6, 12, 4, 0, 8, ENGINE_ID};

static int context;

hipdnnPluginStatus_t hipdnnPluginGetName(const char** name)
{
    *name = "Null";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version)
{
    *version = HIPDNN_ENGINE_API_VERSION;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type)
{
    *type = HIPDNN_PLUGIN_TYPE_ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void hipdnnPluginGetLastErrorString(const char** error_str) { *error_str = ""; }

hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* engine_ids, uint32_t max_engines, uint32_t* num_engines)
{
    if (max_engines > 0) {
        engine_ids[0] = ENGINE_ID;
    }
    *num_engines = 1;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char** name)
{
    if (engine_id != ENGINE_ID) {
        return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    }
    *name = ENGINE_NAME;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle)
{
    *handle = (hipdnnEnginePluginHandle_t)&context;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle)
{
    (void)handle;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipStream_t stream)
{
    (void)handle;
    (void)stream;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              int64_t* engine_ids, uint32_t max_engines,
                                                              uint32_t* num_engines)
{
    (void)handle;
    (void)op_graph;
    return hipdnnEnginePluginGetAllEngineIds(engine_ids, max_engines, num_engines);
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                        const hipdnnPluginConstData_t* op_graph,
                                                        hipdnnPluginConstData_t* engine_details)
{
    (void)handle;
    (void)engine_id;
    (void)op_graph;
    engine_details->ptr = &DETAILS;
    engine_details->size = sizeof DETAILS;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t handle,
                                                            hipdnnPluginConstData_t* engine_details)
{
    (void)handle;
    engine_details->ptr = NULL;
    engine_details->size = 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t handle,
                                                        const hipdnnPluginConstData_t* engine_config,
                                                        const hipdnnPluginConstData_t* op_graph, size_t* workspace_size)
{
    (void)handle;
    (void)engine_config;
    (void)op_graph;
    *workspace_size = 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* engine_config,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              hipdnnEnginePluginExecutionContext_t* execution_context)
{
    (void)handle;
    (void)engine_config;
    (void)op_graph;
    *execution_context = (hipdnnEnginePluginExecutionContext_t)&context;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                               hipdnnEnginePluginExecutionContext_t execution_context)
{
    (void)handle;
    (void)execution_context;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t execution_context, size_t* workspace_size)
{
    (void)handle;
    (void)execution_context;
    *workspace_size = 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t handle,
                                                      hipdnnEnginePluginExecutionContext_t execution_context,
                                                      void* workspace, const hipdnnPluginDeviceBuffer_t* device_buffers,
                                                      uint32_t num_device_buffers)
{
    (void)handle;
    (void)execution_context;
    (void)workspace;
    (void)device_buffers;
    (void)num_device_buffers;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
