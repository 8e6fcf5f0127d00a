//! `cargo xtask sanitize`: the library under AddressSanitizer and ThreadSanitizer.
//!
//! Both need the nightly compiler, ThreadSanitizer the source of the standard library too: what of it is not instrumented it takes for
//! races. What is not there is left out with a word on how to have it.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{self, ENGINES, LIBRARY, PLUGINS};
use crate::process::{command, run, show};
use crate::steps::Steps;
use crate::test::c_programs;
use crate::tools::{CC, CXX, require};
use crate::workspace::Workspace;

/// The toolchain that has sanitizers.
pub const NIGHTLY: &str = "nightly";

/// What C programs are compiled and linked with. Plugins throw, and the runtime looks for what throws when a program starts.
const ADDRESS: &[&str] = &["-fsanitize=address", "-Wl,--no-as-needed", "-lstdc++"];

/// C programs that AddressSanitizer keeps from running: it takes more address space than they limit themselves to, and more stack.
const WITHOUT_ADDRESS: &[&str] = &["c_tests/api/out_of_memory.c", "c_tests/api/small_stack.c"];

/// The Rust tests of what threads share.
const SHARED: &[&[&str]] = &[
    &["test", "-p", "hipdnn-backend", "--lib", "--", "object", "thread_word", "lock", "last_error"],
    &["test", "-p", "hipdnn-cpu-plugin", "--lib", "--", "threading"],
];

/// Runs the sanitizers with one of these names, or both.
pub fn sanitize(workspace: &Workspace, name: Option<&str>) -> Result<(), Failure> {
    require(&[&CC, &CXX])?;
    let mut steps = Steps::new();
    let is_asked = |of: &str| name.is_none_or(|name| name == of);
    if is_asked("address") {
        address(workspace, &mut steps)?;
    }
    if is_asked("thread") {
        thread(workspace, &mut steps);
    }
    steps.summary()
}

/// C programs of c_tests, instrumented by gcc, against the library and the CPU plugin, instrumented by rustc: both speak to one runtime.
fn address(workspace: &Workspace, steps: &mut Steps) -> Result<(), Failure> {
    steps.group("AddressSanitizer");
    let mut stage = PathBuf::new();
    let is_there = steps.run("the library and the CPU plugin", || {
        let Some(why) = missing(false) else {
            stage = lay_out(workspace)?;
            return Ok(String::new());
        };
        Ok(format!("left out: {why}"))
    });
    if is_there && !stage.as_os_str().is_empty() {
        c_programs(workspace, &stage, ADDRESS, WITHOUT_ADDRESS, steps);
    }
    Ok(())
}

fn lay_out(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let words = ["build", "-p", "hipdnn-backend", "-p", "hipdnn-cpu-plugin", "--lib"];
    let flags = "-Zsanitizer=address";
    let built = instrumented(workspace, "sanitize/address", flags, Some(NIGHTLY), &words)?;
    let plain = workspace.stage_dir();
    if !plain.is_dir() {
        install::stage(workspace)?;
    }
    let stage = workspace.target_dir().join("sanitize/stage");
    install::remove(&stage)?;
    run(&mut command("cp", [Path::new("-r"), &plain, &stage]))?;
    std::fs::copy(built.join(LIBRARY), stage.join("lib").join(LIBRARY))?;
    for plugin in PLUGINS.iter().filter(|plugin| plugin.package == "hipdnn-cpu-plugin") {
        std::fs::copy(built.join(plugin.file), stage.join("lib").join(ENGINES).join(plugin.file))?;
    }
    Ok(stage)
}

fn thread(workspace: &Workspace, steps: &mut Steps) {
    steps.group("ThreadSanitizer");
    for words in SHARED {
        steps.run(&words.join(" "), || {
            if let Some(why) = missing(true) {
                return Ok(format!("left out: {why}"));
            }
            let words = [&["-Zbuild-std"], *words].concat();
            instrumented(workspace, "sanitize/thread", "-Zsanitizer=thread", Some(NIGHTLY), &words)?;
            Ok(String::new())
        });
    }
}

/// What is not there of the nightly compiler, and how to have it.
fn missing(with_source: bool) -> Option<String> {
    let root = run(command("rustc", ["--print", "sysroot"]).env("RUSTUP_TOOLCHAIN", NIGHTLY));
    let Ok(root) = root else {
        return Some("no nightly compiler; rustup toolchain install nightly".to_owned());
    };
    let source = Path::new(root.trim()).join("lib/rustlib/src/rust/library");
    (with_source && !source.is_dir()).then(|| {
        "no source of the standard library; rustup component add rust-src --toolchain nightly".to_owned()
    })
}

/// Runs cargo for release without optimization across crates, with flags for the compiler that build scripts do not get. Answers
/// where the results are.
pub fn instrumented(
    workspace: &Workspace,
    folder: &str,
    flags: &str,
    toolchain: Option<&str>,
    words: &[&str],
) -> Result<PathBuf, Failure> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = workspace.target_dir().join(folder);
    let (options, tests) = words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
    // The cargo that runs this may be that of one toolchain; rustup's own chooses.
    let mut cargo = match toolchain {
        Some(name) => {
            let mut cargo = command("cargo", options);
            cargo
                .env("RUSTUP_TOOLCHAIN", name)
                .env_remove("CARGO")
                .env_remove("RUSTC")
                .current_dir(workspace.path(""));
            cargo
        }
        None => workspace.cargo(options),
    };
    cargo.args(["--release", "--locked", "--target", &triple, "--target-dir"]).arg(&folder).args(tests);
    show(cargo.env("RUSTFLAGS", flags).env("CARGO_PROFILE_RELEASE_LTO", "off"))?;
    Ok(folder.join(triple).join("release"))
}
