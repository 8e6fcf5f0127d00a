//! `cargo xtask sanitize`: the library under AddressSanitizer and ThreadSanitizer.
//!
//! gcc instruments the C programs of c_tests, rustc the library and the CPU plugin, and all use gcc's runtime.
//!
//! Both need the nightly compiler, ThreadSanitizer also the source of the standard library, which reports races if it is not
//! instrumented. Missing parts are skipped with a note on how to install them.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{self, ENGINES, LIBRARY, PLUGINS};
use crate::process::{command, run, show};
use crate::steps::{LEFT_OUT, Steps};
use crate::test::c_programs;
use crate::tools::{CC, CXX, require};
use crate::workspace::Workspace;

/// Instruments the standard library, so that the runtime sees its synchronization.
const BUILD_STD: &str = "-Zbuild-std";

/// The toolchain with sanitizers.
pub const NIGHTLY: &str = "nightly";

/// Options of C programs. Plugins throw, and the runtime looks up the throwing functions at program start.
const ADDRESS: &[&str] = &["-fsanitize=address", "-Wl,--no-as-needed", "-lstdc++"];

/// C programs that cannot run with AddressSanitizer, which takes more address space and stack than they allow.
const WITHOUT_ADDRESS: &[&str] = &["c_tests/api/out_of_memory.c", "c_tests/api/small_stack.c"];

/// C programs without a leak check: their plugins throw while freeing, or children exit while threads run.
const LEAKING: &[(&str, &str, &str)] = &[
    // Its filter of system calls, which stays, answers those of the leak check.
    ("c_tests/api/ranking_calls.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/defects.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/policies.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/saved_plans.c", "ASAN_OPTIONS", NO_LEAKS),
    ("c_tests/host/trace.c", "ASAN_OPTIONS", NO_LEAKS),
];

const NO_LEAKS: &str = "detect_leaks=0";

/// The same for ThreadSanitizer, which also starts its own thread, while two of these count threads, and miscounts threads in
/// forked children.
const WITHOUT_THREAD: &[&str] = &[
    "c_tests/api/out_of_memory.c",
    "c_tests/api/small_stack.c",
    "c_tests/api/cpu_knobs.c",
    "c_tests/api/cpu_quota.c",
    "c_tests/host/unload_threads.c",
];

/// Functions of newer compilers' runtimes that gcc's may lack.
const MEMORY: &str = "tools/xtask/src/sanitize/memory.c";

/// Lets forked children start threads, and processes exit without waiting a second for reports.
const OPTIONS: &str = "die_after_fork=0 atexit_sleep_ms=0";

/// For plugins without instrumentation, whose synchronization the runtime sees only in part.
const SUPPRESSED: &str = "tools/xtask/src/sanitize/suppressions.txt";

/// The Rust tests of shared data. The runtime does not see the synchronization of OpenMP's threads.
const SHARED: &[&[&str]] = &[
    &["test", "-p", "hipdnn-backend", "--lib", "--", "object", "thread_word", "lock", "last_error"],
    &["test", "-p", "hipdnn-cpu-plugin", "--lib", "--", "threading", "--skip", "openmp"],
];

/// Runs the named sanitizer, or both.
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

/// An installed tree with the library and the CPU plugin instrumented.
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

/// The missing parts of the nightly compiler, and how to install them.
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

/// Runs a release build without optimization across crates, with compiler flags that build scripts do not get. Returns the
/// folder of the results.
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
    // This process may run one toolchain's cargo; rustup's cargo selects the toolchain.
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
