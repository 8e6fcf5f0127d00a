//! The version of the engine plugin interface.
//!
//! Hosts load only plugins of their own major version. A graph that needs a newer version than a plugin's is not
//! offered to the plugin.

use std::ffi::CStr;

/// Incompatible changes.
pub const HIPDNN_ENGINE_API_VERSION_MAJOR: u32 = 1;
/// Additions.
pub const HIPDNN_ENGINE_API_VERSION_MINOR: u32 = 0;
/// Fixes.
pub const HIPDNN_ENGINE_API_VERSION_PATCH: u32 = 0;
/// The result of `hipdnnPluginGetApiVersion`.
pub const HIPDNN_ENGINE_API_VERSION: &CStr = c"1.0.0";
