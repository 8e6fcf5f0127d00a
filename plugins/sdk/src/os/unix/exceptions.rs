//! Exceptions as defined by the unwinder of the Itanium C++ ABI.

use std::ffi::{c_int, c_void};

// Constants of the Itanium C++ ABI for exception handling.
const SEARCH_PHASE: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCED: c_int = 8;
const FATAL: c_int = 3;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE: c_int = 8;

/// The header of every exception; the runtime's own data follows.
#[repr(C)]
pub struct Exception {
    /// Vendor and language, as eight letters.
    pub class: u64,
    /// Called by foreign runtimes to destroy it.
    pub cleanup: Option<unsafe extern "C" fn(c_int, *mut Exception)>,
}

unsafe extern "C" {
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_DeleteException(exception: *mut Exception);
}

/// The body of a personality routine whose frame continues at `landing`, with the exception in the result
/// register.
///
/// # Safety
/// All arguments but the last are the unwinder's, for a frame that may continue at `landing`.
pub unsafe fn stop(
    version: c_int,
    actions: c_int,
    exception: *mut Exception,
    context: *mut c_void,
    landing: *const (),
) -> c_int {
    if version != 1 {
        return FATAL;
    }
    if actions & FORCED != 0 {
        return CONTINUE;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE;
    }
    // SAFETY: the unwinder passes its own context, of the frame whose table named this function. Register 0 is the one
    // that the landing pad takes the exception from.
    unsafe {
        _Unwind_SetGR(context, 0, exception.expose_provenance());
        _Unwind_SetIP(context, landing as usize);
    }
    INSTALL_CONTEXT
}

/// Destroys an exception of an unknown runtime.
///
/// # Safety
/// The unwinder handed the exception over, and nothing else destroys it.
pub unsafe fn delete(exception: *mut Exception) {
    // SAFETY: this function requires an exception that the unwinder handed over, which nothing else uses or ends.
    unsafe { _Unwind_DeleteException(exception) };
}

/// The type name of an exception, recorded when it was stopped; only needed on other systems.
pub fn kept_name(_: &Exception) -> Option<&[u8]> {
    None
}
