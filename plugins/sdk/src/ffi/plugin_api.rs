//! The functions that every plugin exports, whatever its kind.
//!
//! A host may call from several threads at once. Every function with a status keeps, on failure, a text for the calling
//! thread, which `hipdnnPluginGetLastErrorString` hands out. No exception may leave a function.

use std::ffi::c_char;

use super::{hipdnnCallback_t, hipdnnPluginStatus_t, hipdnnPluginType_t, hipdnnSeverity_t};

/// The longest error text that a host keeps, with its NUL.
pub const HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH: usize = 2048;

unsafe extern "C" {
    /// Required. The plugin's name: NUL terminated UTF-8 that lives as long as the library is loaded.
    pub fn hipdnnPluginGetName(name: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// Required. The plugin's own version, as text that lives as long as the library is loaded.
    pub fn hipdnnPluginGetVersion(version: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// The version of the plugin interface that the plugin was built for, HIPDNN_ENGINE_API_VERSION for an engine plugin.
    /// A plugin without this function is taken for one of November 2025: it is given graphs in the layout of that time,
    /// and only those that this layout can express.
    pub fn hipdnnPluginGetApiVersion(version: *mut *const c_char) -> hipdnnPluginStatus_t;

    /// Required. What the library is.
    pub fn hipdnnPluginGetType(r#type: *mut hipdnnPluginType_t) -> hipdnnPluginStatus_t;

    /// Required. Why the last failed call of this thread failed: NUL terminated UTF-8 of at most
    /// HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH bytes. It lives until this thread's next call. A null argument does nothing.
    pub fn hipdnnPluginGetLastErrorString(error_str: *mut *const c_char);

    /// Optional. Where log lines go from now on; null for nowhere. The callback may be called from any thread. The host
    /// adds nothing to a line but its end. Lines sent while the host asks which engines apply are shown to the user as the
    /// reasons when none does.
    pub fn hipdnnPluginSetLoggingCallback(callback: hipdnnCallback_t) -> hipdnnPluginStatus_t;

    /// Optional. Lines below this severity are not wanted from now on. The host also filters by itself.
    pub fn hipdnnPluginSetLogLevel(level: hipdnnSeverity_t) -> hipdnnPluginStatus_t;
}
