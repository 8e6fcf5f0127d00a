//! The functions that plugins of every kind export.
//!
//! A host may call them from several threads concurrently. On failure, every function with a status stores a text for
//! the calling thread, which `hipdnnPluginGetLastErrorString` returns. No exception may leave a function.

use std::ffi::c_char;

use super::{hipdnnCallback_t, hipdnnPluginStatus_t, hipdnnPluginType_t, hipdnnSeverity_t};

/// Maximum length of an error text that a host keeps, including its NUL.
pub const HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH: usize = 2048;

unsafe extern "C" {
    /// Required. The plugin's name: NUL-terminated UTF-8 that is valid while the library is loaded.
    pub fn hipdnnPluginGetName(name: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// Required. The plugin's own version, as text that is valid while the library is loaded.
    pub fn hipdnnPluginGetVersion(version: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// The version of the plugin interface that the plugin was built for, HIPDNN_ENGINE_API_VERSION for an engine
    /// plugin. Plugins without this function are treated as those of November 2025: they only get graphs that the
    /// layout of that time can express, in that layout.
    pub fn hipdnnPluginGetApiVersion(version: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// Required. The kind of plugin.
    pub fn hipdnnPluginGetType(r#type: *mut hipdnnPluginType_t) -> hipdnnPluginStatus_t;

    /// Required. Why the last failed call of this thread failed: NUL-terminated UTF-8 of at most
    /// HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH bytes, valid until this thread's next call. A null argument is ignored.
    pub fn hipdnnPluginGetLastErrorString(error_str: *mut *const c_char);

    /// Optional. Sets the callback for log lines; null disables them. The callback may be called from any thread. The
    /// host only appends a line end. Lines sent while the host queries applicable engines are shown to the user as
    /// the reasons if no engine applies.
    pub fn hipdnnPluginSetLoggingCallback(callback: hipdnnCallback_t) -> hipdnnPluginStatus_t;

    /// Optional. Sets the minimum severity of log lines. The host filters, too.
    pub fn hipdnnPluginSetLogLevel(level: hipdnnSeverity_t) -> hipdnnPluginStatus_t;
}
