//! Failures.

use std::fmt;

/// A result with a failure.
pub type Result<T> = std::result::Result<T, Failure>;

/// The code of an ONNX Runtime status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An invalid argument, option or model.
    InvalidArgument,
    /// The execution provider failed.
    Ep,
    /// The code of a status that ONNX Runtime returned.
    Number(i32),
}

impl Code {
    /// The number in the interface.
    pub fn number(self) -> i32 {
        match self {
            Self::InvalidArgument => 2,
            Self::Ep => 11,
            // 0 is success, which a failure must not be.
            Self::Number(code) => code.max(1),
        }
    }
}

/// A code and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The message.
    pub text: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// A failure of the execution provider.
    pub fn ep(text: impl Into<String>) -> Self {
        Self::new(Code::Ep, text)
    }

    /// An invalid argument.
    pub fn argument(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<hipdnn::Error> for Failure {
    fn from(error: hipdnn::Error) -> Self {
        Self::ep(format!("hipDNN: {}", hipdnn::one_line(&error.to_string())))
    }
}
