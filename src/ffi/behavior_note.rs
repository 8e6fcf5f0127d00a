//! Behaviour notes of engines.
//!
//! A plugin SDK may bring the same types; both copies carry the guard `HIPDNN_BEHAVIOR_NOTE_TYPES_DEFINED`, so that
//! whichever comes first defines them.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// One note of `HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE`. In C the type is a plain `int32_t`, because a plugin may be newer
/// than its host and report a note that has no name here.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnBackendBehaviorNote_t {
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
}
