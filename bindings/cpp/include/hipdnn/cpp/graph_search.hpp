/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The interface of a search for the fastest engine and knobs to a graph, and the use of its result.
 */
#pragma once

#include "graph_candidates.hpp"

namespace hipdnn
{
namespace detail
{

/** Runs a search with the graph's tensors and workspace. */
template <typename Derived>
class GraphSearch : public GraphCandidates<Derived>
{
    using Base = GraphCandidates<Derived>;
    /** `void`, made dependent on the graph's type, so that nothing of a search is compiled before a program tunes. */
    using Late = std::conditional_t<sizeof(Derived*) == 0, Derived, void>;

protected:
    using Base::_candidates;
    using Base::_graph;
    using Base::_operations;
    using Base::_plans;
    using Base::engine_name;
    using Base::make_plan;
    using Base::reset_plans;
    using Base::run;
    using Plan = typename Base::Plan;

public:
    using Base::get_knobs_for_engine;

protected:
    /** The memory that plans are executed with. */
    struct Memory
    {
        hipdnnHandle_t handle;
        const VariantPack& pack;
        void* workspace;
        /** The size of the workspace in bytes, or -1 if the program did not give it. */
        int64_t most;
    };

    /** The milliseconds of this many executions in a row, by the library's events. */
    Error time_row(const Memory& memory, const Plan& plan, int count, float& milliseconds) const
    {
        const Descriptor control(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
        const char* attempt = "timing an execution";
        HIPDNN_CPP_TRY(backend_error(
            control.set(HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &memory.handle), attempt));
        HIPDNN_CPP_TRY(backend_error(control.set_flag(HIPDNN_ATTR_PROFILING_START_EXT, true), attempt));
        for (int i = 0; i < count; i++)
        {
            HIPDNN_CPP_TRY(run(memory.handle, plan, memory.pack, memory.workspace, nullptr));
        }
        HIPDNN_CPP_TRY(backend_error(control.set_flag(HIPDNN_ATTR_PROFILING_STOP_EXT, true), attempt));
        HIPDNN_CPP_TRY(control.finalize(attempt));
        return control.value(HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, milliseconds)
                   ? Error()
                   : Error(ErrorCode::HIPDNN_BACKEND_ERROR, "timing an execution: the library returned no time");
    }

    /** Runs the search of the settings. The results are in the order of its ranking, failed ones last; keeps plans of the best. */
    Error search(const Memory& memory, const AutotuneConfig& config, std::vector<AutotuneResult>& results)
    {
        if (config.mode != TuneMode::STANDARD)
        {
            return {ErrorCode::INVALID_VALUE, "autotune(): a search needs TuneMode::STANDARD"};
        }
        Tuned tuned(*this, memory);
        HIPDNN_CPP_TRY(engines_of(config, tuned.list));
        std::vector<size_t> places;
        if (!tuned.list.empty())
        {
            HIPDNN_CPP_TRY(config.search->search(tuned, results, places));
        }
        if (_candidates != nullptr)
        {
            reset_plans();
        }
        for (size_t at = 0; at < results.size(); at++)
        {
            auto& result = results[at];
            const auto plan = tuned.plans.find(places[at]);
            if (plan != tuned.plans.end() && result.succeeded)
            {
                result.compiledPlanIndex = static_cast<int>(_plans.size());
                _plans.push_back(std::move(plan->second));
            }
            result.engineName = engine_name(result.engineId);
            result.workspaceSize = places[at] < tuned.workspaces.size() ? tuned.workspaces[places[at]] : 0;
            result.estimatedWorkspaceSize = result.workspaceSize;
            result.modeUsed = config.mode;
            result.strategyUsed = config.strategy;
        }
        return {};
    }

private:
    /** The graph for a search. */
    struct Tuned : TunedGraphOf<Late>
    {
        GraphSearch& graph;
        const Memory& memory;
        std::vector<int64_t> list;
        std::map<size_t, Plan> plans;
        std::vector<int64_t> workspaces;

        Tuned(GraphSearch& graph_, const Memory& memory_) : graph(graph_), memory(memory_) {}

        hipdnnHandle_t handle() const override { return memory.handle; }
        hipdnnBackendDescriptor_t descriptor() const override { return graph._graph.get(); }
        Error serialize(std::vector<uint8_t>& bytes) const override { return graph.serialize(bytes); }
        bool has_convolution() const override
        {
            bool has = false;
            for (const auto& operation : graph._operations)
            {
                has = has || std::string(operation->kind().word).rfind("conv_", 0) == 0;
            }
            return has;
        }
        const std::vector<int64_t>& engines() const override { return list; }
        std::string name_of(int64_t engine) const override { return graph.engine_name(engine); }
        Error knobs_of(int64_t engine, std::vector<KnobOf<Late>>& knobs) const override
        {
            return graph.get_knobs_for_engine(engine, knobs);
        }
        Error plan(const CandidateOf<Late>& configuration, int64_t& workspace, std::string& description) const override
        {
            Plan plan;
            HIPDNN_CPP_TRY(make(configuration, plan));
            workspace = plan.workspace;
            description = plan.plan.text(HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
            return {};
        }
        Error make(const CandidateOf<Late>& configuration, Plan& plan) const
        {
            HIPDNN_CPP_TRY(graph.make_plan(configuration.engine, configuration.list(), plan));
            return graph.Base::build(plan);
        }
        Error prepare(size_t place, const CandidateOf<Late>& configuration, double& first) override
        {
            Plan plan;
            HIPDNN_CPP_TRY(make(configuration, plan));
            workspaces.resize(std::max(workspaces.size(), place + 1));
            workspaces[place] = plan.workspace;
            if (plan.workspace > memory.most || (plan.workspace > 0 && memory.workspace == nullptr))
            {
                return {ErrorCode::INVALID_VALUE,
                        join({"the plan needs ", plan.workspace, " bytes of workspace, expected at most ",
                              memory.workspace == nullptr ? 0 : memory.most})};
            }
            plans[place] = std::move(plan);
            return execute(place, 1, first);
        }
        Error execute(size_t place, int count, double& taken) override
        {
            float milliseconds = 0;
            HIPDNN_CPP_TRY(graph.time_row(memory, plans[place], count, milliseconds));
            taken = static_cast<double>(milliseconds) * 1e6;
            return {};
        }
        void drop(size_t place) override { plans.erase(place); }
    };

    /** The engines of the candidates, or of the built plans, each once. */
    Error engines_of(const AutotuneConfig& config, std::vector<int64_t>& engines) const
    {
        const auto has = [](const std::vector<int64_t>& list, int64_t engine) {
            return std::find(list.begin(), list.end(), engine) != list.end();
        };
        const auto add = [&](int64_t engine) {
            if (!has(engines, engine) && (config.engineIdFilter.empty() || has(config.engineIdFilter, engine)))
            {
                engines.push_back(engine);
            }
        };
        if (_candidates != nullptr)
        {
            for (const auto& candidate : *_candidates)
            {
                if (!candidate.settings.empty())
                {
                    return {ErrorCode::INVALID_VALUE,
                            "autotune(): a search sets knobs itself, expected candidates without settings"};
                }
                add(candidate.engine);
            }
            return {};
        }
        for (const Plan& plan : _plans)
        {
            if (!plan.barred)
            {
                add(plan.engine);
            }
        }
        return {};
    }
};

} // namespace detail
} // namespace hipdnn
