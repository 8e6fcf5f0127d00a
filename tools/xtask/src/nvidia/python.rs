//! The Python package for the packed tests of a machine with a GPU, with its tests, the training examples, and pytest.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{copy, files};
use crate::process::{command, run};
use crate::progress;
use crate::python::Environment;
use crate::wheel::PACKAGE;
use crate::workspace::Workspace;

/// The modules of pytest besides `py.py`, all pure Python.
const PYTEST: &[&str] = &["pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"];

/// Copies it into the package, whose library it uses. Returns what was skipped.
pub fn pack(workspace: &Workspace, package: &Path) -> Result<String, Failure> {
    progress::build(workspace, &mut workspace.release(["build", "-p", "hipdnn-python"]))?;
    let (from, to) = (workspace.path(PACKAGE), package.join("python"));
    let module = to.join("hipdnn/_native.abi3.so");
    copy_all(&from.join("python/hipdnn"), &to.join("hipdnn"), |path| {
        path.extension().is_some_and(|extension| extension == "py")
    })?;
    copy(&workspace.release_dir().join("libhipdnn_python.so"), &module)?;
    run(command("strip", ["--strip-unneeded"]).arg(module))?;
    copy_all(&from.join("tests"), &to.join("tests"), is_text)?;
    copy_all(&workspace.path("examples_python"), &to.join("examples_python"), is_text)?;
    for benchmark in ["python_execute.py", "pytorch_calls.py", "pytorch_networks.py"] {
        copy(&workspace.path("benches").join(benchmark), &to.join("benches").join(benchmark))?;
    }
    // The examples' training text.
    copy(&workspace.path("README.md"), &to.join("README.md"))?;
    copy_all(&workspace.path("examples_c/data"), &to.join("examples_c/data"), |_| true)?;
    copy(&workspace.path("tools/gpu-test/nvidia/python.sh"), &to.join("run.sh"))?;
    let Ok(site) = Environment::ready().and_then(|python| site_packages(&python)) else {
        return Ok("without pytest".to_owned());
    };
    copy(&site.join("py.py"), &to.join("site/py.py"))?;
    for name in PYTEST {
        copy_all(&site.join(name), &to.join("site").join(name), is_text)?;
    }
    Ok("with pytest".to_owned())
}

/// Whether a file is not compiled by Python.
fn is_text(path: &Path) -> bool {
    path.extension().is_none_or(|extension| extension != "pyc")
}

fn copy_all(from: &Path, to: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<(), Failure> {
    for file in files(from)?.iter().filter(|file| is_wanted(file)) {
        copy(&from.join(file), &to.join(file))?;
    }
    Ok(())
}

fn site_packages(python: &Environment) -> Result<PathBuf, Failure> {
    let found = run(&mut python.python(["-c", "import pytest; print(pytest.__file__)"]))?;
    let file = fs::canonicalize(found.trim())?;
    let site = file.ancestors().nth(2);
    site.map(Path::to_owned).ok_or_else(|| Failure::new(format!("pytest is at {}", file.display())))
}
