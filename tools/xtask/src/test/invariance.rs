//! The catalogue of cases with the knob `batch_invariant`: whether the items of each graph have the same bits in every batch, order, at
//! every address, and with any number of threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::extent::turn;
use crate::install::{ENGINES, GPU_PROGRAM, LIBRARY, TOOL, build_with, files};
use crate::process::{command, run, run_within};
use crate::steps::Steps;

/// The engine whose cases are those of all kernels.
const CASES: &str = "HIPRTC_ENGINE";

/// What the instruction sets are limited to, each with another commit; a processor without one uses the next below.
const LEVELS: [&str; 7] = ["sse", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"];

/// A change tries one of so many graphs, others with each commit.
const OF_A_CHANGE: usize = 40;

/// The longest takes 4 s on two cores.
const LIMIT: Duration = Duration::from_secs(200);

/// What is found out about a graph.
#[derive(Debug, PartialEq)]
enum Verdict {
    Equal,
    /// Its batch cannot be told, or cannot be resized.
    NoBatch,
    Wrong(String),
}

pub fn run_steps(context: &Context, steps: &mut Steps) {
    let turn = turn(context.workspace);
    let level = LEVELS.get(turn % LEVELS.len()).copied().unwrap_or("sse");
    steps.run(&format!("items of batches of the catalogue's graphs, CPU_ENGINE at most at {level}"), || {
        build_with(context.workspace, &[GPU_PROGRAM])?;
        let folder = context.workspace.scratch("catalogue");
        let graphs = catalogue(context, &folder)?;
        let step = if context.extent.is_whole() { 1 } else { OF_A_CHANGE };
        let (mut equal, mut without, mut wrong) = (0, 0, Vec::new());
        for graph in graphs.iter().skip(turn % step).step_by(step) {
            match tried(context, graph, level)? {
                Verdict::Equal => equal += 1,
                Verdict::NoBatch => without += 1,
                Verdict::Wrong(words) => wrong.push(format!("{}: {words}", graph.display())),
            }
        }
        if !wrong.is_empty() || equal == 0 {
            return Err(Failure::new(format!("{equal} graphs with equal bits\n{}", wrong.join("\n"))));
        }
        Ok(format!("{equal} equal, {without} without a batch, of {} graphs", graphs.len()))
    });
}

/// The graphs of the cases and of the examples, in a fixed order.
fn catalogue(context: &Context, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    run(command(context.workspace.release_dir().join(GPU_PROGRAM), ["--graphs"]).arg(folder).arg(CASES))?;
    let examples = context.workspace.path("examples_graphs");
    let mut graphs = Vec::new();
    for folder in [folder, &examples] {
        graphs.extend(files(folder)?.into_iter().map(|file| folder.join(file)));
    }
    graphs.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    graphs.sort();
    Ok(graphs)
}

fn tried(context: &Context, graph: &Path, level: &str) -> Result<Verdict, Failure> {
    let lib = context.stage.join("lib");
    let mut tool = command(context.stage.join("bin").join(TOOL), ["--backend"]);
    without_settings(&mut tool);
    tool.arg(lib.join(LIBRARY)).arg("run").arg(graph);
    tool.args(["--invariant", "--engine", "CPU_ENGINE", "--knob", "batch_invariant=1"]);
    tool.env("HIPDNN_CPU_MAX_ISA", level).env("HIPDNN_PLUGIN_DIR", lib.join(ENGINES));
    match run_within(&mut tool, LIMIT) {
        Ok(words) => Ok(verdict(&words)),
        Err(failure) => Ok(verdict(&failure.to_string())),
    }
}

fn verdict(words: &str) -> Verdict {
    let has = |text: &str| words.contains(text);
    if has("each item has the same bits in every run") {
        Verdict::Equal
    } else if has(": the batch ") && (has(" cannot be told: ") || has(" cannot be resized: ")) {
        Verdict::NoBatch
    } else {
        Verdict::Wrong(words.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tool_says_is_understood() {
        assert_eq!(verdict("…\n\neach item has the same bits in every run\n"), Verdict::Equal);
        let told =
            "hipdnn: the batch cannot be told: node 0 \"bn\" (Batchnorm) has statistics of the whole batch";
        let shared = "hipdnn: the batch of #2 cannot be resized: its items share elements";
        assert_eq!([told, shared].map(verdict), [Verdict::NoBatch, Verdict::NoBatch]);
        let differs = "hipdnn: CPU_ENGINE does not compute items alike: 3 of 20 runs differ";
        assert_eq!(verdict(differs), Verdict::Wrong(differs.to_owned()));
        assert_ne!(verdict(""), Verdict::NoBatch);
    }
}
