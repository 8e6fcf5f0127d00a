/* SPDX-License-Identifier: MIT */

/**
 * @file
 * What a tuning plugin calls during a search. The search runs on a thread of its own and its measurements on the thread that waits for it,
 * so that the host can go on without a search that does not return when the budget is spent.
 */
#pragma once

#include "tuning_strategies.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace hipdnn
{
namespace detail
{

/* The types of hipdnn_plugin_sdk/TuningPluginApi.h under names of our own, so that programs may include any SDK's. */

/** hipdnnPluginConstData_t. */
struct TuningData
{
    const void* ptr;
    size_t size;
};

/** hipdnnTuningProblem_t. */
struct TuningProblemData
{
    size_t size;
    TuningData graph, device;
    const TuningData* candidates;
    size_t num_candidates;
    const TuningData* similar;
    size_t num_similar;
    uint64_t budget_ns;
};

/** hipdnnTuningMeasurement_t. */
struct TuningMeasurementData
{
    uint32_t configuration, num_runs;
    uint64_t time_ns, remaining_ns;
};

/** hipdnnTuningHost_t. */
struct TuningHostData
{
    size_t size;
    void* context;
    int (*measure)(void* context, const TuningData* engine_config, uint32_t num_runs,
                   TuningMeasurementData* measurement);
    int (*rank)(void* context, const uint32_t* configurations, size_t num_configurations);
};

/** What the thread of a search and the one that waits for it tell each other. */
template <typename T>
struct SearchTalkOf
{
    enum class State { RUNNING, ASKS, ANSWERED, RETURNED, LEFT };

    std::mutex mutex;
    std::condition_variable changed;
    State state = State::RUNNING;
    /** The configuration to measure, and how often. */
    CandidateOf<T> configuration;
    uint32_t runs = 0;
    /** The answer. */
    int status = 0;
    TuningMeasurementData found = {};
    /** The last ranking. */
    std::vector<size_t> ranking;
    bool has_ranking = false;
    /** Why the search failed. */
    std::string reason;
};

/** A search of a plugin's, which belongs to the thread that runs it. */
template <typename T>
struct PluginSearchOf
{
    using Talk = SearchTalkOf<T>;
    using State = typename Talk::State;

    /** The plugin gets a number, not an address, so that a call from another thread, or after the search, accesses nothing. */
    uintptr_t token;
    std::shared_ptr<Talk> talk;
    std::vector<TunableEngineOf<T>> engines;
    /** The numbers of the measured configurations. */
    std::vector<size_t> measured;
    /** Whether the host went on without it. */
    bool is_alone = false;

    /* hipdnnPluginStatus_t. */
    static constexpr int SUCCESS = 0, BAD_PARAM = 1, INTERNAL_ERROR = 3, NOT_APPLICABLE = 5, NOT_INITIALIZED = 6;

    /** This thread's search; null outside of one. One per module. */
    HIPDNN_CPP_HIDDEN static PluginSearchOf*& of_thread()
    {
        static thread_local PluginSearchOf* search = nullptr;
        return search;
    }

    HIPDNN_CPP_HIDDEN static uintptr_t next_token()
    {
        static std::atomic<uintptr_t> tokens{1};
        return tokens++;
    }

    static TuningHostData functions(uintptr_t token)
    {
        return {sizeof(TuningHostData), reinterpret_cast<void*>(token), &measure, &rank};
    }

    static uint64_t nanoseconds(double time) { return time < 1e18 ? static_cast<uint64_t>(time) : UINT64_MAX; }

    /**
     * Runs a search until it returns, or until the budget's end plus the time of the longest measurement.
     * @param function runs it with the functions for the plugin, and returns why it failed, or nothing; it owns all that the plugin gets
     */
    template <typename Function>
    static Error run(const std::string& what, const TuningProblemOf<T>& problem, TuningHostOf<T>& host,
                     std::vector<size_t>& order, Function function)
    {
        const auto talk = std::make_shared<Talk>();
        std::thread thread;
        try
        {
            thread = std::thread([talk, engines = problem.engines, function = std::move(function)]() {
                PluginSearchOf own{next_token(), talk, engines, {}};
                const TuningHostData functions = PluginSearchOf::functions(own.token);
                of_thread() = &own;
                std::string reason;
                try
                {
                    reason = function(functions);
                } catch (const std::exception& thrown)
                {
                    reason = thrown.what();
                }
                of_thread() = nullptr;
                const std::lock_guard<std::mutex> lock(talk->mutex);
                talk->reason = std::move(reason);
                talk->state = talk->state == State::LEFT ? State::LEFT : State::RETURNED;
                talk->changed.notify_all();
            });
        } catch (const std::exception& thrown)
        {
            return Error(ErrorCode::HIPDNN_BACKEND_ERROR,
                         "there is no thread for " + what + ": " + thrown.what() + " (link with -pthread?)");
        }
        const Leaving leaving{*talk, thread};
        const bool has_returned = serve(*talk, host);
        const std::lock_guard<std::mutex> lock(talk->mutex);
        order = talk->ranking;
        const std::string reason = !has_returned          ? " went on when the budget was spent, and was ended"
                                   : talk->reason.empty() ? ": the plugin answered no ranking"
                                                          : "";
        const bool is_good = talk->has_ranking && (!has_returned || talk->reason.empty());
        return is_good ? Error()
                       : Error(ErrorCode::HIPDNN_BACKEND_ERROR, reason.empty() ? talk->reason : what + reason);
    }

private:
    /** The least time that a search has to return once the budget is spent, in nanoseconds. */
    static constexpr double LEAST_GRACE = 200e6;

    /** Lets the search go on alone, unless it has returned. */
    struct Leaving
    {
        Talk& talk;
        std::thread& thread;

        ~Leaving()
        {
            bool has_returned;
            {
                const std::lock_guard<std::mutex> lock(talk.mutex);
                has_returned = talk.state == State::RETURNED;
                talk.state = has_returned ? State::RETURNED : State::LEFT;
                talk.changed.notify_all();
            }
            has_returned ? thread.join() : thread.detach();
        }
    };

    /** Measures what the search asks for; whether it returned in time. */
    static bool serve(Talk& talk, TuningHostOf<T>& host)
    {
        double longest = LEAST_GRACE, end = -1;
        std::unique_lock<std::mutex> lock(talk.mutex);
        for (;;)
        {
            double patience = std::min(host.remaining(), 1e12);
            if (!(patience > 0))
            {
                end = end < 0 ? SystemOf<T>::now() : end;
                patience = end + longest - SystemOf<T>::now();
            }
            if (talk.state == State::RETURNED)
            {
                return true;
            }
            if (!(patience > 0))
            {
                return false;
            }
            if (talk.state == State::ASKS)
            {
                lock.unlock();
                const double started = SystemOf<T>::now();
                answer(talk, host);
                longest = std::max(longest, SystemOf<T>::now() - started);
                lock.lock();
                talk.state = State::ANSWERED;
                talk.changed.notify_all();
                continue;
            }
            talk.changed.wait_for(lock, std::chrono::nanoseconds(static_cast<int64_t>(patience)));
        }
    }

    /** Measures a configuration. The search waits for the answer, so that only this thread uses it. */
    static void answer(Talk& talk, TuningHostOf<T>& host)
    {
        size_t number = 0;
        const TuningOutcome outcome = host.measure(talk.configuration, talk.runs, number);
        talk.status = outcome == TuningOutcome::FAILED ? NOT_APPLICABLE : SUCCESS;
        talk.found = {};
        if (outcome == TuningOutcome::MEASURED)
        {
            const TrialOf<T>& trial = host.trials()[number];
            talk.found.configuration = static_cast<uint32_t>(number);
            talk.found.num_runs = static_cast<uint32_t>(trial.runs.size());
            talk.found.time_ns = nanoseconds(trial.time());
        }
        talk.found.remaining_ns = nanoseconds(host.remaining());
    }

    /** Runs a function with this thread's search if the token matches; exceptions do not reach the plugin. */
    template <typename Function>
    static int with(void* context, const Function& function)
    {
        PluginSearchOf* const search = of_thread();
        if (search == nullptr || reinterpret_cast<uintptr_t>(context) != search->token)
        {
            return NOT_INITIALIZED;
        }
        try
        {
            if (search->is_alone)
            {
                /* A search that goes on without the host keeps no processor busy. */
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                return NOT_INITIALIZED;
            }
            std::unique_lock<std::mutex> lock(search->talk->mutex);
            return function(*search, *search->talk, lock);
        } catch (...)
        {
            /* For example, if memory is short. */
            return INTERNAL_ERROR;
        }
    }

    /** hipdnnTuningHost_t::measure. */
    static int measure(void* context, const TuningData* config, uint32_t runs, TuningMeasurementData* measurement)
    {
        return with(context, [&](PluginSearchOf& search, Talk& talk, std::unique_lock<std::mutex>& lock) {
            CandidateOf<T> configuration;
            if (config == nullptr || measurement == nullptr || runs == 0 ||
                !TuningTablesOf<T>::read(config->ptr, config->size, search.engines, configuration))
            {
                return BAD_PARAM;
            }
            if (talk.state != State::LEFT)
            {
                talk.configuration = std::move(configuration);
                talk.runs = runs;
                talk.state = State::ASKS;
                talk.changed.notify_all();
                talk.changed.wait(lock, [&] { return talk.state != State::ASKS; });
            }
            if (talk.state == State::LEFT)
            {
                search.is_alone = true;
                return NOT_INITIALIZED;
            }
            talk.state = State::RUNNING;
            if (talk.status == SUCCESS)
            {
                if (talk.found.num_runs > 0)
                {
                    search.measured.push_back(talk.found.configuration);
                }
                *measurement = talk.found;
            }
            return talk.status;
        });
    }

    /** hipdnnTuningHost_t::rank. */
    static int rank(void* context, const uint32_t* numbers, size_t count)
    {
        return with(context, [&](PluginSearchOf& search, Talk& talk, std::unique_lock<std::mutex>&) {
            if (numbers == nullptr || count < 1 || count > search.measured.size())
            {
                return BAD_PARAM;
            }
            std::vector<size_t> ranking;
            for (size_t at = 0; at < count; at++)
            {
                const auto is_in = [&](const std::vector<size_t>& list) {
                    return std::find(list.begin(), list.end(), numbers[at]) != list.end();
                };
                if (is_in(ranking) || !is_in(search.measured))
                {
                    return BAD_PARAM;
                }
                ranking.push_back(numbers[at]);
            }
            talk.ranking = std::move(ranking);
            talk.has_ranking = true;
            return SUCCESS;
        });
    }
};

} // namespace detail
} // namespace hipdnn
