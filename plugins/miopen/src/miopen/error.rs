//! Errors of MIOpen calls.

use std::ffi::CStr;
use std::fmt;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::dynlib::guard::thrown;

use crate::miopen::{Miopen, STATUS_SUCCESS, miopenStatus_t};

/// A failed call of MIOpen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiopenError {
    /// The status.
    pub status: miopenStatus_t,
    /// The function and MIOpen's message.
    pub message: String,
}

impl fmt::Display for MiopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MiopenError {}

impl From<MiopenError> for PluginError {
    fn from(error: MiopenError) -> Self {
        Self::internal(error.message)
    }
}

impl Miopen {
    /// Turns a status other than success into an error.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check(&self, function: &str, status: miopenStatus_t) -> Result<(), MiopenError> {
        if status == STATUS_SUCCESS { Ok(()) } else { Err(self.error(function, status)) }
    }

    #[cold]
    fn error(&self, function: &str, status: miopenStatus_t) -> MiopenError {
        if let Some(message) = thrown(function, status) {
            return MiopenError { status, message };
        }
        // SAFETY: the function takes any number as a status and returns a constant text.
        let text = unsafe { (self.miopenGetErrorString)(status) };
        let text = if text.is_null() {
            "no text".into()
        } else {
            // SAFETY: MIOpen's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        MiopenError { status, message: format!("{function} failed with status {status}: {text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_or_the_error_says_what_was_looked_for() {
        match Miopen::get() {
            Ok(miopen) => {
                assert_eq!(miopen.check("f", STATUS_SUCCESS), Ok(()));
                let message = miopen.check("f", 3).unwrap_err().message;
                assert!(message.starts_with("f failed with status 3: "), "{message}");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for MIOpen was found"), "{message}");
                assert!(message.contains("libMIOpen.so.1"), "{message}");
            }
        }
    }
}
