/* SPDX-License-Identifier: MIT */

/* Engines as frontends ask for them: by the heuristic, by name, by id; their knobs, and plans of them. */
#pragma once

#include "flows.hpp"

#include <HipdnnBackendFlatbufferData.h>

#include <string_view>

namespace client
{

/* The id of the engine of a configuration. */
inline int64_t engine_of(const Descriptor& config)
{
    return config.descriptor(HIPDNN_ATTR_ENGINECFG_ENGINE).number(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

inline std::vector<int64_t> engines_of(const std::vector<Descriptor>& configs)
{
    std::vector<int64_t> engines;
    for (const auto& config : configs)
    {
        engines.push_back(engine_of(config));
    }
    return engines;
}

/* What a frontend may tell the heuristic. */
struct Choice
{
    std::vector<int64_t> policies = {};
    bool finds_first = false;
};

/* The configurations that the heuristic offers for a graph, best first, not yet finalized. */
inline std::vector<Descriptor> offered(const Session& session, const Descriptor& graph, const Choice& choice = {})
{
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    Descriptor heuristic(session, HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!choice.policies.empty())
    {
        heuristic.set_numbers(HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, choice.policies);
    }
    if (choice.finds_first)
    {
        heuristic.set_flag(HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT, true);
    }
    heuristic.finalize();
    return heuristic.filled(HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

/* The ids of the engines for a graph, best first. */
inline std::vector<int64_t> engines_for(const Session& session, const Descriptor& graph, const Choice& choice = {})
{
    auto configs = offered(session, graph, choice);
    for (auto& config : configs)
    {
        config.finalize();
    }
    return engines_of(configs);
}

/* The engines of the test, both of which compute every graph of the flows. */
inline std::vector<int64_t> both_engines(const Session& session, const Descriptor& graph)
{
    auto engines = engines_for(session, graph);
    require(engines.size() == 2, "another number of engines than two");
    return engines;
}

inline std::string name_of(const Session& session, int64_t engine)
{
    size_t length = 0;
    CLIENT_CHECK(session, hipdnnGetEngineNameById_ext, session.handle(), engine, nullptr, &length);
    std::string name(length, '\0');
    CLIENT_CHECK(session, hipdnnGetEngineNameById_ext, session.handle(), engine, name.data(), &length);
    return name.substr(0, name.find('\0'));
}

/* The id that frontends compute of an engine's name: 64-bit FNV-1a. */
inline int64_t id_of(std::string_view name)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char letter : name)
    {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
    return static_cast<int64_t>(hash);
}

/* An engine for a graph, by its id. */
inline Descriptor engine_by_id(const Session& session, const Descriptor& graph, int64_t id)
{
    Descriptor engine(session, HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set_numbers(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, {id}).finalize();
    return engine;
}

/* A knob as it is published. Only those whose values are integers have any. */
struct Knob
{
    std::string name;
    hipdnnBackendAttributeType_t type = HIPDNN_TYPE_INT64;
    int64_t value = 0;
    int64_t least = 0;
    int64_t most = 0;
    int64_t stride = 1;
    std::vector<int64_t> valid;

    bool takes(int64_t number) const
    {
        const bool in_range = (least == 0 && most == 0) || (least <= number && number <= most &&
                                                            (number - least) % std::max<int64_t>(stride, 1) == 0);
        return in_range && (valid.empty() || std::find(valid.begin(), valid.end(), number) != valid.end());
    }

    /* Values to try: all that are named, else the default, both ends, and up to `room` in between. */
    std::vector<int64_t> values(int64_t room) const
    {
        std::vector<int64_t> all = valid;
        if (all.empty())
        {
            all = {value, least, most};
            for (int64_t step = 1; step <= room; step++)
            {
                all.push_back(least + step * std::max<int64_t>(stride, 1));
            }
        }
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        all.erase(std::remove_if(all.begin(), all.end(), [&](int64_t number) { return !takes(number); }), all.end());
        return all;
    }
};

/* The knobs of an engine, which has as many in their serialized form. */
inline std::vector<Knob> knobs_of(const Session& session, const Descriptor& engine)
{
    std::vector<Knob> knobs;
    for (const auto& info : engine.descriptors(HIPDNN_ATTR_ENGINE_KNOB_INFO))
    {
        Knob knob;
        knob.name = info.text(HIPDNN_ATTR_KNOB_INFO_TYPE);
        knob.type = static_cast<hipdnnBackendAttributeType_t>(info.number(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE));
        if (knob.type == HIPDNN_TYPE_INT64)
        {
            knob.value = info.number(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE);
            knob.least = info.number(HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE);
            knob.most = info.number(HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE);
            knob.stride = info.number(HIPDNN_ATTR_KNOB_INFO_STRIDE);
            knob.valid = info.numbers(HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT);
            require(knob.takes(knob.value), "knob " + knob.name + " does not take its default");
        }
        knobs.push_back(knob);
    }
    int64_t count = -1;
    CLIENT_CHECK(session, hipdnnBackendGetAttribute, engine.raw(), HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE,
                 HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 0, &count, nullptr);
    require(count == static_cast<int64_t>(knobs.size()), "another number of knobs when serialized");
    std::vector<hipdnnBackendFlatbufferData_t> serialized(knobs.size());
    if (!knobs.empty())
    {
        CLIENT_CHECK(session, hipdnnBackendGetAttribute, engine.raw(), HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE,
                     HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, count, &count, serialized.data());
    }
    for (size_t i = 0; i < serialized.size(); i++)
    {
        const std::string_view bytes(static_cast<const char*>(serialized[i].ptr), serialized[i].size);
        require(bytes.find(knobs[i].name) != std::string_view::npos, "a serialized knob is not " + knobs[i].name);
    }
    return knobs;
}

/* Knobs and what they are set to. */
using Settings = std::vector<std::pair<std::string, int64_t>>;

/* A finalized configuration of an engine. */
inline Descriptor configure(const Session& session, const Descriptor& graph, int64_t id, const Settings& settings = {})
{
    Descriptor config(session, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set(HIPDNN_ATTR_ENGINECFG_ENGINE, engine_by_id(session, graph, id));
    std::vector<Descriptor> choices;
    std::vector<hipdnnBackendDescriptor_t> raw;
    for (const auto& setting : settings)
    {
        choices.emplace_back(session, HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        choices.back()
            .set_text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, setting.first)
            .set_numbers(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {setting.second})
            .finalize();
        raw.push_back(choices.back().raw());
    }
    if (!raw.empty())
    {
        config.set(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, raw);
    }
    config.finalize();
    return config;
}

/* A finalized plan of a configuration. */
inline Descriptor plan_of(const Session& session, const Descriptor& config)
{
    Descriptor plan(session, HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize();
    return plan;
}

inline Descriptor plan_of(const Session& session, const Descriptor& graph, int64_t id, const Settings& settings = {})
{
    return plan_of(session, configure(session, graph, id, settings));
}

/* Bytes that a function of the library gives, asked for twice. */
template <typename Element, typename Function, typename... Arguments>
std::vector<Element> bytes(const Session& session, const Function& function, const char* call, Arguments... arguments)
{
    size_t size = 0;
    session.check(function(arguments..., 0, &size, nullptr), call);
    std::vector<Element> all(size);
    session.check(function(arguments..., size, &size, all.data()), call);
    require(size == all.size(), std::string(call) + ": another size than was said before");
    return all;
}

inline void bind_and_finalize(const Session& session, Descriptor& graph)
{
    hipdnnHandle_t handle = session.handle();
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle).finalize();
}

/* That a call fails, and with a text that has these words. */
template <typename Call>
void require_failure(const Call& call, const std::vector<std::string>& words, const std::string& what)
{
    std::string text;
    try
    {
        call();
    } catch (const std::runtime_error& error)
    {
        text = error.what();
    }
    require(!text.empty(), what + ": did not fail");
    for (const auto& word : words)
    {
        require(text.find(word) != std::string::npos, what + ": the text does not have \"" + word + "\": " + text);
    }
}

} // namespace client
