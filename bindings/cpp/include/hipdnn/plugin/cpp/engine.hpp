/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The classes that a plugin derives from: plans, engines and their manager; knobs and their settings.
 */
#pragma once

#include "graph.hpp"
#include "numerics.hpp"

#include <hipdnn/plugin/hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn/plugin/hipdnn_plugin_sdk/engine_api_version.h>

#include <memory>
#include <type_traits>
#include <variant>

namespace hipdnn_plugin
{

/** A failure with a status and a message for the user. Other exceptions become INTERNAL_ERROR with their message. */
class Error : public std::runtime_error
{
public:
    Error(hipdnnPluginStatus_t status, const std::string& text) : std::runtime_error(text), _status(status) {}
    hipdnnPluginStatus_t status() const { return _status; }

private:
    hipdnnPluginStatus_t _status;
};

/** An engine's reason not to compute a graph. */
class Refusal : public Error
{
public:
    explicit Refusal(const std::string& words) : Error(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, words) {}
};

/** Refuses the graph unless a condition holds. */
inline void support(bool condition, const char* words)
{
    if (!condition)
    {
        throw Refusal(words);
    }
}

using KnobValue = std::variant<int64_t, double, std::string>;

/** A setting of an engine. The default determines the type. */
struct Knob
{
    std::string name;
    std::string description;
    KnobValue default_value = int64_t{0};
    double least = 0, most = 0; ///< For numbers; unlimited if both are 0.
    int64_t step = 1;
    std::vector<std::string> texts; ///< The texts to choose from; any if empty.
};

/** Values of an engine's knobs: set by the user, or defaults. */
class Settings
{
public:
    std::map<std::string, KnobValue> values;

    template <typename Value>
    const Value& get(const std::string& knob) const
    {
        const auto found = values.find(knob);
        const Value* value = found == values.end() ? nullptr : std::get_if<Value>(&found->second);
        if (value == nullptr)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "knob " + knob + " has no such value");
        }
        return *value;
    }
    int64_t integer(const std::string& knob) const { return get<int64_t>(knob); }
    double real(const std::string& knob) const { return get<double>(knob); }
    const std::string& text(const std::string& knob) const { return get<std::string>(knob); }
    /** Gives knobs without a value their default. */
    void complete(const std::vector<Knob>& knobs)
    {
        for (const Knob& knob : knobs)
        {
            values.emplace(knob.name, knob.default_value);
        }
    }
};

/** Other sizes and strides of a tensor, for one execution. */
struct ShapeOverride
{
    int64_t uid = 0;
    std::vector<int64_t> dims, strides;
};

/** Memory of an execution. */
struct Execution
{
    hipStream_t stream = nullptr;
    void* workspace = nullptr;
    const hipdnnPluginDeviceBuffer_t* buffers = nullptr;
    uint32_t count = 0;

    /** The memory of a tensor. @throws Error if the caller gave none */
    template <typename Element>
    Element* memory(int64_t uid) const
    {
        for (uint32_t i = 0; i < count; i++)
        {
            if (buffers[i].uid == uid && buffers[i].ptr != nullptr)
            {
                return static_cast<Element*>(buffers[i].ptr);
            }
        }
        throw Error(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "tensor " + std::to_string(uid) + " has no memory");
    }
    /** The memory of a Packed tensor, as its elements. */
    template <typename Tensor>
    typename Tensor::Element* memory(const Tensor& tensor) const
    {
        return memory<typename Tensor::Element>(tensor.uid);
    }
};

/** A planned graph. Several threads may execute it at once. */
class Plan
{
public:
    virtual ~Plan() = default;
    /** The workspace size of an execution in bytes. */
    virtual size_t workspace_size() const { return 0; }
    virtual void execute(const Execution& execution) const = 0;
    /** The same with other shapes; only called if the engine has takes_overrides(). */
    virtual void execute_with_overrides(const Execution&, const std::vector<ShapeOverride>&) const
    {
        throw Error(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, "the plan takes no other shapes");
    }
    /** The plan as bytes for Engine::load(); begin them with a version. */
    virtual std::vector<uint8_t> save() const
    {
        throw Error(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, "the plan cannot be saved");
    }
};

/** Whose memory an engine takes. */
enum class EngineDevice : uint32_t { UNKNOWN = 0, HOST = 1, AMD = 2, NVIDIA = 3, VULKAN = 4 };
/** Where an engine's kernels come from. */
enum class Implementation : uint32_t { OWN = 0, LIBRARY = 1, GENERATED = 2, REFERENCE = 3 };

/** Computes graphs. Calls come from any thread. */
class Engine
{
public:
    virtual ~Engine() = default;
    /** A unique name, which must never change: it determines the engine's id. */
    virtual const char* name() const = 0;
    /** Whose memory it takes. If unknown, hosts guess from the name: those that begin with CPU_ take the host's. */
    virtual EngineDevice device() const { return EngineDevice::UNKNOWN; }
    virtual Implementation implementation() const { return Implementation::OWN; }
    /** Empty if the engine computes the graph, else the first unsupported thing. */
    virtual std::string refusal(const Graph& graph) const = 0;
    virtual std::vector<Knob> knobs(const Graph&) const { return {}; }
    /** Numbers of hipdnnBackendBehaviorNote_t. */
    virtual std::vector<int32_t> behavior_notes(const Graph&) const { return {}; }
    /** What it may do to the numbers of a graph that it supports, with checked settings; nothing if it does not know. */
    virtual std::optional<Numerics> numerics(const Graph&, const Settings&) const { return std::nullopt; }
    /** Makes a plan of a graph that the engine supports, with checked settings. */
    virtual std::unique_ptr<Plan> plan(const Graph& graph, const Settings& settings) const = 0;
    /** Loads a plan from bytes, which may come from anywhere. */
    virtual std::unique_ptr<Plan> load(const std::vector<uint8_t>&) const
    {
        throw Error(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, "the engine loads no plans");
    }
    /** Whether executions may override shapes. */
    virtual bool takes_overrides() const { return false; }
};

/** A plan of plain data, saved as its bytes. Loaded bytes may come from anywhere: `Data::fits()` tells which are valid. */
template <typename PlainData>
class DataPlan : public Plan
{
public:
    using Data = PlainData;
    static_assert(std::is_trivially_copyable_v<Data>, "the data of a plan are saved as they lie in memory");
    Data data;

    explicit DataPlan(const Data& plain) : data(plain) {}
    std::vector<uint8_t> save() const override
    {
        std::vector<uint8_t> bytes(sizeof data);
        std::memcpy(bytes.data(), &data, sizeof data);
        return bytes;
    }
};

/** An engine whose plans are a DataPlan: it makes the data for a graph that it computes, and its plans can be saved. */
template <typename PlanOfData>
class DataEngine : public Engine
{
public:
    using Data = typename PlanOfData::Data;

    /** The data of a graph, with checked settings. @throws Refusal for a graph that the engine does not compute */
    virtual Data data(const Graph& graph, const Settings& settings) const = 0;

    std::string refusal(const Graph& graph) const override
    {
        Settings defaults;
        defaults.complete(this->knobs(graph));
        try
        {
            return data(graph, defaults).fits() ? "" : "a size is too large, or does not fit the others";
        } catch (const Refusal& reason)
        {
            return reason.what();
        }
    }
    std::vector<int32_t> behavior_notes(const Graph&) const override { return {SAVES_PLANS}; }
    std::unique_ptr<Plan> plan(const Graph& graph, const Settings& settings) const override
    {
        return std::make_unique<PlanOfData>(data(graph, settings));
    }
    std::unique_ptr<Plan> load(const std::vector<uint8_t>& bytes) const override
    {
        Data data{};
        if (bytes.size() != sizeof data)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, std::string(this->name()) + ": a plan has " +
                                                                std::to_string(bytes.size()) + " bytes, expected " +
                                                                std::to_string(sizeof data));
        }
        std::memcpy(&data, bytes.data(), sizeof data);
        if (!data.fits())
        {
            throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE,
                        std::string(this->name()) + ": the bytes are no plan of this engine");
        }
        return std::make_unique<PlanOfData>(data);
    }

private:
    static constexpr int32_t SAVES_PLANS = 4;
};

/** A plugin; one is made at its first call. */
class EngineManager
{
public:
    virtual ~EngineManager() = default;
    virtual const char* name() const = 0;
    virtual const char* version() const = 0;
    /** The engines, best first; the same ones at each call. */
    virtual const std::vector<std::unique_ptr<Engine>>& engines() const = 0;
};

/** A manager of default-constructed engines, best first. HIPDNN_EXPORT_ENGINES names the plugin. */
template <typename... Engines>
class ManagerOf : public EngineManager
{
public:
    ManagerOf() { (_engines.push_back(std::make_unique<Engines>()), ...); }
    const std::vector<std::unique_ptr<Engine>>& engines() const override { return _engines; }

private:
    std::vector<std::unique_ptr<Engine>> _engines;
};

namespace detail
{

/** The id of an engine or a policy with this name. */
inline int64_t id_of(const char* name)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (; *name != '\0'; name++)
    {
        hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3U;
    }
    int64_t id = 0;
    std::memcpy(&id, &hash, sizeof id);
    return id;
}

inline hipdnnCallback_t& log_callback()
{
    static hipdnnCallback_t callback = nullptr;
    return callback;
}
inline hipdnnSeverity_t& log_level()
{
    static hipdnnSeverity_t level = HIPDNN_SEV_INFO;
    return level;
}
inline std::string& last_error()
{
    static thread_local std::string text;
    return text;
}

/** Runs a call of the interface: turns exceptions into a status and a text. */
template <typename Call>
hipdnnPluginStatus_t guarded(const Call& call)
{
    try
    {
        call();
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    } catch (const Error& error)
    {
        last_error() = error.what();
        return error.status();
    } catch (const std::bad_alloc&)
    {
        last_error() = "out of memory";
        return HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
    } catch (const std::invalid_argument& error)
    {
        last_error() = error.what();
        return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
    } catch (const std::exception& error)
    {
        last_error() = error.what();
        return HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
    } catch (...)
    {
        last_error() = "the plugin threw something unknown";
        return HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
    }
}

inline void require(const void* pointer, const char* argument)
{
    if (pointer == nullptr)
    {
        throw Error(HIPDNN_PLUGIN_STATUS_BAD_PARAM, std::string(argument) + " is null");
    }
}

} // namespace detail

/** Writes a line to the host's log, if the host logs this level. */
inline void log(hipdnnSeverity_t severity, const std::string& line)
{
    if (detail::log_callback() != nullptr && severity >= detail::log_level())
    {
        detail::log_callback()(severity, line.c_str());
    }
}

} // namespace hipdnn_plugin
