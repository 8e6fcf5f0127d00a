//! The version of the engine plugin interface.
//!
//! A host loads plugins of its own major version. A graph that needs something younger than a plugin's version is not offered
//! to the plugin.

use std::ffi::CStr;

/// Changes that break.
pub const HIPDNN_ENGINE_API_VERSION_MAJOR: u32 = 1;
/// Additions.
pub const HIPDNN_ENGINE_API_VERSION_MINOR: u32 = 0;
/// Corrections.
pub const HIPDNN_ENGINE_API_VERSION_PATCH: u32 = 0;
/// What `hipdnnPluginGetApiVersion` answers.
pub const HIPDNN_ENGINE_API_VERSION: &CStr = c"1.0.0";
