//! Statuses, and the error type of this crate's safe functions.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

pub use crate::ffi::hipdnnStatus_t as Status;

/// A status and a message for the caller. Boxed, so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Failure>);

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the C function returns.
    pub status: Status,
    /// The last error string: the argument, its value and what was expected.
    pub message: Cow<'static, str>,
}

impl Deref for Error {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

/// What the safe functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! constructors {
    ($($(#[$meta:meta])* $name:ident = $status:ident;)+) => {
        $($(#[$meta])*
        #[cold]
        pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
            Self::new(Status::$status, message)
        })+
    };
}

impl Error {
    /// An error with any status.
    #[cold]
    pub fn new(status: Status, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Failure { status, message: message.into() }))
    }

    constructors! {
        /// Memory, or the table of objects, is exhausted.
        alloc_failed = HIPDNN_STATUS_ALLOC_FAILED;
        /// The descriptor is in the wrong state.
        not_initialized = HIPDNN_STATUS_NOT_INITIALIZED;
        /// An argument is invalid.
        bad_param = HIPDNN_STATUS_BAD_PARAM;
        /// An argument is null.
        null_pointer = HIPDNN_STATUS_BAD_PARAM_NULL_POINTER;
        /// A descriptor must be finalized first.
        not_finalized = HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        /// The request is not supported.
        not_supported = HIPDNN_STATUS_NOT_SUPPORTED;
        /// A failure that the caller did not cause.
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
