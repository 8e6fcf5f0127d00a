//! The demonstration: a C program that trains a network through the C interface.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::c_program::{Language, Program};
use crate::install::{self, copy};
use crate::process::{command, show};
use crate::tools;
use crate::workspace::Workspace;

const EXAMPLE: &str = "examples_c/train_digits.c";

/// Builds everything, then the example, then runs it with its output on the terminal.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    tools::require(&[&tools::CC])?;
    println!("building the library and its engines");
    let stage = install::stage(workspace)?;
    println!("building {EXAMPLE}");
    let program = example(workspace, &stage, EXAMPLE, false)?;
    show(command(program, arguments).current_dir(workspace.path("")))
}

/// Compiles an example against the staged library. Returns the program's path.
pub fn example(workspace: &Workspace, stage: &Path, source: &str, strict: bool) -> Result<PathBuf, Failure> {
    let source = workspace.path(source);
    let language = Language::of(&source)?;
    let name = source.file_stem().unwrap_or_default().to_owned();
    let target = workspace.target_dir().join("examples_c").join(name);
    Program { language, source: &source, optimize: true, strict, libraries: &["-lm"] }
        .build(stage, &target)?;
    Ok(target)
}

/// Compiles the example for a package with the library in `lib`, and puts its digits there.
pub fn pack(workspace: &Workspace, package: &Path) -> Result<(), Failure> {
    let source = workspace.path(EXAMPLE);
    let program =
        Program { language: Language::C, source: &source, optimize: true, strict: true, libraries: &["-lm"] };
    let (headers, target) = (workspace.path("include"), package.join("bin/train_digits"));
    program.build_with(&headers, &package.join("lib"), "$ORIGIN/../lib", &target)?;
    copy(&workspace.path("examples_c/data/digits.csv"), &package.join("digits.csv"))
}
