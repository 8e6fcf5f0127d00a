//! Exceptions as the unwinder of the Itanium C++ ABI knows them.

use std::ffi::{c_int, c_void};

// The numbers of the Itanium C++ ABI for exception handling.
const SEARCH_PHASE: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCED: c_int = 8;
const FATAL: c_int = 3;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE: c_int = 8;

/// The head of every exception; what follows is its runtime's own.
#[repr(C)]
pub struct Exception {
    /// Whose it is, as eight letters.
    pub class: u64,
    /// What its runtime has others call to end it.
    pub cleanup: Option<unsafe extern "C" fn(c_int, *mut Exception)>,
}

unsafe extern "C" {
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_DeleteException(exception: *mut Exception);
}

/// What a personality answers whose frame goes on at `landing`, with the exception in the register of a result.
///
/// # Safety
/// The arguments but the last are the unwinder's own, for a frame that `landing` may go on in.
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

/// Ends an exception of a runtime that is not known.
///
/// # Safety
/// The unwinder handed the exception over, and nothing else ends it.
pub unsafe fn delete(exception: *mut Exception) {
    // SAFETY: the caller has the exception to itself.
    unsafe { _Unwind_DeleteException(exception) };
}

/// The name of the type of an exception that was kept where it was stopped; other systems than this need that.
pub fn kept_name(_: &Exception) -> Option<&[u8]> {
    None
}
