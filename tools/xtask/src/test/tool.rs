//! The installed command line tool: its own tests, run with the staged program, library and engines.

use super::{Context, invariance, without_settings};
use crate::Failure;
use crate::install::TOOL;
use crate::process::run as run_program;
use crate::rust_tests;
use crate::steps::Steps;

/// Where the tests find the installed tree.
const PREFIX: &str = "HIPDNN_TEST_PREFIX";

pub fn run(context: &Context, steps: &mut Steps) {
    steps.run(&format!("{TOOL} from the installed tree"), || {
        // The plugins that the tests load.
        rust_tests::examples(context.workspace)?;
        let mut cargo = rust_tests::one(context.workspace, "commands");
        without_settings(&mut cargo);
        let out = run_program(cargo.env(PREFIX, context.stage))?;
        let passed = out.lines().find_map(|line| line.strip_prefix("test result: ok. "));
        let passed = passed.and_then(|line| line.split(';').next());
        passed.map(str::to_owned).ok_or_else(|| Failure::new(format!("no test ran\n{out}")))
    });
    invariance::run_steps(context, steps);
}
