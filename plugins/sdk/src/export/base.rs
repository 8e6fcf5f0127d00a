//! The functions that plugins of every kind export.

use std::ffi::c_char;

use super::declaration::{Declaration, Describes};
use super::{guard, not_null, write};
use crate::error::PluginError;
use crate::ffi::{hipdnnCallback_t, hipdnnPluginStatus_t, hipdnnPluginType_t, hipdnnSeverity_t};
use crate::{last_error, log};

/// `hipdnnPluginGetName`: a text that lives as long as the library.
///
/// # Safety
/// `name` is null or valid for a write.
pub unsafe fn get_name<D: Describes>(name: *mut *const c_char) -> hipdnnPluginStatus_t {
    // SAFETY: `name` is null or valid for a write.
    unsafe { give("name", name, Declaration::<D>::NAME.as_ptr().cast()) }
}

/// `hipdnnPluginGetVersion`: a text that lives as long as the library.
///
/// # Safety
/// `version` is null or valid for a write.
pub unsafe fn get_version<D: Describes>(version: *mut *const c_char) -> hipdnnPluginStatus_t {
    // SAFETY: `version` is null or valid for a write.
    unsafe { give("version", version, Declaration::<D>::VERSION.as_ptr().cast()) }
}

/// `hipdnnPluginGetApiVersion`: a text that lives as long as the library.
///
/// # Safety
/// `version` is null or valid for a write.
pub unsafe fn get_api_version<D: Describes>(version: *mut *const c_char) -> hipdnnPluginStatus_t {
    // SAFETY: `version` is null or valid for a write.
    unsafe { give("version", version, Declaration::<D>::API_VERSION.as_ptr().cast()) }
}

/// `hipdnnPluginGetType`: what the library is.
///
/// # Safety
/// `kind` is null or valid for a write.
pub unsafe fn get_type<D: Describes>(kind: *mut hipdnnPluginType_t) -> hipdnnPluginStatus_t {
    // SAFETY: `kind` is null or valid for a write.
    unsafe { give("type", kind, D::KIND) }
}

/// `hipdnnPluginGetLastErrorString`: this thread's text, which stays until the next failure on this thread.
///
/// # Safety
/// `error_str` is null or valid for a write.
pub unsafe fn get_last_error_string(error_str: *mut *const c_char) {
    if !error_str.is_null() {
        // SAFETY: `error_str` is not null, so it is valid for a write.
        unsafe { write(error_str, last_error::get()) };
    }
}

/// `hipdnnPluginSetLoggingCallback`: sends log lines to this callback from now on; null disables them.
///
/// # Safety
/// The callback may be called from any thread until another one is set or the library is closed.
pub unsafe fn set_logging_callback<D: Describes>(callback: hipdnnCallback_t) -> hipdnnPluginStatus_t {
    guard(|| {
        log::set_callback(D::NAME, callback);
        Ok(())
    })
}

/// `hipdnnPluginSetLogLevel`: drops lines below this severity from now on.
///
/// # Safety
/// The signature is that of its neighbours; any severity is taken.
pub unsafe fn set_log_level<D: Describes>(level: hipdnnSeverity_t) -> hipdnnPluginStatus_t {
    guard(|| match log::set_level(level) {
        true => Ok(()),
        false => Err(PluginError::bad_param(format!("level is {level}, expected 0 (info) to 4 (off)"))),
    })
}

/// Writes a value to an output that may be null.
///
/// # Safety
/// `output` is null or valid for a write.
unsafe fn give<T>(argument: &str, output: *mut T, value: T) -> hipdnnPluginStatus_t {
    guard(|| {
        not_null(argument, output)?;
        // SAFETY: `output` is not null, so it is valid for a write.
        unsafe { write(output, value) };
        Ok(())
    })
}
