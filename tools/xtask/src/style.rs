//! The style of C, C++ and Python, checked by clang-format and ruff.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::process::{command, run};
use crate::steps::Steps;
use crate::venv;
use crate::workspace::Workspace;

/// Pinned, since each version formats differently.
const PACKAGES: &[&str] = &["clang-format==23.1.5", "ruff==0.17.6"];

/// `cargo xtask format`: writes every file in the style that `cargo xtask lint` checks.
pub fn format(workspace: &Workspace) -> Result<(), Failure> {
    let mut steps = Steps::new();
    steps.group("format");
    steps.run("cargo fmt", || run(&mut workspace.cargo(["fmt", "--all"])).map(|_| String::new()));
    let tools = programs(workspace)?;
    steps.run("clang-format", || c_files(workspace, &tools, &["-i"]));
    steps.run("ruff", || {
        ruff(workspace, &tools, &["check", "--fix", "--quiet"])?;
        ruff(workspace, &tools, &["format", "--quiet"])
    });
    steps.summary()
}

/// Checks the style, with a step for each tool.
pub fn check(workspace: &Workspace, steps: &mut Steps) {
    let names = ["clang-format", "ruff check", "ruff format --check"];
    match programs(workspace) {
        Ok(tools) => {
            steps.run(names[0], || c_files(workspace, &tools, &["--dry-run", "--Werror"]));
            steps.run(names[1], || ruff(workspace, &tools, &["check", "--quiet"]));
            steps.run(names[2], || ruff(workspace, &tools, &["format", "--check", "--quiet"]));
        }
        Err(missing) => names.iter().for_each(|name| steps.leave_out(name, &missing.to_string())),
    }
}

/// The folder of the two programs.
fn programs(workspace: &Workspace) -> Result<PathBuf, Failure> {
    Ok(venv::ready(&workspace.target_dir().join("xtask/style"), PACKAGES, "lint")?.join("bin"))
}

/// Calls clang-format for each tracked file that .clang-format-ignore does not name.
fn c_files(workspace: &Workspace, tools: &Path, words: &[&str]) -> Result<String, Failure> {
    let tracked =
        ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.c", "*.h", "*.cpp", "*.hpp"];
    let listed = run(command("git", tracked).current_dir(workspace.path(".")))?;
    let mut clang = command(tools.join("clang-format"), words.iter().copied());
    run(clang.args(listed.lines()).current_dir(workspace.path("."))).map(|_| String::new())
}

fn ruff(workspace: &Workspace, tools: &Path, words: &[&str]) -> Result<String, Failure> {
    let mut ruff = command(tools.join("ruff"), words.iter().copied());
    run(ruff.arg(".").current_dir(workspace.path("."))).map(|_| String::new())
}
