//! The log, for other components.

use std::ffi::c_char;

use super::guard::guard;
use crate::ffi::{CEnum, hipdnnSeverity_t, raw};
use crate::log;
use crate::plugin::registry;
use crate::status::Error;

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

/// Sets the lowest severity that is logged, here and in the plugins that are loaded, in place of HIPDNN_LOG_LEVEL.
///
/// @param[in] level The lowest severity, HIPDNN_SEV_OFF for no log.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `level` is none of the five severities.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnBackendSetGlobalLogLevel_ext(level: raw::hipdnnSeverity_t) -> raw::hipdnnStatus_t {
    guard(
        "hipdnnBackendSetGlobalLogLevel_ext",
        move || format!("level={level}"),
        || {
            let severity = hipdnnSeverity_t::from_raw(level).ok_or_else(|| {
                Error::bad_param(format!("level is {level}, expected a hipdnnSeverity_t, 0 to 4"))
            })?;
            log::set_level(severity);
            registry::tell_log_level();
            Ok(())
        },
    )
}

/// Gives the lowest severity that is logged.
///
/// @param[out] level Where it goes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `level` is null.
///
/// # Safety
/// `level` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetGlobalLogLevel_ext(
    level: *mut raw::hipdnnSeverity_t,
) -> raw::hipdnnStatus_t {
    guard(
        "hipdnnBackendGetGlobalLogLevel_ext",
        move || format!("level={level:p}"),
        || {
            // The one output whose null pointer is BAD_PARAM: so the interface says.
            if level.is_null() {
                return Err(Error::bad_param("level is null"));
            }
            // SAFETY: the pointer is writable.
            unsafe { level.write_unaligned(log::level()) };
            Ok(())
        },
    )
}
