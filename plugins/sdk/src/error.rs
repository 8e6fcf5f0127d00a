//! Errors and refusals of plugins.

use std::borrow::Cow;
use std::fmt;

use crate::ffi::{
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, HIPDNN_PLUGIN_STATUS_BAD_PARAM, HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR,
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE,
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED, hipdnnPluginStatus_t,
};
use crate::graph::GraphError;

/// Why an engine declines a graph: the first unsupported feature, in readable text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    /// A refusal with this reason.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

impl From<GraphError> for Refusal {
    fn from(error: GraphError) -> Self {
        Self::new(error.0)
    }
}

/// A call that failed: the status that the host gets and the text that explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginError {
    status: hipdnnPluginStatus_t,
    message: Cow<'static, str>,
}

/// One constructor per status, so that an error can never carry the success status.
macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident = $status:ident;)+) => {
        impl PluginError {
            $(
                $(#[$doc])*
                pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
                    Self { status: $status, message: message.into() }
                }
            )+
        }
    };
}

constructors! {
    /// An argument is null or out of range.
    bad_param = HIPDNN_PLUGIN_STATUS_BAD_PARAM;
    /// A value inside an argument is not usable.
    invalid_value = HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
    /// An internal failure of the plugin.
    internal = HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
    /// Memory could not be allocated.
    alloc_failed = HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
    /// The engine does not compute this graph.
    not_applicable = HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    /// A prerequisite step was skipped.
    not_initialized = HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED;
}

impl PluginError {
    /// The status, never success.
    pub fn status(&self) -> hipdnnPluginStatus_t {
        self.status
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same status with a text derived from this one.
    pub fn with_context(self, text: impl FnOnce(String) -> String) -> Self {
        Self { status: self.status, message: text(self.message.into_owned()).into() }
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PluginError {}

impl From<Refusal> for PluginError {
    fn from(refusal: Refusal) -> Self {
        Self::not_applicable(refusal.0)
    }
}

impl From<GraphError> for PluginError {
    fn from(error: GraphError) -> Self {
        Self::invalid_value(error.0)
    }
}
