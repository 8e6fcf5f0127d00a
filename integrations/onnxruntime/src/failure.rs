//! Why something was not done.

use std::fmt;

/// The result of anything that can fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// The code that a status of ONNX Runtime carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An argument, option or model cannot be used.
    InvalidArgument,
    /// The execution provider failed.
    Ep,
    /// The code of a status that ONNX Runtime answered.
    Number(i32),
}

impl Code {
    /// The number in the interface.
    pub fn number(self) -> i32 {
        match self {
            Self::InvalidArgument => 2,
            Self::Ep => 11,
            // 0 is success, which a failure is not.
            Self::Number(code) => code.max(1),
        }
    }
}

/// A code and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The text.
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

    /// An argument that cannot be used.
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
