/* SPDX-License-Identifier: MIT */

/*
 * The functions that a tuning plugin exports besides those of every plugin.
 *
 * A tuning plugin has strategies. A strategy searches for the fastest way to compute a graph: it is told which engines can compute it and what
 * their knobs take, has the host measure configurations of its choice until its budget is spent, and answers a ranking of what was measured.
 * The id of a strategy is the 64-bit FNV-1a hash of its name, taken as a signed number, like that of an engine.
 *
 * hipdnnPluginGetType answers HIPDNN_PLUGIN_TYPE_TUNING, and hipdnnPluginGetApiVersion a version whose major number is that of this header. Of
 * the functions that every plugin has all are required but hipdnnPluginSetLogLevel. A host may run several searches at once, on several threads.
 *
 * Generated from bindings/rust/src/tuning/ffi/functions.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_TUNING_PLUGIN_API_H
#define HIPDNN_PLUGIN_SDK_TUNING_PLUGIN_API_H

#include "PluginApi.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What hipdnnPluginGetType answers: a library with strategies.
#define HIPDNN_PLUGIN_TYPE_TUNING 3

/// What is to be tuned. All of it lives during the search.
typedef struct
{
    /// The size of this struct: a host of a later version may add fields at its end.
    size_t size;
    /// The graph, in the layout of 2026.
    hipdnnPluginConstData_t graph;
    /// The device: a DeviceProperties table.
    hipdnnPluginConstData_t device;
    /// The engines that can compute the graph, the library's choice first: an EngineDetails table each. Its knobs are those that are worth
    /// turning, and list the values that are worth trying.
    const hipdnnPluginConstData_t *candidates;
    /// How many of them there are, at least one.
    size_t num_candidates;
    /// What was best for similar graphs, the most similar first: an EngineConfig table each.
    const hipdnnPluginConstData_t *similar;
    /// How many of them there are.
    size_t num_similar;
    /// How long the search may take, in nanoseconds.
    uint64_t budget_ns;
} hipdnnTuningProblem_t;

/// What was measured of a configuration.
typedef struct
{
    /// The number of the configuration, by which a ranking names it: the same for equal ones.
    uint32_t configuration;
    /// How many runs there were so far, those of earlier measurements included; 0 where the budget is spent and nothing was measured.
    uint32_t num_runs;
    /// What an execution takes, by the median of all runs so far, in nanoseconds. It is corrected by what the best configuration took
    /// meanwhile, so that measurements of different times can be compared.
    uint64_t time_ns;
    /// What is left of the budget, in nanoseconds.
    uint64_t remaining_ns;
} hipdnnTuningMeasurement_t;

/// What the host does for a search. The functions are to be called by the thread that searches, before the search returns.
typedef struct
{
    /// The size of this struct: a host of a later version may add functions at its end.
    size_t size;
    /// The host's own, for each function.
    void *context;
    /// Plans a configuration (an EngineConfig table with the id of a candidate), checks its results and executes it so many times, in turn
    /// with the best one so far. One that is much slower is stopped early. The status is NOT_APPLICABLE where it cannot be planned or
    /// executed or its results are wrong, BAD_PARAM for bytes that hold no configuration of a candidate, and NOT_INITIALIZED outside of a
    /// search.
    hipdnnPluginStatus_t (*measure)(void *context,
                                    const hipdnnPluginConstData_t *engine_config,
                                    uint32_t num_runs,
                                    hipdnnTuningMeasurement_t *measurement);
    /// Answers the ranking: numbers of configurations that were measured, best first, each once. The last ranking of a search counts; the
    /// host puts what it lacks behind it. The status is BAD_PARAM for any other number.
    hipdnnPluginStatus_t (*rank)(void *context, const uint32_t *configurations, size_t num_configurations);
} hipdnnTuningHost_t;

/// Required. The ids of the plugin's strategies: their number, and as many of them as there is room for. With max_strategies 0
/// the array may be null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnTuningPluginGetAllStrategyIds(
    int64_t *strategy_ids,
    uint32_t max_strategies,
    uint32_t *num_strategies);

/// Required. The name of a strategy: NUL terminated UTF-8 that lives as long as the library is loaded. It is not empty and
/// hashes to the id.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnTuningPluginGetStrategyName(
    int64_t strategy_id,
    const char **name);

/// Required. Searches: has the host measure, and answers a ranking with host->rank before it returns. It returns soon after the budget
/// is spent; the host goes on without one that takes longer than its longest measurement for that. Where it fails or answers no
/// ranking, the host ranks what was measured by its times.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnTuningPluginSearch(
    int64_t strategy_id,
    const hipdnnTuningProblem_t *problem,
    const hipdnnTuningHost_t *host);

#ifdef __cplusplus
}
#endif

#endif
