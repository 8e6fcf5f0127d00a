/* SPDX-License-Identifier: MIT */

/*
 * Autotuning: every engine by its id, with the values of its knobs as they are published; a plan of each, executed by its
 * number; times that the library takes; and a ranking that the next heuristic follows.
 */
#include "plain.hpp"

namespace client
{

namespace
{

/* An engine with its knobs set, and its result. */
struct Candidate
{
    int64_t engine;
    Settings settings;
    int64_t estimate = 0;
    float milliseconds = INFINITY;

    bool operator==(const Candidate& other) const { return engine == other.engine && settings == other.settings; }

    std::string name(const Session& session) const
    {
        std::string text = name_of(session, engine);
        for (const auto& setting : settings)
        {
            text += " " + setting.first + "=" + std::to_string(setting.second);
        }
        return text;
    }
};

void add(std::vector<Candidate>& all, Candidate one)
{
    if (std::find(all.begin(), all.end(), one) == all.end())
    {
        all.push_back(std::move(one));
    }
}

/* Each value of each knob alone, and all combinations of a few values. */
void sweep(std::vector<Candidate>& all, int64_t engine, const std::vector<Knob>& knobs)
{
    add(all, {engine, {}});
    std::vector<Settings> products = {{}};
    for (const auto& knob : knobs)
    {
        require(knob.type == HIPDNN_TYPE_INT64, "knob " + knob.name + " is of a type that the client does not know");
        for (const int64_t value : knob.values(6))
        {
            add(all, {engine, {{knob.name, value}}});
        }
        std::vector<Settings> longer;
        for (const auto& product : products)
        {
            for (const int64_t value : knob.values(1))
            {
                longer.push_back(product);
                longer.back().emplace_back(knob.name, value);
            }
        }
        products = std::move(longer);
    }
    for (auto& product : products)
    {
        add(all, {engine, std::move(product)});
    }
}

/* Waits for the device, with a descriptor that has no handle and is never finalized. */
void wait_for_device(const Session& session)
{
    Descriptor control(session, HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
    control.set_flag(HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT, true);
}

/* The time of one execution, measured with its own descriptor. */
float measure(const Session& session, const Descriptor& plan, const Descriptor& pack)
{
    hipdnnHandle_t handle = session.handle();
    Descriptor control(session, HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
    control.set(HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &handle)
        .set_flag(HIPDNN_ATTR_PROFILING_START_EXT, true);
    CLIENT_CHECK(session, hipdnnBackendExecute, handle, plan.raw(), pack.raw());
    control.set_flag(HIPDNN_ATTR_PROFILING_STOP_EXT, true).finalize();
    float milliseconds = -1;
    CLIENT_CHECK(session, hipdnnBackendGetAttribute, control.raw(), HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT,
                 HIPDNN_TYPE_FLOAT, 1, nullptr, &milliseconds);
    require(milliseconds >= 0 && milliseconds < 60000, "a time of " + std::to_string(milliseconds) + " ms");
    return milliseconds;
}

hipdnnAutotuneCacheWriteOutcome_ext_t rank(const Session& session, const Descriptor& graph,
                                           const std::vector<int64_t>& order)
{
    auto outcome = HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED;
    CLIENT_CHECK(session, hipdnnBackendWriteEngineRankingResults_ext, session.handle(), graph.raw(), order.data(),
                 order.size(), &outcome);
    return outcome;
}

/* The engines, fastest first. */
std::vector<int64_t> order_of(std::vector<Candidate> candidates)
{
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.milliseconds < b.milliseconds; });
    std::vector<int64_t> order;
    for (const auto& candidate : candidates)
    {
        if (std::find(order.begin(), order.end(), candidate.engine) == order.end())
        {
            order.push_back(candidate.engine);
        }
    }
    return order;
}

/* Times all candidates, whose plans are made first and then told apart by their numbers. */
void measure_all(const Session& session, const Descriptor& graph, Layer& layer, std::vector<Candidate>& candidates)
{
    std::vector<Descriptor> plans;
    int64_t most = 0;
    for (auto& candidate : candidates)
    {
        const Descriptor config = configure(session, graph, candidate.engine, candidate.settings);
        candidate.estimate = config.number(HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
        most = std::max(most, candidate.estimate);
        plans.push_back(plan_of(session, config));
    }
    /* Frontends allocate the estimated size once, and skip plans that need more. */
    std::vector<std::max_align_t> workspace(static_cast<size_t>(most) / sizeof(std::max_align_t) + 1);
    const auto want = layer.result();
    for (size_t number = 0; number < plans.size(); number++)
    {
        auto& candidate = candidates[number];
        const std::string name = candidate.name(session);
        require(plans[number].number(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) <= candidate.estimate,
                name + " wants more workspace than was estimated");
        require(plans[number].number(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT) == candidate.engine,
                name + " became another engine's plan");
        auto y = layer.empty();
        const Descriptor pack = pack_of(session, layer.bindings(y), workspace.data());
        CLIENT_CHECK(session, hipdnnBackendExecute, session.handle(), plans[number].raw(), pack.raw());
        wait_for_device(session);
        for (int round = 0; round < 3; round++)
        {
            std::fill(y.begin(), y.end(), UNTOUCHED);
            candidate.milliseconds = std::min(candidate.milliseconds, measure(session, plans[number], pack));
            compare(y, want, 1e-5F, name);
        }
    }
}

} // namespace

void run_tuning(const Library& library)
{
    Layer layer({2, 3, 6, 6});
    std::vector<int64_t> order;
    {
        const Session session(library);
        const Descriptor graph = layer.graph(session);
        const auto before = engines_for(session, graph);
        std::vector<Candidate> candidates;
        for (const char* name : {"CPU_ENGINE", "CPU_REFERENCE_ENGINE"})
        {
            const int64_t id = id_of(name);
            require(std::find(before.begin(), before.end(), id) != before.end(), std::string(name) + " is not offered");
            const Descriptor engine = engine_by_id(session, graph, id);
            require(engine.text(HIPDNN_ATTR_ENGINE_NAME_EXT) == name, std::string(name) + " has another name");
            sweep(candidates, id, knobs_of(session, engine));
        }
        require(before.size() == 2 && candidates.size() > 20, "too few candidates");
        measure_all(session, graph, layer, candidates);

        order = order_of(candidates);
        const std::vector<int64_t> reversed(order.rbegin(), order.rend());
        const Descriptor larger = Layer({3, 3, 6, 6}).graph(session);
        require(rank(session, graph, {}) == HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES, "nothing was ranked");
        for (const auto& wanted : {order, reversed, order})
        {
            require(rank(session, graph, wanted) == HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN, "a ranking was not written");
            require(engines_for(session, graph) == wanted, "the engines are not in the order of the ranking");
            require(rank(session, graph, wanted) == HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED,
                    "the same was written twice");
            /* Uids and names say nothing about what is computed; sizes do. */
            require(engines_for(session, layer.graph(session, 100, "another name")) == wanted,
                    "the same computation with other uids has another order");
            require(engines_for(session, larger) == before, "a ranking is that of another computation as well");
        }
        CLIENT_CHECK(session, hipdnnBackendWriteEngineRankingResults_ext, session.handle(), graph.raw(),
                     reversed.data(), reversed.size(), nullptr);
        order = reversed;
    }
    /* A new handle, and a graph that is made anew, have the order that was written last; the first engine computes. */
    const Session session(library);
    const Descriptor graph = layer.graph(session);
    require(engines_for(session, graph) == order, "a new handle has another order");
    auto y = layer.empty();
    run(session, plan_of(session, graph, order.at(0)), layer.bindings(y));
    compare(y, layer.result(), 1e-5F, "the engine that is ranked first");
}

} // namespace client
