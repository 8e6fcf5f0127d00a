//! The plugin C ABI, under its C names.
//!
//! The C headers for plugin authors are generated from the files of this module by `cargo xtask generate`, so the text in
//! them is written for readers of C. Statuses, kinds and severities arrive from foreign code: what Rust passes and takes are
//! plain integers, and the enumerations in [`data_types`] are there for the headers.

#![expect(non_camel_case_types, reason = "the names of the C ABI")]

pub mod data_types;
pub mod engine_api_version;
pub mod engine_plugin_api;
pub mod heuristic_api_version;
pub mod heuristic_host;
pub mod heuristic_plugin_api;
pub mod plugin_api;

use std::ffi::{c_char, c_int, c_void};

use data_types::{
    hipdnnEnginePredictionKind_t as prediction, hipdnnPluginStatus_t as status, hipdnnPluginType_t as kind,
};
use hipdnn_abi::hipdnnSeverity_t as severity;

pub use data_types::{
    HipdnnEnginePluginExecutionContext, HipdnnEnginePluginHandle, hipdnnEnginePluginExecutionContext_t,
    hipdnnEnginePluginHandle_t, hipdnnHeuristicHandle_opaque, hipdnnHeuristicHandle_t,
    hipdnnHeuristicPolicyDescriptor_opaque, hipdnnHeuristicPolicyDescriptor_t, hipdnnPluginConstData_t,
    hipdnnPluginDeviceBuffer_t,
};
pub use heuristic_host::hipdnnHeuristicHostCallbacks_t;
pub use plugin_api::HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH;

/// What every plugin function answers: one of the `HIPDNN_PLUGIN_STATUS_*` values.
pub type hipdnnPluginStatus_t = c_int;
/// The call did what it was asked.
pub const HIPDNN_PLUGIN_STATUS_SUCCESS: hipdnnPluginStatus_t = status::HIPDNN_PLUGIN_STATUS_SUCCESS as c_int;
/// An argument is null or out of range.
pub const HIPDNN_PLUGIN_STATUS_BAD_PARAM: hipdnnPluginStatus_t =
    status::HIPDNN_PLUGIN_STATUS_BAD_PARAM as c_int;
/// A value inside an argument is not usable.
pub const HIPDNN_PLUGIN_STATUS_INVALID_VALUE: hipdnnPluginStatus_t =
    status::HIPDNN_PLUGIN_STATUS_INVALID_VALUE as c_int;
/// The plugin failed for a reason of its own.
pub const HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR: hipdnnPluginStatus_t =
    status::HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR as c_int;
/// Memory could not be had.
pub const HIPDNN_PLUGIN_STATUS_ALLOC_FAILED: hipdnnPluginStatus_t =
    status::HIPDNN_PLUGIN_STATUS_ALLOC_FAILED as c_int;
/// The question has no answer for this object, for instance the name of an unnamed engine.
pub const HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE: hipdnnPluginStatus_t =
    status::HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE as c_int;
/// Something that has to come first has not happened.
pub const HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED: hipdnnPluginStatus_t =
    status::HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED as c_int;

/// What a plugin library is: one of the `HIPDNN_PLUGIN_TYPE_*` values.
pub type hipdnnPluginType_t = c_int;
/// A library that says nothing of itself.
pub const HIPDNN_PLUGIN_TYPE_UNSPECIFIED: hipdnnPluginType_t = kind::HIPDNN_PLUGIN_TYPE_UNSPECIFIED as c_int;
/// A library with engines.
pub const HIPDNN_PLUGIN_TYPE_ENGINE: hipdnnPluginType_t = kind::HIPDNN_PLUGIN_TYPE_ENGINE as c_int;
/// A library with selection policies.
pub const HIPDNN_PLUGIN_TYPE_HEURISTIC: hipdnnPluginType_t = kind::HIPDNN_PLUGIN_TYPE_HEURISTIC as c_int;

/// What a prediction is of: one of the `HIPDNN_ENGINE_PREDICTION_*` values.
pub type hipdnnEnginePredictionKind_t = c_int;
/// An engine with its default knobs.
pub const HIPDNN_ENGINE_PREDICTION_ENGINE: hipdnnEnginePredictionKind_t =
    prediction::HIPDNN_ENGINE_PREDICTION_ENGINE as c_int;
/// The best configuration of an engine.
pub const HIPDNN_ENGINE_PREDICTION_CONFIGURATION: hipdnnEnginePredictionKind_t =
    prediction::HIPDNN_ENGINE_PREDICTION_CONFIGURATION as c_int;

/// How much a log line matters: one of the `HIPDNN_SEV_*` values.
pub type hipdnnSeverity_t = c_int;
/// What happens.
pub const HIPDNN_SEV_INFO: hipdnnSeverity_t = severity::HIPDNN_SEV_INFO as c_int;
/// What looks wrong and is survived.
pub const HIPDNN_SEV_WARN: hipdnnSeverity_t = severity::HIPDNN_SEV_WARN as c_int;
/// What failed.
pub const HIPDNN_SEV_ERROR: hipdnnSeverity_t = severity::HIPDNN_SEV_ERROR as c_int;
/// What ends the work.
pub const HIPDNN_SEV_FATAL: hipdnnSeverity_t = severity::HIPDNN_SEV_FATAL as c_int;
/// Nothing is logged.
pub const HIPDNN_SEV_OFF: hipdnnSeverity_t = severity::HIPDNN_SEV_OFF as c_int;

/// Where a plugin sends its log lines; `message` is a NUL terminated text that lives as long as the call.
pub type hipdnnCallback_t = Option<unsafe extern "C" fn(severity: hipdnnSeverity_t, message: *const c_char)>;

/// A HIP stream, never dereferenced here.
pub type hipStream_t = *mut c_void;
