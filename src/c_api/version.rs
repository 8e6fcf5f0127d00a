//! The version of the library.

use std::ffi::{CStr, CString, c_char};

use super::guard::{begin, guard, require};
use crate::ffi::raw;
use crate::lock::OnceLock;
use crate::log;

/// The version as a C string.
pub(super) const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("HIPDNN_BACKEND_VERSION_STRING"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The variable that overrides the reported version, for frontends of another version.
const VARIABLE: &str = "HIPDNN_REPORTED_VERSION";

/// The version that programs see: from the variable or from the build, with the commit.
fn reported() -> &'static CStr {
    static REPORTED: OnceLock<Option<CString>> = OnceLock::new();
    let mut ignored = None;
    let reported = REPORTED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
        if !is_version(&text) {
            ignored = Some(text);
            return None;
        }
        CString::new(format!("{text}.{}", env!("HIPDNN_BACKEND_COMMIT"))).ok()
    });
    // Not inside the closure: a log callback may ask for the version.
    if let Some(text) = ignored {
        begin();
        log::warn(|| format!("{VARIABLE} is {text:?}, expected MAJOR.MINOR.PATCH; ignored"));
    }
    reported.as_deref().unwrap_or(VERSION)
}

/// Whether a text is three numbers separated by dots.
fn is_version(text: &str) -> bool {
    let is_number =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u16>().is_ok();
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

/// The version that the library reports: MAJOR.MINOR.PATCH.TWEAK, where TWEAK is the commit it was built from, or `unknown`.
/// The build, or the variable HIPDNN_REPORTED_VERSION (read once), can replace the first three numbers.
///
/// @return A text that lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVersionString_ext() -> *const c_char {
    reported().as_ptr()
}

/// The same as hipdnnVersionString_ext; prefer that function.
///
/// @param[out] version Receives a pointer to the text.
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
            // SAFETY: `require!` refused a null `version`, and this function requires that it is writable otherwise.
            unsafe { version.write_unaligned(reported().as_ptr()) };
            Ok(())
        },
    )
}
