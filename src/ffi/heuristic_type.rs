//! How engines are ranked.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The mode of an engine heuristic.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnBackendHeurMode_t {
    /// Every engine that can run the graph, in the library's order. The only mode.
    HIPDNN_HEUR_MODE_FALLBACK = 0,
}
