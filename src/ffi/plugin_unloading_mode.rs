//! When plugins are unloaded.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// When plugins that no handle uses are unloaded.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnPluginUnloadingMode_ext_t {
    /// At process exit, or when engine paths are set.
    HIPDNN_PLUGIN_UNLOAD_LAZY = 0,
    /// With the last handle.
    HIPDNN_PLUGIN_UNLOAD_EAGER = 1,
}
