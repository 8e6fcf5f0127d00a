//! How attention is implemented.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnAttentionImplementation_t {
    /// The engine's choice.
    HIPDNN_ATTENTION_IMPLEMENTATION_AUTO_EXT = 0,
    /// From separate operations.
    HIPDNN_ATTENTION_IMPLEMENTATION_COMPOSITE_EXT = 1,
    /// As one operation.
    HIPDNN_ATTENTION_IMPLEMENTATION_UNIFIED_EXT = 2,
}
