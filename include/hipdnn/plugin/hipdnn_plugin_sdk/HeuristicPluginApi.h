/* SPDX-License-Identifier: MIT */

/*
 * The functions that a heuristic plugin exports in addition to those of every plugin.
 *
 * A heuristic plugin has policies. A policy is given a graph and the ids of the engines that can compute it, and
 * orders them, or leaves the choice to the next policy. Like an engine's id, a policy's id is the 64-bit FNV-1a hash
 * of its name as a signed number.
 *
 * For each choice the host creates a policy descriptor, sets the engine ids and the graph, finalizes it, reads the
 * order if the policy applied, and destroys the descriptor. Hosts may do so on several threads concurrently with one
 * handle, with a separate descriptor each. Heuristic plugins must also export hipdnnPluginGetApiVersion and
 * hipdnnPluginSetLoggingCallback.
 *
 * Generated from plugins/sdk/src/ffi/heuristic_plugin_api.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_HEURISTIC_PLUGIN_API_H
#define HIPDNN_PLUGIN_SDK_HEURISTIC_PLUGIN_API_H

#include "PluginApi.h"

#ifndef HIPDNN_HEURISTIC_PLUGIN_EXPORT
#define HIPDNN_HEURISTIC_PLUGIN_EXPORT HIPDNN_PLUGIN_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// What the host does for a policy that is being finalized. Everything is borrowed: it is valid on the finalizing thread until
/// hipdnnHeuristicPolicyFinalizeWithHost returns. Later versions may add fields at the end.
typedef struct
{
    /// The version of this struct: 2. Version 1 ends before ranking_metric and means "tflops".
    uint32_t version;
    /// The size of this struct.
    size_t struct_size;
    /// The host's own, for each function.
    void *context;
    /// Predicts how well a candidate does, in the metric ranking_metric: the bytes of an EnginePrediction table. Its status is UNAVAILABLE
    /// or INVALID without a value. The call's status is BAD_PARAM for other engines and kinds, and NOT_INITIALIZED outside of finalizing
    /// and on other threads.
    hipdnnPluginStatus_t (*get_prediction)(void *context,
                                           int64_t engine_id,
                                           hipdnnEnginePredictionKind_t kind,
                                           hipdnnPluginConstData_t *prediction);
    /// The metric that engines are ranked by: "time", where less is better, or "tflops". Never null.
    const char *ranking_metric;
} hipdnnHeuristicHostCallbacks_t;

/// Required. The ids of the plugin's policies: writes their number, and at most max_policies ids. If max_policies
/// is 0 the array may be null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPluginGetAllPolicyIds(
    int64_t *policy_ids,
    uint32_t max_policies,
    uint32_t *num_policies);

/// Required. The name of a policy: NUL-terminated UTF-8 that is valid while the library is loaded. It is not
/// empty, and the policy's id is its hash.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPluginGetPolicyName(int64_t policy_id, const char **name);

/// Required. Creates a handle, which must not be null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleCreate(hipdnnHeuristicHandle_t *out_handle);

/// Required. Destroys a handle.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleDestroy(hipdnnHeuristicHandle_t handle);

/// Required. Sets the device that graphs run on, once after a handle is created: the bytes of a DeviceProperties
/// table, which are valid only during the call.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleSetDeviceProperties(
    hipdnnHeuristicHandle_t handle,
    const hipdnnPluginConstData_t *device_props_serialized);

/// Required. Creates a descriptor, which must not be null, for one choice by one of the plugin's policies.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorCreate(
    hipdnnHeuristicHandle_t plugin_handle,
    int64_t policy_id,
    hipdnnHeuristicPolicyDescriptor_t *out_desc);

/// Required. Destroys a descriptor in any state.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorDestroy(hipdnnHeuristicPolicyDescriptor_t desc);

/// Required. Sets the engines to choose from, each once. The array is valid only during the call.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicySetEngineIds(
    hipdnnHeuristicPolicyDescriptor_t desc,
    const int64_t *engine_ids,
    size_t engine_id_count);

/// Required. Sets the graph, in the layout of 2026. Its bytes stay valid until the descriptor is destroyed.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicySetSerializedGraph(
    hipdnnHeuristicPolicyDescriptor_t desc,
    const hipdnnPluginConstData_t *serialized_graph);

/// Required. Runs the policy: out_applied becomes 1 if it has an order, 0 if it leaves the choice to the next
/// policy. Other values are errors of the plugin.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalize(
    hipdnnHeuristicPolicyDescriptor_t desc,
    int32_t *out_applied);

/// Required. The order of a policy that applied, best first: some or all of the ids that were set, each at most
/// once, and at least one. If engine_ids is null, writes their number; otherwise num_engines is the capacity, and
/// becomes their number.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyGetSortedEngineIds(
    hipdnnHeuristicPolicyDescriptor_t desc,
    int64_t *engine_ids,
    size_t *num_engines);

/// Optional, and called instead of hipdnnHeuristicPolicyFinalize where it is exported: the same with the host's services, which are
/// null where there are no predictions.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalizeWithHost(
    hipdnnHeuristicPolicyDescriptor_t desc,
    const hipdnnHeuristicHostCallbacks_t *host,
    int32_t *out_applied);

/// Optional. The configuration of an engine of the order: the bytes of an EngineConfig table with this engine's id, which are valid
/// until the descriptor changes or is destroyed. Its knobs reach the engine. NOT_APPLICABLE: the engine has its default knobs.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyGetEngineConfig(
    hipdnnHeuristicPolicyDescriptor_t desc,
    int64_t engine_id,
    hipdnnPluginConstData_t *engine_config);

/// Optional. Why the policy placed an engine as it did: a JSON object as NUL-terminated UTF-8, valid until the descriptor changes or is
/// destroyed. NOT_APPLICABLE: nothing is known of this engine.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyGetTrace(
    hipdnnHeuristicPolicyDescriptor_t desc,
    int64_t engine_id,
    const char **trace_json);

#ifdef __cplusplus
}
#endif

#endif
