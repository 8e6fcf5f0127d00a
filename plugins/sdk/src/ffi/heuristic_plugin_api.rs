//! The functions that a heuristic plugin exports besides those of every plugin.
//!
//! A heuristic plugin has policies. A policy sees a graph and the ids of the engines that can compute it, and puts these into
//! an order, or leaves the choice to the next policy. The id of a policy is the 64-bit FNV-1a hash of its name, taken as a
//! signed number, like that of an engine.
//!
//! For each choice the host makes a policy descriptor, sets the engine ids and the graph, finalizes it, reads the order if the
//! policy applied, and destroys the descriptor. A host may do so from several threads at once with one handle, each with a
//! descriptor of its own. Of the functions that every plugin has, hipdnnPluginGetApiVersion and hipdnnPluginSetLoggingCallback
//! are required of a heuristic plugin.

#![expect(improper_ctypes, reason = "opaque to Rust and C alike: with repr(C) the header would show a body")]

use super::{
    hipdnnHeuristicHandle_t, hipdnnHeuristicPolicyDescriptor_t, hipdnnPluginConstData_t, hipdnnPluginStatus_t,
};
use std::ffi::c_char;

unsafe extern "C" {
    /// Required. The ids of the plugin's policies: their number, and as many of them as there is room for. With max_policies 0
    /// the array may be null.
    pub fn hipdnnHeuristicPluginGetAllPolicyIds(
        policy_ids: *mut i64,
        max_policies: u32,
        num_policies: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Required. The name of a policy: NUL terminated UTF-8 that lives as long as the library is loaded. It is not empty and
    /// hashes to the id.
    pub fn hipdnnHeuristicPluginGetPolicyName(
        policy_id: i64,
        name: *mut *const c_char,
    ) -> hipdnnPluginStatus_t;

    /// Required. Makes a handle, which is not null.
    pub fn hipdnnHeuristicHandleCreate(out_handle: *mut hipdnnHeuristicHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Ends a handle.
    pub fn hipdnnHeuristicHandleDestroy(handle: hipdnnHeuristicHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Says which device is computed on, once after a handle is made: the bytes of a DeviceProperties table, which
    /// live during the call only.
    pub fn hipdnnHeuristicHandleSetDeviceProperties(
        handle: hipdnnHeuristicHandle_t,
        device_props_serialized: *const hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Makes a descriptor, which is not null, for one choice by one of the plugin's policies.
    pub fn hipdnnHeuristicPolicyDescriptorCreate(
        plugin_handle: hipdnnHeuristicHandle_t,
        policy_id: i64,
        out_desc: *mut hipdnnHeuristicPolicyDescriptor_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Ends a descriptor, whatever was or was not done with it.
    pub fn hipdnnHeuristicPolicyDescriptorDestroy(
        desc: hipdnnHeuristicPolicyDescriptor_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Sets the engines to choose among, each once. The array lives during the call only.
    pub fn hipdnnHeuristicPolicySetEngineIds(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        engine_ids: *const i64,
        engine_id_count: usize,
    ) -> hipdnnPluginStatus_t;

    /// Required. Sets the graph, in the layout of 2026. Its bytes live until the descriptor is destroyed.
    pub fn hipdnnHeuristicPolicySetSerializedGraph(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        serialized_graph: *const hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Lets the policy decide: out_applied becomes 1 when it has an order, 0 when it leaves the choice to the next
    /// policy. Anything else is an error of the plugin.
    pub fn hipdnnHeuristicPolicyFinalize(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        out_applied: *mut i32,
    ) -> hipdnnPluginStatus_t;

    /// Required. The order of a policy that applied, best first: some or all of the ids that were set, each at most once, and
    /// at least one. With engine_ids null it writes their number; else num_engines is the room, and becomes their number.
    pub fn hipdnnHeuristicPolicyGetSortedEngineIds(
        desc: hipdnnHeuristicPolicyDescriptor_t,
        engine_ids: *mut i64,
        num_engines: *mut usize,
    ) -> hipdnnPluginStatus_t;
}
