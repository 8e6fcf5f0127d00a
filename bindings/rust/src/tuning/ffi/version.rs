//! The version of the tuning plugin interface.
//!
//! A host loads tuning plugins of its own major version. It is another number than those of the other interfaces.

use std::ffi::CStr;

/// Changes that break.
pub const HIPDNN_TUNING_API_VERSION_MAJOR: u32 = 0;
/// Additions.
pub const HIPDNN_TUNING_API_VERSION_MINOR: u32 = 1;
/// Corrections.
pub const HIPDNN_TUNING_API_VERSION_PATCH: u32 = 0;
/// What `hipdnnPluginGetApiVersion` answers.
pub const HIPDNN_TUNING_API_VERSION: &CStr = c"0.1.0";
