//! The log, for other components.

use std::ffi::c_char;

use crate::ffi::raw;
use crate::log;

/// Writes a line of another component, a frontend or a plugin, to the library's log. With the log off, or `severity` below
/// its level, nothing is written.
///
/// @param[in] severity How serious the line is; numbers outside the enumeration count as HIPDNN_SEV_INFO, and
///     HIPDNN_SEV_OFF is dropped.
/// @param[in] msg The complete line, without a newline at its end. When it is null nothing happens.
///
/// # Safety
/// `msg` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnLoggingCallback_ext(severity: raw::hipdnnSeverity_t, msg: *const c_char) {
    // SAFETY: the caller vouches for the text.
    unsafe { log::plugin_callback(severity, msg) };
}
