//! One fuzz target for half a minute: another one with each commit, with other mutations. All of them would take too long.

use super::Context;
use crate::Failure;
use crate::process::{command, run as run_program};
use crate::rust_tests;
use crate::steps::Steps;
use crate::workspace::Workspace;

const SECONDS: &str = "30";

pub fn run(context: &Context, steps: &mut Steps) {
    steps.run(&format!("one target for {SECONDS} seconds"), || {
        let mut cargo = rust_tests::one(context.workspace, "mutations");
        cargo
            .args(["--", "--nocapture"])
            .env("HIPDNN_FUZZ_SECONDS", SECONDS)
            .env("HIPDNN_FUZZ_TURN", turn(context.workspace).to_string());
        let out = run_program(&mut cargo)?;
        let line = out.lines().find(|line| line.contains(" executions, "));
        line.map(str::to_owned).ok_or_else(|| Failure::new(format!("no target ran\n{out}")))
    });
}

/// A number derived from the commit; 0 without one.
fn turn(workspace: &Workspace) -> u32 {
    let mut git = command("git", ["rev-parse", "HEAD"]);
    let commit = run_program(git.current_dir(workspace.path(""))).unwrap_or_default();
    commit.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}
