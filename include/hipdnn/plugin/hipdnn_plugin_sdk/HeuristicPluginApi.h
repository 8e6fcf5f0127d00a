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

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
