//! The functions that an engine plugin exports besides those of `PluginApi.h`.
//!
//! Graphs, engine configurations and engine details are FlatBuffers. Bytes that the host passes are valid during the call.
//! Calls with different handles, and with one handle from several threads, may run at the same time.

#![expect(improper_ctypes, reason = "opaque to Rust and C alike: with repr(C) the header would show a body")]

use std::ffi::{c_char, c_void};

use super::{
    hipStream_t, hipdnnEnginePluginExecutionContext_t, hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t,
    hipdnnPluginDeviceBuffer_t, hipdnnPluginStatus_t,
};

unsafe extern "C" {
    /// Required. The ids of the plugin's engines, best first. Writes at most `max_engines` ids and the number written; with
    /// `max_engines` 0, where `engine_ids` may be null, only the number there are. The answer never changes. An id is the
    /// 64-bit FNV-1a hash of the engine's name.
    pub fn hipdnnEnginePluginGetAllEngineIds(
        engine_ids: *mut i64,
        max_engines: u32,
        num_engines: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Optional. The name of an engine: NUL terminated UTF-8 that lives as long as the library is loaded. The host drops an
    /// engine whose id is not the hash of its name. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE leaves an engine without a name.
    pub fn hipdnnEnginePluginGetEngineName(engine_id: i64, name: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// Required. A new handle: an address of the plugin's own, because hosts may refuse null and take two handles with the
    /// same address for one.
    pub fn hipdnnEnginePluginCreate(handle: *mut hipdnnEnginePluginHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Ends a handle. Contexts made with it are ended before.
    pub fn hipdnnEnginePluginDestroy(handle: hipdnnEnginePluginHandle_t) -> hipdnnPluginStatus_t;

    /// Required. The stream of later executions with this handle. Before the first call it is the default stream.
    pub fn hipdnnEnginePluginSetStream(
        handle: hipdnnEnginePluginHandle_t,
        stream: hipStream_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. The engines that can compute a graph, best first: at most `max_engines` ids, and how many there are. The
    /// host gives room for all of the plugin's engines. No engine is no failure: log the reasons and answer 0.
    pub fn hipdnnEnginePluginGetApplicableEngineIds(
        handle: hipdnnEnginePluginHandle_t,
        op_graph: *const hipdnnPluginConstData_t,
        engine_ids: *mut i64,
        max_engines: u32,
        num_engines: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Required. Fills in the EngineDetails of an engine for a graph. The bytes are the plugin's, until the host gives them
    /// back.
    pub fn hipdnnEnginePluginGetEngineDetails(
        handle: hipdnnEnginePluginHandle_t,
        engine_id: i64,
        op_graph: *const hipdnnPluginConstData_t,
        engine_details: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Takes engine details back, and sets pointer and size to 0.
    pub fn hipdnnEnginePluginDestroyEngineDetails(
        handle: hipdnnEnginePluginHandle_t,
        engine_details: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. The bytes of workspace that a graph needs with an EngineConfig, which names the engine.
    pub fn hipdnnEnginePluginGetWorkspaceSize(
        handle: hipdnnEnginePluginHandle_t,
        engine_config: *const hipdnnPluginConstData_t,
        op_graph: *const hipdnnPluginConstData_t,
        workspace_size: *mut usize,
    ) -> hipdnnPluginStatus_t;

    /// Required. Makes a graph ready for execution with an EngineConfig. Both are not needed afterwards.
    pub fn hipdnnEnginePluginCreateExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        engine_config: *const hipdnnPluginConstData_t,
        op_graph: *const hipdnnPluginConstData_t,
        execution_context: *mut hipdnnEnginePluginExecutionContext_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Ends an execution context.
    pub fn hipdnnEnginePluginDestroyExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. The bytes of workspace that an execution needs.
    pub fn hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        workspace_size: *mut usize,
    ) -> hipdnnPluginStatus_t;

    /// Required. Computes the graph on the handle's stream. The handle may be another one of the plugin than the context
    /// was made with. `workspace` may be null where none is needed. The host passes buffers as it was given them: one may be
    /// missing, be there twice or be null.
    pub fn hipdnnEnginePluginExecuteOpGraph(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        workspace: *mut c_void,
        device_buffers: *const hipdnnPluginDeviceBuffer_t,
        num_device_buffers: u32,
    ) -> hipdnnPluginStatus_t;

    /// Optional, from version 1.1.0. The same with other shapes: tensor `override_unique_ids[i]` has
    /// `override_lengths[i]` dimensions, sizes `override_shapes[i]` and strides `override_strides[i]` in this execution. All
    /// of it is valid during the call only. Without overrides the plain function is called.
    pub fn hipdnnEnginePluginExecuteOpGraphWithOverrides(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        workspace: *mut c_void,
        device_buffers: *const hipdnnPluginDeviceBuffer_t,
        num_device_buffers: u32,
        num_overrides: u32,
        override_unique_ids: *const i64,
        override_lengths: *const u32,
        override_shapes: *const *const i64,
        override_strides: *const *const i64,
    ) -> hipdnnPluginStatus_t;

    /// Optional, together with the last two. The bytes of an execution context, which are the plugin's until the host gives
    /// them back, and which only the plugin understands. Older hosts call this function, newer ones the next.
    pub fn hipdnnEnginePluginSerializeExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        serialized_context: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional, together with the last two. The same, and says which engine the execution context is of.
    pub fn hipdnnEnginePluginSerializeExecutionContextWithEngineId(
        handle: hipdnnEnginePluginHandle_t,
        engine_id: i64,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        serialized_context: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional. Takes the bytes of an execution context back, and sets pointer and size to 0.
    pub fn hipdnnEnginePluginDestroySerializedExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        serialized_context: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional, of this library's own. What an execution does, as JSON with a NUL behind it: an object whose key `steps` has a
    /// list of objects with the keys `nodes` (places in the graph), `operation`, `algorithm`, `kernel`, `isa`, `threads`,
    /// `bytes`, `flops`, `passed_over` (a list of algorithms with reasons) and, for plain loops, `reference` (why nothing faster
    /// applied); a key that is not there is not told.
    /// Writes the size with the NUL, and where `requested_size` is not 0 the text, for which there has to be room. Hosts call it
    /// with 0 first, where `json` may be null. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE where the plugin does not tell.
    pub fn hipdnnEnginePluginDescribeExecutionContext_ext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        requested_size: usize,
        size: *mut usize,
        json: *mut c_char,
    ) -> hipdnnPluginStatus_t;

    /// Optional, of this library's own. Writes 1 where the context keeps nothing that ties it to one plan or to the handle that made it: it
    /// may be executed with this handle for whoever plans an equal graph with equal settings of knobs, and be executed, saved, described and
    /// ended with any handle for which the answer is 1, also when the handle that made it is gone. Else 0. Hosts ask with the
    /// handle that made the context, and with each other handle before they use it there. Of plugins without the function hosts
    /// share contexts for plans of one handle where no knob is set.
    pub fn hipdnnEnginePluginIsExecutionContextShareable_ext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        is_shareable: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Optional, of this library's own. Has the plugin tell the steps of executions from now on; null for no longer. It calls back at the
    /// end of each step, on the thread that executes, with the step's name and when it began and ended, in nanoseconds of
    /// CLOCK_MONOTONIC. Hosts call it only where somebody wants a trace. The callback stays valid as long as the library is
    /// loaded.
    pub fn hipdnnEnginePluginSetStepCallback_ext(
        callback: Option<unsafe extern "C" fn(name: *const c_char, begin: u64, end: u64)>,
    ) -> hipdnnPluginStatus_t;

    /// Optional, of this library's own. Has the plugin offer every engine that applies from now on, or with 0 no longer those that it keeps
    /// back: engines to be compared with, which hosts that sort engines by their ids would take first. Hosts that order engines by
    /// themselves call it when the library is loaded.
    pub fn hipdnnEnginePluginOfferAllEngines_ext(all: u32) -> hipdnnPluginStatus_t;

    /// Optional. Makes an execution context from its bytes, which may come from anywhere.
    pub fn hipdnnEnginePluginCreateExecutionContextFromSerialized(
        handle: hipdnnEnginePluginHandle_t,
        serialized_context: *const hipdnnPluginConstData_t,
        execution_context: *mut hipdnnEnginePluginExecutionContext_t,
    ) -> hipdnnPluginStatus_t;
}
