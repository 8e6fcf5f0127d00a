//! `CPU_ENGINE` side by side with ONNX Runtime and oneDNN. `cargo xtask bench-cpu` builds and installs what it needs and
//! runs it.
//!
//! Ours runs in this process, through the library's C interface. Each peer is a process that measures on request, so that only
//! one runs at a time, with the same data and number of threads. Each of several rounds measures everyone, and the result is the
//! median of the rounds' ratios.

mod array;
mod busy;
mod case;
mod graph;
mod machine;
mod measure;
mod ours;
mod peer;
mod public;
mod report;
mod serve;
mod suites;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use hipdnn::{Backend, Handle};
use hipdnn_tool::failure::{Failure, Result};
use indicatif::{ProgressBar, ProgressStyle};

use busy::Busy;
use case::Case;
use machine::Gauge;
use measure::{Bench, Effort};
use peer::{Kind, Peer};
use suites::{SUITES, Suite};

/// CPU_ENGINE side by side with ONNX Runtime and oneDNN
#[derive(Parser)]
struct Arguments {
    /// Only this suite, or cases with this word in their names; may be given several times
    #[arg(long, value_name = "WORD")]
    suite: Vec<String>,
    /// Use the public problem lists instead of the suites
    #[arg(long)]
    public: bool,
    /// Write the cases as comma-separated values into this file, including the times of another version if given
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Threads of each library; by default the number of processors
    #[arg(long)]
    threads: Option<usize>,
    /// Measure only CPU_ENGINE, without and with this many busy threads in the same process: a convolution from 64 to 64 channels of
    /// 28², or the selected suites
    #[arg(long, value_name = "COUNT")]
    busy: Option<usize>,
    /// Write all measurements into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The library to measure
    #[arg(long, value_name = "FILE")]
    backend: Option<PathBuf>,
    /// Another version of the library, as an additional peer that has every case
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Internal: run as such a peer
    #[arg(long, hide = true, requires = "backend")]
    serve: bool,
    /// A Python with onnx and onnxruntime
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// The file onnxruntime_peer.py
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
    /// The program compiled from onednn_peer.cpp
    #[arg(long, value_name = "FILE")]
    onednn: Option<PathBuf>,
    /// A folder for exchanged arrays
    #[arg(long, value_name = "FOLDER", default_value = "target/bench-cpu/data")]
    data: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .clamp(1, 256);
    // SAFETY: the program has no other thread yet.
    unsafe { std::env::set_var("HIPDNN_CPU_THREADS", threads.to_string()) };
    match run(&arguments, threads) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("bench-cpu: {failure}");
            failure.exit_code()
        }
    }
}

/// The cases selected by the words: the name of a suite selects the suite, another word all cases that contain it.
fn chosen(suites: &[Suite], words: &[String]) -> Vec<Case> {
    let chooses = |word: &String, case: &Case| match suites.iter().any(|suite| suite.name == word) {
        true => case.suite == word,
        false => format!("{} {}", case.suite, case.name).contains(word),
    };
    let all = suites.iter().flat_map(|suite| (suite.cases)());
    all.filter(|case| words.is_empty() || words.iter().any(|word| chooses(word, case))).collect()
}

fn peers(arguments: &Arguments, threads: usize) -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    if let (Some(python), Some(script)) = (&arguments.python, &arguments.onnxruntime) {
        let words = [python, script].map(OsString::from);
        peers.push(Peer::start(Kind::Onnx, &words, threads)?);
    }
    if let Some(program) = &arguments.onednn {
        peers.push(Peer::start(Kind::OneDnn, &[OsString::from(program)], threads)?);
    }
    if let Some(library) = &arguments.against {
        let program =
            std::env::current_exe().map_err(|error| Failure::work(format!("this program: {error}")))?;
        let mut words = vec![program.into_os_string()];
        words.extend(arguments.public.then(|| "--public".into()));
        words.extend(["--serve", "--threads"].map(OsString::from));
        words.push(threads.to_string().into());
        for (name, value) in [("--backend", library), ("--data", &arguments.data)] {
            words.extend([OsString::from(name), value.into()]);
        }
        peers.push(Peer::start(Kind::Version, &words, threads)?);
    }
    Ok(peers)
}

/// Returns whether every result was correct.
fn run(arguments: &Arguments, threads: usize) -> Result<bool> {
    let suites = if arguments.public { public::SUITES } else { SUITES };
    let of_busy = arguments.busy.is_some() && arguments.suite.is_empty();
    let cases = if of_busy { suites::beside_busy_threads() } else { chosen(suites, &arguments.suite) };
    if cases.is_empty() {
        let names: Vec<&str> = suites.iter().map(|suite| suite.name).collect();
        return Err(Failure::input(format!("no suite has such a word; there are {}", names.join(", "))));
    }
    if let (true, Some(backend)) = (arguments.serve, &arguments.backend) {
        serve::serve(backend, &cases, &arguments.data)?;
        return Ok(true);
    }
    let backend = Backend::open(arguments.backend.as_deref())?;
    let handle = Handle::new(&backend)?;
    if let Some(count) = arguments.busy {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let engine = ours::engine(&handle)?;
        // The engine uses at most that many threads.
        let threads = threads.min(processors);
        Busy { count, threads, processors }.measure(&backend, &handle, engine, &cases)?;
        return Ok(true);
    }
    let (rounds, burst, limit, machine_time) = match arguments.quick {
        true => (3, 15, 5, 100),
        false => (8, 50, 20, 300),
    };
    let machine_time = Duration::from_millis(machine_time);
    let mut gauge = Gauge::new(threads);
    let machine = gauge.machine(machine_time);
    let mut bench = Bench {
        engine: ours::engine(&handle)?,
        peers: peers(arguments, threads)?,
        backend: &backend,
        handle: &handle,
        gauge,
        effort: Effort { rounds, burst: Duration::from_millis(burst), limit: Duration::from_millis(limit) },
        folder: &arguments.data,
    };
    let bar = ProgressBar::new(cases.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    let rows: Vec<_> = cases
        .iter()
        .map(|case| {
            bar.set_message(format!("{} {}", case.suite, case.name));
            let row = bench.measure(case);
            bar.inc(1);
            row
        })
        .collect();
    bar.finish_and_clear();
    // Measured again, in case the machine was busy the first time.
    let machine = machine.best(bench.gauge.machine(machine_time));
    let names: Vec<String> = bench.peers.iter().map(|peer| peer.name.clone()).collect();
    println!(
        "{threads} threads, {}; at most {:.0} GFLOP/s ({:.0} on one thread), copying {:.1} GB/s\n",
        if names.is_empty() { "no peer".to_owned() } else { names.join(", ") },
        machine.all,
        machine.one,
        machine.copy
    );
    print!("{}", report::text(&rows));
    if let Some(path) = &arguments.json {
        let record = report::json(&rows, &machine, &names, threads);
        write(path, &format!("{record:#}\n"))?;
    }
    if let Some(path) = &arguments.csv {
        write(path, &report::csv(&rows))?;
    }
    Ok(rows.iter().all(|row| row.failure.is_none()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Failure::work(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_suites_and_cases() {
        let all = chosen(SUITES, &[]).len();
        let count = |word: &str| chosen(SUITES, &[word.to_owned()]).len();
        assert_eq!(count("resnet"), 46);
        assert_eq!(count("chain"), 1);
        assert_eq!(count("no such suite"), 0);
        assert_eq!(SUITES.iter().map(|suite| count(suite.name)).sum::<usize>(), all);
    }

    #[test]
    fn every_case_has_a_peer_and_results_to_compare() {
        for case in chosen(SUITES, &[]).iter().filter(|case| case.suite != "converted") {
            assert!(!case.onnx.is_empty() || case.onednn.is_some(), "{}", case.name);
            assert!(case.outputs.iter().any(|output| output.name.is_some()), "{}", case.name);
        }
    }
}
