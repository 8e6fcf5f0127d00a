//! `cargo xtask lint`: what the compiler and its tools have to say, taken as errors.

use crate::Failure;
use crate::process::run;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Runs clippy over every target, and rustdoc, with what the tests have compiled of macros and build scripts.
pub fn lint(workspace: &Workspace) -> Result<(), Failure> {
    let mut steps = Steps::new();
    steps.group("lint");
    steps.run("cargo clippy --workspace --all-targets", || {
        run(&mut workspace.cargo([
            "clippy",
            "--workspace",
            "--all-targets",
            "--profile",
            "ci",
            "--locked",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]))
        .map(|_| String::new())
    });
    steps.run("cargo doc --workspace --document-private-items", || {
        let mut doc = workspace.cargo([
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
            "--profile",
            "ci",
            "--locked",
            "--quiet",
        ]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings")).map(|_| String::new())
    });
    steps.summary()
}
