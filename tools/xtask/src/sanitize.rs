//! `cargo xtask sanitize`: the library under AddressSanitizer and ThreadSanitizer.
//!
//! C programs of c_tests are instrumented by gcc, the library and the CPU plugin by rustc, and all speak to gcc's runtime.
//!
//! Both need the nightly compiler, ThreadSanitizer the source of the standard library too: what of it is not instrumented it takes for
//! races. What is not there is left out with a word on how to have it.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{self, ENGINES, LIBRARY, PLUGINS};
use crate::process::{command, run, show};
use crate::steps::{LEFT_OUT, Steps};
use crate::test::c_programs;
use crate::tools::{CC, CXX, require};
use crate::workspace::Workspace;

/// A standard library that is instrumented, too: of another the runtime would not see what orders accesses.
const BUILD_STD: &str = "-Zbuild-std";

/// The toolchain that has sanitizers.
pub const NIGHTLY: &str = "nightly";

/// What C programs are compiled and linked with. Plugins throw, and the runtime looks for what throws when a program starts.
const ADDRESS: &[&str] = &["-fsanitize=address", "-Wl,--no-as-needed", "-lstdc++"];

/// C programs that AddressSanitizer keeps from running: it takes more address space than they limit themselves to, and more stack.
const WITHOUT_ADDRESS: &[&str] = &["c_tests/api/out_of_memory.c", "c_tests/api/small_stack.c"];

/// C programs with plugins that throw while they are to free what they gave, or with children that end beside threads: where leaks are not
/// the library's.
const LEAKING: &[(&str, &str, &str)] = &[
    ("c_tests/host/defects.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/policies.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/saved_plans.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/trace.c", "ASAN_OPTIONS", NO_LEAKS),
];

const NO_LEAKS: &str = "detect_leaks=0";

/// The same of ThreadSanitizer, which also starts a thread of its own, where two of these count them, and loses count of the threads of
/// forked children.
const WITHOUT_THREAD: &[&str] = &[
    "c_tests/api/out_of_memory.c",
    "c_tests/api/small_stack.c",
    "c_tests/api/cpu_knobs.c",
    "c_tests/api/cpu_quota.c",
    "c_tests/host/unload_threads.c",
];

/// Functions of newer compilers' runtimes, which gcc's may not have.
const MEMORY: &str = "tools/xtask/src/sanitize/memory.c";

/// Forked children may start threads, and a process need not wait a second for reports of others before it ends.
const OPTIONS: &str = "die_after_fork=0 atexit_sleep_ms=0";

/// Of plugins that are not instrumented the runtime sees only half of what orders their accesses.
const SUPPRESSED: &str = "tools/xtask/src/sanitize/suppressions.txt";

/// The Rust tests of what threads share. Of OpenMP's own threads the runtime does not see what orders them.
const SHARED: &[&[&str]] = &[
    &["test", "-p", "hipdnn-backend", "--lib", "--", "object", "thread_word", "lock", "last_error"],
    &["test", "-p", "hipdnn-cpu-plugin", "--lib", "--", "threading", "--skip", "openmp"],
];

/// Runs the sanitizers with one of these names, or both.
pub fn sanitize(workspace: &Workspace, name: Option<&str>) -> Result<(), Failure> {
    require(&[&CC, &CXX])?;
    let mut steps = Steps::new();
    let is_asked = |of: &str| name.is_none_or(|name| name == of);
    if is_asked("address") {
        steps.group("AddressSanitizer");
        if let Some(stage) = instrumented_stage(workspace, "address", &mut steps) {
            c_programs(workspace, &stage, ADDRESS, WITHOUT_ADDRESS, LEAKING, &mut steps);
        }
    }
    if is_asked("thread") {
        thread(workspace, &mut steps);
    }
    steps.summary()
}

/// A tree as installed, with the library and the CPU plugin instrumented.
fn instrumented_stage(workspace: &Workspace, sanitizer: &str, steps: &mut Steps) -> Option<PathBuf> {
    let mut stage = None;
    steps.run("the library and the CPU plugin", || {
        if let Some(why) = missing(sanitizer == "thread") {
            return Ok(format!("{LEFT_OUT}{why}"));
        }
        stage = Some(lay_out(workspace, sanitizer)?);
        Ok(String::new())
    });
    stage
}

fn lay_out(workspace: &Workspace, sanitizer: &str) -> Result<PathBuf, Failure> {
    let library = ["build", "-p", "hipdnn-backend", "-p", "hipdnn-cpu-plugin", "--lib"];
    let words = [if sanitizer == "thread" { &[BUILD_STD][..] } else { &[] }, &library].concat();
    let (folder, flags) = (format!("sanitize/{sanitizer}"), format!("-Zsanitizer={sanitizer}"));
    let built = instrumented(workspace, &folder, &flags, Some(NIGHTLY), &words)?;
    let plain = workspace.stage_dir();
    if !plain.is_dir() {
        install::stage(workspace)?;
    }
    let stage = workspace.target_dir().join(format!("sanitize/stage_{sanitizer}"));
    install::remove(&stage)?;
    run(&mut command("cp", [Path::new("-r"), &plain, &stage]))?;
    std::fs::copy(built.join(LIBRARY), stage.join("lib").join(LIBRARY))?;
    for plugin in PLUGINS.iter().filter(|plugin| plugin.devices == ["cpu"]) {
        std::fs::copy(built.join(plugin.file), stage.join("lib").join(ENGINES).join(plugin.file))?;
    }
    Ok(stage)
}

fn thread(workspace: &Workspace, steps: &mut Steps) {
    steps.group("ThreadSanitizer");
    if let Some(stage) = instrumented_stage(workspace, "thread", steps) {
        let memory = workspace.path(MEMORY).display().to_string();
        let words = ["-fsanitize=thread", "-Wl,--no-as-needed", "-lstdc++", &memory];
        let suppressed = workspace.path(SUPPRESSED);
        let options = format!("{OPTIONS} suppressions={}", suppressed.display());
        c_programs(workspace, &stage, &words, WITHOUT_THREAD, &[("", "TSAN_OPTIONS", &options)], steps);
    }
    for words in SHARED {
        steps.run(&words.join(" "), || {
            if let Some(why) = missing(true) {
                return Ok(format!("{LEFT_OUT}{why}"));
            }
            let words = [&[BUILD_STD], *words].concat();
            instrumented(workspace, "sanitize/thread", "-Zsanitizer=thread", Some(NIGHTLY), &words)?;
            Ok(String::new())
        });
    }
}

/// What is not there of the nightly compiler, and how to have it.
pub fn missing(with_source: bool) -> Option<String> {
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
