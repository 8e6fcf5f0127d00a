/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Engines and plans of a graph: which engines compute it, with which knobs.
 */
#pragma once

#include "graph_operations.hpp"
#include "knob.hpp"
#include "ranking.hpp"

namespace hipdnn
{

namespace detail
{

/** Calls that make plans and choose one. */
template <typename Derived>
class GraphEngines : public GraphOperations<Derived>
{
    using Base = GraphOperations<Derived>;

protected:
    using Base::_graph;
    using Base::_graph_finalized;
    using Base::_preferred;
    using Base::finalize_graph;
    using Base::is_built;
    using Base::must_build;

public:
    using Base::build_operation_graph;

    /**
     * What predictions rank engines by: `tflops`, the default, or `time`.
     * @return INVALID_VALUE for others
     */
    Error set_ranking_metric(const std::string& metric) { return set_metric(_ranking_metric, metric); }

    /**
     * The engines that compute the graph, best first: by predictions for the modes A and B, which fall back to the library's order.
     * @return GRAPH_NOT_SUPPORTED with each engine's reason if none does
     */
    Error get_ranked_engine_ids(std::vector<int64_t>& ids,
                                const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK}) const
    {
        std::vector<Descriptor> configurations;
        return rank(modes, configurations, ids);
    }

    /** The knobs of an engine for this graph. */
    Error get_knobs_for_engine(int64_t engine, std::vector<Knob>& knobs) const
    {
        Descriptor descriptor;
        HIPDNN_CPP_TRY(make_engine(engine, descriptor));
        knobs.clear();
        for (const Descriptor& info : descriptor.descriptors(HIPDNN_ATTR_ENGINE_KNOB_INFO))
        {
            Knob knob;
            if (Knob::read(info, knob))
            {
                knobs.push_back(std::move(knob));
            }
        }
        return {};
    }

    Error get_knob_lookup_for_engine(int64_t engine, std::unordered_map<KnobType_t, Knob>& knobs) const
    {
        std::vector<Knob> list;
        HIPDNN_CPP_TRY(get_knobs_for_engine(engine, list));
        knobs.clear();
        for (Knob& knob : list)
        {
            const KnobType_t name = knob.knobId();
            knobs.emplace(name, std::move(knob));
        }
        return {};
    }

    Error get_behavior_notes_for_engine(int64_t engine, std::vector<BehaviorNote>& notes) const
    {
        notes.clear();
        Descriptor descriptor;
        HIPDNN_CPP_TRY(make_engine(engine, descriptor));
        int64_t count = 0;
        const auto name = HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE;
        HIPDNN_CPP_TRY(
            backend_error(descriptor.get(name, HIPDNN_TYPE_BEHAVIOR_NOTE, 0, &count, nullptr), "asking for notes"));
        std::vector<hipdnnBackendBehaviorNote_t> raw(static_cast<size_t>(std::max<int64_t>(count, 0)));
        if (!raw.empty())
        {
            HIPDNN_CPP_TRY(backend_error(descriptor.get(name, HIPDNN_TYPE_BEHAVIOR_NOTE, count, &count, raw.data()),
                                         "asking for notes"));
        }
        for (const auto note : raw)
        {
            notes.push_back(note < HIPDNN_BEHAVIOR_NOTE_TYPE_COUNT ? static_cast<BehaviorNote>(note)
                                                                   : BehaviorNote::NOT_SET);
        }
        return {};
    }

    /**
     * Makes a plan for each engine that computes the graph, without building it; chooses the best one, or the preferred engine's.
     * @return as get_ranked_engine_ids()
     */
    Error create_execution_plans(const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK})
    {
        HIPDNN_CPP_TRY(check_no_candidates("create_execution_plans()"));
        std::vector<Descriptor> configurations;
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(rank(modes, configurations, ids));
        _most_workspace = -1;
        _barred_engines.clear();
        _plans.clear();
        _active = 0;
        for (size_t i = 0; i < ids.size(); i++)
        {
            Plan plan;
            plan.configuration = std::move(configurations[i]);
            plan.engine = ids[i];
            _active = _preferred == ids[i] ? i : _active;
            _plans.push_back(std::move(plan));
        }
        return {};
    }

    /**
     * Makes a plan of one engine with knobs set. Knobs that the engine lacks are ignored.
     * @return INVALID_VALUE for a value that a knob does not accept
     */
    Error create_execution_plan_ext(int64_t engine, const std::vector<KnobSetting>& settings)
    {
        HIPDNN_CPP_TRY(check_no_candidates("create_execution_plan_ext()"));
        Plan plan;
        HIPDNN_CPP_TRY(make_plan(engine, settings, plan));
        _most_workspace = -1;
        _barred_engines.clear();
        _plans.clear();
        _active = 0;
        _plans.push_back(std::move(plan));
        return {};
    }

    /** Whether there is a plan to build. */
    Error check_support() const
    {
        return active() == nullptr
                   ? Error(ErrorCode::HIPDNN_BACKEND_ERROR, "there is no plan, call create_execution_plans() first")
                   : Error();
    }

    /** Whether any engine computes the graph; builds it if necessary. */
    Error is_supported_ext(hipdnnHandle_t handle, const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK})
    {
        if (!_graph.valid())
        {
            HIPDNN_CPP_TRY(build_operation_graph(handle));
        } else if (!_graph_finalized)
        {
            HIPDNN_CPP_TRY(finalize_graph(handle));
        }
        Descriptor heuristic;
        int64_t count = 0;
        return ask(modes, true, heuristic, count);
    }

    /**
     * Lets engines build their plans: the chosen one, or all, of which the first success is chosen.
     * @return HIPDNN_BACKEND_ERROR with the engine's reason; INVALID_VALUE if all plans left were deselected
     */
    Error build_plans(BuildPlanPolicy policy = BuildPlanPolicy::HEURISTICS_CHOICE)
    {
        if (_plans.empty())
        {
            return {ErrorCode::INVALID_VALUE, "there is no plan to build, call create_execution_plans() first"};
        }
        if (policy == BuildPlanPolicy::HEURISTICS_CHOICE)
        {
            return build_plan_at_index(static_cast<int64_t>(_active));
        }
        Error first;
        bool any = false;
        for (size_t i = 0; i < _plans.size(); i++)
        {
            const Error error = build(_plans[i]);
            if (error.is_good() && !std::exchange(any, true))
            {
                _active = i;
            }
            first = first.is_bad() ? first : error;
        }
        return any ? Error()
                   : Error(ErrorCode::HIPDNN_BACKEND_ERROR, detail::join({"no plan could be built: ", first.err_msg}));
    }

    /** Builds one of the plans and chooses it. */
    Error build_plan_at_index(int64_t index)
    {
        HIPDNN_CPP_TRY(check_index(index));
        HIPDNN_CPP_TRY(build(_plans[static_cast<size_t>(index)]));
        _active = static_cast<size_t>(index);
        return {};
    }

    /** All steps from the graph to an executable plan. */
    Error build(hipdnnHandle_t handle, const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK},
                BuildPlanPolicy policy = BuildPlanPolicy::HEURISTICS_CHOICE, bool multithreaded = false)
    {
        static_cast<void>(multithreaded);
        HIPDNN_CPP_TRY(check_no_candidates("build()"));
        HIPDNN_CPP_TRY(build_operation_graph(handle));
        HIPDNN_CPP_TRY(create_execution_plans(modes));
        HIPDNN_CPP_TRY(check_support());
        return build_plans(policy);
    }

    int64_t get_execution_plan_count() const { return static_cast<int64_t>(_plans.size()); }

    /** @param bytes the workspace size of the chosen plan, on the device of its tensors */
    Error get_workspace_size(int64_t& bytes) const
    {
        const Plan* plan = active();
        if (plan == nullptr || !plan->ready())
        {
            return must_plan();
        }
        bytes = plan->workspace;
        return {};
    }
    /** The workspace size of a built plan, -1 if it is not built. */
    int64_t get_workspace_size_plan_at_index(int64_t index) const
    {
        return check_index(index).is_bad() ? -1 : _plans[static_cast<size_t>(index)].workspace;
    }
    Error get_workspace_size_plan_at_index(int64_t index, int64_t& bytes) const
    {
        HIPDNN_CPP_TRY(check_index(index));
        bytes = _plans[static_cast<size_t>(index)].workspace;
        return {};
    }
    /** The largest workspace size of any built plan. */
    int64_t get_autotune_workspace_size() const
    {
        int64_t most = 0;
        for (const Plan& plan : _plans)
        {
            most = plan.barred ? most : std::max(most, plan.workspace);
        }
        return most;
    }

    /** The name of the chosen plan's engine. */
    Error get_plan_name(std::string& name) const { return get_plan_name_at_index(static_cast<int64_t>(_active), name); }
    Error get_plan_name_at_index(int64_t index, std::string& name) const
    {
        HIPDNN_CPP_TRY(check_index(index));
        name = engine_name(_plans[static_cast<size_t>(index)].engine);
        return {};
    }

protected:
    /** An engine with knobs set, and its plan once built. */
    struct Plan
    {
        Descriptor configuration;
        Descriptor plan;
        int64_t engine = -1;
        /* Behind a pointer, so that programs without knobs need not compile them. */
        std::shared_ptr<std::vector<KnobSetting>> settings;
        int64_t workspace = -1;
        bool finalized = false;
        bool barred = false;

        bool ready() const { return finalized; }
    };

    std::vector<Plan> _plans;
    size_t _active = 0;
    /** Plans that need more workspace are skipped; -1 for no limit. */
    int64_t _most_workspace = -1;
    std::vector<int64_t> _barred_engines;
    /** Whether candidates for autotuning were added, which excludes other plans. */
    bool _has_candidates = false;
    /** What predictions rank engines by, if the program says so. */
    std::string _ranking_metric;

    static Error must_plan()
    {
        return {ErrorCode::INVALID_VALUE, "there is no plan that can be executed, call build() first"};
    }

    bool is_barred(int64_t engine) const
    {
        for (const int64_t barred : _barred_engines)
        {
            if (barred == engine)
            {
                return true;
            }
        }
        return false;
    }

    Error check_no_candidates(const char* call) const
    {
        return _has_candidates ? Error(ErrorCode::INVALID_VALUE,
                                       detail::join({call, " after add_engine...(), expected autotune()"}))
                               : Error();
    }

    Error check_index(int64_t index) const
    {
        return index < 0 || static_cast<size_t>(index) >= _plans.size()
                   ? Error(ErrorCode::INVALID_VALUE,
                           detail::join({"plan index ", index, ", expected 0 to below ", _plans.size()}))
                   : Error();
    }

    const Plan* active() const
    {
        return _active < _plans.size() && !_plans[_active].barred ? &_plans[_active] : nullptr;
    }

    void reset_plans()
    {
        _plans.clear();
        _active = 0;
    }

    /** The number of engines that compute the graph, at least 1. */
    Error ask(const std::vector<HeuristicMode>& modes, bool first_only, Descriptor& heuristic, int64_t& count) const
    {
        if (!is_built())
        {
            return must_build();
        }
        heuristic = Descriptor(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        const auto mode = HIPDNN_HEUR_MODE_FALLBACK;
        HIPDNN_CPP_TRY(heuristic.set(HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, _graph, "asking for engines"));
        HIPDNN_CPP_TRY(backend_error(heuristic.set(HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode),
                                     "asking for engines"));
        HIPDNN_CPP_TRY(set_ranking(heuristic, modes, _ranking_metric));
        if (first_only)
        {
            /* Only faster: a library without it returns all. */
            static_cast<void>(heuristic.set_flag(HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT, true));
        }
        HIPDNN_CPP_TRY(heuristic.finalize("asking for engines"));
        const hipdnnStatus_t status =
            heuristic.get(HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
        if (status == HIPDNN_STATUS_SUCCESS && count <= 0)
        {
            char reasons[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
            HIPDNN_CPP_CALL(hipdnnGetLastErrorString)(reasons, sizeof reasons);
            return {ErrorCode::GRAPH_NOT_SUPPORTED, detail::join({"no engine computes the graph: ", reasons})};
        }
        return backend_error(status, "asking for engines");
    }

    /** Finalized configurations, best first, and their engines. */
    Error rank(const std::vector<HeuristicMode>& modes, std::vector<Descriptor>& configurations,
               std::vector<int64_t>& ids) const
    {
        Descriptor heuristic;
        int64_t count = 0;
        HIPDNN_CPP_TRY(ask(modes, false, heuristic, count));
        std::vector<hipdnnBackendDescriptor_t> raw;
        configurations.clear();
        ids.clear();
        for (int64_t i = 0; i < count; i++)
        {
            configurations.push_back(Descriptor(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR));
            raw.push_back(configurations.back().get());
        }
        HIPDNN_CPP_TRY(backend_error(
            heuristic.get(HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
            "asking for engines"));
        while (static_cast<int64_t>(configurations.size()) > count && !configurations.empty())
        {
            configurations.pop_back();
        }
        for (const Descriptor& configuration : configurations)
        {
            HIPDNN_CPP_TRY(configuration.finalize("finalizing an engine's configuration"));
            const Descriptor engine = configuration.one(HIPDNN_ATTR_ENGINECFG_ENGINE);
            int64_t id = -1;
            if (!engine.valid() || !engine.value(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, id))
            {
                return {ErrorCode::HIPDNN_BACKEND_ERROR, "asking for engines: a configuration has no engine"};
            }
            ids.push_back(id);
        }
        return {};
    }

    Error make_engine(int64_t engine, Descriptor& descriptor) const
    {
        if (!is_built())
        {
            return must_build();
        }
        const std::string attempt = "engine " + std::to_string(engine);
        descriptor = Descriptor(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
        HIPDNN_CPP_TRY(descriptor.set(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, _graph, attempt.c_str()));
        HIPDNN_CPP_TRY(
            backend_error(descriptor.set(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &engine), attempt));
        return descriptor.finalize(attempt.c_str());
    }

    /** The name of an engine of this graph, or its id in hexadecimal. */
    std::string engine_name(int64_t engine) const
    {
        Descriptor descriptor;
        if (make_engine(engine, descriptor).is_good())
        {
            const std::string name = descriptor.text(HIPDNN_ATTR_ENGINE_NAME_EXT);
            if (!name.empty())
            {
                return name;
            }
        }
        return hexadecimal(engine);
    }

    /** A plan of an engine, not built yet. */
    Error make_plan(int64_t engine, const std::vector<KnobSetting>& settings, Plan& plan) const
    {
        Descriptor descriptor;
        HIPDNN_CPP_TRY(make_engine(engine, descriptor));
        plan.configuration = Descriptor(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        HIPDNN_CPP_TRY(plan.configuration.set(HIPDNN_ATTR_ENGINECFG_ENGINE, descriptor, "configuring an engine"));
        std::unordered_map<KnobType_t, Knob> knobs;
        HIPDNN_CPP_TRY(get_knob_lookup_for_engine(engine, knobs));
        plan.settings = std::make_shared<std::vector<KnobSetting>>();
        std::vector<Descriptor> choices;
        std::vector<hipdnnBackendDescriptor_t> raw;
        for (const KnobSetting& setting : settings)
        {
            const auto knob = knobs.find(setting.knobId());
            if (knob == knobs.end())
            {
                continue;
            }
            HIPDNN_CPP_TRY(knob->second.validate(setting));
            choices.emplace_back();
            HIPDNN_CPP_TRY(make_choice(setting, choices.back()));
            raw.push_back(choices.back().get());
            plan.settings->push_back(setting);
        }
        if (!raw.empty())
        {
            HIPDNN_CPP_TRY(
                backend_error(plan.configuration.set(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                                     static_cast<int64_t>(raw.size()), raw.data()),
                              "setting knobs"));
        }
        plan.engine = engine;
        return plan.configuration.finalize("finalizing an engine's configuration");
    }

    /** Lets the engine build a plan, and bars it if it was deselected. */
    Error build(Plan& plan) const
    {
        const std::string who = "the plan of engine " + std::to_string(plan.engine);
        plan.barred = plan.barred || is_barred(plan.engine);
        if (plan.barred)
        {
            return {ErrorCode::INVALID_VALUE, detail::join({who, " is deselected"})};
        }
        if (!plan.finalized)
        {
            plan.plan = Descriptor(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            HIPDNN_CPP_TRY(
                plan.plan.set(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, plan.configuration, "making a plan"));
            HIPDNN_CPP_TRY(plan.plan.finalize(("building " + who).c_str()));
            plan.workspace = 0;
            plan.plan.value(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, plan.workspace);
            plan.finalized = true;
        }
        if (_most_workspace >= 0 && plan.workspace > _most_workspace)
        {
            plan.barred = true;
            return {ErrorCode::INVALID_VALUE,
                    detail::join(
                        {who, " needs ", plan.workspace, " bytes of workspace, expected at most ", _most_workspace})};
        }
        return {};
    }
};

} // namespace detail
} // namespace hipdnn
