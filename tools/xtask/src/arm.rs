//! `cargo xtask arm-test`: the library and CPU_ENGINE compiled for 64-bit ARM and tested on an emulated processor.
//!
//! Compiler, standard library and emulator come from Debian, in a folder outside of the clone. The emulator shows results, not
//! speed. If it is not available, the tests are skipped with a reason.

use std::fs;
use std::time::Duration;

use crate::Failure;
use crate::cache;
use crate::install::ENGINES;
use crate::process::{run, run_within};
use crate::steps::Steps;
use crate::userland::{Contents, NEWEST, Userland};
use crate::workspace::Workspace;

const CONTENTS: Contents = Contents {
    suite: NEWEST,
    packages: &[
        "rustc",
        "cargo",
        "libstd-rust-dev:arm64",
        "gcc",
        "gcc-aarch64-linux-gnu",
        "libc6-dev-arm64-cross",
        "qemu-user",
    ],
    foreign: Some("arm64"),
};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The userland's folder for the sources.
const INSIDE: &str = "hipdnn";

/// The packages to test, with options that select their tests.
const PACKAGES: &[(&str, &[&str])] = &[
    ("hipdnn-abi", &[]),
    ("hipdnn-backend", &["--lib"]),
    ("hipdnn-plugin-sdk", &[]),
    ("hipdnn-plugin-planner", &[]),
    ("hipdnn-cpu-plugin", &["--lib", "--test", "engines"]),
];

/// The emulator is ten to fifty times slower than a processor.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the tests, or those of the packages whose names contain one of the words.
pub fn test(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let folder = cache::folder("HIPDNN_ARM_USERLAND", "arm-userland")?;
    let Some(userland) = Userland::ready(folder, &CONTENTS, "arm-test")? else { return Ok(()) };
    let mut steps = Steps::new();
    steps.group("set-up");
    if steps.run("the sources and the crates", || carry(workspace, &userland)) {
        steps.run("the CPU plugin, laid out for the test that loads it", || lay_out(&userland));
        steps.group("arm: tests on an emulated processor");
        let chosen = PACKAGES.iter().filter(|(package, _)| {
            words.is_empty() || words.iter().any(|word| package.contains(word.as_str()))
        });
        for (package, options) in chosen {
            steps.run(package, || {
                let words = ["cargo", "test", "--offline", "--target", TARGET, "-p", package];
                let mut cargo = userland.command(&["env", "--chdir", &format!("/{INSIDE}/source")]);
                let out = run_within(cargo.args(words).args(*options).env_remove("CARGO_TARGET_DIR"), LIMIT)?;
                let passed = out.lines().filter_map(passed).sum::<usize>();
                Ok(format!("{passed} tests"))
            });
        }
    }
    steps.summary()
}

/// Builds the CPU plugin into the place where its tests look for the staged one.
fn lay_out(userland: &Userland) -> Result<String, Failure> {
    let words = ["cargo", "build", "--offline", "--target", TARGET, "-p", "hipdnn-cpu-plugin", "--lib"];
    let mut cargo = userland.command(&["env", "--chdir", &format!("/{INSIDE}/source")]);
    run_within(cargo.args(words).env_remove("CARGO_TARGET_DIR"), LIMIT)?;
    let target = userland.path(INSIDE).join("source/target").join(TARGET);
    let engines = target.join("stage/lib").join(ENGINES);
    fs::create_dir_all(&engines)?;
    fs::copy(target.join("debug/libhipdnn_cpu_plugin.so"), engines.join("libhipdnn_cpu_plugin.so"))?;
    Ok(String::new())
}

/// The number in the line that ends a test program's output.
pub fn passed(line: &str) -> Option<usize> {
    line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse().ok()
}

/// Copies the tracked files that have changed, and the crates they need.
fn carry(workspace: &Workspace, userland: &Userland) -> Result<String, Failure> {
    let source = userland.path(INSIDE).join("source");
    let listed = run(crate::process::command(
        "git",
        ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    )
    .current_dir(workspace.path("")))?;
    for file in listed.split_terminator('\0') {
        let (from, to) = (workspace.path(file), source.join(file));
        let Ok(bytes) = fs::read(&from) else {
            // Removed, and not yet committed.
            let _ = fs::remove_file(&to);
            continue;
        };
        if !fs::read(&to).is_ok_and(|had| had == bytes) {
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&to, bytes)?;
        }
    }
    let crates = userland.path(INSIDE).join("crates");
    run(workspace.cargo(["vendor", "--locked", "-q"]).arg(&crates))?;
    let settings = format!(
        "[source.crates-io]\nreplace-with = \"crates\"\n\n[source.crates]\ndirectory = \"/{INSIDE}/crates\"\n\n\
         [target.{TARGET}]\nlinker = \"aarch64-linux-gnu-gcc\"\nrunner = \"qemu-aarch64 -L /usr/aarch64-linux-gnu\"\n"
    );
    let folder = userland.path(INSIDE).join(".cargo");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("config.toml"), settings)?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed("test result: ok. 47 passed; 0 failed; 0 ignored"), Some(47));
        assert_eq!(passed("test it ... ok"), None);
    }
}
