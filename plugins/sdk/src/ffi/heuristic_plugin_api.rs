//! The functions that a heuristic plugin exports in addition to those of every plugin.
//!
//! A heuristic plugin has policies. A policy is given a graph and the ids of the engines that can compute it, and
//! orders them, or leaves the choice to the next policy. Like an engine's id, a policy's id is the 64-bit FNV-1a hash
//! of its name as a signed number.
//!
//! For each choice the host creates a policy descriptor, sets the engine ids and the graph, finalizes it, reads the
//! order if the policy applied, and destroys the descriptor. Hosts may do so on several threads concurrently with one
//! handle, with a separate descriptor each. Heuristic plugins must also export hipdnnPluginGetApiVersion and
//! hipdnnPluginSetLoggingCallback.

#![expect(improper_ctypes, reason = "opaque to Rust and C alike: with repr(C) the header would show a body")]

use super::{
    hipdnnHeuristicHandle_t, hipdnnHeuristicHostCallbacks_t, hipdnnHeuristicPolicyDescriptor_t,
    hipdnnPluginConstData_t, hipdnnPluginStatus_t,
};
use std::ffi::c_char;

unsafe extern "C" {
    /// Required. The ids of the plugin's policies: writes their number, and at most max_policies ids. If max_policies
    /// is 0 the array may be null.
    pub fn hipdnnHeuristicPluginGetAllPolicyIds(
        policy_ids: *mut i64,
        max_policies: u32,
        num_policies: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Required. The name of a policy: NUL-terminated UTF-8 that is valid while the library is loaded. It is not
    /// empty, and the policy's id is its hash.
    pub fn hipdnnHeuristicPluginGetPolicyName(
        policy_id: i64,
        name: *mut *const c_char,
    ) -> hipdnnPluginStatus_t;

    /// Required. Creates a handle, which must not be null.
    pub fn hipdnnHeuristicHandleCreate(out_handle: *mut hipdnnHeuristicHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Destroys a handle.
    pub fn hipdnnHeuristicHandleDestroy(handle: hipdnnHeuristicHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Sets the device that graphs run on, once after a handle is created: the bytes of a DeviceProperties
    /// table, which are valid only during the call.
    pub fn hipdnnHeuristicHandleSetDeviceProperties(
        handle: hipdnnHeuristicHandle_t,
        device_props_serialized: *const hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Creates a descriptor, which must not be null, for one choice by one of the plugin's policies.
    pub fn hipdnnHeuristicPolicyDescriptorCreate(
        plugin_handle: hipdnnHeuristicHandle_t,
        policy_id: i64,
        out_desc: *mut hipdnnHeuristicPolicyDescriptor_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Destroys a descriptor in any state.
    pub fn hipdnnHeuristicPolicyDescriptorDestroy(
        desc: hipdnnHeuristicPolicyDescriptor_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Sets the engines to choose from, each once. The array is valid only during the call.
    pub fn hipdnnHeuristicPolicySetEngineIds(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        engine_ids: *const i64,
        engine_id_count: usize,
    ) -> hipdnnPluginStatus_t;

    /// Required. Sets the graph, in the layout of 2026. Its bytes stay valid until the descriptor is destroyed.
    pub fn hipdnnHeuristicPolicySetSerializedGraph(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        serialized_graph: *const hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Runs the policy: out_applied becomes 1 if it has an order, 0 if it leaves the choice to the next
    /// policy. Other values are errors of the plugin.
    pub fn hipdnnHeuristicPolicyFinalize(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        out_applied: *mut i32,
    ) -> hipdnnPluginStatus_t;

    /// Required. The order of a policy that applied, best first: some or all of the ids that were set, each at most
    /// once, and at least one. If engine_ids is null, writes their number; otherwise num_engines is the capacity, and
    /// becomes their number.
    pub fn hipdnnHeuristicPolicyGetSortedEngineIds(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        engine_ids: *mut i64,
        num_engines: *mut usize,
    ) -> hipdnnPluginStatus_t;

    /// Optional, and called instead of hipdnnHeuristicPolicyFinalize where it is exported: the same with the host's services, which are
    /// null where there are no predictions.
    pub fn hipdnnHeuristicPolicyFinalizeWithHost(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        host: *const hipdnnHeuristicHostCallbacks_t,
        out_applied: *mut i32,
    ) -> hipdnnPluginStatus_t;

    /// Optional. The configuration of an engine of the order: the bytes of an EngineConfig table with this engine's id, which are valid
    /// until the descriptor changes or is destroyed. Its knobs reach the engine. NOT_APPLICABLE: the engine has its default knobs.
    pub fn hipdnnHeuristicPolicyGetEngineConfig(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        engine_id: i64,
        engine_config: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional. Why the policy placed an engine as it did: a JSON object as NUL-terminated UTF-8, valid until the descriptor changes or is
    /// destroyed. NOT_APPLICABLE: nothing is known of this engine.
    pub fn hipdnnHeuristicPolicyGetTrace(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        engine_id: i64,
        trace_json: *mut *const c_char,
    ) -> hipdnnPluginStatus_t;
}
