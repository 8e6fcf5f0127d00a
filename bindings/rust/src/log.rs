//! What the library and its plugins log, line by line.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;

use crate::Backend;
use crate::constants::{HIPDNN_LOG_CALLBACK_SYNC, HIPDNN_SEV_INFO, HIPDNN_SEV_OFF, HIPDNN_STATUS_SUCCESS};

/// Lines that were logged.
type Lines = Mutex<Vec<String>>;

unsafe extern "C" fn keep(lines: *mut c_void, _: c_int, line: *const c_char) {
    if lines.is_null() || line.is_null() {
        return;
    }
    // SAFETY: the library passes back what `listen` gave it, which lives until the callback is removed, and a text that
    // ends with a NUL.
    let (lines, line) = unsafe { (&*lines.cast::<Lines>(), CStr::from_ptr(line)) };
    if let Ok(mut lines) = lines.lock() {
        lines.push(line.to_string_lossy().into_owned());
    }
}

/// Runs `f` and answers what was logged meanwhile as well, at every level. Nothing is heard of a library without user log
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
    // SAFETY: the output is valid; `lines` lives until the callback is removed below.
    let heard = unsafe {
        get_level(&raw mut level);
        let status = set_callback(Some(keep), HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, user);
        set_level(HIPDNN_SEV_INFO);
        status == HIPDNN_STATUS_SUCCESS
    };
    // Also where `f` panics: the lines are gone then.
    struct Restore<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Restore<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let restore = Restore(|| {
        // SAFETY: once it is removed, the callback is not called any more.
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
