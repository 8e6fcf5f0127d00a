/* SPDX-License-Identifier: MIT */

/*
 * An engine plugin in C that reads its graph. Its engine computes one operation: ReLU, plain or leaky, of packed floats in host
 * memory. It refuses all other graphs, with a reason.
 *
 *     cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden relu_plugin.c -o librelu_plugin.so \
 *         -I$(pkg-config --variable=plugin_includedir hipdnn_backend)
 *     HIPDNN_PLUGIN_DIR=$PWD/librelu_plugin.so hipdnn run relu.json
 */

#include "graph_reader.h"

#include <hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn_plugin_sdk/engine_api_version.h>

#include <stdio.h>
#include <stdlib.h>

static const char ENGINE_NAME[] = "EXAMPLE_C_RELU_ENGINE";

/* Numbers of the schema, hipdnn.fbs: the index of a field in its table, of a name in its enumeration, and of a table in its union,
* which counts from 1. */
enum {
    GRAPH_TENSORS = 4,
    GRAPH_NODES = 5,
    TENSOR_UID = 0,
    TENSOR_DATA_TYPE = 2,
    TENSOR_STRIDES = 3,
    TENSOR_DIMS = 4,
    TENSOR_VIRTUAL = 5,
    TENSOR_VALUE_TYPE = 6,
    TENSOR_PASS_BY_VALUE = 8,
    NODE_ATTRIBUTES_TYPE = 2,
    NODE_ATTRIBUTES = 3,
    POINTWISE_OPERATION = 0,
    POINTWISE_LOWER_CLIP = 1,
    POINTWISE_UPPER_CLIP = 2,
    POINTWISE_SLOPE = 3,
    POINTWISE_IN = 5,
    POINTWISE_OUT = 8,
    CONFIG_ENGINE_ID = 0,

    DATA_TYPE_FLOAT = 1,
    MODE_RELU_FWD = 34,
    ATTRIBUTES_POINTWISE = 2,
};

/* A planned graph. */
struct HipdnnEnginePluginExecutionContext {
    int64_t in, out;
    size_t length;
    float slope;
};

/* A handle needs a unique address; this plugin stores nothing there. */
struct HipdnnEnginePluginHandle {
    hipStream_t stream;
};

static hipdnnCallback_t logging;

/* Why the thread's last call failed. */
static _Thread_local char last_error[256];

static hipdnnPluginStatus_t fail(hipdnnPluginStatus_t status, const char* text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
    return status;
}

/* An engine's id: the 64-bit FNV-1a hash of its name. */
static int64_t engine_id(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char* c = ENGINE_NAME; *c != '\0'; ++c)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    int64_t id;
    memcpy(&id, &hash, sizeof id);
    return id;
}

static fb_table tensor_with(fb_table graph, int64_t uid)
{
    const fb_vector tensors = fb_elements(graph, GRAPH_TENSORS, 4);
    for (size_t i = 0; i < tensors.count; ++i) {
        const fb_table tensor = fb_element_table(tensors, i);
        if (fb_is_there(tensor) && fb_int64(tensor, TENSOR_UID, 0) == uid)
            return tensor;
    }
    return fb_table_at(NULL, 0, 0);
}

/* The number of elements of a tensor that this engine supports; 0 for others. */
static size_t length_of(fb_table tensor)
{
    const fb_vector dims = fb_elements(tensor, TENSOR_DIMS, 8);
    const fb_vector strides = fb_elements(tensor, TENSOR_STRIDES, 8);
    const bool is_plain = fb_uint8(tensor, TENSOR_DATA_TYPE, 0) == DATA_TYPE_FLOAT &&
                          !fb_uint8(tensor, TENSOR_VIRTUAL, 0) && !fb_uint8(tensor, TENSOR_VALUE_TYPE, 0) &&
                          !fb_uint8(tensor, TENSOR_PASS_BY_VALUE, 0);
    if (!is_plain || dims.count == 0 || dims.count != strides.count)
        return 0;
    int64_t length = 1;
    for (size_t i = dims.count; i-- > 0;) {
        const int64_t dim = fb_element_int64(dims, i);
        if (dim < 1 || dim > INT64_MAX / 4 / length || fb_element_int64(strides, i) != length)
            return 0;
        length *= dim;
    }
    return (size_t)length;
}

/* Plans a graph, or returns why this engine does not compute it. */
static const char* plan(const hipdnnPluginConstData_t* bytes, struct HipdnnEnginePluginExecutionContext* context)
{
    const fb_table graph = bytes == NULL ? fb_table_at(NULL, 0, 0) : fb_root(bytes->ptr, bytes->size);
    const fb_vector nodes = fb_elements(graph, GRAPH_NODES, 4);
    const fb_table node = fb_element_table(nodes, 0);
    const fb_table pointwise = fb_child(node, NODE_ATTRIBUTES);
    float clip = 0.0F;
    if (nodes.count != 1 || fb_uint8(node, NODE_ATTRIBUTES_TYPE, 0) != ATTRIBUTES_POINTWISE || !fb_is_there(pointwise))
        return "the graph is not one pointwise operation";
    if (fb_uint8(pointwise, POINTWISE_OPERATION, 0) != MODE_RELU_FWD)
        return "the pointwise operation is not relu_fwd";
    if (fb_field(pointwise, POINTWISE_LOWER_CLIP, &clip, sizeof clip) && clip != 0.0F)
        return "relu_lower_clip is not 0";
    if (fb_field(pointwise, POINTWISE_UPPER_CLIP, &clip, sizeof clip))
        return "relu_upper_clip is set";
    context->in = fb_int64(pointwise, POINTWISE_IN, 0);
    context->out = fb_int64(pointwise, POINTWISE_OUT, 0);
    context->slope = fb_float(pointwise, POINTWISE_SLOPE, 0.0F);
    context->length = length_of(tensor_with(graph, context->out));
    if (context->length == 0 || context->length != length_of(tensor_with(graph, context->in)))
        return "its tensors are not packed floats of one size";
    return NULL;
}

hipdnnPluginStatus_t hipdnnPluginGetName(const char** name)
{
    *name = "Example in C";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

/* Exporting this function selects graphs in the schema's layout. */
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

void hipdnnPluginGetLastErrorString(const char** error_str)
{
    if (error_str != NULL)
        *error_str = last_error;
}

hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback)
{
    logging = callback;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* engine_ids, uint32_t max_engines, uint32_t* num_engines)
{
    if (max_engines > 0)
        engine_ids[0] = engine_id();
    *num_engines = 1;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t id, const char** name)
{
    if (id != engine_id())
        return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    *name = ENGINE_NAME;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle)
{
    *handle = calloc(1, sizeof **handle);
    return *handle == NULL ? fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "no memory for a handle")
                           : HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle)
{
    free(handle);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipStream_t stream)
{
    /* An engine for a device would queue its work on this stream. */
    handle->stream = stream;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle,
                                                              const hipdnnPluginConstData_t* op_graph,
                                                              int64_t* engine_ids, uint32_t max_engines,
                                                              uint32_t* num_engines)
{
    (void)handle;
    struct HipdnnEnginePluginExecutionContext context;
    const char* reason = plan(op_graph, &context);
    if (reason == NULL)
        return hipdnnEnginePluginGetAllEngineIds(engine_ids, max_engines, num_engines);
    /* The host shows this line to the user if no engine computes the graph. */
    if (logging != NULL) {
        char line[256];
        snprintf(line, sizeof line, "%s: %s", ENGINE_NAME, reason);
        logging(HIPDNN_SEV_INFO, line);
    }
    *num_engines = 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle, int64_t id,
                                                        const hipdnnPluginConstData_t* op_graph,
                                                        hipdnnPluginConstData_t* engine_details)
{
    (void)handle;
    (void)op_graph;
    /* EngineDetails with only the id: the offset of the root; its list of slots; the table. */
    struct details {
        uint32_t root;
        uint16_t slots_size, table_size, engine_id, padding;
        int32_t back;
        int64_t id;
    };
    const struct details details = {12, 6, 12, 4, 0, 8, id};
    if (id != engine_id())
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "no such engine");
    struct details* copy = malloc(sizeof *copy);
    if (copy == NULL)
        return fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "no memory for engine details");
    *copy = details;
    engine_details->ptr = copy;
    engine_details->size = sizeof *copy;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t handle,
                                                            hipdnnPluginConstData_t* engine_details)
{
    (void)handle;
    free((void*)engine_details->ptr);
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
    const fb_table config =
        engine_config == NULL ? fb_table_at(NULL, 0, 0) : fb_root(engine_config->ptr, engine_config->size);
    if (fb_int64(config, CONFIG_ENGINE_ID, 0) != engine_id())
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "the configuration is of another engine");
    struct HipdnnEnginePluginExecutionContext context;
    const char* reason = plan(op_graph, &context);
    if (reason != NULL)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, reason);
    *execution_context = malloc(sizeof context);
    if (*execution_context == NULL)
        return fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "no memory for a plan");
    **execution_context = context;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                               hipdnnEnginePluginExecutionContext_t execution_context)
{
    (void)handle;
    free(execution_context);
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
                                                      hipdnnEnginePluginExecutionContext_t context, void* workspace,
                                                      const hipdnnPluginDeviceBuffer_t* device_buffers,
                                                      uint32_t num_device_buffers)
{
    (void)handle;
    (void)workspace;
    const float* in = NULL;
    float* out = NULL;
    for (uint32_t i = 0; i < num_device_buffers; ++i) {
        if (device_buffers[i].uid == context->in)
            in = device_buffers[i].ptr;
        if (device_buffers[i].uid == context->out)
            out = device_buffers[i].ptr;
    }
    if (in == NULL || out == NULL)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "a tensor of the operation has no memory");
    for (size_t i = 0; i < context->length; ++i)
        /* Not multiplied by a slope of 0, which would turn infinity into NaN. */
        out[i] = !(in[i] < 0.0F) ? in[i] : context->slope == 0.0F ? 0.0F : in[i] * context->slope;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
