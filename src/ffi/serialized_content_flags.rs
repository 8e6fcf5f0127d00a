//! What a serialized blob holds.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// Bits that are combined by OR.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnSerializedContentFlags_t {
    /// An operation graph.
    HIPDNN_SERIALIZED_CONTENT_GRAPH = 1,
    /// An execution plan.
    HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN = 2,
}
