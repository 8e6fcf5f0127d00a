//! Log lines: their severity, and the functions that receive them.
//!
//! A frontend's SDK brings a header with the same types. Both copies carry the guard `HIPDNN_CALLBACK_TYPES_DEFINED`,
//! so that whichever comes first defines them; an SDK copy without the guard, when it is on the include path, is
//! included from here.

use std::ffi::{c_char, c_void};

use strum::{FromRepr, IntoStaticStr, VariantArray};

use super::raw;

/// How serious a log line is; as a level, the least serious that is let through.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnSeverity_t {
    /// What happens.
    HIPDNN_SEV_INFO = 0,
    /// Something unexpected that the library dealt with.
    HIPDNN_SEV_WARN = 1,
    /// A call failed.
    HIPDNN_SEV_ERROR = 2,
    /// The process cannot go on.
    HIPDNN_SEV_FATAL = 3,
    /// Nothing; a level only, no line has it.
    HIPDNN_SEV_OFF = 4,
}

/// Receives a plugin's log lines. `message` ends with a NUL and lives during the call only.
pub type hipdnnCallback_t =
    Option<unsafe extern "C" fn(severity: raw::hipdnnSeverity_t, message: *const c_char)>;

/// A pointer of the caller's, handed back to its callback; with the callback it names a registration.
pub type hipdnnUserLogCallbackHandle_t = *mut c_void;

/// Receives the library's log lines. `message` ends with a NUL and lives during the call only.
pub type hipdnnUserLogCallback_t = Option<
    unsafe extern "C" fn(
        userHandle: hipdnnUserLogCallbackHandle_t,
        severity: raw::hipdnnSeverity_t,
        message: *const c_char,
    ),
>;
