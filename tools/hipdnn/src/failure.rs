//! Failures and their exit statuses.

use std::fmt;
use std::process::ExitCode;

pub use hipdnn::one_line;

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An argument, or a file that an argument names.
    Input,
    /// The library refused.
    Refused,
    /// Anything else.
    Work,
}

/// The result of anything that can fail.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A bad argument or a bad file: exit status 2.
    pub fn input(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Input }
    }

    /// A failure with valid input: exit status 1.
    pub fn work(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Work }
    }

    /// A refusal of the library: exit status 1, unless it is about a file.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Refused }
    }

    /// The same failure, about a file. A file that the library refuses to read is a bad file.
    pub fn of_file(self, path: &std::path::Path) -> Self {
        let kind = if self.kind == Kind::Refused { Kind::Input } else { self.kind };
        Self { kind, ..self.during(path.display()) }
    }

    /// The same failure, prefixed with the action.
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self { text: format!("{what}: {}", self.text), kind: self.kind }
    }

    /// Whether an argument or a file is to blame, so that another engine does not help.
    pub fn is_input(&self) -> bool {
        self.kind == Kind::Input
    }

    /// 2 for bad arguments and files, 1 for the rest.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.kind {
            Kind::Input => 2,
            Kind::Refused | Kind::Work => 1,
        })
    }
}

/// Always one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.text))
    }
}

/// Failures of the library. An unusable library or argument is bad input.
impl From<hipdnn::Error> for Failure {
    fn from(error: hipdnn::Error) -> Self {
        let text = error.to_string();
        match error {
            hipdnn::Error::Library(_) | hipdnn::Error::Argument(_) => Self::input(text),
            hipdnn::Error::Status { .. } => Self::refused(text),
            hipdnn::Error::Function { .. } => Self::work(format!("{text}, which this command needs")),
            _ => Self::work(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::input("No engine:\n  A: no\n  B: never\u{1b}[31m\n");
        assert_eq!(failure.to_string(), "No engine: A: no; B: never\\u{1b}[31m");
    }

    #[test]
    fn a_library_that_cannot_be_opened_is_bad_input() {
        let failure = Failure::from(hipdnn::Error::Library("no backend".to_owned()));
        assert_eq!((failure.exit_code(), failure.to_string()), (ExitCode::from(2), "no backend".to_owned()));
    }
}
