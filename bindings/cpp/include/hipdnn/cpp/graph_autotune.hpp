/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The comparison of candidates.
 */
#pragma once

#include "graph_search.hpp"

namespace hipdnn
{
namespace detail
{

/** Calls that time candidates, or the plans of build_plans(BuildPlanPolicy::ALL), and choose the fastest. */
template <typename Derived>
class GraphAutotune : public GraphSearch<Derived>
{
    using Base = GraphSearch<Derived>;

protected:
    using Base::_active;
    using Base::_barred_engines;
    using Base::_candidates;
    using Base::_most_workspace;
    using Base::_operations;
    using Base::_plans;
    using Base::by_uid;
    using Base::check_no_candidates;
    using Base::engine_name;
    using Base::is_built;
    using Base::make_plan;
    using Base::must_build;
    using Base::reset_plans;
    using Base::run;
    using Base::search;
    using Base::time_row;
    using Plan = typename Base::Plan;

public:
    using Base::get_autotune_workspace_size;
    using Base::get_knob_lookup_for_engine;
    using Base::tensors;

    /**
     * Times the plans that build_plans(BuildPlanPolicy::ALL) built, and chooses the fastest.
     * @param pack memory of every tensor that is not virtual; outputs are overwritten repeatedly
     * @param workspace as large as get_autotune_workspace_size()
     */
    Error autotune(hipdnnHandle_t handle, const VariantPack& pack, void* workspace, const AutotuneConfig& config = {},
                   const AutotuneStorageConfig& storage = {}, std::vector<AutotuneResult>* results = nullptr)
    {
        HIPDNN_CPP_TRY(check_no_candidates("autotune() without a size of the workspace"));
        return tune(handle, pack, workspace, -1, config, storage, results);
    }
    Error autotune(hipdnnHandle_t handle, const std::unordered_map<TensorPtr, void*>& tensors, void* workspace,
                   const AutotuneConfig& config = {}, const AutotuneStorageConfig& storage = {},
                   std::vector<AutotuneResult>* results = nullptr)
    {
        VariantPack pack;
        HIPDNN_CPP_TRY(by_uid(tensors, pack));
        return autotune(handle, pack, workspace, config, storage, results);
    }

    /** Times candidates, or built plans, that need at most this many bytes of workspace, and chooses the fastest. */
    Error autotune(hipdnnHandle_t handle, const VariantPack& pack, void* workspace, int64_t workspace_size,
                   const AutotuneConfig& config = {}, const AutotuneStorageConfig& storage = {},
                   std::vector<AutotuneResult>* results = nullptr)
    {
        if (workspace_size < 0)
        {
            return {ErrorCode::INVALID_VALUE,
                    detail::join({"the size of the workspace is ", workspace_size, ", expected at least 0"})};
        }
        return tune(handle, pack, workspace, workspace_size, config, storage, results);
    }
    Error autotune(hipdnnHandle_t handle, const std::unordered_map<TensorPtr, void*>& tensors, void* workspace,
                   int64_t workspace_size, const AutotuneConfig& config = {}, const AutotuneStorageConfig& storage = {},
                   std::vector<AutotuneResult>* results = nullptr)
    {
        VariantPack pack;
        HIPDNN_CPP_TRY(by_uid(tensors, pack));
        return autotune(handle, pack, workspace, workspace_size, config, storage, results);
    }

protected:
    void bar_workspaces_above(int64_t bytes) { _most_workspace = bytes; }

    void bar_engines(const std::vector<int64_t>& engines)
    {
        _barred_engines.insert(_barred_engines.end(), engines.begin(), engines.end());
    }

private:
    static Error check_config(const AutotuneConfig& config)
    {
        const auto wrong = [](const char* what) {
            return Error(ErrorCode::INVALID_VALUE, detail::join({"autotune(): ", what}));
        };
        if (config.warmupIterations < 0 || config.timedIterations < 1 || config.maxIterations < 1)
        {
            return wrong("expected warmupIterations of at least 0, timedIterations and maxIterations of at least 1");
        }
        if (config.strategy == AutotuneStrategy::RUN_UNTIL_STABLE)
        {
            if (config.windowSize < 2 || config.maxIterations < config.windowSize)
            {
                return wrong("expected a windowSize of at least 2, and maxIterations of at least that");
            }
            if (!(config.stabilityThreshold > 0 && config.stabilityThreshold < 1))
            {
                return wrong("expected a stabilityThreshold between 0 and 1");
            }
        }
        return {};
    }

    Error check_pack(const VariantPack& pack) const
    {
        for (const TensorPtr& tensor : tensors())
        {
            const bool has_default = tensor->has_value();
            if (!tensor->get_is_virtual() && !has_default && pack.count(tensor->get_uid()) == 0)
            {
                return {ErrorCode::INVALID_VALUE,
                        detail::join({"autotune(): the variant pack lacks tensor \"", tensor->get_name(),
                                      "\" with uid ", tensor->get_uid()})};
            }
        }
        return {};
    }

    /** Waits for work on the device; if that fails, only its times get worse. */
    static void wait_for_device(hipdnnHandle_t handle)
    {
        const Descriptor control(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
        static_cast<void>(control.set(HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &handle));
        static_cast<void>(control.set_flag(HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT, true));
    }

    /** Lets the engine tune itself, if it can with this workspace. */
    Error prime(const typename Base::Memory& memory, const Candidate& candidate, AutotuneResult& result) const
    {
        std::unordered_map<KnobType_t, Knob> knobs;
        HIPDNN_CPP_TRY(get_knob_lookup_for_engine(candidate.engine, knobs));
        if (knobs.count(BENCHMARKING_KNOB) == 0)
        {
            result.exhaustiveNotRunReason = std::string("the engine has no knob ") + BENCHMARKING_KNOB;
            return {};
        }
        result.supportsExhaustive = true;
        std::vector<KnobSetting> settings = candidate.list();
        settings.emplace_back(BENCHMARKING_KNOB, int64_t{1});
        Plan plan;
        HIPDNN_CPP_TRY(make_plan(candidate.engine, settings, plan));
        HIPDNN_CPP_TRY(Base::build(plan));
        /* The plan may need more than those that are timed. */
        const bool is_null = memory.workspace == nullptr;
        if (is_null ? plan.workspace > 0 : memory.most >= 0 && plan.workspace > memory.most)
        {
            return {ErrorCode::INVALID_VALUE,
                    detail::join({"tuning itself needs ", plan.workspace, " bytes of workspace, expected at most ",
                                  is_null ? 0 : memory.most})};
        }
        HIPDNN_CPP_TRY(run(memory.handle, plan, memory.pack, memory.workspace, nullptr));
        result.ranExhaustive = true;
        return {};
    }

    /** Times a plan. */
    void measure(hipdnnHandle_t handle, const Plan& plan, const VariantPack& pack, void* workspace,
                 const AutotuneConfig& config, AutotuneResult& result) const
    {
        Error error;
        result.benchmarked = true;
        wait_for_device(handle);
        for (int i = 0; i < config.warmupIterations && error.is_good(); i++)
        {
            error = run(handle, plan, pack, workspace, nullptr);
        }
        wait_for_device(handle);
        std::vector<float> times;
        if (error.is_good())
        {
            error = take_times(
                config, [&](float& time) { return time_row({handle, pack, workspace, -1}, plan, 1, time); }, times,
                result.converged);
        }
        if (error.is_bad() || times.empty())
        {
            result.iterationsRun = static_cast<int>(times.size());
            result.converged = false;
            result.errorMessage += error.err_msg;
            return;
        }
        sum_up(times, result);
    }

    /** Ranks results, failed ones last. */
    static void sort_results(const AutotuneConfig& config, std::vector<AutotuneResult>& results)
    {
        const auto failed = std::stable_partition(results.begin(), results.end(),
                                                  [](const AutotuneResult& one) { return one.succeeded; });
        std::vector<AutotuneResult> good(results.begin(), failed);
        std::vector<AutotuneResult> bad(failed, results.end());
        const auto faster = [](const AutotuneResult& a, const AutotuneResult& b) { return a.minTimeMs < b.minTimeMs; };
        if (config.search == nullptr)
        {
            std::stable_sort(good.begin(), good.end(), faster);
        }
        if (config.rankingFn)
        {
            std::vector<AutotuneResult> ranked = good;
            try
            {
                config.rankingFn(ranked);
                good = std::move(ranked);
            } catch (...)
            {
                /* The program's function failed: keep the order by time. */
            }
        }
        for (size_t i = 0; i < good.size(); i++)
        {
            good[i].rank = static_cast<int>(i);
        }
        results = std::move(good);
        results.insert(results.end(), bad.begin(), bad.end());
    }

    /** Stores the winner as a rule for later graphs of this kind. */
    Error store(const AutotuneStorageConfig& storage, const AutotuneResult& winner) const
    {
        const Operation* core = nullptr;
        for (const auto& operation : _operations)
        {
            const bool is_pointwise = std::string(operation->kind().word) == "pointwise";
            core = core == nullptr || (std::string(core->kind().word) == "pointwise" && !is_pointwise) ? operation.get()
                                                                                                       : core;
        }
        std::string tensors;
        TensorWalk walk;
        const_cast<Operation*>(core)->visit(walk);
        for (const TensorPtr& tensor : walk.inputs)
        {
            const auto list = [](std::string numbers) {
                numbers.front() = '[';
                numbers.back() = ']';
                return numbers;
            };
            tensors += std::string(tensors.empty() ? "" : ", ") + "{\"dim\": " + list(text(tensor->get_dim())) +
                       ", \"stride\": " + list(text(tensor->get_stride())) + "}";
        }
        std::string word = core->kind().word;
        word = word == "sdpa"                           ? "sdpa_fwd"
               : word == "sdpa_backward"                ? "sdpa_bwd"
               : word == "batchnorm"                    ? "batchnorm_training"
               : word == "batchnorm_inference_variance" ? "batchnorm_inference_variance_ext"
                                                        : word;
        return write_rule(storage, word, tensors, winner.engineName);
    }

    Error tune(hipdnnHandle_t handle, const VariantPack& pack, void* workspace, int64_t most,
               const AutotuneConfig& config, const AutotuneStorageConfig& storage, std::vector<AutotuneResult>* answer)
    {
        HIPDNN_CPP_TRY(check_config(config));
        if (handle == nullptr || pack.empty())
        {
            return {ErrorCode::INVALID_VALUE, "autotune(): expected a handle and memory of tensors"};
        }
        if (!is_built())
        {
            return must_build();
        }
        HIPDNN_CPP_TRY(check_pack(pack));
        const bool exhaustive = config.mode == TuneMode::EXHAUSTIVE;
        if (_candidates == nullptr && (_plans.empty() || exhaustive))
        {
            return {ErrorCode::INVALID_VALUE,
                    exhaustive ? "autotune(): EXHAUSTIVE needs candidates, call add_engine...() first"
                               : "autotune(): there are no candidates, call add_engine...() or "
                                 "build_plans(BuildPlanPolicy::ALL) first"};
        }
        std::vector<AutotuneResult> results;
        if (config.search != nullptr)
        {
            HIPDNN_CPP_TRY(
                search({handle, pack, workspace, most < 0 ? get_autotune_workspace_size() : most}, config, results));
        } else
        {
            HIPDNN_CPP_TRY(time_candidates({handle, pack, workspace, most}, config, results));
        }
        sort_results(config, results);
        const bool any = !results.empty() && results[0].succeeded;
        Error error = any ? choose(results[0]) : Error();
        if (answer != nullptr)
        {
            *answer = results;
        }
        HIPDNN_CPP_TRY(error);
        if (!any)
        {
            return {results.empty() || most >= 0 ? ErrorCode::INVALID_VALUE : ErrorCode::HIPDNN_BACKEND_ERROR,
                    detail::join({"autotune(): no candidate could be timed: ",
                                  results.empty() ? "all are filtered out" : results[0].errorMessage})};
        }
        /* Rules cannot set knobs: after a search, write the best engine with default knobs. */
        const auto is_rule = [&](const AutotuneResult& one) {
            return config.search == nullptr || (one.succeeded && one.knobSettings.empty());
        };
        const auto rule = std::find_if(results.begin(), results.end(), is_rule);
        return storage.filePath.empty() ? Error() : store(storage, rule == results.end() ? results[0] : *rule);
    }

    /** Chooses a result's plan, rebuilding it if the search has replaced it. */
    Error choose(AutotuneResult& winner)
    {
        if (winner.compiledPlanIndex < 0)
        {
            Plan plan;
            HIPDNN_CPP_TRY(make_plan(winner.engineId, winner.knobSettings, plan));
            HIPDNN_CPP_TRY(Base::build(plan));
            winner.compiledPlanIndex = static_cast<int>(_plans.size());
            _plans.push_back(std::move(plan));
        }
        _active = static_cast<size_t>(winner.compiledPlanIndex);
        return {};
    }

    /** Times the candidates, or the built plans, one after the other. */
    Error time_candidates(const typename Base::Memory& memory, const AutotuneConfig& config,
                          std::vector<AutotuneResult>& results)
    {
        const auto& [handle, pack, workspace, most] = memory;
        const bool exhaustive = config.mode == TuneMode::EXHAUSTIVE;
        if (_candidates != nullptr)
        {
            reset_plans();
            for (const Candidate& candidate : *_candidates)
            {
                Plan plan;
                plan.engine = candidate.engine;
                plan.workspace = candidate.workspace;
                _plans.push_back(std::move(plan));
            }
        }
        const auto wanted = [&config](int64_t engine) {
            const auto& filter = config.engineIdFilter;
            return filter.empty() || std::find(filter.begin(), filter.end(), engine) != filter.end();
        };
        for (size_t i = 0; i < _plans.size(); i++)
        {
            Plan& plan = _plans[i];
            if (!wanted(plan.engine))
            {
                continue;
            }
            AutotuneResult result;
            result.engineId = plan.engine;
            result.engineName = engine_name(plan.engine);
            result.knobSettings = _candidates != nullptr     ? (*_candidates)[i].list()
                                  : plan.settings != nullptr ? *plan.settings
                                                             : std::vector<KnobSetting>();
            result.estimatedWorkspaceSize = plan.workspace;
            result.modeUsed = config.mode;
            result.strategyUsed = config.strategy;
            Error error;
            if (exhaustive)
            {
                error = prime(memory, (*_candidates)[i], result);
                const bool goes_on = config.continueOnPrimingFailure ||
                                     config.primingFailurePolicy == PrimingFailurePolicy::BENCHMARK_UNPRIMED;
                if (error.is_bad() && !goes_on)
                {
                    return {ErrorCode::HIPDNN_BACKEND_ERROR,
                            detail::join(
                                {"autotune(): the search of engine ", result.engineName, " failed: ", error.err_msg})};
                }
                result.exhaustiveNotRunReason = error.is_bad() ? error.err_msg : result.exhaustiveNotRunReason;
                error = {};
            }
            if (_candidates != nullptr)
            {
                error = make_plan(plan.engine, result.knobSettings, plan);
                if (error.is_bad())
                {
                    // Without one, build_plans() takes no such plan for made.
                    plan.configuration = Descriptor();
                }
            }
            error = error.is_good() ? Base::build(plan) : error;
            result.workspaceSize = std::max<int64_t>(plan.workspace, 0);
            if (error.is_good() && most >= 0 && plan.workspace > most)
            {
                result.excludedByCaller = true;
                error = {ErrorCode::INVALID_VALUE, detail::join({"the plan needs ", plan.workspace,
                                                                 " bytes of workspace, expected at most ", most})};
            }
            if (error.is_good() && plan.workspace > 0 && workspace == nullptr)
            {
                return {ErrorCode::INVALID_VALUE,
                        detail::join({"autotune(): the workspace is null, expected ", plan.workspace, " bytes"})};
            }
            result.excludedByCaller = result.excludedByCaller || plan.barred;
            result.errorMessage = error.err_msg;
            if (error.is_good())
            {
                measure(handle, plan, pack, workspace, config, result);
                result.compiledPlanIndex = result.succeeded ? static_cast<int>(i) : -1;
            }
            results.push_back(std::move(result));
        }
        return {};
    }
};

} // namespace detail
} // namespace hipdnn
