//! `cargo xtask lint`: warnings of the compiler and its tools as errors, and deny.toml's rules for other crates.

use crate::Failure;
use crate::commits;
use crate::extent::Extent;
use crate::process::{exists, run};
use crate::steps::Steps;
use crate::style;
use crate::windows;
use crate::workspace::Workspace;

/// Checks messages of commits and the style, and runs clippy over every target, rustdoc and cargo-deny, reusing macros and build
/// scripts that the tests compiled.
pub fn lint(workspace: &Workspace) -> Result<(), Failure> {
    let mut steps = Steps::new();
    run_steps(workspace, Extent::Whole, &mut steps);
    steps.summary()
}

/// The steps of [`lint`]; for a change, without the documentation of private items and the other systems, which rarely find what
/// clippy does not.
pub fn run_steps(workspace: &Workspace, extent: Extent, steps: &mut Steps) {
    steps.group("lint");
    steps.run("messages of commits", || commits::check(&workspace.path("")));
    style::check(workspace, steps);
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
    // Advisories come from a database on the network: `cargo deny check advisories`.
    let deny = "cargo deny check licenses bans sources";
    if exists("cargo-deny") {
        steps.run(deny, || {
            let words = ["deny", "--log-level", "error", "check", "licenses", "bans", "sources"];
            run(&mut workspace.cargo(words)).map(|_| String::new())
        });
    } else {
        steps.leave_out(deny, "cargo-deny is not installed (cargo install --locked cargo-deny)");
    }
    if extent.is_whole() {
        document(workspace, steps);
        check_foreign(workspace, steps);
    }
}

/// The documentation of private items too, whose links are checked.
fn document(workspace: &Workspace, steps: &mut Steps) {
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
}

/// The systems that nothing here runs.
fn check_foreign(workspace: &Workspace, steps: &mut Steps) {
    for target in FOREIGN {
        let name = format!("cargo check --target {target}");
        match windows::standard_library(workspace, target) {
            Ok(()) => steps.run(&name, || check(workspace, target)),
            Err(missing) => {
                steps.leave_out(&name, &missing.to_string());
                true
            }
        };
    }
}

/// Systems that are only type-checked, since nothing here runs them.
const FOREIGN: [&str; 2] = ["x86_64-pc-windows-msvc", "aarch64-apple-darwin"];

/// Type-checks the installed crates that apply without GPUs.
fn check(workspace: &Workspace, target: &str) -> Result<String, Failure> {
    let mut cargo = workspace.cargo(["check", "--locked", "--quiet", "--lib", "--target", target]);
    for package in [
        "hipdnn-backend",
        "hipdnn-cpu-plugin",
        "hipdnn-vulkan-plugin",
        "hipdnn",
        "hipdnn-tool",
        "hipdnn-python",
    ] {
        cargo.args(["-p", package]);
    }
    // Warnings do not fail cargo, but are failures here.
    let output = cargo.output().map_err(|error| Failure::new(format!("cargo: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() && said.trim().is_empty() {
        Ok(String::new())
    } else {
        Err(Failure::new(said))
    }
}
