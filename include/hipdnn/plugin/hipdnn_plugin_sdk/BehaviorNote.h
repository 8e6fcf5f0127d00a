/* SPDX-License-Identifier: MIT */

/*
 * Behaviour notes of engines.
 *
 * A plugin SDK may bring the same types; both copies carry the guard `HIPDNN_BEHAVIOR_NOTE_TYPES_DEFINED`, so that
 * whichever comes first defines them.
 *
 * Generated from src/ffi/behavior_note.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_PLUGIN_SDK_BEHAVIOR_NOTE_H
#define HIPDNN_PLUGIN_SDK_BEHAVIOR_NOTE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HIPDNN_BEHAVIOR_NOTE_TYPES_DEFINED
#define HIPDNN_BEHAVIOR_NOTE_TYPES_DEFINED

/// One note of `HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE`. In C the type is a plain `int32_t`, because a plugin may be newer
/// than its host and report a note that has no name here.
typedef int32_t hipdnnBackendBehaviorNote_t;

enum
{
    /// Kernels are compiled when a plan is built.
    HIPDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION = 0,
    /// Data is copied into another layout.
    HIPDNN_BEHAVIOR_NOTE_REQUIRES_LAYOUT_TRANSFORM = 1,
    /// Execution can be captured into a HIP graph.
    HIPDNN_BEHAVIOR_NOTE_SUPPORTS_GRAPH_CAPTURE = 2,
    /// The engine needs another installed library.
    HIPDNN_BEHAVIOR_NOTE_EXTERNAL_LIBRARY_DEPENDENCY = 3,
    /// Plans can be saved and loaded.
    HIPDNN_BEHAVIOR_NOTE_SUPPORTS_EXECUTION_PLAN_SERIALIZATION = 4,
    /// Number of notes named here.
    HIPDNN_BEHAVIOR_NOTE_TYPE_COUNT = 5,
};

#endif

#ifdef __cplusplus
}
#endif

#endif
