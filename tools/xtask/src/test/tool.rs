//! The command line tool as it is installed: its own tests, run with the staged program, library and engines.

use super::{CARGO_TEST, Context, OTHERS, without_settings};
use crate::Failure;
use crate::install::TOOL;
use crate::process::run as run_program;
use crate::steps::Steps;

/// Where the tests find the installed tree.
const PREFIX: &str = "HIPDNN_TEST_PREFIX";

pub fn run(context: &Context, steps: &mut Steps) {
    steps.run(&format!("{TOOL} from the installed tree"), || {
        // Of the packages that the Rust tests are compiled of, so that nothing is compiled with other features once more. First the plugins
        // that the tests load.
        let build = ["build", "--profile", "ci", "--locked"].iter().chain(OTHERS).chain(&["--examples"]);
        run_program(&mut context.workspace.cargo(build))?;
        let mut cargo =
            context.workspace.cargo(CARGO_TEST.iter().chain(OTHERS).chain(&["--test", "commands"]));
        without_settings(&mut cargo);
        let out = run_program(cargo.env(PREFIX, context.stage))?;
        let passed = out.lines().find_map(|line| line.strip_prefix("test result: ok. "));
        let passed = passed.and_then(|line| line.split(';').next());
        passed.map(str::to_owned).ok_or_else(|| Failure::new(format!("no test ran\n{out}")))
    });
}
