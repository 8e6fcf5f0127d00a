//! The installed Python package: its wheel and its tests, including a short form or all of those with PyTorch.

use std::path::PathBuf;

use super::{Context, without_settings};
use crate::Failure;
use crate::extent::Extent;
use crate::install::remove;
use crate::process::run as run_program;
use crate::python::{Environment, INSTALLS_TORCH};
use crate::steps::{LEFT_OUT, Steps};
use crate::wheel::{self, PACKAGE};
use crate::workspace::Workspace;

/// The example that runs in an empty environment.
const TEN_LINES: &str = "examples_python/matmul.py";

/// Selects the short tests with PyTorch, by a marker.
const SMOKE: &[&str] = &["-m", "smoke"];

/// The wheel, and the folder where it was installed: environments are shared by clones and must not change.
struct Installed {
    wheel: PathBuf,
    folder: PathBuf,
}

pub fn run(context: &Context, steps: &mut Steps) {
    let mut ready = None;
    steps.run("a virtual environment of Python", || match Environment::ready() {
        Ok(environment) => {
            ready = Some(environment);
            Ok(String::new())
        }
        // A missing Python or network is not a failure of this project.
        Err(failure) => Ok(format!("{LEFT_OUT}{failure}")),
    });
    let Some(python) = ready else {
        for name in ["the wheel", "pytest", "hipdnn.torch in short"] {
            steps.leave_out(name, "no environment");
        }
        return;
    };
    let Some(installed) = install(context, steps, &python) else { return };
    steps.run("ten lines, from an empty virtual environment", || ten_lines(context, &installed));
    steps.run("pytest", || pytest(context, &python, &installed, &[]));
    steps.run("hipdnn.torch in short", || match Environment::of_torch()? {
        Some(torch) => pytest(context, &torch, &installed, SMOKE),
        None => Ok(format!(
            "{LEFT_OUT}no PyTorch; {INSTALLS_TORCH} installs it (5.3 GB, outside of the clone) and runs all tests"
        )),
    });
}

/// `cargo xtask torch-test`: all tests of the package with PyTorch, or those whose names contain one of the words.
pub fn with_torch(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::new();
    let mut ready = None;
    let made = steps.run("virtual environments of Python and PyTorch", || {
        ready = Some((Environment::ready()?, Environment::with_torch()?));
        Ok(String::new())
    });
    let Some(((python, torch), stage)) = ready.filter(|_| made).zip(crate::stage(workspace, &mut steps))
    else {
        return steps.summary();
    };
    let context = Context {
        workspace,
        stage: &stage,
        words: &[],
        left_out: &[],
        variables: &[],
        extent: Extent::Whole,
    };
    if let Some(installed) = install(&context, &mut steps, &python) {
        let chosen = words.join(" or ");
        let options = ["-k", &chosen];
        let options = if words.is_empty() { &[][..] } else { &options };
        steps.run("pytest with PyTorch", || pytest(&context, &torch, &installed, options));
    }
    steps.summary()
}

fn install(context: &Context, steps: &mut Steps, python: &Environment) -> Option<Installed> {
    let mut installed = None;
    steps.run("the wheel, installed", || {
        let (wheel, note) = wheel::build(context.workspace, python, context.stage)?;
        let folder = context.workspace.scratch("python");
        remove(&folder)?;
        let mut pip = python.python(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run_program(pip.args(["--no-index", "--no-deps", "--target"]).arg(&folder).arg(&wheel))?;
        installed = Some(Installed { wheel, folder });
        Ok(note)
    });
    installed
}

fn ten_lines(context: &Context, installed: &Installed) -> Result<String, Failure> {
    let empty = Environment::empty(&context.workspace.scratch("empty"))?;
    let mut pip = empty.python(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run_program(pip.arg("--no-index").arg(&installed.wheel))?;
    let mut lines = empty.python([context.workspace.path(TEN_LINES)]);
    without_settings(&mut lines);
    Ok(run_program(&mut lines)?.trim().to_owned())
}

/// Runs the package's tests that the options select.
fn pytest(
    context: &Context,
    python: &Environment,
    installed: &Installed,
    options: &[&str],
) -> Result<String, Failure> {
    let mut pytest = python.python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
    without_settings(pytest.args(options));
    pytest.env("PYTHONPATH", &installed.folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let out = run_program(pytest.current_dir(context.workspace.path(PACKAGE)))?;
    let last = out.lines().last().unwrap_or_default().trim_matches(['=', ' ']).to_owned();
    if !last.contains(" passed") {
        return Err(Failure::new(format!("no test ran\n{out}")));
    }
    Ok(last)
}
