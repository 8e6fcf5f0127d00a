/* SPDX-License-Identifier: MIT */

/*
 * The types of the plugin interface.
 *
 * Generated from plugins/sdk/src/ffi/data_types.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_PLUGIN_API_DATA_TYPES_H
#define HIPDNN_PLUGIN_SDK_PLUGIN_API_DATA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a plugin function answers. A host takes any other number for a failure of an unknown kind.
typedef enum
{
    /// The call did what it was asked. Outputs are written on this answer only.
    HIPDNN_PLUGIN_STATUS_SUCCESS = 0,
    /// An argument is null or out of range.
    HIPDNN_PLUGIN_STATUS_BAD_PARAM = 1,
    /// A value inside an argument is not usable.
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE = 2,
    /// The plugin failed for a reason of its own.
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR = 3,
    /// Memory could not be had.
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED = 4,
    /// The question has no answer for this object, for instance the name of an unnamed engine.
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE = 5,
    /// Something that has to come first has not happened.
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED = 6,
} hipdnnPluginStatus_t;

/// What a plugin library is.
typedef enum
{
    /// A library that says nothing of itself; no host loads it.
    HIPDNN_PLUGIN_TYPE_UNSPECIFIED = 0,
    /// A library with engines.
    HIPDNN_PLUGIN_TYPE_ENGINE = 1,
    /// A library with selection policies.
    HIPDNN_PLUGIN_TYPE_HEURISTIC = 2,
} hipdnnPluginType_t;

/// Bytes that the other side owns.
typedef struct
{
    /// The first byte.
    const void *ptr;
    /// The number of bytes.
    size_t size;
} hipdnnPluginConstData_t;

/// A tensor's memory at execution.
typedef struct
{
    /// The tensor's unique id in the graph.
    int64_t uid;
    /// Where its first element lies. May be null.
    void *ptr;
} hipdnnPluginDeviceBuffer_t;

/// What a `hipdnnEnginePluginExecutionContext_t` points to: the plugin's own, which may define a struct of this name.
struct HipdnnEnginePluginExecutionContext;

/// What a `hipdnnEnginePluginHandle_t` points to: the plugin's own, which may define a struct of this name.
struct HipdnnEnginePluginHandle;

/// What a `hipdnnHeuristicHandle_t` points to: the plugin's own, which may define a struct of this name.
struct HipdnnHeuristicHandle;

/// What a `hipdnnHeuristicPolicyDescriptor_t` points to: the plugin's own, which may define a struct of this name.
struct HipdnnHeuristicPolicyDescriptor;

/// A plugin's state for one handle of the host.
typedef struct HipdnnEnginePluginHandle *hipdnnEnginePluginHandle_t;

/// A graph made ready for one engine with one configuration.
typedef struct HipdnnEnginePluginExecutionContext *hipdnnEnginePluginExecutionContext_t;

/// A heuristic plugin's state for one handle of the host.
typedef struct HipdnnHeuristicHandle *hipdnnHeuristicHandle_t;

/// One choice among engines by one policy.
typedef struct HipdnnHeuristicPolicyDescriptor *hipdnnHeuristicPolicyDescriptor_t;

#ifdef __cplusplus
}
#endif

#endif
