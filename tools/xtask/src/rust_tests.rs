//! The Rust tests, and cargo's arguments for them.
//!
//! cargo selects the features of shared crates by the packages it builds. Always building the same packages avoids recompiling
//! crates with other features.

use std::process::Command;

use crate::Failure;
use crate::install;
use crate::process::{command, run};
use crate::workspace::Workspace;

const PROFILE: &str = "ci";

/// All packages but those that have parts of their own.
const OTHERS: &[&str] = &["--workspace", "--exclude", "hipdnn-cpu-plugin", "--exclude", "xtask"];

/// Tests that are compiled and run together.
pub struct Part {
    /// Their name in the steps.
    pub name: &'static str,
    /// cargo, to test them.
    pub cargo: fn(&Workspace) -> Command,
}

/// The tests of the CPU plugin's kernels, which are optimised a little: compiling them takes longer than running them.
pub const KERNELS: Part = Part {
    name: "the CPU plugin",
    cargo: |workspace| {
        let mut cargo = packages(workspace, &["-p", "hipdnn-cpu-plugin", "--lib"]);
        // With little optimization the frames of all forms of a kernel together take more than a thread's 2 MiB.
        cargo.env("RUST_MIN_STACK", "8388608");
        cargo
    },
};

/// The tests of whole CPU engines, on the plugin's release build.
pub const ENGINES: Part = Part {
    name: "whole CPU engines",
    cargo: |workspace| {
        let mut cargo = install::cargo(workspace, "test", &[]);
        cargo.args(["--test", "engines"]);
        cargo
    },
};

pub const OTHER_PACKAGES: Part =
    Part { name: "all other packages", cargo: |workspace| packages(workspace, OTHERS) };

/// In the profile in which `cargo xtask` itself was just compiled, with all that only it uses.
pub const XTASK: Part = Part {
    name: "these commands",
    cargo: |workspace| workspace.cargo(["test", "--locked", "--profile", "dev", "-p", "xtask"]),
};

/// cargo, to test packages in the tests' own profile.
pub fn packages(workspace: &Workspace, packages: &[&str]) -> Command {
    workspace.cargo(["test", "--locked", "--profile", PROFILE].iter().chain(packages))
}

/// cargo, to run one test program of all packages but the CPU plugin.
pub fn one(workspace: &Workspace, program: &str) -> Command {
    let mut cargo = packages(workspace, OTHERS);
    cargo.args(["--test", program]);
    cargo
}

/// Compiles the examples of all packages but the CPU plugin: plugins that tests load, and programs that print declarations.
pub fn examples(workspace: &Workspace) -> Result<(), Failure> {
    let words = ["build", "--profile", PROFILE, "--locked", "--examples"];
    run(&mut workspace.cargo(words.iter().chain(OTHERS))).map(|_| ())
}

/// Compiles the examples. Returns the output of one of them.
pub fn printed_by(workspace: &Workspace, example: &str) -> Result<String, Failure> {
    examples(workspace)?;
    let folder = workspace.target_dir().join(PROFILE).join("examples");
    run(&mut command(folder.join(example), [""; 0]))
}
