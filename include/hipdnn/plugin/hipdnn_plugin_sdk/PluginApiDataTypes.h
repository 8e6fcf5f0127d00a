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

/// Result of a plugin function. Hosts treat any other number as an unknown failure.
typedef enum
{
    /// The call succeeded. Outputs are written only in this case.
    HIPDNN_PLUGIN_STATUS_SUCCESS = 0,
    /// An argument is null or out of range.
    HIPDNN_PLUGIN_STATUS_BAD_PARAM = 1,
    /// A value inside an argument is invalid.
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE = 2,
    /// An internal failure of the plugin.
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR = 3,
    /// Memory could not be allocated.
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED = 4,
    /// The query does not apply to this object, for instance the name of an unnamed engine.
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE = 5,
    /// A prerequisite call is missing.
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED = 6,
} hipdnnPluginStatus_t;

/// The kind of a plugin library.
typedef enum
{
    /// An undeclared kind; hosts do not load such libraries.
    HIPDNN_PLUGIN_TYPE_UNSPECIFIED = 0,
    /// A library with engines.
    HIPDNN_PLUGIN_TYPE_ENGINE = 1,
    /// A library with selection policies.
    HIPDNN_PLUGIN_TYPE_HEURISTIC = 2,
} hipdnnPluginType_t;

/// What a prediction is of.
typedef enum
{
    /// An engine with its default knobs.
    HIPDNN_ENGINE_PREDICTION_ENGINE = 0,
    /// The best configuration of an engine, which the prediction names.
    HIPDNN_ENGINE_PREDICTION_CONFIGURATION = 1,
} hipdnnEnginePredictionKind_t;

/// Bytes owned by the other side.
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
    /// Address of its first element. May be null.
    void *ptr;
} hipdnnPluginDeviceBuffer_t;

/// The target of a `hipdnnEnginePluginExecutionContext_t`: opaque to the host; the plugin may define a struct of this
/// name.
struct HipdnnEnginePluginExecutionContext;

/// The target of a `hipdnnEnginePluginHandle_t`: opaque to the host; the plugin may define a struct of this name.
struct HipdnnEnginePluginHandle;

/// The target of a `hipdnnHeuristicHandle_t`: opaque to the host; the plugin may define a struct of this name.
struct hipdnnHeuristicHandle_opaque;

/// The target of a `hipdnnHeuristicPolicyDescriptor_t`: opaque to the host; the plugin may define a struct of this
/// name.
struct hipdnnHeuristicPolicyDescriptor_opaque;

/// A plugin's state for one handle of the host.
typedef struct HipdnnEnginePluginHandle *hipdnnEnginePluginHandle_t;

/// A graph prepared for one engine and configuration.
typedef struct HipdnnEnginePluginExecutionContext *hipdnnEnginePluginExecutionContext_t;

/// A heuristic plugin's state for one handle of the host.
typedef struct hipdnnHeuristicHandle_opaque *hipdnnHeuristicHandle_t;

/// One choice among engines by one policy.
typedef struct hipdnnHeuristicPolicyDescriptor_opaque *hipdnnHeuristicPolicyDescriptor_t;

#ifdef __cplusplus
}
#endif

#endif
