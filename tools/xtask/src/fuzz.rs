//! `cargo xtask fuzz`: coverage-guided fuzzing of the targets in tools/fuzz with libFuzzer.
//!
//! LLVM's instrumentation is part of the stable compiler, and libFuzzer comes as C++ in a crate. The corpus stays in
//! target/fuzz/corpus, where the next run starts.

use std::path::PathBuf;

use crate::Failure;
use crate::install::{ENGINES, stage};
use crate::process::{command, run};
use crate::sanitize::{NIGHTLY, instrumented, missing};
use crate::steps::Steps;
use crate::tools::{CXX, require};
use crate::workspace::Workspace;

/// Instruments edges and comparisons.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks=on";

/// libFuzzer's limits: 10 seconds for an input and 2 GiB for the process.
const LIMITS: [&str; 5] =
    ["-timeout=10", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1", "-verbosity=0"];

/// Runs one target, or each, for some seconds; with AddressSanitizer, which needs the nightly compiler, also detects invalid
/// reads and leaks.
pub fn fuzz(
    workspace: &Workspace,
    seconds: u64,
    with_addresses: bool,
    target: Option<&str>,
) -> Result<(), Failure> {
    require(&[&CXX])?;
    if with_addresses && let Some(why) = missing(false) {
        return Err(Failure::new(why));
    }
    let staged = workspace.stage_dir().join("lib").join(ENGINES);
    if !staged.is_dir() {
        stage(workspace)?;
    }
    let program = build(workspace, with_addresses)?;
    let names = run(command(&program, [""; 0]).env("HIPDNN_FUZZ_TARGET", "?"))?;
    let names: Vec<&str> = names.lines().filter(|name| target.is_none_or(|target| target == *name)).collect();
    if names.is_empty() {
        return Err(Failure::new(format!("{} is not a target", target.unwrap_or("nothing"))));
    }
    let mut steps = Steps::new();
    steps.group("fuzz");
    for name in names {
        steps.run(name, || {
            let corpus = workspace.target_dir().join("fuzz/corpus").join(name);
            let found = workspace.target_dir().join("fuzz/found").join(name);
            std::fs::create_dir_all(&corpus)?;
            std::fs::create_dir_all(&found)?;
            let mut fuzzer = command(&program, LIMITS);
            fuzzer.arg(&corpus).arg(format!("-max_total_time={seconds}"));
            fuzzer.arg(format!("-artifact_prefix={}/", found.display()));
            fuzzer.env("HIPDNN_FUZZ_TARGET", name).env("HIPDNN_FUZZ_SEEDS", &corpus);
            fuzzer.env("HIPDNN_FUZZ_PLUGINS", &staged);
            // libFuzzer writes only to standard error.
            let output = fuzzer.output()?;
            let text = String::from_utf8_lossy(&output.stderr);
            let executions =
                text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
            if !output.status.success() {
                let again =
                    format!("HIPDNN_FUZZ_TARGET={name} {} {}/FILE", program.display(), found.display());
                return Err(Failure::new(format!("{text}\nthe input is in {}; {again}", found.display())));
            }
            Ok(format!("{} executions", executions.unwrap_or("?").trim()))
        });
    }
    steps.summary()
}

fn build(workspace: &Workspace, with_addresses: bool) -> Result<PathBuf, Failure> {
    let folder = if with_addresses { "fuzz/address" } else { "fuzz/plain" };
    let (flags, toolchain) = match with_addresses {
        true => (format!("{COVERAGE} -Zsanitizer=address"), Some(NIGHTLY)),
        false => (COVERAGE.to_owned(), None),
    };
    let words = ["build", "-p", "fuzz", "--features", "libfuzzer"];
    let built = instrumented(workspace, folder, &flags, toolchain, &words)?;
    Ok(built.join("fuzz"))
}
