//! Checks into which parts graphs are divided for cuDNN, on an absent device.

use std::path::Path;
use std::time::Duration;

use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::process::{command, run, run_within};
use crate::workspace::Workspace;

/// A stand-in for the driver, so that cuDNN can be loaded.
const DRIVER: &str = "tools/gpu-test/nvidia/no_device.c";

/// The absent device.
const DEVICE: &str = "sm_90";

/// Name prefixes of graphs that cuDNN must compute, whole or in parts.
const NEEDED: [&str; 4] = ["block forward", "block backward", "block gradients", "conv + bias + relu"];

const LIMIT: Duration = Duration::from_secs(900);

/// Has cuDNN plan every graph of `program`. Returns how many are whole, divided and refused.
pub fn check(workspace: &Workspace, folder: &Path, venv: &Path, program: &Path) -> Result<String, Failure> {
    let (graphs, driver) = (folder.join("graphs"), folder.join("no_device"));
    run(command(program, ["--graphs"]).arg(&graphs))?;
    std::fs::create_dir_all(&driver)?;
    let mut compiler = Language::C.compiler();
    compiler.args(STRICT).args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]);
    run(compiler.arg(driver.join("libcuda.so.1")).arg(workspace.path(DRIVER)))?;
    // cuDNN finds the libraries it opens beside itself, or through the loader's path.
    let mut libraries = vec![driver];
    for python in std::fs::read_dir(venv.join("lib"))? {
        for package in std::fs::read_dir(python?.path().join("site-packages/nvidia"))? {
            libraries.push(package?.path().join("lib"));
        }
    }
    let path = std::env::join_paths(&libraries).map_err(|error| Failure::new(error.to_string()))?;
    let words =
        ["run", "-q", "--profile", "ci", "--locked", "-p", "hipdnn-cudnn-plugin", "--example", "parts"];
    let mut parts = workspace.cargo(words);
    parts.arg("--").arg(DEVICE).arg(&graphs).args(NEEDED);
    let out = run_within(parts.env("LD_LIBRARY_PATH", path).env("VIRTUAL_ENV", venv), LIMIT)?;
    Ok(out.lines().last().unwrap_or_default().to_owned())
}
