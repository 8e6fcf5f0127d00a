/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The built-in strategies: exhaustive search, and a search that spends its time on promising configurations.
 */
#pragma once

#include "tuning_search.hpp"

namespace hipdnn
{
namespace detail
{

/** Measures every combination of knob values, those with few settings first. */
template <typename T>
struct ExhaustiveOf
{
    using Configuration = CandidateOf<T>;

    static Error search(const TuningProblemOf<T>& problem, TuningHostOf<T>& host, std::vector<size_t>& order)
    {
        std::vector<Configuration> all;
        for (const auto& engine : problem.engines)
        {
            add_combinations(engine, all);
        }
        std::stable_sort(all.begin(), all.end(), [](const Configuration& a, const Configuration& b) {
            return a.settings.size() < b.settings.size();
        });
        for (const Configuration& configuration : all)
        {
            size_t number = 0;
            const TuningOutcome outcome = host.measure(configuration, FEW_RUNS, number);
            if (outcome == TuningOutcome::OVER)
            {
                break;
            }
            if (outcome == TuningOutcome::MEASURED)
            {
                order.push_back(number);
            }
        }
        const auto faster = [&host](size_t a, size_t b) { return host.trials()[a].time() < host.trials()[b].time(); };
        std::stable_sort(order.begin(), order.end(), faster);
        /* Configurations within a tenth of the best get more runs. */
        const double limit = order.empty() ? 0 : host.trials()[order[0]].time() * 1.1;
        for (size_t number : std::vector<size_t>(order))
        {
            const Configuration configuration = host.trials()[number].configuration;
            if (host.trials()[number].time() <= limit &&
                host.measure(configuration, MANY_RUNS, number) == TuningOutcome::OVER)
            {
                break;
            }
        }
        order.erase(std::remove_if(order.begin(), order.end(),
                                   [&host](size_t number) { return !host.trials()[number].is_measured(); }),
                    order.end());
        std::stable_sort(order.begin(), order.end(), faster);
        return {};
    }

private:
    static constexpr uint32_t FEW_RUNS = 5, MANY_RUNS = 30;
    /** The most combinations tried of an engine's knobs. */
    static constexpr size_t MOST = 4096;

    /** Every combination of an engine's knobs, the defaults first. */
    static void add_combinations(const TunableEngineOf<T>& engine, std::vector<Configuration>& all)
    {
        std::vector<Configuration> own = {engine.bare()};
        for (const auto& tunable : engine.knobs)
        {
            const size_t begun = own.size();
            for (size_t at = 0; at < begun; at++)
            {
                for (size_t value = 1; value < tunable.values.size() && own.size() < MOST; value++)
                {
                    Configuration more = own[at];
                    tunable.turn(more, tunable.values[value]);
                    own.push_back(std::move(more));
                }
            }
        }
        all.insert(all.end(), own.begin(), own.end());
    }
};

/**
 * Starts with each engine's defaults and each knob changed alone. Half of these are dropped after a few runs, half of the rest after twice as
 * many, until few are left. Then the knobs of the best are varied again on top of the changes so far, until nothing gets faster.
 */
template <typename T>
class HalvingOf
{
public:
    using Configuration = CandidateOf<T>;

    static Error search(const TuningProblemOf<T>& problem, TuningHostOf<T>& host, std::vector<size_t>& order)
    {
        HalvingOf field(host);
        field.run(problem);
        order = std::move(field._order);
        return {};
    }

private:
    static constexpr uint32_t FIRST_RUNS = 2, LAST_RUNS = 12;
    static constexpr size_t FINALISTS = 3;
    /** Engines slower than the best by this factor are dropped: no knob makes up for that. */
    static constexpr double HOPELESS = 3;
    /** A setting that alone slows an engine by this factor is not combined with others. */
    static constexpr double UNLIKELY = 1.3;
    /** A smaller relative gain may be chance. */
    static constexpr double CHANCE = 0.01;
    /** How often all knobs are varied. */
    static constexpr int SWEEPS = 2;

    TuningHostOf<T>& _host;
    std::vector<Configuration> _seen;
    /** The numbers of the measured configurations, best first. */
    std::vector<size_t> _order;
    bool _is_over = false;

    explicit HalvingOf(TuningHostOf<T>& host) : _host(host) {}

    double time(size_t number) const { return _host.trials()[number].time(); }

    void run(const TuningProblemOf<T>& problem)
    {
        for (const auto& engine : problem.engines)
        {
            add(engine.bare(), FIRST_RUNS);
        }
        const double limit = _order.empty() ? 0 : time(_order[0]) * HOPELESS;
        for (const auto& engine : problem.engines)
        {
            const size_t bare = find(engine.bare());
            for (const auto& tunable : engine.knobs)
            {
                for (size_t value = 1; bare != NONE && time(bare) <= limit && value < tunable.values.size(); value++)
                {
                    Configuration turned = engine.bare();
                    tunable.turn(turned, tunable.values[value]);
                    add(turned, FIRST_RUNS);
                }
            }
        }
        /* Drops half in each round, and doubles the runs of the others. */
        uint32_t runs = FIRST_RUNS;
        for (size_t left = _order.size(); left > FINALISTS && !_is_over;)
        {
            left = std::max(left / 2, FINALISTS);
            runs = std::min(runs * 2, LAST_RUNS);
            refine(left, runs);
        }
        for (int at = 0; at < SWEEPS && sweep(problem); at++)
        {
        }
        refine(FINALISTS, LAST_RUNS);
    }

    static constexpr size_t NONE = static_cast<size_t>(-1);

    /** The number of a measured configuration. */
    size_t find(const Configuration& configuration) const
    {
        for (const size_t number : _order)
        {
            const Configuration& own = _host.trials()[number].configuration;
            if (own.engine == configuration.engine && own.settings == configuration.settings)
            {
                return number;
            }
        }
        return NONE;
    }

    /** Measures a configuration, unless it was measured or the budget is spent. */
    void add(const Configuration& configuration, uint32_t runs)
    {
        for (const Configuration& known : _seen)
        {
            if (known.engine == configuration.engine && known.settings == configuration.settings)
            {
                return;
            }
        }
        _seen.push_back(configuration);
        size_t number = 0;
        const TuningOutcome outcome = _is_over ? TuningOutcome::OVER : _host.measure(configuration, runs, number);
        _is_over = outcome == TuningOutcome::OVER;
        if (outcome == TuningOutcome::MEASURED)
        {
            const double own = time(number);
            const auto slower = [&](size_t other) { return time(other) > own; };
            _order.insert(std::find_if(_order.begin(), _order.end(), slower), number);
        }
    }

    /** Measures the first `most` again, with more runs. The others stay behind them, since their times are less certain. */
    void refine(size_t most, uint32_t runs)
    {
        std::vector<size_t> closer(_order.begin(),
                                   _order.begin() + static_cast<std::ptrdiff_t>(std::min(most, _order.size())));
        for (size_t number : closer)
        {
            const Configuration configuration = _host.trials()[number].configuration;
            const size_t own = number;
            const TuningOutcome outcome = _is_over ? TuningOutcome::OVER : _host.measure(configuration, runs, number);
            _is_over = outcome == TuningOutcome::OVER;
            if (outcome == TuningOutcome::FAILED)
            {
                _order.erase(std::find(_order.begin(), _order.end(), own));
            }
        }
        const auto end = _order.begin() + static_cast<std::ptrdiff_t>(std::min(most, _order.size()));
        std::stable_sort(_order.begin(), end, [this](size_t a, size_t b) { return time(a) < time(b); });
    }

    /** Varies each knob of the best on top of its other settings; returns whether something got faster. */
    bool sweep(const TuningProblemOf<T>& problem)
    {
        if (_order.empty())
        {
            return false;
        }
        const int64_t best_engine = _host.trials()[_order[0]].configuration.engine;
        bool is_faster = false;
        for (const auto& engine : problem.engines)
        {
            for (size_t knob = 0; engine.engine == best_engine && knob < engine.knobs.size() && !_order.empty(); knob++)
            {
                is_faster = turn(engine, engine.knobs[knob]) || is_faster;
            }
        }
        return is_faster;
    }

    bool turn(const TunableEngineOf<T>& engine, const TunableOf<T>& tunable)
    {
        const size_t before = _order[0];
        const double time_before = time(before);
        const size_t bare = find(engine.bare());
        for (const KnobValueVariant& value : tunable.values)
        {
            Configuration alone = engine.bare(), turned = _host.trials()[before].configuration;
            tunable.turn(alone, value);
            tunable.turn(turned, value);
            const size_t known = find(alone);
            if (known == NONE || bare == NONE || time(known) <= time(bare) * UNLIKELY)
            {
                add(turned, FIRST_RUNS * 2);
            }
        }
        if (_order[0] == before)
        {
            return false;
        }
        refine(2, LAST_RUNS / 2);
        return !_order.empty() && time(_order[0]) < time_before * (1 - CHANCE);
    }
};

} // namespace detail
} // namespace hipdnn
