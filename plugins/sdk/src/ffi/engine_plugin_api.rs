//! The functions that an engine plugin exports in addition to those of `PluginApi.h`.
//!
//! Graphs, engine configurations and engine details are FlatBuffers. Bytes passed by the host are valid during the
//! call. Calls with different handles, and calls with one handle from several threads, may run concurrently.

#![expect(improper_ctypes, reason = "opaque to Rust and C alike: with repr(C) the header would show a body")]

use std::ffi::{c_char, c_void};

use super::{
    hipStream_t, hipdnnEnginePluginExecutionContext_t, hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t,
    hipdnnPluginDeviceBuffer_t, hipdnnPluginStatus_t,
};

unsafe extern "C" {
    /// Required. The ids of the plugin's engines, best first. Writes at most `max_engines` ids and the number
    /// written; if `max_engines` is 0 (`engine_ids` may be null then), only the number of engines. The result never
    /// changes. An id is the 64-bit FNV-1a hash of the engine's name.
    pub fn hipdnnEnginePluginGetAllEngineIds(
        engine_ids: *mut i64,
        max_engines: u32,
        num_engines: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Optional. The name of an engine: NUL-terminated UTF-8 that is valid while the library is loaded. The host
    /// drops an engine whose id is not the hash of its name. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE means that the
    /// engine is unnamed.
    pub fn hipdnnEnginePluginGetEngineName(engine_id: i64, name: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// Optional, an extension of this library. What an engine computes on, and where its kernels come from. `device`
    /// receives 1 for the host, 2 for AMD's GPUs, 3 for NVIDIA's, 4 for devices with a Vulkan driver, else 0;
    /// `implementation` 1 for a library of the device's maker, 2 for kernels generated for each graph, 3 for a
    /// reference, else 0. The result never changes. Without this function, or with
    /// HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, hosts guess from the engine's name: those that begin with `CPU_` take
    /// memory of the host.
    pub fn hipdnnEnginePluginGetEngineKind_ext(
        engine_id: i64,
        device: *mut u32,
        implementation: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Required. Creates a handle. Its address must be unique and not null, because hosts may refuse null and
    /// identify handles by address.
    pub fn hipdnnEnginePluginCreate(handle: *mut hipdnnEnginePluginHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Destroys a handle. Its contexts have been destroyed before.
    pub fn hipdnnEnginePluginDestroy(handle: hipdnnEnginePluginHandle_t) -> hipdnnPluginStatus_t;

    /// Required. Sets the stream of later executions with this handle, initially the default stream.
    pub fn hipdnnEnginePluginSetStream(
        handle: hipdnnEnginePluginHandle_t,
        stream: hipStream_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. The engines that can compute a graph, best first: writes at most `max_engines` ids, and their total
    /// number. The host passes room for all of the plugin's engines. Finding no engine is not an error: log the
    /// reasons and return a count of 0.
    pub fn hipdnnEnginePluginGetApplicableEngineIds(
        handle: hipdnnEnginePluginHandle_t,
        op_graph: *const hipdnnPluginConstData_t,
        engine_ids: *mut i64,
        max_engines: u32,
        num_engines: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Required. Fills in the EngineDetails of an engine for a graph. The plugin owns the bytes until the host
    /// releases them.
    pub fn hipdnnEnginePluginGetEngineDetails(
        handle: hipdnnEnginePluginHandle_t,
        engine_id: i64,
        op_graph: *const hipdnnPluginConstData_t,
        engine_details: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Releases engine details, and sets pointer and size to 0.
    pub fn hipdnnEnginePluginDestroyEngineDetails(
        handle: hipdnnEnginePluginHandle_t,
        engine_details: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. The bytes of workspace that a graph needs with an EngineConfig, which contains the engine's id.
    pub fn hipdnnEnginePluginGetWorkspaceSize(
        handle: hipdnnEnginePluginHandle_t,
        engine_config: *const hipdnnPluginConstData_t,
        op_graph: *const hipdnnPluginConstData_t,
        workspace_size: *mut usize,
    ) -> hipdnnPluginStatus_t;

    /// Required. Prepares a graph for execution with an EngineConfig. Neither is needed afterwards.
    pub fn hipdnnEnginePluginCreateExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        engine_config: *const hipdnnPluginConstData_t,
        op_graph: *const hipdnnPluginConstData_t,
        execution_context: *mut hipdnnEnginePluginExecutionContext_t,
    ) -> hipdnnPluginStatus_t;

    /// Required. Destroys an execution context.
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

    /// Required. Computes the graph on the handle's stream. The handle need not be the one that the context was
    /// created with, only of the same plugin. `workspace` may be null if none is needed. The host passes buffers as
    /// it got them: they may be missing, duplicated or null.
    pub fn hipdnnEnginePluginExecuteOpGraph(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        workspace: *mut c_void,
        device_buffers: *const hipdnnPluginDeviceBuffer_t,
        num_device_buffers: u32,
    ) -> hipdnnPluginStatus_t;

    /// Optional, since version 1.1.0. The same with other shapes: in this execution tensor `override_unique_ids[i]`
    /// has `override_lengths[i]` dimensions, sizes `override_shapes[i]` and strides `override_strides[i]`. All of it
    /// is valid only during the call. Without overrides hosts call the plain function.
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

    /// Optional, but only together with the last two functions. Serializes an execution context. The plugin owns the
    /// bytes until the host releases them; only the plugin can interpret them. Older hosts call this function, newer
    /// ones the next.
    pub fn hipdnnEnginePluginSerializeExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        serialized_context: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional, but only together with the last two functions. The same, with the id of the context's engine.
    pub fn hipdnnEnginePluginSerializeExecutionContextWithEngineId(
        handle: hipdnnEnginePluginHandle_t,
        engine_id: i64,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        serialized_context: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional. Releases the bytes of an execution context, and sets pointer and size to 0.
    pub fn hipdnnEnginePluginDestroySerializedExecutionContext(
        handle: hipdnnEnginePluginHandle_t,
        serialized_context: *mut hipdnnPluginConstData_t,
    ) -> hipdnnPluginStatus_t;

    /// Optional, an extension of this library. Describes an execution as NUL-terminated JSON: an object whose key
    /// `steps` has a list of objects with the keys `nodes` (indices in the graph), `operation`, `algorithm`,
    /// `kernel`, `isa`, `threads`, `bytes`, `flops`, `passed_over` (a list of algorithms with reasons) and, for
    /// reference loops, `reference` (why nothing faster applied) and `numerics`, as for
    /// hipdnnEnginePluginDescribeNumerics_ext. Unknown values are omitted. Writes the size
    /// including the NUL and, if `requested_size` is not 0, the text, which must fit. Hosts first call it with 0,
    /// where `json` may be null. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE if the plugin has no description.
    pub fn hipdnnEnginePluginDescribeExecutionContext_ext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        requested_size: usize,
        size: *mut usize,
        json: *mut c_char,
    ) -> hipdnnPluginStatus_t;

    /// Optional, an extension of this library. Describes what an engine may do to the numbers of a graph with the knob
    /// settings of a configuration, as NUL-terminated JSON, asked for in two calls like
    /// hipdnnEnginePluginDescribeExecutionContext_ext. The object has two keys. `numerics` is an object with `notes` (names
    /// of hipdnnBackendNumericalNote_t without HIPDNN_NUMERICAL_NOTE_ and _EXT), `accumulators` (types of sums), `order`
    /// (`shapes`, `threads`, `device`, `library`: what the order of sums depends on), `parts` (the most parts that a sum is
    /// divided into), `matrix_sums` (an object with the least `terms` that a matrix instruction adds at once, and the least
    /// significant `bits` that it keeps), `functions` (approximated functions with their largest error in units in the last
    /// place, or null) and `unrounded` (uids of virtual tensors that fusion does not round); what is empty or not known is
    /// omitted. `knobs` is a list of objects with `note`, `knob`, `value` (an integer) and `adds`: whether this setting adds
    /// the note or takes it away. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE if the engine does not know.
    pub fn hipdnnEnginePluginDescribeNumerics_ext(
        handle: hipdnnEnginePluginHandle_t,
        engine_config: *const hipdnnPluginConstData_t,
        op_graph: *const hipdnnPluginConstData_t,
        requested_size: usize,
        size: *mut usize,
        json: *mut c_char,
    ) -> hipdnnPluginStatus_t;

    /// Optional, an extension of this library. Writes 1 if the context is tied neither to one plan nor to the handle
    /// that created it, else 0. Such a context may be executed with this handle for anyone who plans an equal graph
    /// with equal knob settings; it may be executed, saved, described and destroyed with any handle for which the
    /// result is 1, even after its creator is destroyed. Hosts ask once with the handle that created the context, and
    /// once with each other handle before they use it there. For plugins without this function, hosts share contexts
    /// only between plans of one handle without knob settings.
    pub fn hipdnnEnginePluginIsExecutionContextShareable_ext(
        handle: hipdnnEnginePluginHandle_t,
        execution_context: hipdnnEnginePluginExecutionContext_t,
        is_shareable: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Optional, an extension of this library. Sets a callback for the steps of executions; null removes it. The
    /// plugin calls it at the end of each step on the executing thread, with the step's name and its begin and end in
    /// nanoseconds of CLOCK_MONOTONIC. Hosts set it only for a trace. The callback stays valid while the library is
    /// loaded.
    pub fn hipdnnEnginePluginSetStepCallback_ext(
        callback: Option<unsafe extern "C" fn(name: *const c_char, begin: u64, end: u64)>,
    ) -> hipdnnPluginStatus_t;

    /// Optional, an extension of this library. Makes the plugin offer every applicable engine from now on, or with 0
    /// keep some back again: engines for comparison, which hosts that sort engines by id would pick first. Hosts with
    /// their own order of engines call it after loading the library.
    pub fn hipdnnEnginePluginOfferAllEngines_ext(all: u32) -> hipdnnPluginStatus_t;

    /// Optional. Creates an execution context from serialized bytes, which may come from anywhere.
    pub fn hipdnnEnginePluginCreateExecutionContextFromSerialized(
        handle: hipdnnEnginePluginHandle_t,
        serialized_context: *const hipdnnPluginConstData_t,
        execution_context: *mut hipdnnEnginePluginExecutionContext_t,
    ) -> hipdnnPluginStatus_t;
}
