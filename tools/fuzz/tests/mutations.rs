//! Runs every target briefly on its seeds and on mutations of them, each for `HIPDNN_FUZZ_SECONDS`. A number in `HIPDNN_FUZZ_TURN`
//! selects one target and seeds the mutations.

use std::io::Write;
use std::time::{Duration, Instant};

use fuzz::mutation::{Random, mutate};
use fuzz::{TARGETS, Target, plugins};

/// The time limit of an input.
const LIMIT: Duration = Duration::from_secs(10);

fn seconds() -> Duration {
    let seconds = std::env::var("HIPDNN_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// Which target's turn it is, of so many.
fn turn() -> Option<u64> {
    std::env::var("HIPDNN_FUZZ_TURN").ok().map(|turn| turn.parse().unwrap_or(0))
}

fn try_target(target: &Target) {
    let seeds = (target.seeds)();
    let mut executions = 0_u64;
    let mut slowest = Duration::ZERO;
    let mut input = Vec::new();
    let mut random =
        Random::new(0x9E37_79B9_7F4A_7C15 ^ turn().unwrap_or(0).wrapping_mul(0xC2B2_AE3D_27D4_EB4F));
    let start = Instant::now();
    for seed in &seeds {
        (target.run)(seed);
    }
    while start.elapsed() < seconds() {
        mutate(&seeds, &mut random, &mut input);
        let begin = Instant::now();
        (target.run)(&input);
        slowest = slowest.max(begin.elapsed());
        executions += 1;
    }
    assert!(slowest < LIMIT, "{}: an input took {slowest:?}", target.name);
    println!("{:12} {executions:9} executions, the slowest {slowest:?}", target.name);
}

/// One after the other, since the library's settings are per process.
#[test]
fn nothing_crashes() {
    // The library converts a panic to a status; here it is a failure, reported with its input.
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        earlier(panic);
        let _ = std::io::stderr().flush();
        std::process::abort();
    }));
    let own = turn().map(|turn| turn as usize % TARGETS.len());
    for (_, target) in TARGETS.iter().enumerate().filter(|(place, _)| own.is_none_or(|own| own == *place)) {
        let plugins = plugins();
        assert!(
            !target.needs_plugins || plugins.is_dir(),
            "{} is not there; `cargo xtask build` lays it out",
            plugins.display()
        );
        try_target(target);
    }
}
