//! A virtual environment of Python with what the package is built and tested with, kept outside of the clone.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::Failure;
use crate::process::command;
use crate::venv;

/// The folder of the environment, in place of the user's cache.
const VARIABLE: &str = "HIPDNN_PYTHON_ENV";

/// What is installed: the builder, and what the tests need. PyTorch is used where somebody installed it.
const PACKAGES: [&str; 4] = ["maturin>=1.9,<2", "pytest", "numpy", "ml_dtypes"];

/// The environment.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// The environment, made and filled where it is not there yet; or why there can be none.
    pub fn ready() -> Result<Self, Failure> {
        Ok(Self { folder: venv::ready(&folder()?, &PACKAGES, "the Python package")? })
    }

    /// Its interpreter.
    pub fn python<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> std::process::Command {
        let mut python = command(self.program("python"), arguments);
        python.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        python
    }

    /// A program that is installed in it.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// How to add PyTorch to it.
    pub fn with_torch(&self) -> String {
        format!("{} -m pip install torch expecttest mypy", self.program("python").display())
    }
}

fn folder() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(VARIABLE)
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hipdnn-backend/python")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hipdnn-backend/python")))
        .ok_or_else(|| Failure::new(format!("{VARIABLE} and HOME are not set: no place for Python packages")))
}
