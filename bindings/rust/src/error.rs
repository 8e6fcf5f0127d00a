//! Errors.

use std::fmt;

use crate::constants as c;

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No library was found, or it cannot be opened.
    Library(String),
    /// The library lacks a function of the interface.
    Function {
        /// The library.
        library: String,
        /// The name of the function.
        function: &'static str,
    },
    /// A library call failed.
    Status {
        /// The operation.
        during: String,
        /// The returned status.
        status: Status,
        /// The library's message, empty if it has none.
        text: String,
    },
    /// The GPU driver failed, or the machine has no GPU.
    Device(String),
    /// The library returned something impossible.
    Answer(String),
    /// An invalid argument, rejected before any library call.
    Argument(String),
}

impl Error {
    pub(crate) fn answer(text: impl Into<String>) -> Self {
        Self::Answer(text.into())
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::Argument(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(text) | Self::Device(text) | Self::Answer(text) | Self::Argument(text) => {
                f.write_str(text)
            }
            Self::Function { library, function } => write!(f, "{library} has no function {function}"),
            Self::Status { during, status, text } if text.is_empty() => {
                write!(f, "{during} failed: {status}")
            }
            Self::Status { during, status, text } => write!(f, "{during} failed: {text} ({status})"),
        }
    }
}

impl std::error::Error for Error {}

macro_rules! statuses {
    ($($(#[$meta:meta])* $variant:ident = $name:ident;)+) => {
        /// The status of a failed library call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$meta])* $variant,)+
            /// A number without a name here.
            Unknown(i32),
        }

        impl From<i32> for Status {
            fn from(number: i32) -> Self {
                match number { $(c::$name => Self::$variant,)+ other => Self::Unknown(other) }
            }
        }

        /// The C name without the common prefix.
        impl fmt::Display for Status {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str(stringify!($name).trim_start_matches("HIPDNN_STATUS_")),)+
                    Self::Unknown(number) => write!(f, "status {number}"),
                }
            }
        }
    };
}

statuses! {
    /// An object is in the wrong state.
    NotInitialized = HIPDNN_STATUS_NOT_INITIALIZED;
    /// An argument is invalid.
    BadParam = HIPDNN_STATUS_BAD_PARAM;
    /// An argument is null.
    NullPointer = HIPDNN_STATUS_BAD_PARAM_NULL_POINTER;
    /// A descriptor is not finalized.
    NotFinalized = HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    /// An index or a value is out of range.
    OutOfBound = HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
    /// A buffer is too small.
    SizeInsufficient = HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    /// Streams do not match.
    StreamMismatch = HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
    /// The library does not support the request.
    NotSupported = HIPDNN_STATUS_NOT_SUPPORTED;
    /// An internal error of the library.
    Internal = HIPDNN_STATUS_INTERNAL_ERROR;
    /// Memory ran out.
    AllocFailed = HIPDNN_STATUS_ALLOC_FAILED;
    /// Host memory ran out.
    HostAllocationFailed = HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    /// Device memory ran out.
    DeviceAllocationFailed = HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    /// The device failed during execution.
    ExecutionFailed = HIPDNN_STATUS_EXECUTION_FAILED;
    /// A plugin failed.
    Plugin = HIPDNN_STATUS_PLUGIN_ERROR;
    /// The versions of library and caller differ.
    VersionMismatch = HIPDNN_STATUS_VERSION_MISMATCH;
}

/// Puts text on one line: line ends become `; ` (or a space after a colon), other control characters are escaped.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push_str(if line.ends_with([':', ';', ',']) { " " } else { "; " });
        }
        for c in part.chars() {
            if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_and_why() {
        let error = |text: &str| Error::Status {
            during: "making the plan".to_owned(),
            status: Status::from(2),
            text: text.to_owned(),
        };
        assert_eq!(error("x is 3").to_string(), "making the plan failed: x is 3 (BAD_PARAM)");
        assert_eq!(error("").to_string(), "making the plan failed: BAD_PARAM");
        assert_eq!(Status::from(99).to_string(), "status 99");
    }

    #[test]
    fn text_of_several_lines_becomes_one() {
        assert_eq!(
            one_line("No engine:\n  A: no\n  B: never\u{1b}[31m\n"),
            "No engine: A: no; B: never\\u{1b}[31m"
        );
    }
}
