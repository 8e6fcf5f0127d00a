/* SPDX-License-Identifier: MIT */

/*
 * An engine plugin that reads graphs with the FlatBuffers library itself and applies only to the graphs that it expects, to the
 * last field. NAMESPACE is that of the code which was generated from the schema, ENGINE the engine's name. With G1 it is a
 * plugin of November 2025, which reads the older layout. VERSIONED, NAMED, SAVES: it has functions that are optional in 2026.
 */

#include "nodes.h"

#include <hipdnn_plugin_sdk/EnginePluginApi.h>

/* WRAPPED: it reads graphs through a class with virtual functions in AMD's namespace, as AMD's headers have them. The type's
 * name is then in the file, also when that is stripped. */
#ifdef WRAPPED
namespace NAMESPACE
{
class IGraph
{
public:
    virtual ~IGraph() = default;
    virtual const char* difference() const = 0;
};
}
#endif

#ifdef G1
using Graph = hipdnn::GraphG1;
#else
using Graph = hipdnn::Graph;
#endif

/* The 64-bit FNV-1a hash of the name. */
static constexpr int64_t hash_of(const char* text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text != '\0'; text++)
    {
        hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
    }
    return static_cast<int64_t>(hash);
}

static const int64_t ENGINE_ID = hash_of(ENGINE);
static hipdnnCallback_t callback;
static char state;
static flatbuffers::FlatBufferBuilder details;

static hipdnnPluginStatus_t refuse(const char* reason)
{
    if (callback != nullptr)
    {
        callback(HIPDNN_SEV_INFO, reason);
    }
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

/* Whether the bytes are well formed and an expected graph: the fused one, or that of the kind at the end of its name. */
static const char* compare(const hipdnnPluginConstData_t* data)
{
    const auto* bytes = static_cast<const uint8_t*>(data->ptr);
    flatbuffers::Verifier verifier(bytes, data->size);
    if (!verifier.VerifyBuffer<Graph>(nullptr))
    {
        return "the bytes do not verify";
    }
    Graph::NativeTableType graph;
    flatbuffers::GetRoot<Graph>(bytes)->UnPackTo(&graph);
    const auto last_word = graph.name.find_last_of(' ') + 1;
    const int kind = last_word == 0 ? 0 : std::stoi(graph.name.substr(last_word));
    if (kind != 0)
    {
        sort_tensors(graph);
    }
#ifdef G1
    auto expected = kind == 0 ? fused_g1() : graph_of_g1(kind);
    expected.name = kind == 0 ? expected.name : graph.name;
    return graph == expected ? nullptr : "the graph of November 2025 is not the expected one";
#else
    /* The backend gives a graph built from descriptors an id, and the version that it needs. */
    graph.id.reset();
    if (graph.min_required_engine_api_version &&
        *graph.min_required_engine_api_version != hipdnn::EngineApiVersion(1, 0, 0))
    {
        return "the graph is stamped with another version than 1.0.0";
    }
    graph.min_required_engine_api_version.reset();
    auto expected = kind == 0 ? fused_g2() : graph_of_g2(kind);
    expected.name = kind == 0 ? expected.name : graph.name;
    return graph == expected ? nullptr : "the graph of 2026 is not the expected one";
#endif
}

#ifdef WRAPPED
class Wrapper : public NAMESPACE::IGraph
{
public:
    explicit Wrapper(const hipdnnPluginConstData_t* data) : _data(data) {}

    const char* difference() const override { return compare(_data); }

private:
    const hipdnnPluginConstData_t* _data;
};

/* Not inlined: as with AMD's, callers know only the interface of a graph. */
__attribute__((noipa)) static const char* difference_of(const NAMESPACE::IGraph& graph) { return graph.difference(); }

static const char* difference(const hipdnnPluginConstData_t* data) { return difference_of(Wrapper(data)); }
#else
static const char* difference(const hipdnnPluginConstData_t* data) { return compare(data); }
#endif

extern "C" {

hipdnnPluginStatus_t hipdnnPluginGetName(const char** name)
{
    *name = "wire";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifdef VERSIONED
hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version)
{
    *version = "1.0.0";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type)
{
    *type = HIPDNN_PLUGIN_TYPE_ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void hipdnnPluginGetLastErrorString(const char** error) { *error = ""; }

hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t function)
{
    callback = function;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* ids, uint32_t room, uint32_t* count)
{
    if (room > 0)
    {
        ids[0] = ENGINE_ID;
    }
    *count = 1;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifdef NAMED
hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t, const char** name)
{
    *name = ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif

hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle)
{
    *handle = reinterpret_cast<hipdnnEnginePluginHandle_t>(&state);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t) { return HIPDNN_PLUGIN_STATUS_SUCCESS; }

hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t, hipStream_t)
{
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t,
                                                              const hipdnnPluginConstData_t* graph, int64_t* ids,
                                                              uint32_t room, uint32_t* count)
{
    *count = 0;
    const char* reason = difference(graph);
    return reason == nullptr ? hipdnnEnginePluginGetAllEngineIds(ids, room, count) : refuse(reason);
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t, int64_t engine,
                                                        const hipdnnPluginConstData_t*, hipdnnPluginConstData_t* out)
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

hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t*)
{
    details.Clear();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t,
                                                        const hipdnnPluginConstData_t* config,
                                                        const hipdnnPluginConstData_t* graph, size_t* size)
{
    const auto* bytes = static_cast<const uint8_t*>(config->ptr);
    flatbuffers::Verifier verifier(bytes, config->size);
    if (!verifier.VerifyBuffer<hipdnn::EngineConfig>(nullptr) ||
        flatbuffers::GetRoot<hipdnn::EngineConfig>(bytes)->engine_id() != ENGINE_ID || difference(graph) != nullptr)
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
                                                              const hipdnnPluginConstData_t*,
                                                              const hipdnnPluginConstData_t*,
                                                              hipdnnEnginePluginExecutionContext_t* context)
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
                                                                            size_t* size)
{
    *size = 123;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t, hipdnnEnginePluginExecutionContext_t,
                                                      void*, const hipdnnPluginDeviceBuffer_t*, uint32_t)
{
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifdef SAVES
/* What a context is saved as: bytes of every value, so that nothing is lost on the way. */
static const std::vector<uint8_t>& payload()
{
    static const std::vector<uint8_t> bytes = saved_payload();
    return bytes;
}

hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(hipdnnEnginePluginHandle_t,
                                                                 hipdnnEnginePluginExecutionContext_t,
                                                                 hipdnnPluginConstData_t* out)
{
    *out = {payload().data(), payload().size()};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(hipdnnEnginePluginHandle_t,
                                                                         hipdnnPluginConstData_t* out)
{
    *out = {nullptr, 0};
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t
hipdnnEnginePluginCreateExecutionContextFromSerialized(hipdnnEnginePluginHandle_t, const hipdnnPluginConstData_t* saved,
                                                       hipdnnEnginePluginExecutionContext_t* context)
{
    const auto* bytes = static_cast<const uint8_t*>(saved->ptr);
    if (std::vector<uint8_t>(bytes, bytes + saved->size) != payload())
    {
        return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
    }
    *context = reinterpret_cast<hipdnnEnginePluginExecutionContext_t>(&state);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif
}
