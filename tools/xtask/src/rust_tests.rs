//! The Rust tests, and cargo's arguments for them.
//!
//! cargo selects the features of shared crates by the packages it builds. Always building the same packages avoids recompiling
//! crates with other features.

use std::process::Command;

use crate::Failure;
use crate::process::{command, run};
use crate::workspace::Workspace;

const PROFILE: &str = "ci";

/// Only the CPU plugin's library with its tests, not the library that programs load: its kernels take longest.
const CPU_PLUGIN: &[&str] = &["-p", "hipdnn-cpu-plugin", "--lib"];

const OTHERS: &[&str] = &["--workspace", "--exclude", "hipdnn-cpu-plugin"];

/// The parts that are compiled and run together.
pub const PARTS: &[(&str, &[&str])] = &[("the CPU plugin", CPU_PLUGIN), ("all other packages", OTHERS)];

/// cargo, to test a part.
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
