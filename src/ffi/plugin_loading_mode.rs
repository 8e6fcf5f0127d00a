//! How a program's plugin paths combine with the default ones.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The mode of `hipdnnSetEnginePluginPaths_ext`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnPluginLoadingMode_ext_t {
    /// The paths are searched in addition to the default ones.
    HIPDNN_PLUGIN_LOADING_ADDITIVE = 0,
    /// The paths are searched instead of all others.
    HIPDNN_PLUGIN_LOADING_ABSOLUTE = 1,
}
