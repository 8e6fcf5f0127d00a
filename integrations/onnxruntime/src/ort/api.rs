//! ONNX Runtime's functions with failures as results, and callbacks whose failures and panics become a status.

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::structs::*;
use super::table::{OrtApi, OrtEpApi};
use super::{NEWEST, OLDEST};
use crate::failure::{Code, Failure, Result};

/// ONNX Runtime, at the version that it and this library both support.
#[derive(Clone, Copy)]
pub struct Ort {
    /// Its functions.
    pub api: OrtApi,
    /// Those for execution providers.
    pub ep: OrtEpApi,
    /// The version of the interface.
    pub version: u32,
}

impl Ort {
    /// Negotiates a version. The error is a message, since no function can make a status yet.
    ///
    /// # Safety
    /// `base` is null or what ONNX Runtime passes to `CreateEpFactories`.
    pub unsafe fn negotiate(base: *const OrtApiBase) -> std::result::Result<Self, String> {
        // SAFETY: `base` is null or what ONNX Runtime passes to `CreateEpFactories`, as this function requires.
        let Some(base) = (unsafe { base.as_ref() }) else { return Err("the OrtApiBase is null".to_owned()) };
        // SAFETY: the function takes no arguments and returns a string that lives as long as ONNX Runtime.
        let version = text_of(unsafe { (base.get_version_string)() });
        let version = supported(&version)?.min(NEWEST);
        // SAFETY: the function takes a number. Requesting a newer version than the host's would make it complain on standard error.
        let api = unsafe { (base.get_api)(version) };
        if api.is_null() {
            return Err(format!("ONNX Runtime has no interface of version {version}"));
        }
        // SAFETY: a version's GetApi returns a table of that version, and OLDEST has every function that is called unconditionally.
        let api = unsafe { OrtApi::at(api) };
        // SAFETY: the function takes no arguments.
        let ep = unsafe { api.GetEpApi() };
        if ep.is_null() {
            return Err(format!("ONNX Runtime has no OrtEpApi of version {version}"));
        }
        // SAFETY: ONNX Runtime has such a table of this version, as long as it is loaded.
        Ok(Self { api, ep: unsafe { OrtEpApi::at(ep) }, version })
    }

    /// The result of a call.
    pub(crate) fn check(self, status: *mut OrtStatus, what: &str) -> Result<()> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: we own a status that is not null, and release it once.
        let (code, text) = unsafe {
            let (code, text) = (self.api.GetErrorCode(status), text_of(self.api.GetErrorMessage(status)));
            self.api.ReleaseStatus(status);
            (code, text)
        };
        Err(Failure::new(Code::Number(code), format!("{what}: {text}")))
    }

    /// A status for ONNX Runtime, which releases it.
    pub(crate) fn status(self, failure: &Failure) -> *mut OrtStatus {
        let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the string ends with a NUL and is copied.
        unsafe { self.api.CreateStatus(failure.code.number(), text.as_ptr()) }
    }

    /// Writes a line to the session's log; level 1 is information, 2 a warning.
    pub(crate) fn log(self, logger: *const OrtLogger, level: c_int, text: &str) {
        if logger.is_null() {
            return;
        }
        let Ok(text) = CString::new(text.replace('\0', " ")) else { return };
        let (file, function) = (c"hipdnn".as_ptr(), c"hipDNN".as_ptr());
        // SAFETY: the logger lives as long as the session, and the strings end with a NUL. A line that cannot be written is lost.
        unsafe {
            let mut least = 0;
            let status = self.api.Logger_GetLoggingSeverityLevel(logger, &raw mut least);
            if self.check(status, "reading the log level").is_err() || level < least {
                return;
            }
            let status = self.api.Logger_LogMessage(logger, level, text.as_ptr(), file, 0, function);
            let _ = self.check(status, "logging");
        }
    }

    /// An array read in two calls: its size, then its elements.
    pub fn array<T: Copy>(
        self,
        what: &str,
        empty: T,
        count: impl FnOnce(*mut usize) -> *mut OrtStatus,
        fill: impl FnOnce(*mut T, usize) -> *mut OrtStatus,
    ) -> Result<Vec<T>> {
        let mut length = 0;
        self.check(count(&raw mut length), what)?;
        let mut items = vec![empty; length];
        if length > 0 {
            self.check(fill(items.as_mut_ptr(), length), what)?;
        }
        Ok(items)
    }

    /// One value that a function writes.
    pub fn value<T>(self, what: &str, empty: T, read: impl FnOnce(*mut T) -> *mut OrtStatus) -> Result<T> {
        let mut value = empty;
        self.check(read(&raw mut value), what)?;
        Ok(value)
    }

    /// A string that a function points to.
    pub(crate) fn text(
        self,
        what: &str,
        read: impl FnOnce(*mut *const c_char) -> *mut OrtStatus,
    ) -> Result<String> {
        self.value(what, ptr::null(), read).map(text_of)
    }
}

/// Runs a callback, turning failures and panics into a status.
pub(crate) fn guard(ort: Ort, what: &str, run: impl FnOnce() -> Result<()>) -> *mut OrtStatus {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(of_panic(what, &*panic)));
    match result {
        Ok(()) => ptr::null_mut(),
        Err(failure) => ort.status(&failure),
    }
}

fn of_panic(what: &str, panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Failure::ep(format!("hipDNN: {what} panicked: {text}"))
}

/// A C string; empty if the pointer is null.
pub(crate) fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: ONNX Runtime's strings end with a NUL and are valid during the call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// X of a version `1.X.Y` with the interface for execution providers; else why it has none that is known here.
fn supported(version: &str) -> std::result::Result<u32, String> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (parts.next().flatten(), parts.next().flatten()) else {
        return Err(format!(
            "ONNX Runtime calls its version {version:?}, expected 1.{OLDEST} or a later 1.X"
        ));
    };
    if major > 1 {
        return Err(format!(
            "ONNX Runtime {version} may have another interface than 1.X, expected 1.{OLDEST} or a later 1.X"
        ));
    }
    if major == 0 || minor < OLDEST {
        return Err(format!(
            "ONNX Runtime {version} lacks the interface for execution providers, expected 1.{OLDEST} or a later 1.X"
        ));
    }
    Ok(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(supported("1.23.2"), Ok(23));
        assert_eq!(supported("1.32.0"), Ok(32));
        assert_eq!(supported("1.33.0-dev+abc"), Ok(33));
        for (version, words) in [
            ("2.0.0", "may have another interface"),
            ("1.22.1", "lacks the interface"),
            ("0.99", "lacks the interface"),
            ("", "calls its version"),
            ("1", "calls its version"),
        ] {
            let text = supported(version).unwrap_err();
            assert!(text.contains(words) && text.ends_with("expected 1.23 or a later 1.X"), "{text}");
        }
    }
}
