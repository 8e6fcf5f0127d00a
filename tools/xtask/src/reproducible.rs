//! `cargo xtask reproducible`: packages built in a clone in another folder are equal to this one's, byte for byte.

use std::fs;

use crate::Failure;
use crate::install::{self, remove};
use crate::package::{Packages, pack};
use crate::process::{command, run};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Builds and packs twice, and compares.
pub fn check(workspace: &Workspace) -> Result<(), Failure> {
    let mut steps = Steps::new();
    steps.group("reproducible: the packages of two folders");
    let mut git = command("git", ["status", "--porcelain"]);
    let changes = run(git.current_dir(workspace.path("")))?;
    if !changes.trim().is_empty() {
        steps
            .leave_out("packages of another folder", "changes are not committed, so that a clone lacks them");
        return steps.summary();
    }
    let mut packages = None;
    steps.run("packages of this folder", || {
        let note = install::build(workspace)?;
        packages = Some(pack(workspace, &workspace.target_dir().join("package"), 9)?);
        Ok(note)
    });
    if let Some(packages) = packages {
        steps.run("packages of another folder", || clone(workspace));
        steps.run("byte for byte the same", || compare(workspace, &packages));
    }
    steps.summary()
}

/// The folder of the clone.
const CLONE: &str = "reproducible/in another folder";

fn clone(workspace: &Workspace) -> Result<String, Failure> {
    let clone = workspace.scratch(CLONE);
    remove(&clone)?;
    run(command("git", ["clone", "--quiet"]).arg(workspace.path("")).arg(&clone))?;
    // In the clone's own process, since this program's workspace is fixed.
    let mut cargo = workspace.cargo(["run", "--quiet", "--package", "xtask", "--", "package"]);
    run(cargo.current_dir(&clone).env_remove("CARGO_TARGET_DIR")).map(|_| String::new())
}

fn compare(workspace: &Workspace, packages: &Packages) -> Result<String, Failure> {
    let others = workspace.scratch(CLONE).join("target/package");
    let mut names = Vec::new();
    for package in packages.all() {
        let name = package.file_name().unwrap_or_default();
        let other = others.join(name);
        if fs::read(package)? != fs::read(&other)? {
            let (package, other) = (package.display(), other.display());
            return Err(Failure::new(format!("{package} differs from {other}; `diffoscope` shows where")));
        }
        names.push(name.to_string_lossy().into_owned());
    }
    Ok(names.join(", "))
}
