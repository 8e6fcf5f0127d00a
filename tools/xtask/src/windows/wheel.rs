//! The Python package for Windows: compiled and inspected here, but not run.

use std::path::{Path, PathBuf};

use super::{LIBRARY, TARGET, dll, plugin_file, stage_dir};
use crate::Failure;
use crate::install::{ENGINES, PLUGINS};
use crate::process::{command, run};
use crate::python::Environment;
use crate::wheel::{maturin, pack};
use crate::workspace::Workspace;

/// The extension module, for every Python from the oldest supported one.
const MODULE: &str = "hipdnn/_native.pyd";

/// The library of every Python 3 on Windows.
const PYTHON: &str = "python3.dll";

/// Builds the wheel of the Windows tree. Fails if something is missing or needs a library that Windows does not have.
pub fn build(workspace: &Workspace, python: &Environment) -> Result<String, Failure> {
    let engines = PLUGINS.iter().map(|plugin| Path::new(ENGINES).join(plugin_file(plugin.file)));
    let files: Vec<PathBuf> = std::iter::once(PathBuf::from(LIBRARY)).chain(engines).collect();
    let bin = stage_dir(workspace).join("bin");
    let lib = pack(workspace, &bin, files.iter().cloned(), "x86_64-w64-mingw32-strip", "--strip-debug")?;
    let made = maturin(workspace, python, &["--target", TARGET, "--compatibility", "off"]);
    // A package used from its source folder looks for Linux's library there.
    crate::install::remove(&lib)?;
    let (wheel, note) = made?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !name.ends_with("-cp39-abi3-win_amd64.whl") {
        return Err(Failure::new(format!("{name}: expected one for win_amd64 and Python 3.9 or later")));
    }
    let folder = workspace.scratch("windows").join("wheel");
    crate::install::remove(&folder)?;
    run(python.python(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder))?;
    for file in files.iter().map(|file| Path::new("hipdnn/lib").join(file)) {
        dll::imports(&folder.join(file))?;
    }
    let module = folder.join(MODULE);
    dll::imports_with(&module, &[PYTHON])?;
    let exports = run(command("x86_64-w64-mingw32-objdump", ["-p"]).arg(&module))?;
    if !exports.contains("PyInit__native") {
        return Err(Failure::new(format!("{MODULE} exports no PyInit__native")));
    }
    Ok(note)
}
