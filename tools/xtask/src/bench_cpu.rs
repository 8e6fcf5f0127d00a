//! The benchmark of the CPU engine: everything it needs, then the run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;
use crate::c_program::Language;
use crate::process::{command, run, run_within, show};
use crate::workspace::Workspace;
use crate::{demo, install, progress, tools, venv};

/// The benchmark's Python packages. Versions are not pinned: we measure against the newest.
const PACKAGES: &[&str] = &["numpy", "onnx", "onnxruntime", "onednn-cpu-gomp", "onednn-devel-cpu-gomp"];

/// Builds everything and measures. The arguments go to the benchmark.
pub fn bench(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let folder = workspace.target_dir().join("bench-cpu");
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return show(workspace.release(["run", "-q", "-p", "bench-cpu"]).arg("--").args(words));
    }
    // When comparing with another version of the library, skip other libraries, except for the public suites.
    let is_public = words.iter().any(|word| word == "--public");
    let with_version = words.iter().any(|word| word.starts_with("--against"));
    let peers = if with_version && !is_public { None } else { Some(peers(workspace, &folder)?) };
    println!("building the library, its engines and the benchmark");
    let stage = install::stage(workspace)?;
    progress::build(workspace, &mut workspace.release(["build", "-p", "bench-cpu"]))?;
    let mut benchmark = command(workspace.release_dir().join("bench-cpu"), words);
    benchmark.current_dir(workspace.path(""));
    benchmark.arg("--backend").arg(stage.join("lib").join(install::LIBRARY));
    if let Some([python, onednn]) = peers {
        benchmark.arg("--python").arg(python);
        benchmark.arg("--onnxruntime").arg(workspace.path("tools/bench-cpu/onnxruntime_peer.py"));
        benchmark.arg("--onednn").arg(onednn);
    }
    benchmark.arg("--data").arg(folder.join("data"));
    let is_part = words.iter().any(|word| word == "--quick" || word.starts_with("--suite"));
    let is_part = is_part || with_version || is_public;
    show(&mut benchmark)?;
    if is_part { Ok(()) } else { digits(workspace, &stage) }
}

/// A Python with ONNX Runtime, and the program that measures oneDNN.
fn peers(workspace: &Workspace, folder: &Path) -> Result<[PathBuf; 2], Failure> {
    let venv = venv::ready(&folder.join("venv"), PACKAGES, "bench-cpu")?;
    Ok([venv.join("bin/python"), onednn(workspace, folder, &venv)?])
}

/// Trains the example on its digits, and reports its time.
fn digits(workspace: &Workspace, stage: &Path) -> Result<(), Failure> {
    let program = demo::example(workspace, stage, "examples_c/train_digits.c", false)?;
    let mut example = command(program, [""; 0]);
    let out = run_within(example.current_dir(workspace.path("")), Duration::from_secs(600))?;
    let line =
        out.lines().find(|line| line.starts_with("Training  ")).unwrap_or("Training       no time was said");
    println!("\ntrain_digits: {}", line.trim_start_matches("Training").trim());
    Ok(())
}

/// The program that measures oneDNN, compiled with the package's headers.
fn onednn(workspace: &Workspace, folder: &Path, venv: &Path) -> Result<PathBuf, Failure> {
    tools::require(&[&tools::CXX])?;
    let program = folder.join("onednn_peer");
    let libraries = venv.join("lib");
    let mut compiler = Language::Cxx.compiler();
    compiler.args(["-O2", "-o"]);
    compiler.arg(&program).arg(workspace.path("tools/bench-cpu/onednn_peer.cpp"));
    compiler.arg("-I").arg(venv.join("include"));
    compiler.arg("-L").arg(&libraries).arg("-ldnnl");
    compiler.arg(format!("-Wl,-rpath,{}", libraries.display()));
    run(&mut compiler)?;
    Ok(program)
}
