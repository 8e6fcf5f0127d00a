//! The log of the library and its plugins, line by line.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;

use ::log::{Level, LevelFilter};

use crate::constants::{
    HIPDNN_LOG_CALLBACK_ASYNC, HIPDNN_LOG_CALLBACK_SYNC, HIPDNN_SEV_ERROR, HIPDNN_SEV_INFO, HIPDNN_SEV_OFF,
    HIPDNN_SEV_WARN, HIPDNN_STATUS_SUCCESS,
};
use crate::functions::Functions;
use crate::{Backend, Result};

/// Collected lines.
type Lines = Mutex<Vec<String>>;

/// # Safety
/// `lines` is null or `Lines` that are alive, and `line` null or a text that ends with a NUL.
unsafe extern "C" fn keep(lines: *mut c_void, _: c_int, line: *const c_char) {
    if lines.is_null() || line.is_null() {
        return;
    }
    // SAFETY: the library passes back `listen`'s data, which lives until the callback is removed, and a string that
    // ends with a NUL.
    let (lines, line) = unsafe { (&*lines.cast::<Lines>(), CStr::from_ptr(line)) };
    if let Ok(mut lines) = lines.lock() {
        lines.push(line.to_string_lossy().into_owned());
    }
}

/// Runs `f` and also returns what was logged meanwhile, at every level. Collects nothing if the library lacks user log
/// callbacks.
pub fn listen<R>(backend: &Backend, f: impl FnOnce() -> R) -> (R, Vec<String>) {
    let functions = &backend.functions;
    let (Ok(set_callback), Ok(set_level), Ok(get_level)) = (
        functions.hipdnnSetUserLogCallback_ext(),
        functions.hipdnnBackendSetGlobalLogLevel_ext(),
        functions.hipdnnBackendGetGlobalLogLevel_ext(),
    ) else {
        return (f(), Vec::new());
    };
    let lines = Lines::default();
    let user = (&raw const lines).cast::<c_void>().cast_mut();
    let mut level = HIPDNN_SEV_OFF;
    // SAFETY: the function writes only to the local `level`; `lines` lives until the callback is removed below.
    let heard = unsafe {
        get_level(&raw mut level);
        let status = set_callback(Some(keep), HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, user);
        set_level(HIPDNN_SEV_INFO);
        status == HIPDNN_STATUS_SUCCESS
    };
    // Even if `f` panics: the lines are dropped then.
    struct Restore<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Restore<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let restore = Restore(|| {
        // SAFETY: a removed callback is never called again.
        unsafe {
            set_level(level);
            if heard {
                set_callback(Some(keep), HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, user);
            }
        }
    });
    let result = f();
    drop(restore);
    let lines = lines.into_inner().unwrap_or_default();
    (result, lines)
}

/// The target of records made by [`forward_log`].
static TARGET: &str = "hipdnn";

/// The address that identifies the callback to the library; never dereferenced.
fn user() -> *mut c_void {
    (&raw const TARGET).cast_mut().cast()
}

/// # Safety
/// `line` is null or a text that ends with a NUL.
unsafe extern "C" fn record(_: *mut c_void, severity: c_int, line: *const c_char) {
    if line.is_null() {
        return;
    }
    // SAFETY: the library passes a string that ends with a NUL and lives during the call.
    let line = unsafe { CStr::from_ptr(line) }.to_string_lossy();
    let level = match severity {
        HIPDNN_SEV_INFO => Level::Info,
        HIPDNN_SEV_WARN => Level::Warn,
        _ => Level::Error,
    };
    ::log::log!(target: TARGET, level, "{}", line.trim_end());
}

/// While this lives, lines of the library's log become records of the crate `log`. See [`forward_log`].
pub struct ForwardedLog<'a> {
    functions: &'a Functions,
    /// The library's previous level.
    level: c_int,
}

/// Forwards each line that the library and its plugins log from now on to the crate `log`, with the target `hipdnn`, until the
/// result is dropped.
///
/// Sets the library's log level to match `level`: `Debug` and `Trace` request no more than `Info`. The level is
/// process-wide, so forward the log only once per program.
///
/// # Threads
/// A thread of the library makes the records, some time after the line was logged. So a logger may use thread-local storage and
/// locks, and may call this library.
///
/// # Errors
/// If the library lacks user log callbacks (before 2026), and the library's own.
pub fn forward_log(backend: &Backend, level: LevelFilter) -> Result<ForwardedLog<'_>> {
    let functions = &backend.functions;
    let set_callback = functions.hipdnnSetUserLogCallback_ext()?;
    let set_level = functions.hipdnnBackendSetGlobalLogLevel_ext()?;
    let get_level = functions.hipdnnBackendGetGlobalLogLevel_ext()?;
    let severity = match level {
        LevelFilter::Off => HIPDNN_SEV_OFF,
        LevelFilter::Error => HIPDNN_SEV_ERROR,
        LevelFilter::Warn => HIPDNN_SEV_WARN,
        LevelFilter::Info | LevelFilter::Debug | LevelFilter::Trace => HIPDNN_SEV_INFO,
    };
    let mut before = HIPDNN_SEV_OFF;
    // SAFETY: the function writes only to the local `before`, and the callback is a function of this crate, which uses no user data.
    let status = unsafe {
        get_level(&raw mut before);
        set_callback(Some(record), severity, HIPDNN_LOG_CALLBACK_ASYNC, user())
    };
    backend.check("hipdnnSetUserLogCallback_ext", status)?;
    // SAFETY: the level is one of the library's.
    unsafe { set_level(severity) };
    Ok(ForwardedLog { functions, level: before })
}

impl Drop for ForwardedLog<'_> {
    fn drop(&mut self) {
        let set = (
            self.functions.hipdnnSetUserLogCallback_ext(),
            self.functions.hipdnnBackendSetGlobalLogLevel_ext(),
        );
        if let (Ok(set_callback), Ok(set_level)) = set {
            // SAFETY: a removed callback is never called again.
            unsafe {
                set_level(self.level);
                set_callback(Some(record), HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_ASYNC, user());
            }
        }
    }
}
