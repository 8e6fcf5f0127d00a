//! Why a command of this tool stopped.

use std::fmt;
use std::io;

/// A failure in words for the person at the terminal.
#[derive(Debug)]
pub struct Failure {
    message: String,
}

impl Failure {
    /// A failure with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}
