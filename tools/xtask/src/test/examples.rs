//! The examples: each checks its own result, and its exit status says so.

use std::path::PathBuf;
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::Language;
use crate::demo::example;
use crate::process::{command, run_within};
use crate::steps::Steps;

const FOLDER: &str = "examples_c";

/// Training is to take under a minute on two cores; a slow or busy machine is given more.
const LIMIT: Duration = Duration::from_secs(300);

pub fn run(context: &Context, steps: &mut Steps) {
    let sources = match sources(context) {
        Ok(sources) => sources,
        Err(failure) => {
            steps.run("programs in examples_c", || Err(failure));
            return;
        }
    };
    // One after the other: the engines use every core.
    for source in sources {
        steps.run(&source, || {
            let program = example(context.workspace, context.stage, &source, true)?;
            let mut command = command(&program, [""; 0]);
            without_settings(&mut command);
            command.current_dir(context.workspace.path(""));
            let out = run_within(&mut command, LIMIT)?;
            Ok(out.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned())
        });
    }
}

fn sources(context: &Context) -> Result<Vec<String>, Failure> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(context.workspace.path(FOLDER))? {
        let path: PathBuf = entry?.path();
        if path.is_file() && Language::of(&path).is_ok() {
            sources.push(context.workspace.relative(&path));
        }
    }
    sources.sort();
    if sources.is_empty() { Err(Failure::new("no example was found")) } else { Ok(sources) }
}
