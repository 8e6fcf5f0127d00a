/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Heuristic plugins in C++17: derive from hipdnn_plugin::Policy and PolicyManager, and name the manager in
 * HIPDNN_EXPORT_HEURISTIC_PLUGIN().
 */
#pragma once

#include "cpp/engine.hpp"

#include <hipdnn/plugin/hipdnn_plugin_sdk/HeuristicPluginApi.h>
#include <hipdnn/plugin/hipdnn_plugin_sdk/heuristic_api_version.h>

#include <algorithm>

namespace hipdnn_plugin
{

/** The device that graphs run on. */
struct Device
{
    int32_t id = -1, multi_processor_count = 0;
    uint64_t memory = 0; ///< Bytes.
    std::string architecture;
};

/** Ranks the engines of a graph. Calls come from any thread. */
class Policy
{
public:
    virtual ~Policy() = default;
    virtual const char* name() const = 0;
    /** The engines, best first, or nothing to leave the choice to the next policy. */
    virtual std::optional<std::vector<int64_t>> order(const Graph& graph, const std::vector<int64_t>& engines,
                                                      const Device& device) const = 0;
};

/** A heuristic plugin. */
class PolicyManager
{
public:
    virtual ~PolicyManager() = default;
    virtual const char* name() const = 0;
    virtual const char* version() const = 0;
    virtual const std::vector<std::unique_ptr<Policy>>& policies() const = 0;
};

/** A manager of default-constructed policies. HIPDNN_EXPORT_POLICIES names the plugin. */
template <typename... Policies>
class PoliciesOf : public PolicyManager
{
public:
    PoliciesOf() { (_policies.push_back(std::make_unique<Policies>()), ...); }
    const std::vector<std::unique_ptr<Policy>>& policies() const override { return _policies; }

private:
    std::vector<std::unique_ptr<Policy>> _policies;
};

/** The id of an engine with this name. */
inline int64_t engine_id(const std::string& name) { return detail::id_of(name.c_str()); }

} // namespace hipdnn_plugin

/** The state of one host handle. */
struct hipdnnHeuristicHandle_opaque
{
    hipdnn_plugin::Device device;
};

/** One choice. */
struct hipdnnHeuristicPolicyDescriptor_opaque
{
    hipdnnHeuristicHandle_opaque* handle = nullptr;
    const hipdnn_plugin::Policy* policy = nullptr;
    std::vector<int64_t> engines, sorted;
    std::optional<hipdnn_plugin::Graph> graph;
};

namespace hipdnn_plugin
{
namespace detail
{

/** The exported functions, for one manager. */
template <typename Manager>
struct HeuristicExports
{
    static const PolicyManager& manager()
    {
        static const Manager made;
        return made;
    }
    static const Policy& policy(int64_t id)
    {
        for (const auto& one : manager().policies())
        {
            if (id_of(one->name()) == id)
            {
                return *one;
            }
        }
        throw Error(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "policy " + std::to_string(id) + " is unknown to this plugin");
    }
    static void all(int64_t* ids, uint32_t most, uint32_t* count)
    {
        require(count, "num_policies");
        const auto& list = manager().policies();
        *count = static_cast<uint32_t>(most == 0 ? list.size() : std::min<size_t>(most, list.size()));
        for (uint32_t i = 0; i < *count && most > 0; i++)
        {
            ids[i] = id_of(list[i]->name());
        }
    }
    static void device(hipdnnHeuristicHandle_t handle, const hipdnnPluginConstData_t* bytes)
    {
        require(handle, "handle");
        require(bytes, "device_props_serialized");
        const Table root = Table::root({static_cast<const uint8_t*>(bytes->ptr), bytes->size});
        handle->device = {root.number<int32_t>(0, -1), root.number<int32_t>(1, 0), root.number<uint64_t>(2, 0),
                          root.text(3)};
    }
    static void create(hipdnnHeuristicHandle_t handle, int64_t id, hipdnnHeuristicPolicyDescriptor_t* made)
    {
        require(handle, "plugin_handle");
        require(made, "out_desc");
        const Policy& one = policy(id);
        *made = new hipdnnHeuristicPolicyDescriptor_opaque();
        (*made)->handle = handle;
        (*made)->policy = &one;
    }
    static void engines(hipdnnHeuristicPolicyDescriptor_t choice, const int64_t* ids, size_t count)
    {
        require(choice, "desc");
        choice->engines.assign(ids, ids + count);
    }
    static void graph(hipdnnHeuristicPolicyDescriptor_t choice, const hipdnnPluginConstData_t* bytes)
    {
        require(choice, "desc");
        require(bytes, "serialized_graph");
        choice->graph = Graph::read(bytes->ptr, bytes->size);
    }
    static void finalize(hipdnnHeuristicPolicyDescriptor_t choice, int32_t* applied)
    {
        require(choice, "desc");
        require(applied, "out_applied");
        if (!choice->graph)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED, "the graph was not set before the choice is made");
        }
        const auto order = choice->policy->order(*choice->graph, choice->engines, choice->handle->device);
        *applied = order ? 1 : 0;
        choice->sorted = order.value_or(std::vector<int64_t>());
        std::vector<int64_t> left = choice->engines;
        for (const int64_t id : choice->sorted)
        {
            const auto at = std::find(left.begin(), left.end(), id);
            if (at == left.end())
            {
                throw Error(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR,
                            std::string(choice->policy->name()) + " answers engine " + std::to_string(id) +
                                ", expected each engine that it was given at most once");
            }
            left.erase(at);
        }
    }
    static void sorted(hipdnnHeuristicPolicyDescriptor_t choice, int64_t* ids, size_t* count)
    {
        require(choice, "desc");
        require(count, "num_engines");
        if (ids != nullptr)
        {
            *count = std::min(*count, choice->sorted.size());
            std::copy_n(choice->sorted.begin(), *count, ids);
            return;
        }
        *count = choice->sorted.size();
    }
};

} // namespace detail
} // namespace hipdnn_plugin

#include "cpp/export.hpp"

/** Exports a heuristic plugin's functions; use it once, in one source file, outside of namespaces. */
#define HIPDNN_EXPORT_HEURISTIC_PLUGIN(Manager)                                                                            \
    using HipdnnHeuristicExports = ::hipdnn_plugin::detail::HeuristicExports<Manager>;                                     \
    HIPDNN_PLUGIN_COMMON(HIPDNN_PLUGIN_TYPE_HEURISTIC, HipdnnHeuristicExports::manager().name(),                           \
                         HipdnnHeuristicExports::manager().version(), HIPDNN_HEURISTIC_API_VERSION)                        \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPluginGetAllPolicyIds, (int64_t * ids, uint32_t most, uint32_t * count),             \
                       HipdnnHeuristicExports::all(ids, most, count))                                                      \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPluginGetPolicyName, (int64_t id, const char **name),                                \
                       *name = HipdnnHeuristicExports::policy(id).name())                                                  \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicHandleCreate, (hipdnnHeuristicHandle_t * handle), *handle = new hipdnnHeuristicHandle_opaque()) \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicHandleDestroy, (hipdnnHeuristicHandle_t handle), delete handle)                      \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicHandleSetDeviceProperties,                                                           \
                       (hipdnnHeuristicHandle_t handle, const hipdnnPluginConstData_t *bytes),                             \
                       HipdnnHeuristicExports::device(handle, bytes))                                                      \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPolicyDescriptorCreate,                                                              \
                       (hipdnnHeuristicHandle_t handle, int64_t id, hipdnnHeuristicPolicyDescriptor_t *made),              \
                       HipdnnHeuristicExports::create(handle, id, made))                                                   \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPolicyDescriptorDestroy, (hipdnnHeuristicPolicyDescriptor_t choice), delete choice)  \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPolicySetEngineIds,                                                                  \
                       (hipdnnHeuristicPolicyDescriptor_t choice, const int64_t *ids, size_t count),                       \
                       HipdnnHeuristicExports::engines(choice, ids, count))                                                \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPolicySetSerializedGraph,                                                            \
                       (hipdnnHeuristicPolicyDescriptor_t choice, const hipdnnPluginConstData_t *bytes),                   \
                       HipdnnHeuristicExports::graph(choice, bytes))                                                       \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPolicyFinalize, (hipdnnHeuristicPolicyDescriptor_t choice, int32_t *applied),        \
                       HipdnnHeuristicExports::finalize(choice, applied))                                                  \
    HIPDNN_PLUGIN_CALL(hipdnnHeuristicPolicyGetSortedEngineIds,                                                            \
                       (hipdnnHeuristicPolicyDescriptor_t choice, int64_t *ids, size_t *count),                            \
                       HipdnnHeuristicExports::sorted(choice, ids, count))                                                 \
    static_assert(true, "a semicolon follows")

/** Exports a policy plugin: its name, its version and the classes of the policies. Instead of HIPDNN_EXPORT_HEURISTIC_PLUGIN. */
#define HIPDNN_EXPORT_POLICIES(plugin_name, plugin_version, ...)                   \
    struct HipdnnPluginPolicies : ::hipdnn_plugin::PoliciesOf<__VA_ARGS__>         \
    {                                                                              \
        const char *name() const override { return plugin_name; }                  \
        const char *version() const override { return plugin_version; }            \
    };                                                                             \
    HIPDNN_EXPORT_HEURISTIC_PLUGIN(HipdnnPluginPolicies)
