//! The C host that loads one engine plugin and runs graphs with it, independent of this project.

use std::path::PathBuf;

use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::process::run;
use crate::workspace::Workspace;

/// Its source, with its headers in the same folder.
const SOURCE: &str = "c_tests/plugin_host/plugin_host.c";

/// Runs a program under valgrind: leaks and invalid accesses are failures.
pub const VALGRIND: &[&str] = &[
    "valgrind",
    "-q",
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect,possible",
    "--errors-for-leak-kinds=definite,indirect,possible",
    "--error-exitcode=99",
    // Also for libraries unloaded before the end.
    "--keep-debuginfo=yes",
    "--num-callers=30",
];

/// Compiles it. Returns the program's path.
pub fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let program = workspace.scratch("plugin_host").join("plugin_host");
    if let Some(folder) = program.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut compiler = Language::C.compiler();
    compiler.args(STRICT).arg("-g").arg(workspace.path(SOURCE)).arg("-o").arg(&program);
    run(compiler.args(["-ldl", "-lm"]))?;
    Ok(program)
}

/// The first reason of a plugin for computing nothing, up to the name of what is missing.
pub fn reason(out: &str) -> String {
    let line = out.lines().find_map(|line| line.trim_start().strip_prefix("info: ")).unwrap_or_default();
    line.split(';').next().unwrap_or_default().to_owned()
}
