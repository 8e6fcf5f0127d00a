/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Engine plugins in C++17, using only the standard library: derive from hipdnn_plugin::Engine, Plan and EngineManager, and name the
 * manager in HIPDNN_EXPORT_ENGINE_PLUGIN(); or derive from DataPlan and DataEngine, and name the engines in HIPDNN_EXPORT_ENGINES(). Heuristic plugins are in hipdnn_heuristic_plugin.hpp.
 *
 * The methods get graphs and settings that were read and checked; exceptions end at the functions exported by this header. Compile
 * with -fPIC -shared -fvisibility=hidden. docs/plugins.md documents what hosts call, and when.
 */
#pragma once

#include <algorithm>

#include "cpp/plain.hpp"
#include "cpp/settings.hpp"

/** The stream of one handle of the host. */
struct HipdnnEnginePluginHandle
{
    hipStream_t stream = nullptr;
};

/** A plan and its engine. */
struct HipdnnEnginePluginExecutionContext
{
    int64_t engine = 0;
    std::unique_ptr<hipdnn_plugin::Plan> plan;
};

namespace hipdnn_plugin
{
namespace detail
{

/** The exported functions, for one manager. */
template <typename Manager>
struct Exports
{
    using Handle = hipdnnEnginePluginHandle_t;
    using Context = hipdnnEnginePluginExecutionContext_t;
    using Data = hipdnnPluginConstData_t;

    static const EngineManager& manager()
    {
        static const Manager made;
        return made;
    }
    static const Engine& engine(int64_t id)
    {
        for (const auto& one : manager().engines())
        {
            if (id_of(one->name()) == id)
            {
                return *one;
            }
        }
        throw Error(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "engine " + std::to_string(id) + " is unknown to this plugin");
    }

    /** What an engine computes on, and where its kernels come from. */
    static void kind(int64_t id, uint32_t* device, uint32_t* implementation)
    {
        const Engine& one = engine(id);
        if (one.device() == EngineDevice::UNKNOWN)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, std::string(one.name()) + " does not tell its device");
        }
        require(device, "device");
        require(implementation, "implementation");
        *device = static_cast<uint32_t>(one.device());
        *implementation = static_cast<uint32_t>(one.implementation());
    }
    static Graph graph_of(const Data* bytes)
    {
        require(bytes, "op_graph");
        return Graph::read(bytes->ptr, bytes->size);
    }
    static std::string refusal_of(const Engine& one, const Graph& graph)
    {
        return graph.is_override_shape_enabled && !one.takes_overrides() ? "shapes may be replaced at execution"
                                                                         : one.refusal(graph);
    }
    /** Keeps bytes handed to the host until it returns them. */
    static void hand_out(const std::vector<uint8_t>& bytes, Data* data)
    {
        uint8_t* copy = new uint8_t[bytes.size() + 1];
        std::copy(bytes.begin(), bytes.end(), copy);
        data->ptr = copy;
        data->size = bytes.size();
    }
    static void take_back(Data* data)
    {
        require(data, "the data");
        delete[] static_cast<const uint8_t*>(data->ptr);
        data->ptr = nullptr;
        data->size = 0;
    }
    static void list(const std::vector<int64_t>& ids, int64_t* places, uint32_t most, uint32_t* count)
    {
        require(count, "num_engines");
        *count = static_cast<uint32_t>(ids.size());
        if (most > 0)
        {
            require(places, "engine_ids");
            *count = most < *count ? most : *count;
            std::copy_n(ids.begin(), *count, places);
        }
    }
    static void all_engines(int64_t* places, uint32_t most, uint32_t* count)
    {
        std::vector<int64_t> ids;
        for (const auto& one : manager().engines())
        {
            ids.push_back(id_of(one->name()));
        }
        list(ids, places, most, count);
    }
    static void applicable(const Data* bytes, int64_t* places, uint32_t most, uint32_t* count)
    {
        const Graph graph = graph_of(bytes);
        std::vector<int64_t> ids;
        for (const auto& one : manager().engines())
        {
            const std::string reason = refusal_of(*one, graph);
            if (reason.empty())
            {
                ids.push_back(id_of(one->name()));
                continue;
            }
            log(HIPDNN_SEV_INFO, std::string(one->name()) + ": " + reason);
        }
        list(ids, places, most, count);
    }
    /** The configured engine, which must compute the graph. */
    static const Engine& chosen(const Data* config, const Graph& graph)
    {
        const Engine& one = engine(configured_engine(config));
        const std::string reason = refusal_of(one, graph);
        if (!reason.empty())
        {
            throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, std::string(one.name()) + ": " + reason);
        }
        return one;
    }
    static std::unique_ptr<Plan> make_plan(const Data* config, const Data* bytes)
    {
        const Graph graph = graph_of(bytes);
        const Engine& one = chosen(config, graph);
        return checked(one.plan(graph, read_settings(config, one.knobs(graph))));
    }
    static void describe_numerics(const Data* config, const Data* bytes, size_t room, size_t* size, char* json)
    {
        require(size, "size");
        const Graph graph = graph_of(bytes);
        const Engine& one = chosen(config, graph);
        const auto told = one.numerics(graph, read_settings(config, one.knobs(graph)));
        if (!told)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE,
                        std::string(one.name()) + " does not tell what it does to numbers");
        }
        const std::string text = write_numerics(*told);
        *size = text.size() + 1;
        if (room == 0)
        {
            return;
        }
        require(json, "json");
        if (room < *size)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_BAD_PARAM,
                        "json has room for " + std::to_string(room) + " bytes, expected " + std::to_string(*size));
        }
        std::memcpy(json, text.c_str(), *size);
    }
    static std::unique_ptr<Plan> checked(std::unique_ptr<Plan> plan)
    {
        require(plan.get(), "the engine's plan");
        return plan;
    }
    static void load(const Data* bytes, Context* context)
    {
        require(bytes, "serialized_context");
        require(bytes->ptr, "serialized_context's bytes");
        require(context, "execution_context");
        const auto* data = static_cast<const uint8_t*>(bytes->ptr);
        const int64_t id = Bytes{data, bytes->size}.read<int64_t>(0);
        *context = new HipdnnEnginePluginExecutionContext{
            id, checked(engine(id).load(std::vector<uint8_t>(data + 8, data + bytes->size)))};
    }
    static void save(Context context, Data* data)
    {
        require(context, "execution_context");
        require(data, "serialized_context");
        std::vector<uint8_t> bytes(8);
        std::memcpy(bytes.data(), &context->engine, 8);
        const std::vector<uint8_t> saved = context->plan->save();
        bytes.insert(bytes.end(), saved.begin(), saved.end());
        hand_out(bytes, data);
    }
    static Execution execution(Handle handle, Context context, void* workspace,
                               const hipdnnPluginDeviceBuffer_t* buffers, uint32_t count)
    {
        require(handle, "handle");
        require(context, "execution_context");
        if (count > 0)
        {
            require(buffers, "device_buffers");
        }
        return {handle->stream, workspace, buffers, count};
    }
    static std::vector<ShapeOverride> overrides(uint32_t count, const int64_t* uids, const uint32_t* lengths,
                                                const int64_t* const* dims, const int64_t* const* strides)
    {
        std::vector<ShapeOverride> list;
        for (uint32_t i = 0; i < count; i++)
        {
            list.push_back({uids[i], {dims[i], dims[i] + lengths[i]}, {strides[i], strides[i] + lengths[i]}});
        }
        return list;
    }
    static const char* api_version()
    {
        for (const auto& one : manager().engines())
        {
            if (one->takes_overrides())
            {
                return "1.1.0";
            }
        }
        return HIPDNN_ENGINE_API_VERSION;
    }
};

} // namespace detail
} // namespace hipdnn_plugin

#include "cpp/export.hpp"
