/* SPDX-License-Identifier: MIT */

/*
 * hipDNN's backend interface: a program describes a graph of tensor operations, asks which engines can compute it,
 * and has one of them do so.
 *
 *   1. hipdnnCreate makes a handle and loads the engine plugins.
 *   2. Tensors, operations and the graph are descriptors: create, set attributes, finalize. Or
 *      hipdnnBackendCreateAndDeserializeGraph_ext makes a graph from bytes; it gets its handle and is finalized.
 *   3. An engine heuristic gives engine configurations for the graph, best first.
 *   4. An execution plan is made from one of them; its workspace size is an attribute.
 *   5. A variant pack holds the memory of the tensors and the workspace. hipdnnBackendExecute runs the plan on it.
 *
 * Every function that can fail answers a status; hipdnnGetLastErrorString then has the reason in words, for the thread
 * that made the call. Outputs are written on success only. A handle or descriptor that is null, was destroyed, or is of
 * another kind than is wanted is refused.
 *
 * Generated from src/c_api by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_H
#define HIPDNN_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "hipdnn_backend_export.h"
#include "hipdnn_backend_hip.h"
#include "HipdnnBackendAttributeName.h"
#include "HipdnnBackendAttributeType.h"
#include "HipdnnBackendBehaviorNote.h"
#include "HipdnnBackendCallbackTypes.h"
#include "HipdnnBackendDescriptorType.h"
#include "HipdnnBackendHeuristicType.h"
#include "HipdnnBackendLimits.h"
#include "HipdnnBackendNumericalNote.h"
#include "HipdnnBackendPluginLoadingMode.h"
#include "HipdnnBackendPluginUnloadingMode.h"
#include "HipdnnConvolutionMode.h"
#include "HipdnnDataType.h"
#include "HipdnnMoeGroupedMatmulMode.h"
#include "HipdnnPaddingMode.h"
#include "HipdnnReduceTensorOp.h"
#include "HipdnnResampleMode.h"
#include "HipdnnStatus.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The opaque pointee of `hipdnnHandle_t`, never read through the pointer.
struct hipdnnHandle;

/// A handle: a stream and the plugins that serve it. Created by `hipdnnCreate`, destroyed by `hipdnnDestroy`.
typedef struct hipdnnHandle *hipdnnHandle_t;

/// The opaque pointee of `hipdnnBackendDescriptor_t`, never read through the pointer.
struct HipdnnBackendDescriptor;

/// A descriptor: an object that is configured through attributes and then finalized. Created by
/// `hipdnnBackendCreateDescriptor`, destroyed by `hipdnnBackendDestroyDescriptor`.
typedef struct HipdnnBackendDescriptor *hipdnnBackendDescriptor_t;

/// The thread that a log callback runs on.
typedef enum
{
    /// The thread that logs.
    HIPDNN_LOG_CALLBACK_SYNC = 0,
    /// A thread of the library.
    HIPDNN_LOG_CALLBACK_ASYNC = 1,
} hipdnnLogCallbackMode_t;

/// Bits that are combined by OR.
typedef enum
{
    /// An operation graph.
    HIPDNN_SERIALIZED_CONTENT_GRAPH = 1,
    /// An execution plan.
    HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN = 2,
} hipdnnSerializedContentFlags_t;

/// The outcome of storing a ranking.
typedef enum
{
    /// The ranking was stored.
    HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN = 0,
    /// Not stored: the cache is switched off.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED = 1,
    /// Not stored: the graph is not finalized, or has no key.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED = 2,
    /// Not stored: no engine was given.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES = 3,
    /// The same ranking was already stored.
    HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED = 4,
} hipdnnAutotuneCacheWriteOutcome_ext_t;

/// Creates a handle. The first one loads the engine plugins; a plugin that cannot be loaded is skipped, and the last error
/// string names it although the call succeeds. No device is needed.
///
/// @param[out] handle Receives the new handle. The caller destroys it with hipdnnDestroy.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` is null;
///     HIPDNN_STATUS_NOT_SUPPORTED when plugins must be loaded while this thread loads or unloads one, or while another
///     thread does so and this one waits too long or is in a log callback;
///     HIPDNN_STATUS_INTERNAL_ERROR when there are no file descriptors for the plugins, or the library's own folder cannot be
///         determined;
///     HIPDNN_STATUS_ALLOC_FAILED when there is no memory for a plugin. A later call tries again.
///
/// May be called from any thread.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnCreate(hipdnnHandle_t *handle);

/// Destroys a handle. Plugins keep what its engines, configurations and plans need until those are destroyed. Does not
/// wait for work on the stream.
///
/// @param[in] handle The handle.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live handle.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnDestroy(hipdnnHandle_t handle);

/// Sets the HIP stream that plugins issue work to. If a plugin refuses it, all plugins keep the old stream.
///
/// @param[in] handle The handle.
/// @param[in] streamId The stream, null for the default stream. It must outlive its use. Existing plans stay valid.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live handle;
///     HIPDNN_STATUS_PLUGIN_ERROR when a plugin refuses the stream.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnSetStream(hipdnnHandle_t handle,
                               hipStream_t streamId);

/// Gets the stream of the last hipdnnSetStream that succeeded.
///
/// @param[in] handle The handle.
/// @param[out] streamId Receives the stream; null on a new handle.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `streamId` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle.
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetStream(hipdnnHandle_t handle, hipStream_t *streamId);

/// Creates an open descriptor. No handle is needed.
///
/// @param[in] descriptorType What to create.
/// @param[out] descriptor Receives the descriptor. The caller destroys it with hipdnnBackendDestroyDescriptor.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` is null;
///     HIPDNN_STATUS_NOT_SUPPORTED when descriptors of this type cannot be created.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendCreateDescriptor(hipdnnBackendDescriptorType_t descriptorType,
                                             hipdnnBackendDescriptor_t *descriptor);

/// Destroys a descriptor. What it shares with other descriptors stays alive with them, so the order of destruction is free.
///
/// @param[in] descriptor The descriptor.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live descriptor.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendDestroyDescriptor(hipdnnBackendDescriptor_t descriptor);

/// Runs a plan on the memory in a variant pack, with the plugins of a handle. Returns when the work is issued; a GPU may
/// complete it later, in the order of the handle's stream. Several threads may execute the same plan at once.
///
/// @param[in] handle The handle whose plugin handles and stream are used.
/// @param[in] executionPlan A finalized execution plan.
/// @param[in] variantPack A finalized variant pack with memory for the graph's tensors and the plan's workspace.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when an argument is null;
///     HIPDNN_STATUS_BAD_PARAM when an argument is not live, of the wrong kind or not finalized, when a data pointer is not
///     aligned as its tensor promised, or when the handle does not use the plugins that made the plan;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin fails.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendExecute(hipdnnHandle_t handle,
                                    hipdnnBackendDescriptor_t executionPlan,
                                    hipdnnBackendDescriptor_t variantPack);

/// Checks a descriptor and freezes it. A failure leaves it open and unchanged. Finalizing a graph or a variant pack again
/// does nothing.
///
/// @param[in] descriptor The descriptor.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live descriptor, is already finalized, or lacks an attribute;
///     HIPDNN_STATUS_PLUGIN_ERROR when a plugin fails;
///     HIPDNN_STATUS_INTERNAL_ERROR when a plugin reports success without a usable result.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendFinalize(hipdnnBackendDescriptor_t descriptor);

/// Reads an attribute of a finalized descriptor. Descriptors that it returns are new and the caller destroys them; only
/// HIPDNN_ATTR_ENGINEHEUR_RESULTS fills engine configurations that the caller created.
///
/// @param[in] descriptor The descriptor.
/// @param[in] attributeName The attribute.
/// @param[in] attributeType The type of the elements, which must be the attribute's.
/// @param[in] requestedElementCount How many elements `arrayOfElements` has room for.
/// @param[out] elementCount How many elements exist if none is requested or `arrayOfElements` is null, else how many
///     were written. May be null when one value is read.
/// @param[out] arrayOfElements Receives the elements.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when a required pointer is null;
///     HIPDNN_STATUS_NOT_INITIALIZED when the descriptor is not finalized, HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED when that
///     is an engine heuristic;
///     HIPDNN_STATUS_NOT_SUPPORTED when the descriptor has no such attribute to read;
///     HIPDNN_STATUS_BAD_PARAM when the type or the count does not match the attribute.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendGetAttribute(hipdnnBackendDescriptor_t descriptor,
                                         hipdnnBackendAttributeName_t attributeName,
                                         hipdnnBackendAttributeType_t attributeType,
                                         int64_t requestedElementCount,
                                         int64_t *elementCount,
                                         void *arrayOfElements);

/// Sets an attribute of an open descriptor. Values are copied and descriptors shared, so the caller may destroy them
/// afterwards. Setting again replaces the value, but HIPDNN_ATTR_OPERATIONGRAPH_OPS appends.
///
/// @param[in] descriptor The descriptor.
/// @param[in] attributeName The attribute.
/// @param[in] attributeType The type of the elements, which must be the attribute's.
/// @param[in] elementCount How many elements there are.
/// @param[in] arrayOfElements The elements.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor`, `arrayOfElements` or a descriptor in it is null;
///     HIPDNN_STATUS_NOT_INITIALIZED when the descriptor is finalized;
///     HIPDNN_STATUS_NOT_SUPPORTED when the descriptor has no such attribute to set, or does not accept this value;
///     HIPDNN_STATUS_BAD_PARAM when the type, count or value is not valid for the attribute;
///     HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED when a descriptor in the array is not finalized.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendSetAttribute(hipdnnBackendDescriptor_t descriptor,
                                         hipdnnBackendAttributeName_t attributeName,
                                         hipdnnBackendAttributeType_t attributeType,
                                         int64_t elementCount,
                                         const void *arrayOfElements);

/// Creates an operation graph from FlatBuffers bytes, of November 2025 or of 2026, or from the bytes of
/// hipdnnBackendGetSerializedBinaryGraphAndPlan_ext. It is open: set HIPDNN_ATTR_OPERATIONGRAPH_HANDLE and finalize it.
///
/// @param[out] descriptor Receives the graph. The caller destroys it with hipdnnBackendDestroyDescriptor.
/// @param[in] serializedGraph The bytes, which are copied. A plan among them is ignored.
/// @param[in] graphByteSize How many.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `serializedGraph` is null;
///     HIPDNN_STATUS_BAD_PARAM when the bytes are empty or damaged, or contain no graph;
///     HIPDNN_STATUS_NOT_SUPPORTED when the graph asks for a newer plugin interface than this library knows.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendCreateAndDeserializeGraph_ext(hipdnnBackendDescriptor_t *descriptor,
                                                          const uint8_t *serializedGraph,
                                                          size_t graphByteSize);

/// Gets the FlatBuffers bytes of an operation graph, in the layout of 2026. The graph need not be finalized.
///
/// @param[in] descriptor The operation graph.
/// @param[in] requestedByteSize The size of `serializedGraph` in bytes.
/// @param[out] graphByteSize Receives the number of bytes, also when the buffer is too small.
/// @param[out] serializedGraph Receives the bytes; null to ask for their number only.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `graphByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live operation graph;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendGetSerializedBinaryGraph_ext(hipdnnBackendDescriptor_t descriptor,
                                                         size_t requestedByteSize,
                                                         size_t *graphByteSize,
                                                         uint8_t *serializedGraph);

/// Creates an operation graph from JSON, of November 2025 or of 2026. It is open: set HIPDNN_ATTR_OPERATIONGRAPH_HANDLE and
/// finalize it. Tensors and nodes without a type get the graph's default.
///
/// @param[out] descriptor Receives the graph. The caller destroys it with hipdnnBackendDestroyDescriptor.
/// @param[in] jsonGraph The text in UTF-8. It is not kept and need not end with a NUL.
/// @param[in] jsonByteSize The bytes of the text.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `jsonGraph` is null;
///     HIPDNN_STATUS_BAD_PARAM when the text is empty, not JSON or not a graph; the message has the path of the mistake;
///     HIPDNN_STATUS_NOT_SUPPORTED when the graph asks for a newer plugin interface than this library knows.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendCreateAndDeserializeJsonGraph_ext(hipdnnBackendDescriptor_t *descriptor,
                                                              const char *jsonGraph,
                                                              size_t jsonByteSize);

/// Gets an operation graph as JSON, on one line with keys in alphabetical order. The graph need not be finalized. Stored values
/// and parameters that are NaN or infinite become null.
///
/// @param[in] descriptor The operation graph.
/// @param[in] requestedByteSize The size of `serializedJsonGraph` in bytes.
/// @param[out] graphByteSize Receives the number of bytes, NUL included, also when the buffer is too small.
/// @param[out] serializedJsonGraph Receives the text and a NUL; null to ask for the number of bytes only.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `graphByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live operation graph;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendGetSerializedJsonGraph_ext(hipdnnBackendDescriptor_t descriptor,
                                                       size_t requestedByteSize,
                                                       size_t *graphByteSize,
                                                       char *serializedJsonGraph);

/// Sets where engine plugins are looked for, from the next handle on: folders, files, or bare library names. Relative paths
/// start from the library's own folder.
///
/// @param[in] numPaths How many paths there are; with 0 the array is not looked at.
/// @param[in] pluginPaths The paths, which are copied. They need not exist.
/// @param[in] loadingMode HIPDNN_PLUGIN_LOADING_ADDITIVE adds to the default folder (or HIPDNN_PLUGIN_DIR) and to the paths
///     of earlier calls, HIPDNN_PLUGIN_LOADING_ABSOLUTE replaces all of these.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when the array or a path is null;
///     HIPDNN_STATUS_BAD_PARAM when the mode is not known;
///     HIPDNN_STATUS_NOT_SUPPORTED while a handle is alive;
///     HIPDNN_STATUS_INTERNAL_ERROR when `numPaths` is beyond reason.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnSetEnginePluginPaths_ext(size_t numPaths,
                                              const char *const *pluginPaths,
                                              hipdnnPluginLoadingMode_ext_t loadingMode);

/// Sets where heuristic plugins are looked for, from the next handle on: folders, files, or bare library names. Relative
/// paths start from the library's own folder. The library's own policies are always available.
///
/// @param[in] numPaths How many paths there are; with 0 the array is not looked at.
/// @param[in] pluginPaths The paths, which are copied. They need not exist.
/// @param[in] loadingMode HIPDNN_PLUGIN_LOADING_ADDITIVE adds to the default folder (or HIPDNN_HEURISTIC_PLUGIN_DIR) and to
///     the paths of earlier calls, HIPDNN_PLUGIN_LOADING_ABSOLUTE replaces all of these.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when the array or a path is null;
///     HIPDNN_STATUS_BAD_PARAM when the mode is not known;
///     HIPDNN_STATUS_NOT_SUPPORTED while a handle is alive;
///     HIPDNN_STATUS_INTERNAL_ERROR when `numPaths` is beyond reason.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnSetHeuristicPluginPaths_ext(size_t numPaths,
                                                 const char *const *pluginPaths,
                                                 hipdnnPluginLoadingMode_ext_t loadingMode);

/// Sets when plugins that no handle uses are unloaded. May be called at any time.
///
/// @param[in] unloadingMode HIPDNN_PLUGIN_UNLOAD_LAZY, the default, keeps them for the next handle, until paths are set;
///     HIPDNN_PLUGIN_UNLOAD_EAGER unloads them with the last handle, or now if no handle is alive. A plugin that plans or
///     other descriptors still need stays loaded until these are destroyed.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when the mode is not known.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnSetPluginUnloadMode_ext(hipdnnPluginUnloadingMode_ext_t unloadingMode);

/// Gets the files of the engine plugins that a handle uses, as canonical paths in the order in which they were loaded.
///
/// Call it twice: with `pluginPaths` null it writes the number of paths and the size that the longest needs, NUL included;
/// with buffers it fills them and leaves both numbers as they are.
///
/// @param[in] handle The handle.
/// @param[in,out] numPluginPaths The number of paths; on the second call the number of buffers.
/// @param[out] pluginPaths Null, or buffers of `*maxStringLen` bytes each.
/// @param[in,out] maxStringLen The size of the longest path; on the second call the size of each buffer.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle`, `numPluginPaths` or `maxStringLen` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, or the buffers are too few, too short or null.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetLoadedEnginePluginPaths_ext(hipdnnHandle_t handle,
                                                    size_t *numPluginPaths,
                                                    char **pluginPaths,
                                                    size_t *maxStringLen);

/// Writes a line of another component, a frontend or a plugin, to the library's log. With the log off, or `severity` below
/// its level, nothing is written.
///
/// @param[in] severity How serious the line is; numbers outside the enumeration count as HIPDNN_SEV_INFO, and
///     HIPDNN_SEV_OFF is dropped.
/// @param[in] msg The complete line, without a newline at its end. When it is null nothing happens.
HIPDNN_BACKEND_EXPORT
void hipdnnLoggingCallback_ext(hipdnnSeverity_t severity,
                               const char *msg);

/// Sets a callback that receives the log's lines, changes its settings, or removes it. The lines are still written to the
/// log, and callbacks receive only those at or above the log's own level.
///
/// `callback` and `userHandle` together identify a registration: setting the same pair again changes `minLevel` and `mode`,
/// another pair adds a registration. HIPDNN_SEV_OFF removes it: once this function has returned, the callback is not
/// called any more, and lines waiting for it are dropped. (If removed from within a callback, it may still be running on
/// another thread.)
///
/// A callback may call any function of this library; callbacks do not receive lines that its thread logs meanwhile.
/// It must not leave by longjmp. A C++ exception that leaves it is dropped.
///
/// @param[in] callback The function. Its message ends with a NUL and lives during the call only.
/// @param[in] minLevel The lowest severity of the lines it receives; HIPDNN_SEV_OFF removes it.
/// @param[in] mode HIPDNN_LOG_CALLBACK_SYNC: called on the thread that logs, possibly on several at once.
///     HIPDNN_LOG_CALLBACK_ASYNC: called on one thread of the library, in the order of the lines. Up to 8192 lines are
///     queued; a thread that logs one more waits for room.
/// @param[in] userHandle Passed to the callback, not null. It must live until the callback is removed.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `callback` or `userHandle` is null, `minLevel` or `mode` is not an enumerator, or
///     the registration to remove does not exist.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnSetUserLogCallback_ext(hipdnnUserLogCallback_t callback,
                                            hipdnnSeverity_t minLevel,
                                            hipdnnLogCallbackMode_t mode,
                                            hipdnnUserLogCallbackHandle_t userHandle);

/// Sets the lowest severity that is logged, here and in loaded plugins, overriding HIPDNN_LOG_LEVEL.
///
/// @param[in] level The lowest severity, HIPDNN_SEV_OFF for no log.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `level` is not one of the five severities.
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendSetGlobalLogLevel_ext(hipdnnSeverity_t level);

/// Gets the lowest severity that is logged.
///
/// @param[out] level Receives the severity.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `level` is null.
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetGlobalLogLevel_ext(hipdnnSeverity_t *level);

/// The name of a status.
///
/// @param[in] status A status.
///
/// @return A text that lives as long as the library: the enumerator's name, HIPDNN_STATUS_UNKNOWN for other numbers.
HIPDNN_BACKEND_EXPORT
const char *hipdnnGetErrorString(hipdnnStatus_t status);

/// Gets the text of the last failure on this thread, and clears it.
///
/// @param[out] message Receives the text, cut to `maxSize - 1` bytes and ended by a NUL; empty when nothing failed since
///     the last call. When it is null nothing happens.
/// @param[in] maxSize The size of `message` in bytes. When it is 0 nothing happens.
HIPDNN_BACKEND_EXPORT
void hipdnnGetLastErrorString(char *message,
                              size_t maxSize);

/// Gets the text of the last failure on this thread, and keeps it.
///
/// @param[out] message Receives the text, cut to `maxSize - 1` bytes and ended by a NUL; empty when nothing failed. When it
///     is null nothing happens.
/// @param[in] maxSize The size of `message` in bytes. When it is 0 nothing happens.
HIPDNN_BACKEND_EXPORT
void hipdnnPeekLastErrorString_ext(char *message,
                                   size_t maxSize);

/// The version that the library reports: MAJOR.MINOR.PATCH.TWEAK, where TWEAK is the commit it was built from, or `unknown`.
/// The build, or the variable HIPDNN_REPORTED_VERSION (read once), can replace the first three numbers.
///
/// @return A text that lives as long as the library.
HIPDNN_BACKEND_EXPORT
const char *hipdnnVersionString_ext(void);

/// The same as hipdnnVersionString_ext; prefer that function.
///
/// @param[out] version Receives a pointer to the text.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `version` is null.
HIPDNN_BACKEND_DEPRECATED_EXPORT hipdnnStatus_t hipdnnGetVersion_ext(const char **version);

/// Gets the number of engines that the handle's plugins have.
///
/// @param[in] handle The handle.
/// @param[out] numEngines Receives the number.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `numEngines` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle.
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetEngineCount_ext(hipdnnHandle_t handle, size_t *numEngines);

/// Describes an engine. Engines are numbered by name, then id, then plugin name.
///
/// Call it twice: when one of the four texts is null, it writes the size that each text needs, NUL included, to the four
/// lengths; else it fills the texts and leaves the lengths as they are.
///
/// @param[in] handle The handle.
/// @param[in] engineIndex The engine's number, below that of hipdnnGetEngineCount_ext.
/// @param[out] engineId Where the engine's id goes; may be null.
/// @param[out] engineName Null, or a buffer for its name: the one its plugin gives it, else a known one, else its id in
///     hexadecimal.
/// @param[in,out] engineNameLen The size of `engineName` in bytes.
/// @param[out] pluginName Null, or a buffer for its plugin's name.
/// @param[in,out] pluginNameLen The size of `pluginName` in bytes.
/// @param[out] version Null, or a buffer for its plugin's version.
/// @param[in,out] versionLen The size of `version` in bytes.
/// @param[out] type Null, or where the kind of its plugin goes, "HIPDNN_PLUGIN_TYPE_ENGINE".
/// @param[in,out] typeLen The size of `type` in bytes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or a length is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, there is no such engine, or a buffer is too small.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetEngineInfo_ext(hipdnnHandle_t handle,
                                       size_t engineIndex,
                                       int64_t *engineId,
                                       char *engineName,
                                       size_t *engineNameLen,
                                       char *pluginName,
                                       size_t *pluginNameLen,
                                       char *version,
                                       size_t *versionLen,
                                       char *type,
                                       size_t *typeLen);

/// Gets what an engine computes on, and where its kernels come from.
///
/// @param[in] handle The handle.
/// @param[in] engineIndex The engine's number, as for hipdnnGetEngineInfo_ext.
/// @param[out] device 1 for the host, 2 for AMD's GPUs, 3 for NVIDIA's, 4 for devices with a Vulkan driver, else 0.
/// @param[out] implementation 1 for a library of the device's maker, 2 for kernels generated for each graph, 3 for a reference,
///     else 0.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle`, `device` or `implementation` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, or there is no such engine.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetEngineKind_ext(hipdnnHandle_t handle,
                                       size_t engineIndex,
                                       uint32_t *device,
                                       uint32_t *implementation);

/// Gets the id of the engine with a name.
///
/// @param[in] handle The handle.
/// @param[in] engineName The name, as hipdnnGetEngineInfo_ext gives it.
/// @param[out] engineId Receives the id.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when an argument is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle;
///     HIPDNN_STATUS_NOT_SUPPORTED when no engine that is loaded has this name.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetEngineIdByName_ext(hipdnnHandle_t handle,
                                           const char *engineName,
                                           int64_t *engineId);

/// Gets the name of the engine with an id.
///
/// Called twice: with `engineName` null it writes the room that the name needs with its NUL; else it fills the text and leaves
/// the length as it is.
///
/// @param[in] handle The handle.
/// @param[in] engineId The id.
/// @param[out] engineName Null, or a buffer for the name.
/// @param[in,out] engineNameLen The size of `engineName` in bytes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `engineNameLen` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle or the room is too small;
///     HIPDNN_STATUS_NOT_SUPPORTED when no engine that is loaded has this id.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetEngineNameById_ext(hipdnnHandle_t handle,
                                           int64_t engineId,
                                           char *engineName,
                                           size_t *engineNameLen);

/// Gets the bytes of an execution plan, without the graph, for hipdnnBackendCreateAndDeserializeExecutionPlan_ext. They
/// record the plugin and device of the plan, and a checksum.
///
/// @param[in] descriptor The execution plan, finalized.
/// @param[in] requestedByteSize The size of `serializedPlan` in bytes.
/// @param[out] planByteSize Receives the number of bytes, also when the buffer is too small.
/// @param[out] serializedPlan Receives the bytes; null to ask for their number only. The plan then keeps them for the next
///     call.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `planByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live execution plan;
///     HIPDNN_STATUS_NOT_INITIALIZED when it is not finalized;
///     HIPDNN_STATUS_NOT_SUPPORTED when its plugin cannot save plans;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin fails;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendGetSerializedExecutionPlan_ext(hipdnnBackendDescriptor_t descriptor,
                                                           size_t requestedByteSize,
                                                           size_t *planByteSize,
                                                           uint8_t *serializedPlan);

/// Creates an execution plan from the bytes of one, or from those of hipdnnBackendGetSerializedBinaryGraphAndPlan_ext. It is
/// finalized and can be executed; without a graph, its configuration cannot be read.
///
/// Bytes of this library are loaded only by the same version of the same plugin, on the same device, and only if they are
/// unchanged. Load only bytes that you trust: the plugin may execute code in them.
///
/// @param[in] handle The handle whose plugins are to load the plan. Any handle with the same plugins may execute it.
/// @param[out] descriptor Receives the plan. The caller destroys it with hipdnnBackendDestroyDescriptor.
/// @param[in] serializedPlan The bytes, not needed afterwards.
/// @param[in] planByteSize How many.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle`, `descriptor` or `serializedPlan` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, or the bytes are empty, damaged or contain no plan;
///     HIPDNN_STATUS_NOT_SUPPORTED when the format's version, the plugin, its version or the device differs, or when the
///     plugin cannot load plans;
///     HIPDNN_STATUS_INTERNAL_ERROR when no plugin of the handle has the plan's engine;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin refuses the plan.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendCreateAndDeserializeExecutionPlan_ext(hipdnnHandle_t handle,
                                                                  hipdnnBackendDescriptor_t *descriptor,
                                                                  const uint8_t *serializedPlan,
                                                                  size_t planByteSize);

/// Gets the bytes of an operation graph and of an execution plan for it together.
/// hipdnnBackendCreateAndDeserializeGraph_ext and hipdnnBackendCreateAndDeserializeExecutionPlan_ext load one or the other.
///
/// @param[in] graphDescriptor The operation graph, which need not be finalized.
/// @param[in] executionPlanDescriptor The execution plan, finalized; null to save the graph alone.
/// @param[in] requestedByteSize The size of `serializedBlob` in bytes.
/// @param[out] blobByteSize Receives the number of bytes, also when the buffer is too small.
/// @param[out] serializedBlob Receives the bytes; null to ask for their number only. The plan then keeps its part for the
///     next call.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `graphDescriptor` or `blobByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when a descriptor is not live or not of its kind;
///     HIPDNN_STATUS_NOT_INITIALIZED when the plan is not finalized;
///     HIPDNN_STATUS_NOT_SUPPORTED when its plugin cannot save plans;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin fails;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(hipdnnBackendDescriptor_t graphDescriptor,
                                                                hipdnnBackendDescriptor_t executionPlanDescriptor,
                                                                size_t requestedByteSize,
                                                                size_t *blobByteSize,
                                                                uint8_t *serializedBlob);

/// Tells what bytes of hipdnnBackendGetSerializedBinaryGraphAndPlan_ext contain. Any other bytes count as a graph.
///
/// @param[in] serializedBlob The bytes.
/// @param[in] blobByteSize How many.
/// @param[out] contentFlags Receives one or both values of hipdnnSerializedContentFlags_t.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `serializedBlob` or `contentFlags` is null;
///     HIPDNN_STATUS_BAD_PARAM when the bytes carry the mark of that function and are damaged.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendGetSerializedBinaryContents_ext(const uint8_t *serializedBlob,
                                                            size_t blobByteSize,
                                                            int *contentFlags);

/// Gets the number of policies that can choose among engines: those of the library itself and those of heuristic plugins.
///
/// @param[in] handle The handle.
/// @param[out] numPolicies Receives the number.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `numPolicies` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetHeuristicPolicyCount_ext(hipdnnHandle_t handle,
                                                 size_t *numPolicies);

/// Describes a policy. The library's own policies come first, then those of plugins in the order of their paths.
///
/// Call it twice: when one of the four texts is null, it writes the size that each text needs, NUL included, to the four
/// lengths; else it fills the texts and leaves the lengths as they are.
///
/// @param[in] handle The handle.
/// @param[in] policyIndex The policy's number, below that of hipdnnGetHeuristicPolicyCount_ext.
/// @param[out] policyId Where the policy's id goes; may be null.
/// @param[out] policyName Null, or a buffer for its name.
/// @param[in,out] policyNameLen The size of `policyName` in bytes.
/// @param[out] pluginName Null, or a buffer for its plugin's name, "hipdnn_backend" for the library itself.
/// @param[in,out] pluginNameLen The size of `pluginName` in bytes.
/// @param[out] pluginVersion Null, or a buffer for its plugin's version.
/// @param[in,out] pluginVersionLen The size of `pluginVersion` in bytes.
/// @param[out] apiVersion Null, or a buffer for the version of the heuristic plugin interface that its plugin implements.
/// @param[in,out] apiVersionLen The size of `apiVersion` in bytes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or a length is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, there is no such policy, or a buffer is too small.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnGetHeuristicPolicyInfo_ext(hipdnnHandle_t handle,
                                                size_t policyIndex,
                                                int64_t *policyId,
                                                char *policyName,
                                                size_t *policyNameLen,
                                                char *pluginName,
                                                size_t *pluginNameLen,
                                                char *pluginVersion,
                                                size_t *pluginVersionLen,
                                                char *apiVersion,
                                                size_t *apiVersionLen);

/// Stores on disk which engines are best for a graph on this thread's device. From then on the policy
/// SelectionHeuristic::Config offers engines in this order, in every process, for every graph that computes the same.
///
/// The call succeeds even if the ranking is not stored: the outcome says what happened, the log why.
///
/// @param[in] handle The handle.
/// @param[in] graphDescriptor The operation graph.
/// @param[in] engineIdsInRankOrder The ids of all engines that can run the graph, best first, each once. An incomplete
///     ranking is not used.
/// @param[in] engineIdCount How many ids there are.
/// @param[out] outcome Null, or receives what happened: HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN; _UNCHANGED when the ranking,
///     or one of more engines, is already stored; _DECLINED_NO_ENGINES when `engineIdCount` is 0;
///     _DECLINED_UNKEYABLE_OR_UNFINALIZED when the graph is not finalized; _DECLINED_DISABLED when rankings are switched off or
///     the file cannot be used.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `graphDescriptor` is null, or the array when there are ids;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, `graphDescriptor` not a live operation graph, an id occurs
///     twice, or `engineIdCount` is beyond reason.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendWriteEngineRankingResults_ext(hipdnnHandle_t handle,
                                                          hipdnnBackendDescriptor_t graphDescriptor,
                                                          const int64_t *engineIdsInRankOrder,
                                                          size_t engineIdCount,
                                                          hipdnnAutotuneCacheWriteOutcome_ext_t *outcome);

/// Stores on disk which engines are best for a graph on this thread's device, as hipdnnBackendWriteEngineRankingResults_ext does,
/// and how long each one took. From then on these times are the predictions of the engines with their default knobs.
///
/// @param[in] handle The handle.
/// @param[in] graphDescriptor The operation graph.
/// @param[in] engineIdsInRankOrder The ids of all engines that can run the graph, best first, each once.
/// @param[in] milliseconds The time of each of them with its default knobs; 0 where it is not known.
/// @param[in] engineIdCount How many ids, and how many times, there are.
/// @param[out] outcome As for hipdnnBackendWriteEngineRankingResults_ext. Times that differ by less than a tenth from those that are
///     stored are UNCHANGED.
///
/// @return As hipdnnBackendWriteEngineRankingResults_ext; also
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `milliseconds` is null and there are ids;
///     HIPDNN_STATUS_BAD_PARAM when a time is negative or no number.
HIPDNN_BACKEND_EXPORT
hipdnnStatus_t hipdnnBackendWriteEngineTimes_ext(hipdnnHandle_t handle,
                                                 hipdnnBackendDescriptor_t graphDescriptor,
                                                 const int64_t *engineIdsInRankOrder,
                                                 const double *milliseconds,
                                                 size_t engineIdCount,
                                                 hipdnnAutotuneCacheWriteOutcome_ext_t *outcome);

#ifdef __cplusplus
}
#endif

#endif
