//! The version of the library.

use std::ffi::{CStr, c_char};

use super::guard::{guard, require};
use crate::ffi::raw;

/// The version as a text of C.
pub(super) const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("HIPDNN_BACKEND_VERSION_STRING"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The version of the library: MAJOR.MINOR.PATCH.TWEAK, where TWEAK is the commit it was built from, or `unknown`.
///
/// @return A text that lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVersionString_ext() -> *const c_char {
    VERSION.as_ptr()
}

/// The same as hipdnnVersionString_ext, which is to be preferred.
///
/// @param[out] version Where the pointer to the text goes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `version` is null.
///
/// # Safety
/// `version` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetVersion_ext(version: *mut *const c_char) -> raw::hipdnnStatus_t {
    guard(
        "hipdnnGetVersion_ext",
        || format!("version={version:p}"),
        || {
            require!(version);
            // SAFETY: the pointer is writable.
            unsafe { version.write_unaligned(VERSION.as_ptr()) };
            Ok(())
        },
    )
}
