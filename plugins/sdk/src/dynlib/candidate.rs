//! Candidate libraries, and why one was rejected.

use std::fmt;

/// Why a library cannot be used: what was looked for, and what was wrong with each candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<Error> for crate::Refusal {
    fn from(error: Error) -> Self {
        Self::new(error.0)
    }
}

impl From<Error> for crate::PluginError {
    fn from(error: Error) -> Self {
        Self::not_initialized(error.0)
    }
}

/// A library that may be installed, and the suffix of its function names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The library, by its path or, if it has no slash, through the loader's search.
    pub file: &'a str,
    /// The suffix that its function names have behind the requested ones.
    pub suffix: &'static str,
}

impl<'a> From<&'a str> for Candidate<'a> {
    fn from(file: &'a str) -> Self {
        Self { file, suffix: "" }
    }
}
