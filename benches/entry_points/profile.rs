//! The cost of the profile and the trace per execution.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::subject::{median, time};

/// The variable that makes a process measure executions.
const MEASURE: &str = "HIPDNN_BENCH_EXECUTIONS";

const ROUNDS: usize = 9;

/// Hundreds of times the capacity of a thread's buffer, to include the formatting of lines.
const EXECUTIONS: u32 = 50_000;

const SETTINGS: [(&str, bool, bool); 4] = [
    ("off", false, false),
    ("HIPDNN_VERBOSE=1", true, false),
    ("HIPDNN_TRACE_FILE", false, true),
    ("both", true, true),
];

/// Whether this process measures executions.
pub fn is_measurement() -> bool {
    std::env::var_os(MEASURE).is_some()
}

/// Prints the nanoseconds of an execution: thread time and wall time.
pub fn measure(execute: impl Fn()) {
    time(EXECUTIONS / 10, &execute);
    let start = Instant::now();
    let own = time(EXECUTIONS, &execute);
    println!("{own} {}", start.elapsed().as_nanos() as f64 / f64::from(EXECUTIONS));
}

/// Prints the added cost, with lines and events written to files. The variables are read once per process, so each setting runs in its
/// own processes, in turn.
pub fn print() {
    let folder = std::env::temp_dir().join(format!("hipdnn_profile_{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for lines and events");
    let mut own = SETTINGS.map(|_| Vec::new());
    let mut elapsed = SETTINGS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        let mut alone = None;
        for (((_, verbose, trace), own), elapsed) in SETTINGS.into_iter().zip(&mut own).zip(&mut elapsed) {
            let cost = costs(&folder, verbose, trace);
            let off = *alone.get_or_insert(cost);
            own.push(cost.0 - off.0);
            elapsed.push(cost.1 - off.1);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!(
        "\n{:<50} {:>8} {:>12} {:>8}",
        "ns more for an execution", "own time", "on the clock", "to reach"
    );
    for (((name, ..), own), elapsed) in SETTINGS.into_iter().zip(own).zip(elapsed).skip(1) {
        let (own, elapsed) = (median(own), median(elapsed));
        let mark = if elapsed <= 1000.0 { "" } else { "  missed" };
        println!("{name:<50} {own:>8.0} {elapsed:>12.0} {:>8}{mark}", 1000);
    }
}

fn costs(folder: &Path, verbose: bool, trace: bool) -> (f64, f64) {
    let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
    again.env(MEASURE, "1").env("HIPDNN_LOG_FILE", folder.join("lines"));
    again.env("HIPDNN_VERBOSE", if verbose { "1" } else { "0" }).env_remove("HIPDNN_TRACE_FILE");
    if trace {
        again.env("HIPDNN_TRACE_FILE", folder.join("trace.json"));
    }
    let output = again.output().expect("the program starts");
    let _ = std::fs::remove_file(folder.join("lines"));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut costs = text.split_whitespace().map(|cost| cost.parse().expect("a number"));
    costs.next().zip(costs.next()).expect("two costs")
}
