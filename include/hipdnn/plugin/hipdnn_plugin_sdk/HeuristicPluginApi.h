/* SPDX-License-Identifier: MIT */

/*
 * The functions that a heuristic plugin exports besides those of every plugin.
 *
 * A heuristic plugin has policies. A policy sees a graph and the ids of the engines that can compute it, and puts these into
 * an order, or leaves the choice to the next policy. The id of a policy is the 64-bit FNV-1a hash of its name, taken as a
 * signed number, like that of an engine.
 *
 * For each choice the host makes a policy descriptor, sets the engine ids and the graph, finalizes it, reads the order if the
 * policy applied, and destroys the descriptor. A host may do so from several threads at once with one handle, each with a
 * descriptor of its own. Of the functions that every plugin has, hipdnnPluginGetApiVersion and hipdnnPluginSetLoggingCallback
 * are required of a heuristic plugin.
 *
 * Generated from plugins/sdk/src/ffi/heuristic_plugin_api.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_HEURISTIC_PLUGIN_API_H
#define HIPDNN_PLUGIN_SDK_HEURISTIC_PLUGIN_API_H

#include "PluginApi.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Required. The ids of the plugin's policies: their number, and as many of them as there is room for. With max_policies 0
/// the array may be null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPluginGetAllPolicyIds(
    int64_t *policy_ids,
    uint32_t max_policies,
    uint32_t *num_policies);

/// Required. The name of a policy: NUL terminated UTF-8 that lives as long as the library is loaded. It is not empty and
/// hashes to the id.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPluginGetPolicyName(
    int64_t policy_id,
    const char **name);

/// Required. Makes a handle, which is not null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleCreate(hipdnnHeuristicHandle_t *out_handle);

/// Required. Ends a handle.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleDestroy(hipdnnHeuristicHandle_t handle);

/// Required. Says which device is computed on, once after a handle is made: the bytes of a DeviceProperties table, which
/// live during the call only.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicHandleSetDeviceProperties(
    hipdnnHeuristicHandle_t handle,
    const hipdnnPluginConstData_t *device_props_serialized);

/// Required. Makes a descriptor, which is not null, for one choice by one of the plugin's policies.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorCreate(
    hipdnnHeuristicHandle_t plugin_handle,
    int64_t policy_id,
    hipdnnHeuristicPolicyDescriptor_t *out_desc);

/// Required. Ends a descriptor, whatever was or was not done with it.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyDescriptorDestroy(hipdnnHeuristicPolicyDescriptor_t desc);

/// Required. Sets the engines to choose among, each once. The array lives during the call only.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicySetEngineIds(
    hipdnnHeuristicPolicyDescriptor_t desc,
    const int64_t *engine_ids,
    size_t engine_id_count);

/// Required. Sets the graph, in the layout of 2026. Its bytes live until the descriptor is destroyed.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicySetSerializedGraph(
    hipdnnHeuristicPolicyDescriptor_t desc,
    const hipdnnPluginConstData_t *serialized_graph);

/// Required. Lets the policy decide: out_applied becomes 1 when it has an order, 0 when it leaves the choice to the next
/// policy. Anything else is an error of the plugin.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyFinalize(
    hipdnnHeuristicPolicyDescriptor_t desc,
    int32_t *out_applied);

/// Required. The order of a policy that applied, best first: some or all of the ids that were set, each at most once, and
/// at least one. With engine_ids null it writes their number; else num_engines is the room, and becomes their number.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnHeuristicPolicyGetSortedEngineIds(
    hipdnnHeuristicPolicyDescriptor_t desc,
    int64_t *engine_ids,
    size_t *num_engines);

#ifdef __cplusplus
}
#endif

#endif
