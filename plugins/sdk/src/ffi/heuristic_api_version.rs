//! The version of the heuristic plugin interface.
//!
//! Hosts load only heuristic plugins of their own major version. It is independent of the engine plugin interface's
//! version.

use std::ffi::CStr;

/// Incompatible changes.
pub const HIPDNN_HEURISTIC_API_VERSION_MAJOR: u32 = 0;
/// Additions.
pub const HIPDNN_HEURISTIC_API_VERSION_MINOR: u32 = 1;
/// Fixes.
pub const HIPDNN_HEURISTIC_API_VERSION_PATCH: u32 = 0;
/// The result of `hipdnnPluginGetApiVersion`.
pub const HIPDNN_HEURISTIC_API_VERSION: &CStr = c"0.1.0";
