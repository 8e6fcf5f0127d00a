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

const OTHERS: &[&str] = &["--workspace", "--exclude", "hipdnn-cpu-plugin"];

/// Tests that are compiled and run together.
pub struct Part {
    pub name: &'static str,
    /// cargo, to test it.
    pub cargo: fn(&Workspace) -> Command,
}

/// The tests of the CPU plugin's kernels, which are not optimised: compiling them takes longer than running them.
pub const KERNELS: Part = Part {
    name: "the CPU plugin",
    cargo: |workspace| test(workspace, &["-p", "hipdnn-cpu-plugin", "--lib"]),
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
    Part { name: "all other packages", cargo: |workspace| test(workspace, OTHERS) };

/// cargo, to test packages in the tests' own profile.
pub fn test(workspace: &Workspace, part: &[&str]) -> Command {
    workspace.cargo(["test", "--profile", PROFILE, "--locked"].iter().chain(part))
}

/// cargo, to run one test program of all packages but the CPU plugin.
pub fn one(workspace: &Workspace, program: &str) -> Command {
    let mut cargo = test(workspace, OTHERS);
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
