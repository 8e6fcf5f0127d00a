//! The types of the plugin interface.

use std::ffi::c_void;

/// What a plugin function answers. A host takes any other number for a failure of an unknown kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hipdnnPluginStatus_t {
    /// The call did what it was asked. Outputs are written on this answer only.
    HIPDNN_PLUGIN_STATUS_SUCCESS = 0,
    /// An argument is null or out of range.
    HIPDNN_PLUGIN_STATUS_BAD_PARAM = 1,
    /// A value inside an argument is not usable.
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE = 2,
    /// The plugin failed for a reason of its own.
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR = 3,
    /// Memory could not be had.
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED = 4,
    /// The question has no answer for this object, for instance the name of an unnamed engine.
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE = 5,
    /// Something that has to come first has not happened.
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED = 6,
}

/// What a plugin library is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hipdnnPluginType_t {
    /// A library that says nothing of itself; no host loads it.
    HIPDNN_PLUGIN_TYPE_UNSPECIFIED = 0,
    /// A library with engines.
    HIPDNN_PLUGIN_TYPE_ENGINE = 1,
    /// A library with selection policies.
    HIPDNN_PLUGIN_TYPE_HEURISTIC = 2,
}

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
    /// Where its first element lies. May be null.
    pub ptr: *mut c_void,
}

/// What a `hipdnnEnginePluginHandle_t` points to: the plugin's own, which may define a struct of this name.
#[derive(Debug)]
pub struct HipdnnEnginePluginHandle {
    _private: [u8; 0],
}

/// A plugin's state for one handle of the host.
pub type hipdnnEnginePluginHandle_t = *mut HipdnnEnginePluginHandle;

/// What a `hipdnnEnginePluginExecutionContext_t` points to: the plugin's own, which may define a struct of this name.
#[derive(Debug)]
pub struct HipdnnEnginePluginExecutionContext {
    _private: [u8; 0],
}

/// A graph made ready for one engine with one configuration.
pub type hipdnnEnginePluginExecutionContext_t = *mut HipdnnEnginePluginExecutionContext;

/// What a `hipdnnHeuristicHandle_t` points to: the plugin's own, which may define a struct of this name.
#[derive(Debug)]
pub struct HipdnnHeuristicHandle {
    _private: [u8; 0],
}

/// A heuristic plugin's state for one handle of the host.
pub type hipdnnHeuristicHandle_t = *mut HipdnnHeuristicHandle;

/// What a `hipdnnHeuristicPolicyDescriptor_t` points to: the plugin's own, which may define a struct of this name.
#[derive(Debug)]
pub struct HipdnnHeuristicPolicyDescriptor {
    _private: [u8; 0],
}

/// One choice among engines by one policy.
pub type hipdnnHeuristicPolicyDescriptor_t = *mut HipdnnHeuristicPolicyDescriptor;
