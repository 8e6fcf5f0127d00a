//! What can go wrong.

use std::fmt;

use crate::constants as c;

/// The result of anything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no library, or the one that is there cannot be opened.
    Library(String),
    /// The library lacks a function of the interface.
    Function {
        /// The library.
        library: String,
        /// The name of the function.
        function: &'static str,
    },
    /// A call of the library failed.
    Status {
        /// What was being done.
        during: String,
        /// What the call returned.
        status: Status,
        /// The library's own words, empty where it has none.
        text: String,
    },
    /// The driver of a GPU failed, or the machine has no GPU.
    Device(String),
    /// The library answered what cannot be true.
    Answer(String),
    /// An argument that the library was not asked about.
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
        /// What a call of the library returned that did not succeed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$meta])* $variant,)+
            /// A number that has no name here.
            Unknown(i32),
        }

        impl From<i32> for Status {
            fn from(number: i32) -> Self {
                match number { $(c::$name => Self::$variant,)+ other => Self::Unknown(other) }
            }
        }

        /// The name in C, without what all begin with.
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
    /// An argument cannot be used.
    BadParam = HIPDNN_STATUS_BAD_PARAM;
    /// An argument is null.
    NullPointer = HIPDNN_STATUS_BAD_PARAM_NULL_POINTER;
    /// A descriptor that must be finalized is not.
    NotFinalized = HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    /// An index or a value is outside of its range.
    OutOfBound = HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
    /// A buffer is too small.
    SizeInsufficient = HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    /// Streams do not belong together.
    StreamMismatch = HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
    /// The library does not have what was asked for.
    NotSupported = HIPDNN_STATUS_NOT_SUPPORTED;
    /// The fault is the library's.
    Internal = HIPDNN_STATUS_INTERNAL_ERROR;
    /// Memory ran out.
    AllocFailed = HIPDNN_STATUS_ALLOC_FAILED;
    /// Host memory ran out.
    HostAllocationFailed = HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    /// Device memory ran out.
    DeviceAllocationFailed = HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    /// The device failed while it computed.
    ExecutionFailed = HIPDNN_STATUS_EXECUTION_FAILED;
    /// A plugin failed.
    Plugin = HIPDNN_STATUS_PLUGIN_ERROR;
    /// Library and caller are of different versions.
    VersionMismatch = HIPDNN_STATUS_VERSION_MISMATCH;
}

/// Text on one line: line ends become `; ` (or a space after a colon), other control characters are escaped.
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
