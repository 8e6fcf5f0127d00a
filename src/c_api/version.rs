//! The version of the library.

use std::ffi::{CStr, CString, c_char};

use super::guard::{begin, guard, require};
use crate::ffi::raw;
use crate::lock::OnceLock;
use crate::log;

/// The version as a text of C.
pub(super) const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("HIPDNN_BACKEND_VERSION_STRING"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The variable that says another version, until frontends of one's own fit.
const VARIABLE: &str = "HIPDNN_REPORTED_VERSION";

/// The version that programs are told: that of the variable or of the build, with the commit.
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
    // Not within: a callback that is given the line may ask for the version.
    if let Some(text) = ignored {
        begin();
        log::warn(|| format!("{VARIABLE} is {text:?}, expected MAJOR.MINOR.PATCH; ignored"));
    }
    reported.as_deref().unwrap_or(VERSION)
}

/// Whether a text is three numbers with points between them.
fn is_version(text: &str) -> bool {
    let is_number =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u16>().is_ok();
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

/// The version that the library reports: MAJOR.MINOR.PATCH.TWEAK, where TWEAK is the commit it was built from, or `unknown`.
/// The first three are the library's own unless the build or the variable HIPDNN_REPORTED_VERSION, read once, says others.
///
/// @return A text that lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVersionString_ext() -> *const c_char {
    reported().as_ptr()
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
            unsafe { version.write_unaligned(reported().as_ptr()) };
            Ok(())
        },
    )
}
