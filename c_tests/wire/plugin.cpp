/* SPDX-License-Identifier: MIT */

/*
 * An engine plugin that reads graphs with the FlatBuffers library itself and applies only to the one graph that it expects,
 * to the last field. Compiled twice: with G1 it is a plugin of November 2025, which reads the older layout.
 */

#include "graphs.h"

#include <hipdnn_plugin_sdk/EnginePluginApi.h>

#ifdef G1
using Graph = hipdnn::GraphG1;
#else
using Graph = hipdnn::Graph;
#endif

static const int64_t ENGINE_ID = sizeof(Graph::NativeTableType);
static hipdnnCallback_t callback;
static char state;
static flatbuffers::FlatBufferBuilder details;

static hipdnnPluginStatus_t refuse(const char *reason)
{
    if (callback != nullptr)
    {
        callback(HIPDNN_SEV_INFO, reason);
    }
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

/* Whether the bytes are well formed and the expected graph. */
static const char *difference(const hipdnnPluginConstData_t *data)
{
    const auto *bytes = static_cast<const uint8_t *>(data->ptr);
    flatbuffers::Verifier verifier(bytes, data->size);
    if (!verifier.VerifyBuffer<Graph>(nullptr))
    {
        return "the bytes do not verify";
    }
    Graph::NativeTableType graph;
    flatbuffers::GetRoot<Graph>(bytes)->UnPackTo(&graph);
#ifdef G1
    return graph == fused_g1() ? nullptr : "the graph of November 2025 is not the expected one";
#else
    /* The backend gives a graph built from descriptors an id, and the version that it needs. */
    graph.id.reset();
    if (graph.min_required_engine_api_version
        && *graph.min_required_engine_api_version != hipdnn::EngineApiVersion(1, 0, 0))
    {
        return "the graph is stamped with another version than 1.0.0";
    }
    graph.min_required_engine_api_version.reset();
    return graph == fused_g2() ? nullptr : "the graph of 2026 is not the expected one";
#endif
}

extern "C" {

hipdnnPluginStatus_t hipdnnPluginGetName(const char **name)
{
    *name = "wire";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char **version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifndef G1
hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char **version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t *type)
{
    *type = HIPDNN_PLUGIN_TYPE_ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void hipdnnPluginGetLastErrorString(const char **error)
{
    *error = "";
}

hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t function)
{
    callback = function;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t *ids, uint32_t room, uint32_t *count)
{
    if (room > 0)
    {
        ids[0] = ENGINE_ID;
    }
    *count = 1;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t *handle)
{
    *handle = reinterpret_cast<hipdnnEnginePluginHandle_t>(&state);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t)
{
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t, hipStream_t)
{
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t,
                                                              const hipdnnPluginConstData_t *graph, int64_t *ids,
                                                              uint32_t room, uint32_t *count)
{
    *count = 0;
    const char *reason = difference(graph);
    return reason == nullptr ? hipdnnEnginePluginGetAllEngineIds(ids, room, count) : refuse(reason);
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t, int64_t engine,
                                                        const hipdnnPluginConstData_t *, hipdnnPluginConstData_t *out)
{
    hipdnn::EngineDetailsT content;
    content.engine_id = engine;
    content.name = "wire engine";
    content.behavior_notes = {2};
    content.knobs = knobs();
    details.Clear();
    details.Finish(hipdnn::EngineDetails::Pack(details, &content));
    *out = {details.GetBufferPointer(), details.GetSize()};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t *)
{
    details.Clear();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t,
                                                        const hipdnnPluginConstData_t *config,
                                                        const hipdnnPluginConstData_t *graph, size_t *size)
{
    const auto *bytes = static_cast<const uint8_t *>(config->ptr);
    flatbuffers::Verifier verifier(bytes, config->size);
    if (!verifier.VerifyBuffer<hipdnn::EngineConfig>(nullptr)
        || flatbuffers::GetRoot<hipdnn::EngineConfig>(bytes)->engine_id() != ENGINE_ID || difference(graph) != nullptr)
    {
        return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
    }
    const std::unique_ptr<hipdnn::EngineConfigT> content(flatbuffers::GetRoot<hipdnn::EngineConfig>(bytes)->UnPack());
    if (content->knobs.empty())
    {
        *size = 123;
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }
    /* Knobs are set: to what the test sets them to, in its order. */
    const auto expected = settings();
    if (content->knobs.size() != expected.size())
    {
        return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
    }
    for (size_t i = 0; i < expected.size(); i++)
    {
        if (!(*content->knobs[i] == *expected[i]))
        {
            return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
        }
    }
    *size = 456;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(hipdnnEnginePluginHandle_t,
                                                              const hipdnnPluginConstData_t *,
                                                              const hipdnnPluginConstData_t *,
                                                              hipdnnEnginePluginExecutionContext_t *context)
{
    *context = reinterpret_cast<hipdnnEnginePluginExecutionContext_t>(&state);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t,
                                                               hipdnnEnginePluginExecutionContext_t)
{
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(hipdnnEnginePluginHandle_t,
                                                                            hipdnnEnginePluginExecutionContext_t,
                                                                            size_t *size)
{
    *size = 123;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t, hipdnnEnginePluginExecutionContext_t,
                                                      void *, const hipdnnPluginDeviceBuffer_t *, uint32_t)
{
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

/* What a context is saved as: bytes of every value, so that nothing is lost on the way. */
static const std::vector<uint8_t> &payload()
{
    static const std::vector<uint8_t> bytes = saved_payload();
    return bytes;
}

hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(hipdnnEnginePluginHandle_t,
                                                                 hipdnnEnginePluginExecutionContext_t,
                                                                 hipdnnPluginConstData_t *out)
{
    *out = {payload().data(), payload().size()};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(hipdnnEnginePluginHandle_t,
                                                                         hipdnnPluginConstData_t *out)
{
    *out = {nullptr, 0};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(
    hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t *saved, hipdnnEnginePluginExecutionContext_t *context)
{
    const auto *bytes = static_cast<const uint8_t *>(saved->ptr);
    if (std::vector<uint8_t>(bytes, bytes + saved->size) != payload())
    {
        return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
    }
    *context = reinterpret_cast<hipdnnEnginePluginExecutionContext_t>(&state);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
}
