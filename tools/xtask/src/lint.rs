//! `cargo xtask lint`: warnings of the compiler and its tools as errors, and the rules of deny.toml for other crates.

use crate::Failure;
use crate::process::{exists, run};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Runs clippy over every target, rustdoc and cargo-deny, with what the tests have compiled of macros and build scripts.
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
    // Known advisories come from a database in the network: `cargo deny check advisories`.
    let deny = "cargo deny check licenses bans sources";
    if exists("cargo-deny") {
        steps.run(deny, || {
            let words = ["deny", "--log-level", "error", "check", "licenses", "bans", "sources"];
            run(&mut workspace.cargo(words)).map(|_| String::new())
        });
    } else {
        steps.leave_out(deny, "cargo-deny is not installed (cargo install --locked cargo-deny)");
    }
    steps.summary()
}
