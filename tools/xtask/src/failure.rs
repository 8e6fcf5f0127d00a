//! Why a command of this tool stopped.

use std::fmt;
use std::io;

/// A failure with a message for the terminal.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// A failure with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 1 }
    }

    /// The same, with another exit status than 1.
    pub fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The exit status of the command.
    pub fn status(&self) -> u8 {
        self.status
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
