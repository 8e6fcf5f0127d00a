//! The types of the engine plugin C ABI, under their C names.
//!
//! Statuses and kinds arrive from foreign code, so they are plain integers here and never Rust enums.

#![expect(non_camel_case_types, reason = "the names of the C ABI")]

use std::ffi::{c_char, c_int, c_void};

/// What every plugin function answers: one of the `HIPDNN_PLUGIN_STATUS_*` values.
pub type hipdnnPluginStatus_t = c_int;
/// The call did what it was asked.
pub const HIPDNN_PLUGIN_STATUS_SUCCESS: hipdnnPluginStatus_t = 0;
/// An argument is null or out of range.
pub const HIPDNN_PLUGIN_STATUS_BAD_PARAM: hipdnnPluginStatus_t = 1;
/// A value inside an argument is not usable.
pub const HIPDNN_PLUGIN_STATUS_INVALID_VALUE: hipdnnPluginStatus_t = 2;
/// The plugin failed for a reason of its own.
pub const HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR: hipdnnPluginStatus_t = 3;
/// Memory could not be had.
pub const HIPDNN_PLUGIN_STATUS_ALLOC_FAILED: hipdnnPluginStatus_t = 4;
/// The question has no answer for this object, for instance the name of an unnamed engine.
pub const HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE: hipdnnPluginStatus_t = 5;
/// Something that has to come first has not happened.
pub const HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED: hipdnnPluginStatus_t = 6;

/// What a plugin library is: one of the `HIPDNN_PLUGIN_TYPE_*` values.
pub type hipdnnPluginType_t = c_int;
/// A library that says nothing of itself.
pub const HIPDNN_PLUGIN_TYPE_UNSPECIFIED: hipdnnPluginType_t = 0;
/// A library with engines.
pub const HIPDNN_PLUGIN_TYPE_ENGINE: hipdnnPluginType_t = 1;
/// A library with selection policies.
pub const HIPDNN_PLUGIN_TYPE_HEURISTIC: hipdnnPluginType_t = 2;

/// How much a log line matters: one of the `HIPDNN_SEV_*` values.
pub type hipdnnSeverity_t = c_int;
/// What happens.
pub const HIPDNN_SEV_INFO: hipdnnSeverity_t = 0;
/// What looks wrong and is survived.
pub const HIPDNN_SEV_WARN: hipdnnSeverity_t = 1;
/// What failed.
pub const HIPDNN_SEV_ERROR: hipdnnSeverity_t = 2;
/// What ends the work.
pub const HIPDNN_SEV_FATAL: hipdnnSeverity_t = 3;
/// Nothing is logged.
pub const HIPDNN_SEV_OFF: hipdnnSeverity_t = 4;

/// Where a plugin sends its log lines; `message` is a NUL terminated text that lives as long as the call.
pub type hipdnnCallback_t = Option<unsafe extern "C" fn(severity: hipdnnSeverity_t, message: *const c_char)>;

/// Longest error text that a host keeps, with its NUL.
pub const HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH: usize = 2048;

/// Bytes that the other side owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnPluginConstData_t {
    /// The first byte.
    pub ptr: *const c_void,
    /// The number of bytes.
    pub size: usize,
}

/// A tensor's memory at execution.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnPluginDeviceBuffer_t {
    /// The tensor's unique id in the graph.
    pub uid: i64,
    /// Where its first element lies.
    pub ptr: *mut c_void,
}

/// A plugin's own state for one backend handle; only the plugin knows what it points to.
pub type hipdnnEnginePluginHandle_t = *mut c_void;
/// A plugin's compiled form of one graph for one engine configuration.
pub type hipdnnEnginePluginExecutionContext_t = *mut c_void;
/// A HIP stream, never dereferenced here.
pub type hipStream_t = *mut c_void;
