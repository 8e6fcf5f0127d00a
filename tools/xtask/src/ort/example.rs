//! The C++ example, built with CMake and run with the ONNX Runtime of an environment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{FILE, FOLDER, headers};
use crate::Failure;
use crate::install::remove;
use crate::process::{command, run as run_program};
use crate::steps::LEFT_OUT;
use crate::workspace::Workspace;

/// Writes a network with a dynamic batch to a file.
const WRITE: &str =
    "import sys, networks; open(sys.argv[1], 'wb').write(networks.NETWORKS['mobilenet_v3']('N')[0])";

/// Builds the example and has it compare a network; skips it if headers or CMake are missing.
pub(super) fn run(workspace: &Workspace, environment: &Path, tree: &Path) -> Result<String, Failure> {
    let headers = match headers() {
        Ok(folder) => folder,
        Err(reason) => return Ok(reason),
    };
    if run_program(&mut command("cmake", ["--version"])).is_err() {
        return Ok(format!("{LEFT_OUT}CMake is not there"));
    }
    let scratch = workspace.scratch("ort-example");
    remove(&scratch)?;
    fs::create_dir_all(&scratch)?;
    // A wheel's library lacks the file names that the linker and the loader look for.
    let library = library(environment)?;
    for name in ["libonnxruntime.so", "libonnxruntime.so.1"] {
        fs::copy(&library, scratch.join(name))?;
    }
    let (source, build) = (workspace.path(FOLDER).join("example"), scratch.join("build"));
    let define = |name: &str, value: &Path| -> OsString {
        let mut word = OsString::from(format!("-D{name}="));
        word.push(value);
        word
    };
    let mut configure = command("cmake", ["-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", "-S"]);
    configure.arg(source).arg("-B").arg(&build);
    configure.arg(define("ONNXRUNTIME_INCLUDE_DIR", &headers));
    configure.arg(define("ONNXRUNTIME_LIBRARY", &scratch.join("libonnxruntime.so")));
    run_program(&mut configure)?;
    run_program(command("cmake", ["--build"]).arg(&build))?;

    let (model, report) = (scratch.join("model.onnx"), scratch.join("report.json"));
    let mut write = command(environment.join("bin/python"), ["-c", WRITE]);
    run_program(write.arg(&model).env("PYTHONPATH", workspace.path(FOLDER).join("tests")))?;
    let mut program = command(build.join("hipdnn_onnxruntime_example"), [workspace.release_dir().join(FILE)]);
    program.arg(&model).arg(format!("report={}", report.display()));
    program.env("LD_LIBRARY_PATH", &scratch).env("HIPDNN_BACKEND_LIBRARY_PATH", tree.join("lib"));
    let out = run_program(&mut program)?;
    if !fs::read_to_string(&report)?.contains("\"subgraph\":0") {
        return Err(Failure::new("the provider took no subgraph of the model"));
    }
    Ok(out.trim().to_owned())
}

/// ONNX Runtime's library in an environment of Python.
fn library(environment: &Path) -> Result<PathBuf, Failure> {
    let path = "import onnxruntime; print(onnxruntime.__path__[0])";
    let folder = run_program(&mut command(environment.join("bin/python"), ["-c", path]))?;
    for entry in fs::read_dir(Path::new(folder.trim()).join("capi"))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libonnxruntime.so")) {
            return Ok(path);
        }
    }
    Err(Failure::new(format!("{}: has no libonnxruntime.so", folder.trim())))
}
