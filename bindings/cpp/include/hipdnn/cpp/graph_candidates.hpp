/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Candidates for autotuning: engines, alone or with knobs set.
 */
#pragma once

#include "autotune.hpp"

namespace hipdnn
{
namespace detail
{

/** Calls that add candidates, after build_operation_graph() and instead of create_execution_plans(). */
template <typename Derived>
class GraphCandidates : public GraphPlans<Derived>
{
    using Base = GraphPlans<Derived>;

protected:
    using Base::_active;
    using Base::_has_candidates;
    using Base::_plans;
    using Base::engine_name;
    using Base::is_built;
    using Base::make_plan;
    using Base::must_build;
    using Base::rank;
    using Plan = typename Base::Plan;

public:
    using Base::build_plan_at_index;
    using Base::get_knob_lookup_for_engine;
    using Base::get_knobs_for_engine;

    /** The engines that compute the graph, best first. */
    Error get_engine_configs(std::vector<EngineConfigInfo>& found,
                             const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK})
    {
        found.clear();
        std::vector<Descriptor> configurations;
        std::vector<int64_t> ids;
        HIPDNN_CPP_TRY(rank(modes, configurations, ids));
        for (size_t i = 0; i < ids.size(); i++)
        {
            EngineConfigInfo info;
            info.engineId = ids[i];
            info.engineName = engine_name(ids[i]);
            static_cast<void>(get_knobs_for_engine(ids[i], info.knobs));
            for (const Knob& knob : info.knobs)
            {
                info.supportsExhaustive = info.supportsExhaustive || knob.knobId() == BENCHMARKING_KNOB;
            }
            configurations[i].value(HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, HIPDNN_TYPE_INT64,
                                    info.estimatedWorkspaceSize);
            found.push_back(std::move(info));
        }
        return {};
    }

    /** Adds engines with default knobs. */
    Error add_engine_configs(const std::vector<EngineConfigInfo>& engines)
    {
        HIPDNN_CPP_TRY(check_candidates("add_engine_configs()", engines.size()));
        for (const EngineConfigInfo& engine : engines)
        {
            add_candidate({engine.engineId, {}, engine.estimatedWorkspaceSize});
        }
        return {};
    }

    /** Adds all engines that compute the graph. */
    Error add_all_engines(const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK})
    {
        HIPDNN_CPP_TRY(check_candidates("add_all_engines()", 1));
        std::vector<EngineConfigInfo> engines;
        HIPDNN_CPP_TRY(get_engine_configs(engines, modes));
        return add_engine_configs(engines);
    }

    /** Adds an engine with knobs set. */
    Error add_engine(int64_t engine, const std::vector<KnobSetting>& settings = {})
    {
        HIPDNN_CPP_TRY(check_candidates("add_engine()", 1));
        Candidate candidate{engine, {}, 0};
        for (const KnobSetting& setting : settings)
        {
            candidate.settings.emplace(setting.knobId(), setting.value());
        }
        return check_and_add(std::move(candidate));
    }

    /** Adds engines with default knobs. */
    Error add_engines(const std::vector<int64_t>& engines)
    {
        HIPDNN_CPP_TRY(check_candidates("add_engines()", engines.size()));
        for (const int64_t engine : engines)
        {
            HIPDNN_CPP_TRY(add_engine(engine));
        }
        return {};
    }

    /** Adds engines with knobs set; skips engines that do not compute the graph. */
    Error add_engine_variants(const std::vector<EngineVariant>& variants)
    {
        HIPDNN_CPP_TRY(check_candidates("add_engine_variants()", variants.size()));
        std::vector<Knob> knobs;
        for (const EngineVariant& variant : variants)
        {
            if (get_knobs_for_engine(variant.engineId, knobs).is_good())
            {
                HIPDNN_CPP_TRY(check_and_add({variant.engineId, variant.knobSettings, 0}));
            }
        }
        return {};
    }

    /** Adds all combinations of knob values; skips engines that do not compute the graph. */
    Error add_engine_sweep(const std::vector<EngineSweepSpec>& sweeps)
    {
        HIPDNN_CPP_TRY(check_candidates("add_engine_sweep()", sweeps.size()));
        std::vector<Knob> knobs;
        for (const EngineSweepSpec& sweep : sweeps)
        {
            std::vector<std::map<KnobType_t, KnobValueVariant>> combinations = {sweep.fixedSettings};
            for (const KnobSweepAxis& axis : sweep.axes)
            {
                if (axis.knobId == BENCHMARKING_KNOB)
                {
                    continue;
                }
                std::vector<std::map<KnobType_t, KnobValueVariant>> longer;
                for (const auto& combination : combinations)
                {
                    for (const KnobValueVariant& value : axis.values)
                    {
                        longer.push_back(combination);
                        longer.back()[axis.knobId] = value;
                    }
                    if (longer.size() > MOST_COMBINATIONS)
                    {
                        return {ErrorCode::INVALID_VALUE,
                                detail::join({"the sweep has more than ", MOST_COMBINATIONS, " combinations"})};
                    }
                }
                combinations = std::move(longer);
            }
            for (auto& combination : combinations)
            {
                if (get_knobs_for_engine(sweep.engineId, knobs).is_good())
                {
                    HIPDNN_CPP_TRY(check_and_add({sweep.engineId, std::move(combination), 0}));
                }
            }
        }
        return {};
    }

    /**
     * As before; candidates are plans, too. If the chosen one cannot be built, the first that can be is chosen.
     * @return the first reason if none is left
     */
    Error build_plans(BuildPlanPolicy policy = BuildPlanPolicy::HEURISTICS_CHOICE)
    {
        if (_candidates == nullptr)
        {
            return Base::build_plans(policy);
        }
        Error first;
        std::vector<Plan> made;
        for (const Candidate& candidate : *_candidates)
        {
            if (has_plan(candidate))
            {
                continue;
            }
            Plan plan;
            const Error error = make_plan(candidate.engine, candidate.list(), plan);
            if (error.is_good())
            {
                made.push_back(std::move(plan));
            }
            first = first.is_bad() ? first : error;
        }
        for (Plan& plan : made)
        {
            _plans.push_back(std::move(plan));
        }
        if (_plans.empty())
        {
            return first;
        }
        if (policy != BuildPlanPolicy::HEURISTICS_CHOICE)
        {
            return Base::build_plans(policy);
        }
        first = build_plan_at_index(static_cast<int64_t>(_active));
        bool any = first.is_good();
        for (size_t i = 0; i < _plans.size() && !any; i++)
        {
            any = build_plan_at_index(static_cast<int64_t>(i)).is_good();
        }
        return any ? Error() : first;
    }

    /** @param bytes the largest expected workspace of any candidate */
    Error get_estimated_max_workspace_size(int64_t& bytes) const
    {
        bytes = 0;
        if (_candidates == nullptr)
        {
            return {ErrorCode::INVALID_VALUE, "there are no candidates, call add_engine...() first"};
        }
        for (const Candidate& candidate : *_candidates)
        {
            bytes = std::max(bytes, candidate.workspace);
        }
        return {};
    }

protected:
    /** Behind a pointer, so that programs that do not tune need not compile them. */
    std::shared_ptr<std::vector<Candidate>> _candidates;

    Error check_candidates(const char* call, size_t count) const
    {
        if (!_plans.empty() && !_has_candidates)
        {
            return {ErrorCode::INVALID_VALUE,
                    detail::join({call, " after create_execution_plans() or build(), expected one of both"})};
        }
        if (!is_built())
        {
            return must_build();
        }
        return count == 0 ? Error(ErrorCode::INVALID_VALUE, detail::join({call, ": the list is empty"})) : Error();
    }

    /** Whether a plan was made of a candidate; entries that autotune() left out have no configuration. */
    bool has_plan(const Candidate& candidate) const
    {
        return std::any_of(_plans.begin(), _plans.end(), [&](const Plan& plan) {
            if (plan.engine != candidate.engine || !plan.configuration.valid())
            {
                return false;
            }
            std::map<KnobType_t, KnobValueVariant> settings;
            for (const KnobSetting& setting : plan.settings == nullptr ? std::vector<KnobSetting>() : *plan.settings)
            {
                settings.emplace(setting.knobId(), setting.value());
            }
            return settings == candidate.settings;
        });
    }

    void add_candidate(Candidate candidate)
    {
        if (_candidates == nullptr)
        {
            _candidates = std::make_shared<std::vector<Candidate>>();
        }
        for (const Candidate& other : *_candidates)
        {
            if (other.engine == candidate.engine && other.settings == candidate.settings)
            {
                return;
            }
        }
        _candidates->push_back(std::move(candidate));
        _has_candidates = true;
    }

    /** Adds a candidate after checking that the engine has these knobs and values. */
    Error check_and_add(Candidate candidate)
    {
        candidate.settings.erase(BENCHMARKING_KNOB);
        std::unordered_map<KnobType_t, Knob> knobs;
        const Error known = get_knob_lookup_for_engine(candidate.engine, knobs);
        if (known.is_bad())
        {
            return {ErrorCode::INVALID_VALUE, known.err_msg};
        }
        for (const KnobSetting& setting : candidate.list())
        {
            const auto knob = knobs.find(setting.knobId());
            if (knob == knobs.end())
            {
                return {ErrorCode::INVALID_VALUE,
                        detail::join({"engine ", candidate.engine, " has no knob ", setting.knobId()})};
            }
            HIPDNN_CPP_TRY(knob->second.validate(setting));
        }
        Plan plan;
        if (make_plan(candidate.engine, candidate.list(), plan).is_good())
        {
            plan.configuration.value(HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, HIPDNN_TYPE_INT64, candidate.workspace);
        }
        add_candidate(std::move(candidate));
        return {};
    }
};

} // namespace detail
} // namespace hipdnn
