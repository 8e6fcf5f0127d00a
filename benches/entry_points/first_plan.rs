//! What a fresh process takes until its first plan by `CPU_ENGINE`: opening the plugin, a handle, and a convolution from bytes to plan.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::api::Api;
use crate::subject::{convolution, library, median, time};

/// The variable that makes a process measure its first plan.
const MEASURE: &str = "HIPDNN_BENCH_FIRST_PLAN";

const PROCESSES: usize = 101;

/// The microseconds of AMD's library, 320 to 430.
const GOAL: f64 = 430.0;

/// Whether this process measures its first plan.
pub fn is_measurement() -> bool {
    std::env::var_os(MEASURE).is_some()
}

/// Prints the microseconds until the first plan: thread time and wall time.
pub fn measure() {
    let api = Api::load(&library());
    let bytes = convolution();
    let start = Instant::now();
    let own = time(1, || _ = api.plan(api.handle(), &bytes));
    println!("{} {}", own / 1e3, start.elapsed().as_nanos() as f64 / 1e3);
}

/// The plugin beside the library.
fn plugin() -> Option<PathBuf> {
    Some(library().with_file_name("libhipdnn_cpu_plugin.so")).filter(|file| file.is_file())
}

/// Prints the medians of many processes.
pub fn print() {
    let Some(plugin) = plugin() else {
        println!(
            "\nfirst plan of a process: not measured, as hipdnn-cpu-plugin was not built beside the library"
        );
        return;
    };
    let (own, elapsed): (Vec<f64>, Vec<f64>) = (0..PROCESSES)
        .map(|_| {
            let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
            again.env(MEASURE, "1").env("HIPDNN_PLUGIN_DIR", &plugin);
            let output = again.output().expect("the program starts");
            let text = String::from_utf8(output.stdout).expect("numbers");
            let mut costs = text.split_whitespace().map(|cost| cost.parse::<f64>().expect("a number"));
            costs.next().zip(costs.next()).expect("two costs")
        })
        .unzip();
    let (own, elapsed) = (median(own), median(elapsed));
    let mark = if elapsed <= GOAL { "" } else { "  missed" };
    println!(
        "\n{:<50} {:>8} {:>12} {:>8}\n{:<50} {own:>8.0} {elapsed:>12.0} {GOAL:>8}{mark}",
        "µs in a fresh process",
        "own time",
        "on the clock",
        "to reach",
        "first handle and first plan, CPU_ENGINE"
    );
}
