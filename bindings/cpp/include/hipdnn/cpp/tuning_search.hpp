/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The measuring side: runs alternating with the best so far, early stops, and the final comparison with the default choice.
 * Times are in nanoseconds.
 */
#pragma once

#include "tuning_tables.hpp"

namespace hipdnn
{
namespace detail
{

/** A configuration that was tried. */
template <typename T>
struct TrialOf
{
    CandidateOf<T> configuration;
    /** The duration of each run, and the same corrected by the best's runs meanwhile. */
    std::vector<double> taken, runs;
    Error failure;

    bool is_measured() const { return failure.is_good() && !runs.empty(); }
    /** The median of the corrected runs. */
    double time() const
    {
        std::vector<double> sorted = runs;
        std::sort(sorted.begin(), sorted.end());
        const size_t middle = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
};

/** The outcome of a measurement. */
enum class TuningOutcome { MEASURED, FAILED, OVER };

/** Measures for strategies. */
template <typename T>
class TuningHostOf
{
public:
    using Trial = TrialOf<T>;

    explicit TuningHostOf(TuningTargetOf<T>& target) : _target(target) {}

    const std::vector<Trial>& trials() const { return _trials; }

    /** What is left of the budget. */
    double remaining() const { return _end < 0 ? 0 : std::max(0.0, _end - SystemOf<T>::now()); }

    /** Runs a configuration this many times, alternating with the best so far; a much slower one is stopped early. */
    TuningOutcome measure(const CandidateOf<T>& configuration, uint32_t runs, size_t& number)
    {
        if (!(remaining() > 0))
        {
            return TuningOutcome::OVER;
        }
        number = place_of(configuration);
        const Trial& trial = _trials[number];
        const bool is_hopeless =
            trial.is_measured() && _best != NONE && trial.time() > _trials[_best].time() * HOPELESS;
        if (trial.failure.is_good() && !is_hopeless)
        {
            measure_at(number, runs);
        }
        return _trials[number].is_measured() ? TuningOutcome::MEASURED : TuningOutcome::FAILED;
    }

    /**
     * Runs a strategy's search, and compares its best with the library's default choice, the first engine with default knobs.
     * @param search takes the problem and this, and returns the order of the measured configurations
     * @param ranking the indices of measured trials, best first; empty if nothing was measured
     * @param failure why the strategy returned no ranking; the ranking is then by times
     */
    template <typename Search>
    void tune(const TuningProblemOf<T>& problem, const Search& search, std::vector<size_t>& ranking, Error& failure)
    {
        /* Each engine's defaults come first, whatever the strategy and however short the budget. */
        for (size_t at = 0; at < problem.engines.size(); at++)
        {
            measure_at(place_of(problem.engines[at].bare()), at == 0 ? FEWEST_ROUNDS : FEW_RUNS);
        }
        _end = SystemOf<T>::now() + problem.budget * (1 - LAST_PART);
        std::vector<size_t> order;
        failure = search(problem, *this, order);
        rank(failure.is_good() ? order : std::vector<size_t>(), ranking);
        if (!ranking.empty() && ranking[0] != 0 && _trials[0].is_measured())
        {
            compare_with_default(ranking, problem.budget * LAST_PART);
        }
    }

private:
    static constexpr size_t NONE = static_cast<size_t>(-1);
    /** The number of configurations that stay prepared, besides the default choice and the best. */
    static constexpr size_t KEPT = 8;
    /** The least duration of a batch of executions, so that the clock's resolution does not matter; and the most executions. */
    static constexpr double ROW = 100e3;
    static constexpr double MOST_IN_ROW = 64;
    /** A configuration whose first two runs are slower than the best by this factor is stopped. */
    static constexpr double SLOW = 1.5;
    /** One whose first execution is slower by this factor is not executed again. */
    static constexpr double HOPELESS = 8;
    /** The largest correction of times for changes of the machine's speed. */
    static constexpr double MOST_DRIFT = 4;
    /** The part of the budget reserved for the final comparison. */
    static constexpr double LAST_PART = 0.1;
    static constexpr uint32_t FEW_RUNS = 3;
    static constexpr size_t FEWEST_ROUNDS = 7, MOST_ROUNDS = 40;
    /** The least relative gain over the default choice, and the least part of rounds won, that is worth another choice. */
    static constexpr double WORTH = 0.01, CLEAR = 0.7;

    TuningTargetOf<T>& _target;
    std::vector<Trial> _trials;
    /** Indices of prepared trials, the most recently used last. */
    std::vector<size_t> _ready;
    size_t _best = NONE;
    /** The end of the budget; negative until the search begins. */
    double _end = -1;

    size_t place_of(const CandidateOf<T>& configuration)
    {
        for (size_t at = 0; at < _trials.size(); at++)
        {
            const auto& known = _trials[at].configuration;
            if (known.engine == configuration.engine && known.settings == configuration.settings)
            {
                return at;
            }
        }
        _trials.emplace_back();
        _trials.back().configuration = configuration;
        return _trials.size() - 1;
    }

    /** Runs a trial once: a batch of executions, so large that the clock does not matter. `is_run` is false if it is not worth the time. */
    Error run(size_t place, double usual, bool& is_run, double& taken)
    {
        Trial& trial = _trials[place];
        const auto known = std::find(_ready.begin(), _ready.end(), place);
        is_run = true;
        double once = trial.runs.empty() ? 0 : trial.time();
        if (known != _ready.end())
        {
            _ready.erase(known);
        } else
        {
            HIPDNN_CPP_TRY(_target.prepare(place, trial.configuration, taken));
            if (usual > 0 && taken > usual * HOPELESS)
            {
                trial.runs.push_back(taken);
                trial.taken.push_back(taken);
                _target.drop(place);
                is_run = false;
                return {};
            }
            /* The first executions do work that later ones do not: leave them out. */
            HIPDNN_CPP_TRY(_target.execute(place, 1, taken));
        }
        if (trial.runs.empty())
        {
            HIPDNN_CPP_TRY(_target.execute(place, 1, once));
        }
        const double count = std::min(MOST_IN_ROW, std::max(1.0, ROW / std::max(once, 1.0)));
        HIPDNN_CPP_TRY(_target.execute(place, static_cast<int>(count), taken));
        taken /= static_cast<double>(static_cast<int>(count));
        _ready.push_back(place);
        for (size_t at = 0; _ready.size() > KEPT + 2 && at < _ready.size();)
        {
            const size_t oldest = _ready[at];
            if (oldest == 0 || oldest == _best || oldest == place)
            {
                at++;
                continue;
            }
            _target.drop(oldest);
            _ready.erase(_ready.begin() + static_cast<std::ptrdiff_t>(at));
        }
        return {};
    }

    /** The fastest trial except one. */
    size_t best_but(size_t place) const
    {
        size_t best = NONE;
        for (size_t at = 0; at < _trials.size(); at++)
        {
            if (at != place && _trials[at].is_measured() && (best == NONE || _trials[at].time() < _trials[best].time()))
            {
                best = at;
            }
        }
        return best;
    }

    /** Runs a configuration alternating with the best; if it fails, the trial has the reason. */
    void measure_at(size_t place, size_t runs)
    {
        Error failure = try_measuring(place, runs);
        if (failure.is_bad())
        {
            _trials[place].failure = std::move(failure);
            _ready.erase(std::remove(_ready.begin(), _ready.end(), place), _ready.end());
            _target.drop(place);
        }
        _best = best_but(NONE);
    }

    Error try_measuring(size_t place, size_t runs)
    {
        const size_t beside = best_but(place);
        const double usual = beside == NONE ? 0 : _trials[beside].time();
        double least = 0;
        std::vector<double> taken, corrected;
        for (size_t at = 0; at < std::max<size_t>(runs, 1); at++)
        {
            bool is_run = false;
            double own = 0, now = 0;
            HIPDNN_CPP_TRY(run(place, usual, is_run, own));
            if (!is_run)
            {
                break;
            }
            least = at == 0 ? own : std::min(least, own);
            /* The machine may be slower or faster than when the best was measured: the best's run just now tells by how much. */
            double drift = 1;
            if (beside != NONE && run(beside, 0, is_run, now).is_good() && is_run && now > 0)
            {
                /* A larger difference means that a run was interrupted. */
                drift = std::min(std::max(usual / now, 1 / MOST_DRIFT), MOST_DRIFT);
            }
            taken.push_back(own);
            corrected.push_back(own * drift);
            const bool is_slow = at >= 1 && usual > 0 && least > usual * SLOW / std::min(drift, 1.0);
            if (is_slow || (_end >= 0 && !(remaining() > 0)))
            {
                break;
            }
        }
        TrialOf<T>& trial = _trials[place];
        trial.taken.insert(trial.taken.end(), taken.begin(), taken.end());
        trial.runs.insert(trial.runs.end(), corrected.begin(), corrected.end());
        return {};
    }

    /** A strategy's order, with each measured trial once, followed by the rest by their times. */
    void rank(const std::vector<size_t>& order, std::vector<size_t>& ranking) const
    {
        ranking.clear();
        const auto add = [&](size_t place) {
            const bool is_known = std::find(ranking.begin(), ranking.end(), place) != ranking.end();
            if (place < _trials.size() && _trials[place].is_measured() && !is_known)
            {
                ranking.push_back(place);
            }
        };
        for (const size_t place : order)
        {
            add(place);
        }
        const auto ranked = static_cast<std::ptrdiff_t>(ranking.size());
        for (size_t place = 0; place < _trials.size(); place++)
        {
            add(place);
        }
        std::stable_sort(ranking.begin() + ranked, ranking.end(),
                         [this](size_t a, size_t b) { return _trials[a].time() < _trials[b].time(); });
    }

    /** Runs the first two of the ranking alternating with the default choice. Only clearly faster ones stay in front of it. */
    void compare_with_default(std::vector<size_t>& ranking, double most)
    {
        std::vector<size_t> rivals;
        for (const size_t place : ranking)
        {
            if (place != 0 && rivals.size() < 2)
            {
                rivals.push_back(place);
            }
        }
        const double started = SystemOf<T>::now();
        std::vector<std::vector<double>> ratios(rivals.size());
        for (size_t round = 0; round < FEWEST_ROUNDS || (round < MOST_ROUNDS && SystemOf<T>::now() - started < most);
             round++)
        {
            bool is_run = false;
            double usual = 0;
            if (run(0, 0, is_run, usual).is_bad() || !(usual > 0))
            {
                return;
            }
            for (size_t at = 0; at < rivals.size(); at++)
            {
                double own = 0;
                const bool is_good = run(rivals[at], 0, is_run, own).is_good();
                ratios[at].push_back(is_good ? own / usual : 1e9);
            }
        }
        /* Ratios within a round, in which the machine was the same for both. */
        std::vector<std::pair<double, size_t>> front;
        for (size_t at = 0; at < rivals.size(); at++)
        {
            auto& of = ratios[at];
            const auto wins = std::count_if(of.begin(), of.end(), [](double ratio) { return ratio < 1; });
            std::sort(of.begin(), of.end());
            const double middle = of[of.size() / 2];
            if (middle < 1 - WORTH && static_cast<double>(wins) >= CLEAR * static_cast<double>(of.size()))
            {
                front.emplace_back(middle, rivals[at]);
            }
        }
        std::sort(front.begin(), front.end());
        if (front.empty())
        {
            front.emplace_back(1, 0);
        }
        for (size_t at = 0; at < front.size(); at++)
        {
            ranking.erase(std::find(ranking.begin(), ranking.end(), front[at].second));
            ranking.insert(ranking.begin() + static_cast<std::ptrdiff_t>(at), front[at].second);
        }
    }
};

} // namespace detail
} // namespace hipdnn
