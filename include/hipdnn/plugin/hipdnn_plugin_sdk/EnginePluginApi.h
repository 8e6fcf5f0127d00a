/* SPDX-License-Identifier: MIT */

/*
 * The functions that an engine plugin exports besides those of `PluginApi.h`.
 *
 * Graphs, engine configurations and engine details are FlatBuffers. Bytes that the host passes are valid during the call.
 * Calls with different handles, and with one handle from several threads, may run at the same time.
 *
 * Generated from plugins/sdk/src/ffi/engine_plugin_api.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_ENGINE_PLUGIN_API_H
#define HIPDNN_PLUGIN_SDK_ENGINE_PLUGIN_API_H

#include "PluginApi.h"

#if !defined(HIPDNN_BACKEND_NO_HIP_HEADERS) && defined(__has_include)
#if __has_include(<hip/hip_runtime_api.h>)
#define HIPDNN_PLUGIN_USES_HIP_HEADERS
#endif
#endif

#ifdef HIPDNN_PLUGIN_USES_HIP_HEADERS
/* HIP's header stops a compiler that was not told the platform; a plain C compiler seldom is. */
#if !defined(__HIP_PLATFORM_AMD__) && !defined(__HIP_PLATFORM_NVIDIA__)
#define __HIP_PLATFORM_AMD__ 1
#endif
/* HIP's headers warn under -Wextra; a strict program that names them with -I is not to stop for that. */
#if defined(__INCLUDE_LEVEL__) && __INCLUDE_LEVEL__ > 0
#pragma GCC system_header
#endif
#include <hip/hip_runtime_api.h>
#else
#ifdef __cplusplus
extern "C" {
#endif
/** A HIP stream; null is the default stream. */
typedef struct ihipStream_t *hipStream_t;
#ifdef __cplusplus
}
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Required. The ids of the plugin's engines, best first. Writes at most `max_engines` ids and the number written; with
/// `max_engines` 0, where `engine_ids` may be null, only the number there are. The answer never changes. An id is the
/// 64-bit FNV-1a hash of the engine's name.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(
    int64_t *engine_ids,
    uint32_t max_engines,
    uint32_t *num_engines);

/// Optional. The name of an engine: NUL terminated UTF-8 that lives as long as the library is loaded. The host drops an
/// engine whose id is not the hash of its name. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE leaves an engine without a name.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(
    int64_t engine_id,
    const char **name);

/// Required. A new handle: an address of the plugin's own, because hosts may refuse null and take two handles with the
/// same address for one.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t *handle);

/// Required. Ends a handle. Contexts made with it are ended before.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle);

/// Required. The stream of later executions with this handle. Before the first call it is the default stream.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSetStream(
    hipdnnEnginePluginHandle_t handle,
    hipStream_t stream);

/// Required. The engines that can compute a graph, best first: at most `max_engines` ids, and how many there are. The
/// host gives room for all of the plugin's engines. No engine is no failure: log the reasons and answer 0.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *op_graph,
    int64_t *engine_ids,
    uint32_t max_engines,
    uint32_t *num_engines);

/// Required. Fills in the EngineDetails of an engine for a graph. The bytes are the plugin's, until the host gives them
/// back.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(
    hipdnnEnginePluginHandle_t handle,
    int64_t engine_id,
    const hipdnnPluginConstData_t *op_graph,
    hipdnnPluginConstData_t *engine_details);

/// Required. Takes engine details back, and sets pointer and size to 0.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(
    hipdnnEnginePluginHandle_t handle,
    hipdnnPluginConstData_t *engine_details);

/// Required. The bytes of workspace that a graph needs with an EngineConfig, which names the engine.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *engine_config,
    const hipdnnPluginConstData_t *op_graph,
    size_t *workspace_size);

/// Required. Makes a graph ready for execution with an EngineConfig. Both are not needed afterwards.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *engine_config,
    const hipdnnPluginConstData_t *op_graph,
    hipdnnEnginePluginExecutionContext_t *execution_context);

/// Required. Ends an execution context.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context);

/// Required. The bytes of workspace that an execution needs.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    size_t *workspace_size);

/// Required. Computes the graph on the handle's stream. The handle may be another one of the plugin than the context
/// was made with. `workspace` may be null where none is needed. The host passes buffers as it was given them: one may be
/// missing, be there twice or be null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    void *workspace,
    const hipdnnPluginDeviceBuffer_t *device_buffers,
    uint32_t num_device_buffers);

/// Optional, from version 1.1.0. The same with other shapes: tensor `override_unique_ids[i]` has
/// `override_lengths[i]` dimensions, sizes `override_shapes[i]` and strides `override_strides[i]` in this execution. All
/// of it is valid during the call only. Without overrides the plain function is called.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    void *workspace,
    const hipdnnPluginDeviceBuffer_t *device_buffers,
    uint32_t num_device_buffers,
    uint32_t num_overrides,
    const int64_t *override_unique_ids,
    const uint32_t *override_lengths,
    const int64_t *const *override_shapes,
    const int64_t *const *override_strides);

/// Optional, together with the last two. The bytes of an execution context, which are the plugin's until the host gives
/// them back, and which only the plugin understands. Older hosts call this function, newer ones the next.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    hipdnnPluginConstData_t *serialized_context);

/// Optional, together with the last two. The same, and says which engine the execution context is of.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContextWithEngineId(
    hipdnnEnginePluginHandle_t handle,
    int64_t engine_id,
    hipdnnEnginePluginExecutionContext_t execution_context,
    hipdnnPluginConstData_t *serialized_context);

/// Optional. Takes the bytes of an execution context back, and sets pointer and size to 0.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnPluginConstData_t *serialized_context);

/// Optional, of this library's own. What an execution does, as JSON with a NUL behind it: an object whose key `steps` has a
/// list of objects with the keys `nodes` (places in the graph), `operation`, `algorithm`, `kernel`, `isa`, `threads`,
/// `bytes`, `flops`, `passed_over` (a list of algorithms with reasons) and, for plain loops, `reference` (why nothing faster
/// applied); a key that is not there is not told.
/// Writes the size with the NUL, and where `requested_size` is not 0 the text, for which there has to be room. Hosts call it
/// with 0 first, where `json` may be null. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE where the plugin does not tell.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDescribeExecutionContext_ext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    size_t requested_size,
    size_t *size,
    char *json);

/// Optional, of this library's own. Writes 1 where the context keeps nothing that ties it to one plan or to the handle that made it: it
/// may be executed with this handle for whoever plans an equal graph with equal settings of knobs, and be executed, saved, described and
/// ended with any handle for which the answer is 1, also when the handle that made it is gone. Else 0. Hosts ask with the
/// handle that made the context, and with each other handle before they use it there. Of plugins without the function hosts
/// share contexts for plans of one handle where no knob is set.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginIsExecutionContextShareable_ext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    uint32_t *is_shareable);

/// Optional, of this library's own. Has the plugin tell the steps of executions from now on; null for no longer. It calls back at the
/// end of each step, on the thread that executes, with the step's name and when it began and ended, in nanoseconds of
/// CLOCK_MONOTONIC. Hosts call it only where somebody wants a trace. The callback stays valid as long as the library is
/// loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSetStepCallback_ext(
    void (*callback)(const char *name,
    uint64_t begin,
    uint64_t end));

/// Optional, of this library's own. Has the plugin offer every engine that applies from now on, or with 0 no longer those that it keeps
/// back: engines to be compared with, which hosts that sort engines by their ids would take first. Hosts that order engines by
/// themselves call it when the library is loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginOfferAllEngines_ext(uint32_t all);

/// Optional. Makes an execution context from its bytes, which may come from anywhere.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *serialized_context,
    hipdnnEnginePluginExecutionContext_t *execution_context);

#ifdef __cplusplus
}
#endif

#endif
