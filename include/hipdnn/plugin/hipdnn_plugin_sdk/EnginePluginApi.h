/* SPDX-License-Identifier: MIT */

/*
 * The functions that an engine plugin exports in addition to those of `PluginApi.h`.
 *
 * Graphs, engine configurations and engine details are FlatBuffers. Bytes passed by the host are valid during the
 * call. Calls with different handles, and calls with one handle from several threads, may run concurrently.
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

/// Required. The ids of the plugin's engines, best first. Writes at most `max_engines` ids and the number
/// written; if `max_engines` is 0 (`engine_ids` may be null then), only the number of engines. The result never
/// changes. An id is the 64-bit FNV-1a hash of the engine's name.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(
    int64_t *engine_ids,
    uint32_t max_engines,
    uint32_t *num_engines);

/// Optional. The name of an engine: NUL-terminated UTF-8 that is valid while the library is loaded. The host
/// drops an engine whose id is not the hash of its name. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE means that the
/// engine is unnamed.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char **name);

/// Optional, an extension of this library. What an engine computes on, and where its kernels come from. `device`
/// receives 1 for the host, 2 for AMD's GPUs, 3 for NVIDIA's, 4 for devices with a Vulkan driver, else 0;
/// `implementation` 1 for a library of the device's maker, 2 for kernels generated for each graph, 3 for a
/// reference, else 0. The result never changes. Without this function, or with
/// HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, hosts guess from the engine's name: those that begin with `CPU_` take
/// memory of the host.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineKind_ext(
    int64_t engine_id,
    uint32_t *device,
    uint32_t *implementation);

/// Required. Creates a handle. Its address must be unique and not null, because hosts may refuse null and
/// identify handles by address.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t *handle);

/// Required. Destroys a handle. Its contexts have been destroyed before.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle);

/// Required. Sets the stream of later executions with this handle, initially the default stream.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSetStream(
    hipdnnEnginePluginHandle_t handle,
    hipStream_t stream);

/// Required. The engines that can compute a graph, best first: writes at most `max_engines` ids, and their total
/// number. The host passes room for all of the plugin's engines. Finding no engine is not an error: log the
/// reasons and return a count of 0.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *op_graph,
    int64_t *engine_ids,
    uint32_t max_engines,
    uint32_t *num_engines);

/// Required. Fills in the EngineDetails of an engine for a graph. The plugin owns the bytes until the host
/// releases them.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(
    hipdnnEnginePluginHandle_t handle,
    int64_t engine_id,
    const hipdnnPluginConstData_t *op_graph,
    hipdnnPluginConstData_t *engine_details);

/// Required. Releases engine details, and sets pointer and size to 0.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(
    hipdnnEnginePluginHandle_t handle,
    hipdnnPluginConstData_t *engine_details);

/// Required. The bytes of workspace that a graph needs with an EngineConfig, which contains the engine's id.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *engine_config,
    const hipdnnPluginConstData_t *op_graph,
    size_t *workspace_size);

/// Required. Prepares a graph for execution with an EngineConfig. Neither is needed afterwards.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *engine_config,
    const hipdnnPluginConstData_t *op_graph,
    hipdnnEnginePluginExecutionContext_t *execution_context);

/// Required. Destroys an execution context.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context);

/// Required. The bytes of workspace that an execution needs.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    size_t *workspace_size);

/// Required. Computes the graph on the handle's stream. The handle need not be the one that the context was
/// created with, only of the same plugin. `workspace` may be null if none is needed. The host passes buffers as
/// it got them: they may be missing, duplicated or null.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    void *workspace,
    const hipdnnPluginDeviceBuffer_t *device_buffers,
    uint32_t num_device_buffers);

/// Optional, since version 1.1.0. The same with other shapes: in this execution tensor `override_unique_ids[i]`
/// has `override_lengths[i]` dimensions, sizes `override_shapes[i]` and strides `override_strides[i]`. All of it
/// is valid only during the call. Without overrides hosts call the plain function.
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

/// Optional, but only together with the last two functions. Serializes an execution context. The plugin owns the
/// bytes until the host releases them; only the plugin can interpret them. Older hosts call this function, newer
/// ones the next.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    hipdnnPluginConstData_t *serialized_context);

/// Optional, but only together with the last two functions. The same, with the id of the context's engine.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContextWithEngineId(
    hipdnnEnginePluginHandle_t handle,
    int64_t engine_id,
    hipdnnEnginePluginExecutionContext_t execution_context,
    hipdnnPluginConstData_t *serialized_context);

/// Optional. Releases the bytes of an execution context, and sets pointer and size to 0.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnPluginConstData_t *serialized_context);

/// Optional, an extension of this library. Describes an execution as NUL-terminated JSON: an object whose key
/// `steps` has a list of objects with the keys `nodes` (indices in the graph), `operation`, `algorithm`,
/// `kernel`, `isa`, `threads`, `bytes`, `flops`, `passed_over` (a list of algorithms with reasons) and, for
/// reference loops, `reference` (why nothing faster applied) and `numerics`, as for
/// hipdnnEnginePluginDescribeNumerics_ext. Unknown values are omitted. Writes the size
/// including the NUL and, if `requested_size` is not 0, the text, which must fit. Hosts first call it with 0,
/// where `json` may be null. HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE if the plugin has no description.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDescribeExecutionContext_ext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    size_t requested_size,
    size_t *size,
    char *json);

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
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDescribeNumerics_ext(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *engine_config,
    const hipdnnPluginConstData_t *op_graph,
    size_t requested_size,
    size_t *size,
    char *json);

/// Optional, an extension of this library. Writes 1 if the context is tied neither to one plan nor to the handle
/// that created it, else 0. Such a context may be executed with this handle for anyone who plans an equal graph
/// with equal knob settings; it may be executed, saved, described and destroyed with any handle for which the
/// result is 1, even after its creator is destroyed. Hosts ask once with the handle that created the context, and
/// once with each other handle before they use it there. For plugins without this function, hosts share contexts
/// only between plans of one handle without knob settings.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginIsExecutionContextShareable_ext(
    hipdnnEnginePluginHandle_t handle,
    hipdnnEnginePluginExecutionContext_t execution_context,
    uint32_t *is_shareable);

/// Optional, an extension of this library. Sets a callback for the steps of executions; null removes it. The
/// plugin calls it at the end of each step on the executing thread, with the step's name and its begin and end in
/// nanoseconds of CLOCK_MONOTONIC. Hosts set it only for a trace. The callback stays valid while the library is
/// loaded.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSetStepCallback_ext(
    void (*callback)(const char *name,
    uint64_t begin,
    uint64_t end));

/// Optional, an extension of this library. Makes the plugin offer every applicable engine from now on, or with 0
/// keep some back again: engines for comparison, which hosts that sort engines by id would pick first. Hosts with
/// their own order of engines call it after loading the library.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginOfferAllEngines_ext(uint32_t all);

/// Optional. Creates an execution context from serialized bytes, which may come from anywhere.
HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(
    hipdnnEnginePluginHandle_t handle,
    const hipdnnPluginConstData_t *serialized_context,
    hipdnnEnginePluginExecutionContext_t *execution_context);

#ifdef __cplusplus
}
#endif

#endif
