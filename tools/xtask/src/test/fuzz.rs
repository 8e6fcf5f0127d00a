//! One fuzz target for half a minute: another one with each commit, with other mutations. All of them would take too long.

use super::Context;
use crate::Failure;
use crate::extent::turn;
use crate::process::run as run_program;
use crate::rust_tests;
use crate::steps::Steps;

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
