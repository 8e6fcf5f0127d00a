//! The Python package as it is installed: its wheel, and its own tests.

use super::{Context, without_settings};
use crate::Failure;
use crate::process::run as run_program;
use crate::python::Environment;
use crate::steps::{LEFT_OUT, Steps};
use crate::wheel::{self, PACKAGE};

pub fn run(context: &Context, steps: &mut Steps) {
    let mut ready = None;
    steps.run("a virtual environment of Python", || match Environment::ready() {
        Ok(environment) => {
            ready = Some(environment);
            Ok(String::new())
        }
        // Neither Python nor a network is this project's.
        Err(failure) => Ok(format!("{LEFT_OUT}{failure}")),
    });
    let Some(python) = ready else {
        steps.leave_out("the wheel", "no environment");
        steps.leave_out("pytest", "no environment");
        return;
    };
    let mut built = None;
    steps.run("the wheel, installed", || {
        let (wheel, note) = wheel::build(context.workspace, &python, context.stage)?;
        let install =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"];
        run_program(python.python(install).arg("--force-reinstall").arg(&wheel))?;
        built = Some(());
        Ok(note)
    });
    if built.is_none() {
        return;
    }
    let torch = run_program(&mut python.python(["-c", "import torch"])).is_ok();
    steps.run("pytest", || {
        let mut pytest = python.python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
        without_settings(&mut pytest);
        pytest.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(context.workspace.path(PACKAGE));
        let out = run_program(&mut pytest)?;
        let last = out.lines().last().unwrap_or_default().trim_matches(['=', ' ']).to_owned();
        if !last.contains(" passed") {
            return Err(Failure::new(format!("no test ran\n{out}")));
        }
        Ok(last)
    });
    if !torch {
        steps.leave_out("pytest against PyTorch", &format!("not installed; {} adds it", python.with_torch()));
    }
}
