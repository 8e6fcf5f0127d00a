//! The types of the plugin interface.

use std::ffi::c_void;

/// Result of a plugin function. Hosts treat any other number as an unknown failure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hipdnnPluginStatus_t {
    /// The call succeeded. Outputs are written only in this case.
    HIPDNN_PLUGIN_STATUS_SUCCESS = 0,
    /// An argument is null or out of range.
    HIPDNN_PLUGIN_STATUS_BAD_PARAM = 1,
    /// A value inside an argument is invalid.
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE = 2,
    /// An internal failure of the plugin.
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR = 3,
    /// Memory could not be allocated.
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED = 4,
    /// The query does not apply to this object, for instance the name of an unnamed engine.
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE = 5,
    /// A prerequisite call is missing.
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED = 6,
}

/// The kind of a plugin library.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hipdnnPluginType_t {
    /// An undeclared kind; hosts do not load such libraries.
    HIPDNN_PLUGIN_TYPE_UNSPECIFIED = 0,
    /// A library with engines.
    HIPDNN_PLUGIN_TYPE_ENGINE = 1,
    /// A library with selection policies.
    HIPDNN_PLUGIN_TYPE_HEURISTIC = 2,
}

/// Bytes owned by the other side.
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
    /// Address of its first element. May be null.
    pub ptr: *mut c_void,
}

/// The target of a `hipdnnEnginePluginHandle_t`: opaque to the host; the plugin may define a struct of this name.
#[derive(Debug)]
pub struct HipdnnEnginePluginHandle {
    _private: [u8; 0],
}

/// A plugin's state for one handle of the host.
pub type hipdnnEnginePluginHandle_t = *mut HipdnnEnginePluginHandle;

/// The target of a `hipdnnEnginePluginExecutionContext_t`: opaque to the host; the plugin may define a struct of this
/// name.
#[derive(Debug)]
pub struct HipdnnEnginePluginExecutionContext {
    _private: [u8; 0],
}

/// A graph prepared for one engine and configuration.
pub type hipdnnEnginePluginExecutionContext_t = *mut HipdnnEnginePluginExecutionContext;

/// What a prediction is of.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hipdnnEnginePredictionKind_t {
    /// An engine with its default knobs.
    HIPDNN_ENGINE_PREDICTION_ENGINE = 0,
    /// The best configuration of an engine, which the prediction names.
    HIPDNN_ENGINE_PREDICTION_CONFIGURATION = 1,
}

/// The target of a `hipdnnHeuristicHandle_t`: opaque to the host; the plugin may define a struct of this name.
#[derive(Debug)]
pub struct hipdnnHeuristicHandle_opaque {
    _private: [u8; 0],
}

/// A heuristic plugin's state for one handle of the host.
pub type hipdnnHeuristicHandle_t = *mut hipdnnHeuristicHandle_opaque;

/// The target of a `hipdnnHeuristicPolicyDescriptor_t`: opaque to the host; the plugin may define a struct of this
/// name.
#[derive(Debug)]
pub struct hipdnnHeuristicPolicyDescriptor_opaque {
    _private: [u8; 0],
}

/// One choice among engines by one policy.
pub type hipdnnHeuristicPolicyDescriptor_t = *mut hipdnnHeuristicPolicyDescriptor_opaque;
