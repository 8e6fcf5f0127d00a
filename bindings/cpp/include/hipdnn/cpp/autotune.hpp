/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Autotuning: executes and times candidates, and chooses the fastest.
 */
#pragma once

#include "graph_plans.hpp"

#include <functional>
#include <map>
#include <stdio.h>

namespace hipdnn
{

/** Whether engines first tune themselves, by the knob global.benchmarking, if they have it. */
enum class TuneMode { STANDARD = 0, AUTO = 0, EXHAUSTIVE = 1 };

/** How often a candidate is timed. */
enum class AutotuneStrategy {
    SINGLE_SHOT,   ///< Once.
    FIXED_AVERAGE, ///< As often as timedIterations says.
    RUN_UNTIL_STABLE ///< Until the last windowSize times differ by less than stabilityThreshold, at most maxIterations times.
};

/** What to do with an engine whose own tuning fails. */
enum class PrimingFailurePolicy { ABORT_ON_PRIMING_FAILURE, BENCHMARK_UNPRIMED };

/* Templates, here and below, so that a program that does not tune need not compile their parts. */

/** A candidate and its times. */
template <typename>
struct AutotuneResultOf
{
    int64_t engineId = -1;
    std::string engineName;
    std::vector<KnobSetting> knobSettings;
    float minTimeMs = 0; ///< Milliseconds.
    float avgTimeMs = 0;
    float stddevMs = 0;
    float robustTimeMs = 0; ///< The mean without the slowest quarter.
    int iterationsRun = 0;
    bool converged = false;
    int rank = -1; ///< 0 for the fastest one, -1 for one that failed.
    bool succeeded = false;
    bool benchmarked = false;      ///< Whether it was timed, or timing it failed.
    bool excludedByCaller = false; ///< Whether it was deselected, or needs more workspace than was given.
    std::string errorMessage;
    int64_t workspaceSize = 0; ///< Bytes.
    int64_t estimatedWorkspaceSize = 0;
    int compiledPlanIndex = -1;
    TuneMode modeUsed = TuneMode::STANDARD;
    bool supportsExhaustive = false; ///< Whether the engine can tune itself.
    bool ranExhaustive = false;
    std::string exhaustiveNotRunReason;
    AutotuneStrategy strategyUsed = AutotuneStrategy::RUN_UNTIL_STABLE;
};
using AutotuneResult = AutotuneResultOf<void>;

/** Sorts results, best first. */
using AutotuneRankingFn = std::function<void(std::vector<AutotuneResult>&)>;

namespace detail
{
template <typename>
class AutotuneSearchOf;
} // namespace detail

/** Searches for the fastest engine and knobs with a strategy. */
using AutotuneSearch = detail::AutotuneSearchOf<void>;

/** How candidates are timed. */
template <typename T>
struct AutotuneConfigOf
{
    TuneMode mode = TuneMode::STANDARD;
    AutotuneStrategy strategy = AutotuneStrategy::RUN_UNTIL_STABLE;
    int warmupIterations = 1;
    int timedIterations = 10;
    int maxIterations = 100;
    int windowSize = 3;
    float stabilityThreshold = 0.05F;
    std::vector<int64_t> engineIdFilter; ///< Only these engines, if not empty.
    AutotuneRankingFn rankingFn;         ///< Instead of the least time.
    bool continueOnPrimingFailure = false;
    PrimingFailurePolicy primingFailurePolicy = PrimingFailurePolicy::ABORT_ON_PRIMING_FAILURE;
    /** A search for engine and knobs, made by hipdnn/hipdnn_tuning.hpp, which decides what to time. Null: times the candidates. */
    std::shared_ptr<const detail::AutotuneSearchOf<T>> search;
};
using AutotuneConfig = AutotuneConfigOf<void>;

/** A file of rules for HIPDNN_HEUR_CONFIG_PATH, to which the winner is written. */
template <typename>
struct AutotuneStorageConfigOf
{
    /** A path: a string, or anything with `string()`, such as std::filesystem::path. */
    class Path
    {
    public:
        Path() = default;
        Path(const char* path) : _path(path) {}
        Path(std::string path) : _path(std::move(path)) {}
        template <typename Other, typename = decltype(std::declval<const Other&>().string())>
        Path(const Other& path) : _path(path.string())
        {
        }
        bool empty() const { return _path.empty(); }
        const std::string& string() const { return _path; }

    private:
        std::string _path;
    };

    Path filePath;
    bool deleteAllExistingFileContent = false;
};
using AutotuneStorageConfig = AutotuneStorageConfigOf<void>;

/** An engine that computes a graph. */
template <typename>
struct EngineConfigInfoOf
{
    int64_t engineId = -1;
    std::string engineName;
    std::vector<Knob> knobs;
    bool supportsExhaustive = false;
    int64_t estimatedWorkspaceSize = 0;
};
using EngineConfigInfo = EngineConfigInfoOf<void>;

/** An engine with knobs set. */
template <typename>
struct EngineVariantOf
{
    int64_t engineId = -1;
    std::map<KnobType_t, KnobValueVariant> knobSettings;
};
using EngineVariant = EngineVariantOf<void>;

/** Values of a knob to try. */
template <typename>
struct KnobSweepAxisOf
{
    KnobType_t knobId;
    std::vector<KnobValueVariant> values;
};
using KnobSweepAxis = KnobSweepAxisOf<void>;

/** All combinations of values of an engine's knobs. */
template <typename>
struct EngineSweepSpecOf
{
    int64_t engineId = -1;
    std::vector<KnobSweepAxis> axes;
    std::map<KnobType_t, KnobValueVariant> fixedSettings;
};
using EngineSweepSpec = EngineSweepSpecOf<void>;

namespace detail
{

/** The knob that makes engines tune themselves. */
constexpr const char* BENCHMARKING_KNOB = "global.benchmarking";
/** The most combinations of a sweep. */
constexpr size_t MOST_COMBINATIONS = 10000;

/** A candidate: an engine with knobs set, and its expected workspace size. */
template <typename>
struct CandidateOf
{
    int64_t engine = -1;
    std::map<KnobType_t, KnobValueVariant> settings;
    int64_t workspace = 0;

    std::vector<KnobSetting> list() const
    {
        std::vector<KnobSetting> made;
        for (const auto& one : settings)
        {
            made.emplace_back(one.first, one.second);
        }
        return made;
    }
};
using Candidate = CandidateOf<void>;

/** Plans and executes configurations, identified by the indices of their trials. Times are in nanoseconds. */
template <typename T>
class TuningTargetOf
{
public:
    virtual ~TuningTargetOf() = default;
    /** Plans a configuration and executes it once; returns how long the execution took. */
    virtual Error prepare(size_t place, const CandidateOf<T>& configuration, double& first) = 0;
    /** Executes a prepared configuration this many times in a row, and returns how long that took. */
    virtual Error execute(size_t place, int count, double& taken) = 0;
    /** Frees a prepared configuration. */
    virtual void drop(size_t place) = 0;
};

/** What a search may query of a graph. */
template <typename T>
class TunedGraphOf : public TuningTargetOf<T>
{
public:
    virtual hipdnnHandle_t handle() const = 0;
    virtual hipdnnBackendDescriptor_t descriptor() const = 0;
    virtual Error serialize(std::vector<uint8_t>& bytes) const = 0;
    virtual bool has_convolution() const = 0;
    /** The engines that are compared, the library's choice first. */
    virtual const std::vector<int64_t>& engines() const = 0;
    virtual std::string name_of(int64_t engine) const = 0;
    virtual Error knobs_of(int64_t engine, std::vector<KnobOf<T>>& knobs) const = 0;
    /** Plans a configuration; returns the workspace size, and the plan's own JSON description. */
    virtual Error plan(const CandidateOf<T>& configuration, int64_t& workspace, std::string& description) const = 0;
};

template <typename T>
class AutotuneSearchOf
{
public:
    virtual ~AutotuneSearchOf() = default;
    /** Returns the trials with their indices, the best first and failed ones last. */
    virtual Error search(TunedGraphOf<T>& graph, std::vector<AutotuneResultOf<T>>& results,
                         std::vector<size_t>& places) const = 0;
};

/** A square root, by Newton's steps from above: <cmath> alone would take a tenth of a program's compile time. */
inline double root_of(double square)
{
    double root = square < 1 ? 1 : square;
    for (double next = root; square > 0 && (next = (root + square / root) / 2) < root;)
    {
        root = next;
    }
    return square > 0 ? root : 0;
}

/** Statistics of times in milliseconds. */
template <typename Times, typename Result>
void sum_up(const Times& times, Result& result)
{
    double sum = 0, squares = 0;
    for (const auto time : times)
    {
        sum += static_cast<double>(time);
        squares += static_cast<double>(time) * static_cast<double>(time);
    }
    const auto count = static_cast<double>(times.size());
    result.iterationsRun = static_cast<int>(times.size());
    result.minTimeMs = static_cast<float>(*std::min_element(times.begin(), times.end()));
    result.avgTimeMs = static_cast<float>(sum / count);
    result.stddevMs = static_cast<float>(root_of(std::max(0.0, squares / count - sum / count * (sum / count))));
    Times ordered = times;
    std::sort(ordered.begin(), ordered.end());
    ordered.resize(ordered.size() - ordered.size() / 4);
    double fast = 0;
    for (const auto time : ordered)
    {
        fast += static_cast<double>(time);
    }
    result.robustTimeMs = static_cast<float>(fast / static_cast<double>(ordered.size()));
    result.benchmarked = result.succeeded = true;
}

/** Executes something until its time is known; returns the times in milliseconds. */
template <typename Once>
Error take_times(const AutotuneConfig& config, const Once& once, std::vector<float>& times, bool& converged)
{
    const bool until_stable = config.strategy == AutotuneStrategy::RUN_UNTIL_STABLE;
    const int most = until_stable                                         ? config.maxIterations
                     : config.strategy == AutotuneStrategy::FIXED_AVERAGE ? config.timedIterations
                                                                          : 1;
    converged = !until_stable;
    for (int i = 0; i < most && !(until_stable && converged); i++)
    {
        float time = 0;
        HIPDNN_CPP_TRY(once(time));
        times.push_back(time);
        const auto window = static_cast<size_t>(config.windowSize);
        if (until_stable && times.size() >= window)
        {
            double sum = 0, squares = 0;
            for (size_t at = times.size() - window; at < times.size(); at++)
            {
                sum += static_cast<double>(times[at]);
                squares += static_cast<double>(times[at]) * static_cast<double>(times[at]);
            }
            const double mean = sum / static_cast<double>(window);
            const double variance = std::max(0.0, squares / static_cast<double>(window) - mean * mean);
            converged = root_of(variance) <= static_cast<double>(config.stabilityThreshold) * mean;
        }
    }
    return {};
}

/** Writes the winner to a file of rules, one per line; replaces rules for the same operation and shapes. */
template <typename Storage>
Error write_rule(const Storage& storage, const std::string& operation, const std::string& tensors,
                 const std::string& engine)
{
    const std::string header = "{\"version\": 1, \"engine_overrides\": [", footer = "]}";
    const std::string key = "{\"op\": \"" + operation + "\", \"tensors\": [" + tensors + "], ";
    std::vector<std::string> rules;
    const std::string& path = storage.filePath.string();
    if (FILE* file = storage.deleteAllExistingFileContent ? nullptr : fopen(path.c_str(), "r"))
    {
        std::string text;
        char part[4096];
        for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
        {
            text.append(part, got);
        }
        fclose(file);
        std::vector<std::string> lines(1);
        for (const char c : text)
        {
            if (c == '\n')
            {
                lines.emplace_back();
                continue;
            }
            lines.back().push_back(c);
        }
        if (!text.empty() && lines[0] != header)
        {
            return {ErrorCode::INVALID_VALUE, path + " was not written by autotune(), expected such a file or none"};
        }
        for (std::string& line : lines)
        {
            if (line.rfind("{\"op\"", 0) == 0 && line.rfind(key, 0) != 0)
            {
                line.erase(line.find_last_of('}') + 1);
                rules.push_back(line);
            }
        }
    }
    rules.push_back(key + "\"engine_name\": \"" + engine + "\"}");
    FILE* file = fopen(path.c_str(), "w");
    if (file == nullptr)
    {
        return {ErrorCode::INVALID_VALUE, path + " cannot be written"};
    }
    fprintf(file, "%s\n", header.c_str());
    for (size_t i = 0; i < rules.size(); i++)
    {
        fprintf(file, "%s%s\n", rules[i].c_str(), i + 1 < rules.size() ? "," : "");
    }
    fprintf(file, "%s\n", footer.c_str());
    return fclose(file) == 0 ? Error() : Error(ErrorCode::INVALID_VALUE, path + " cannot be written");
}

} // namespace detail
} // namespace hipdnn
