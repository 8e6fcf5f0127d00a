//! `cargo xtask soak`: several threads plan, execute and destroy graphs for a given time, while memory is watched.

use crate::Failure;
use crate::c_program::{Language, Program};
use crate::install::stage;
use crate::process::{command, show};
use crate::tools::{CC, require};
use crate::workspace::Workspace;

/// Builds, and soaks for some minutes.
pub fn soak(workspace: &Workspace, minutes: f64) -> Result<(), Failure> {
    require(&[&CC])?;
    let stage = stage(workspace)?;
    let program = workspace.scratch("soak").join("soak");
    let source = workspace.path("c_tests/soak/soak.c");
    let libraries = &["-lm", "-lpthread"];
    Program { language: Language::C, source: &source, optimize: false, strict: true, libraries }
        .build(&stage, &program)?;
    show(&mut command(&program, [minutes.to_string()]))
}
