//! Statuses, and the error that every safe function of this crate fails with.

use std::borrow::Cow;
use std::fmt;

pub use crate::ffi::hipdnnStatus_t as Status;

/// A status and what to tell the caller: the argument, the value got and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the C function returns.
    pub status: Status,
    /// What the last error string says.
    pub message: Cow<'static, str>,
}

/// What the safe functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! constructors {
    ($($(#[$meta:meta])* $name:ident = $status:ident;)+) => {
        $($(#[$meta])*
        #[cold]
        pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
            Self { status: Status::$status, message: message.into() }
        })+
    };
}

impl Error {
    constructors! {
        /// The descriptor is in the wrong state.
        not_initialized = HIPDNN_STATUS_NOT_INITIALIZED;
        /// An argument cannot be used.
        bad_param = HIPDNN_STATUS_BAD_PARAM;
        /// An argument is null.
        null_pointer = HIPDNN_STATUS_BAD_PARAM_NULL_POINTER;
        /// A descriptor has to be finalized first.
        not_finalized = HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        /// The library does not have what was asked for.
        not_supported = HIPDNN_STATUS_NOT_SUPPORTED;
        /// The fault is not the caller's.
        internal = HIPDNN_STATUS_INTERNAL_ERROR;
        /// A plugin failed.
        plugin = HIPDNN_STATUS_PLUGIN_ERROR;
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
