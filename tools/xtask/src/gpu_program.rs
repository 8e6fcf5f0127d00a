//! The program that compares the engines for GPUs with the reference, and what it is built with.

use crate::Failure;
use crate::install::{PLUGINS, TOOL_PACKAGE};
use crate::progress;
use crate::workspace::Workspace;

/// The name of its package and of its file.
pub const PROGRAM: &str = "gpu-test";

/// Compiles the library, its plugins, the test program and the tool. Always together: for fewer packages cargo chooses other features of
/// what they share, and compiles that again.
pub fn compile(workspace: &Workspace) -> Result<String, Failure> {
    let mut cargo = workspace.release(["build", "-p", "hipdnn-backend", "-p", PROGRAM]);
    for plugin in PLUGINS {
        cargo.args(["-p", plugin.package]);
    }
    cargo.args(["-p", TOOL_PACKAGE]);
    progress::build(workspace, &mut cargo)
}
