//! Access to the log for other components.

use std::ffi::c_char;

use super::guard::{begin, guard};
use crate::ffi::{
    CEnum, hipdnnLogCallbackMode_t, hipdnnSeverity_t, hipdnnUserLogCallback_t, hipdnnUserLogCallbackHandle_t,
    raw,
};
use crate::log;
use crate::log::receiver::{self, Key};
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
    begin();
    // SAFETY: `msg` is null or a NUL terminated text.
    unsafe { log::plugin_callback(severity, msg) };
}

/// Sets a callback that receives the log's lines, changes its settings, or removes it. The lines are still written to the
/// log, and callbacks receive only those at or above the log's own level.
///
/// `callback` and `userHandle` together identify a registration: setting the same pair again changes `minLevel` and `mode`,
/// another pair adds a registration. HIPDNN_SEV_OFF removes it: once this function has returned, the callback is not
/// called any more, and lines waiting for it are dropped. (If removed from within a callback, it may still be running on
/// another thread.)
///
/// A callback may call any function of this library; callbacks do not receive lines that its thread logs meanwhile.
/// It must not leave by longjmp. A C++ exception that leaves it is dropped.
///
/// @param[in] callback The function. Its message ends with a NUL and lives during the call only.
/// @param[in] minLevel The lowest severity of the lines it receives; HIPDNN_SEV_OFF removes it.
/// @param[in] mode HIPDNN_LOG_CALLBACK_SYNC: called on the thread that logs, possibly on several at once.
///     HIPDNN_LOG_CALLBACK_ASYNC: called on one thread of the library, in the order of the lines. Up to 8192 lines are
///     queued; a thread that logs one more waits for room.
/// @param[in] userHandle Passed to the callback, not null. It must live until the callback is removed.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `callback` or `userHandle` is null, `minLevel` or `mode` is not an enumerator, or
///     the registration to remove does not exist.
///
/// # Safety
/// `callback` is null or a function of this type, which may be called from any thread until it is removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnSetUserLogCallback_ext(
    callback: hipdnnUserLogCallback_t,
    minLevel: raw::hipdnnSeverity_t,
    mode: raw::hipdnnLogCallbackMode_t,
    userHandle: hipdnnUserLogCallbackHandle_t,
) -> raw::hipdnnStatus_t {
    guard(
        "hipdnnSetUserLogCallback_ext",
        move || format!("minLevel={minLevel}, mode={mode}, userHandle={userHandle:p}"),
        || {
            let callback = callback.ok_or_else(|| Error::bad_param("callback is null"))?;
            if userHandle.is_null() {
                return Err(Error::bad_param("userHandle is null"));
            }
            let level = hipdnnSeverity_t::from_raw(minLevel).ok_or_else(|| {
                Error::bad_param(format!("minLevel is {minLevel}, expected a hipdnnSeverity_t, 0 to 4"))
            })?;
            let mode = hipdnnLogCallbackMode_t::from_raw(mode).ok_or_else(|| {
                Error::bad_param(format!("mode is {mode}, expected a hipdnnLogCallbackMode_t, 0 or 1"))
            })?;
            receiver::set(Key::new(callback, userHandle), level, mode)
        },
    )
}

/// Sets the lowest severity that is logged, here and in loaded plugins, overriding HIPDNN_LOG_LEVEL.
///
/// @param[in] level The lowest severity, HIPDNN_SEV_OFF for no log.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when `level` is not one of the five severities.
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

/// Gets the lowest severity that is logged.
///
/// @param[out] level Receives the severity.
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
            // The interface defines BAD_PARAM for this null output, unlike for all others.
            if level.is_null() {
                return Err(Error::bad_param("level is null"));
            }
            // SAFETY: `level` is not null here, and this function requires that it is writable otherwise.
            unsafe { level.write_unaligned(log::level()) };
            Ok(())
        },
    )
}
