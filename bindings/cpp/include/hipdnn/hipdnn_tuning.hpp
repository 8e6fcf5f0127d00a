/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Searches for the fastest engine and knobs, by built-in strategies and those of tuning plugins:
 *
 * @code{.cpp}
 * hipdnn::AutotuneConfig config;
 * config.search = hipdnn::make_autotune_search("halving", 10);
 * hipdnn::check(graph.autotune(handle, pack, workspace, bytes, config));
 * @endcode
 *
 * Plugins are searched in `hipdnn_plugins/tuning` beside the backend library, or in HIPDNN_TUNING_PLUGIN_DIR. If the C library has
 * dlopen and threads in separate libraries (glibc before 2.34), link with -ldl -pthread.
 */
#pragma once

#include "hipdnn.hpp"

#include "cpp/tuning_plugins.hpp"

namespace hipdnn
{
namespace detail
{

/** A search with a strategy, by name. */
template <typename T>
class NamedSearchOf : public AutotuneSearchOf<T>
{
public:
    NamedSearchOf(std::string strategy, double seconds, int values)
        : _strategy(std::move(strategy)), _seconds(seconds), _values(values)
    {
    }

    Error search(TunedGraphOf<T>& graph, std::vector<AutotuneResultOf<T>>& results,
                 std::vector<size_t>& places) const override
    {
        if (!(_seconds > 0 && _seconds < 1e9) || _values < 1)
        {
            return {ErrorCode::INVALID_VALUE,
                    "the search takes " + std::to_string(_seconds) + " seconds and " + std::to_string(_values) +
                        " values of a knob, expected more than 0 seconds and at least 1 value"};
        }
        const StrategiesOf<T> strategies;
        const auto* strategy = strategies.find(_strategy);
        if (strategy == nullptr)
        {
            return {ErrorCode::INVALID_VALUE,
                    "the strategy is \"" + _strategy + "\", expected one of " + strategies.words()};
        }
        TuningProblemOf<T> problem;
        HIPDNN_CPP_TRY(graph.serialize(problem.graph));
        problem.budget = _seconds * 1e9;
        for (const int64_t engine : graph.engines())
        {
            problem.engines.push_back(SamplesOf<T>::of_engine(graph, engine, static_cast<size_t>(_values)));
        }
        TuningHostOf<T> host(graph);
        Error failure;
        host.tune(problem, *strategy, places, failure);
        if (failure.is_bad())
        {
            log_warning("strategy " + _strategy +
                        " has no ranking, so times rank what it measured: " + failure.err_msg);
        }
        for (size_t place = 0; place < host.trials().size(); place++)
        {
            if (!host.trials()[place].is_measured())
            {
                places.push_back(place);
            }
        }
        for (const size_t place : places)
        {
            results.push_back(result_of(host.trials()[place]));
        }
        keep(graph, host);
        return {};
    }

private:
    /** Records the ranking of engines with default knobs in the library, since it plans with them. Nothing is known of those that failed. */
    static void keep(const TunedGraphOf<T>& graph, const TuningHostOf<T>& host)
    {
        std::vector<std::pair<double, int64_t>> times;
        for (const auto& trial : host.trials())
        {
            if (trial.configuration.settings.empty() && trial.is_measured())
            {
                times.emplace_back(trial.time(), trial.configuration.engine);
            }
        }
        std::stable_sort(times.begin(), times.end());
        std::vector<int64_t> order;
        for (const auto& one : times)
        {
            order.push_back(one.second);
        }
        /* A library that keeps no rankings plans as before. */
        static_cast<void>(HIPDNN_CPP_CALL(hipdnnBackendWriteEngineRankingResults_ext)(
            graph.handle(), graph.descriptor(), order.data(), order.size(), nullptr));
    }

    static AutotuneResultOf<T> result_of(const TrialOf<T>& trial)
    {
        AutotuneResultOf<T> result;
        result.engineId = trial.configuration.engine;
        result.knobSettings = trial.configuration.list();
        result.errorMessage = trial.failure.err_msg;
        result.converged = trial.is_measured();
        if (trial.is_measured())
        {
            std::vector<double> milliseconds = trial.taken;
            for (double& time : milliseconds)
            {
                time /= 1e6;
            }
            sum_up(milliseconds, result);
        }
        return result;
    }

    std::string _strategy;
    double _seconds;
    int _values;
};

} // namespace detail

/**
 * A search for AutotuneConfig::search. It compares the engines of the graph's candidates or plans, with their knobs, and keeps the first one
 * with default knobs unless something is clearly faster. Results are not compared: knobs may choose an algorithm with different rounding
 * errors. The library records the ranking of the engines with default knobs, and offers them in this order from then on.
 * @param strategy "halving", "exhaustive" or one of a tuning plugin; otherwise autotune() returns INVALID_VALUE with the known ones
 * @param seconds the most time it may take, besides a few runs of each engine
 * @param knob_values the most values of a knob to try; 1 leaves knobs at their defaults
 */
inline std::shared_ptr<const AutotuneSearch> make_autotune_search(const std::string& strategy, double seconds = 10,
                                                                  int knob_values = 8)
{
    return std::make_shared<detail::NamedSearchOf<void>>(strategy, seconds, knob_values);
}

/** The names of all available strategies. */
inline std::vector<std::string> get_autotune_strategies() { return detail::StrategiesOf<void>().names(); }

} // namespace hipdnn
