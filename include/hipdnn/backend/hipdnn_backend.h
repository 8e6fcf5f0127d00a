/* SPDX-License-Identifier: MIT */

/*
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

/// What a `hipdnnHandle_t` points to, for C: never read through the pointer.
struct hipdnnHandle;

/// A handle: a stream and the plugins that answer for it. Made by `hipdnnCreate`, ended by `hipdnnDestroy`.
typedef struct hipdnnHandle *hipdnnHandle_t;

/// What a `hipdnnBackendDescriptor_t` points to, for C: never read through the pointer.
struct HipdnnBackendDescriptor;

/// A descriptor: an object that is set up by attributes and then finalized. Made by
/// `hipdnnBackendCreateDescriptor`, ended by `hipdnnBackendDestroyDescriptor`.
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

/// What became of a ranking that was to be stored.
typedef enum
{
    /// It was stored.
    HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN = 0,
    /// Not stored: the cache is switched off.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED = 1,
    /// Not stored: the graph is not finalized, or has no key.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED = 2,
    /// Not stored: no engine was given.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES = 3,
    /// The same ranking is stored already.
    HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED = 4,
} hipdnnAutotuneCacheWriteOutcome_ext_t;

#ifdef __cplusplus
}
#endif

#endif
