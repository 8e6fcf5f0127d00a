//! Log lines: their severity, and the functions that receive them.
//!
//! A frontend's SDK has a header with the same types. Both copies carry the guard `HIPDNN_CALLBACK_TYPES_DEFINED`,
//! so that whichever comes first defines them; this header includes an SDK copy on the include path that lacks the guard.

use std::ffi::{c_char, c_void};

use strum::{FromRepr, IntoStaticStr, VariantArray};

use super::raw;

/// The severity of a log line; as a level, the lowest severity that is logged.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnSeverity_t {
    /// Information.
    HIPDNN_SEV_INFO = 0,
    /// Something unexpected that the library handled.
    HIPDNN_SEV_WARN = 1,
    /// A call failed.
    HIPDNN_SEV_ERROR = 2,
    /// The process cannot go on.
    HIPDNN_SEV_FATAL = 3,
    /// Logs nothing; valid only as a level.
    HIPDNN_SEV_OFF = 4,
}

/// Receives a plugin's log lines. `message` ends with a NUL and lives during the call only.
pub type hipdnnCallback_t =
    Option<unsafe extern "C" fn(severity: raw::hipdnnSeverity_t, message: *const c_char)>;

/// A caller's pointer that is passed to its callback; together they identify a registration.
pub type hipdnnUserLogCallbackHandle_t = *mut c_void;

/// Receives the library's log lines. `message` ends with a NUL and lives during the call only.
pub type hipdnnUserLogCallback_t = Option<
    unsafe extern "C" fn(
        userHandle: hipdnnUserLogCallbackHandle_t,
        severity: raw::hipdnnSeverity_t,
        message: *const c_char,
    ),
>;
