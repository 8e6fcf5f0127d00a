//! Python virtual environments for building and testing the package, outside of the clone.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::cache;
use crate::process::{command, run};
use crate::venv;

/// The purpose of an environment.
struct Purpose {
    /// The variable that overrides the folder in the user's cache.
    variable: &'static str,
    /// The folder's name in the cache.
    name: &'static str,
    packages: &'static [&'static str],
    wanted_by: &'static str,
}

/// maturin, and the tests' packages.
const PACKAGE: Purpose = Purpose {
    variable: "HIPDNN_PYTHON_ENV",
    name: "python",
    packages: &["maturin>=1.9,<2", "pytest", "numpy", "ml_dtypes"],
    wanted_by: "the Python package",
};

/// PyTorch, with the packages of its operator database and of tests that are otherwise skipped.
const TORCH: Purpose = Purpose {
    variable: "HIPDNN_TORCH_ENV",
    name: "torch-env",
    packages: &["torch", "pytest", "numpy", "ml_dtypes", "expecttest", "mypy", "ipython", "jax"],
    wanted_by: "hipdnn.torch",
};

/// The command that installs PyTorch.
pub const INSTALLS_TORCH: &str = "cargo xtask torch-test";

/// An environment.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// The environment for building and testing, created if necessary; or why that is impossible.
    pub fn ready() -> Result<Self, Failure> {
        Ok(Self { folder: venv::ready(&PACKAGE.folder()?, PACKAGE.packages, PACKAGE.wanted_by)? })
    }

    /// The environment with PyTorch, if it exists.
    pub fn of_torch() -> Result<Option<Self>, Failure> {
        let environment = Self { folder: TORCH.folder()? };
        let is_there = run(&mut environment.python(["-c", "import torch, pytest, numpy"])).is_ok();
        Ok(is_there.then_some(environment))
    }

    /// The environment with PyTorch, created if necessary; or why that is impossible.
    pub fn with_torch() -> Result<Self, Failure> {
        if let Some(environment) = Self::of_torch()? {
            return Ok(environment);
        }
        Ok(Self { folder: venv::ready(&TORCH.folder()?, TORCH.packages, TORCH.wanted_by)? })
    }

    /// A new environment without packages.
    pub fn empty(folder: &Path) -> Result<Self, Failure> {
        crate::install::remove(folder)?;
        run(command("python3", ["-m", "venv"]).arg(folder))?;
        Ok(Self { folder: folder.to_owned() })
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
}

impl Purpose {
    fn folder(&self) -> Result<PathBuf, Failure> {
        cache::folder(self.variable, self.name)
    }
}
