//! The packed engines on stand-ins for the CUDA driver and NVIDIA's libraries, which compute on the processor.
//!
//! This tests that the engines call the libraries correctly as the stand-ins understand them, on streams, in captured graphs, on
//! two devices and when a call fails. Only a GPU shows what NVIDIA's own libraries do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{PROGRAM, compile};
use crate::Failure;
use crate::install::{LIBRARY, remove};
use crate::process::{command, run_within};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// g++ compiles the kernels of each graph.
const LIMIT: Duration = Duration::from_secs(1800);

/// The checks, except cases that are slow on the stand-ins.
const CHECKS: &[&str] = &[
    "NVRTC_ENGINE",
    "CUBLASLT_ENGINE",
    "CUDNN_ENGINE: conv forward",
    "CUDNN_ENGINE: batchnorm",
    "devices:",
    "memory",
];

/// Runs the programs of the package. `headers` are the folders with NVIDIA's headers, which the stand-in for cuDNN is compiled with.
pub fn check(workspace: &Workspace, package: &Path, folder: &Path, headers: &[PathBuf], steps: &mut Steps) {
    let folder = folder.join("emulated");
    if !steps.run("stand-ins for the driver and the libraries", || standins(workspace, &folder, headers)) {
        return;
    }
    let mut engines = vec!["NVRTC_ENGINE", "CUBLASLT_ENGINE"];
    if headers.is_empty() {
        steps.leave_out("CUDNN_ENGINE against the reference", "NVIDIA's headers are not there");
    } else {
        engines.push("CUDNN_ENGINE");
    }
    for engine in engines {
        steps.run(&format!("{engine} against the reference"), || {
            ends(&mut program(package, &folder, "", &[engine]))
        });
    }
    steps.run("NVRTC_ENGINE against the reference, last block and thread first", || {
        ends(program(package, &folder, "", &["NVRTC_ENGINE"]).env("STANDIN_CUDA_REVERSE", "1"))
    });
    steps.run("captured graphs, streams, threads, two devices, memory", || {
        ends(program(package, &folder, "--nvidia", CHECKS).env("STANDIN_CUDA_DEVICES", "2"))
    });
    if !headers.is_empty() {
        steps.run("the same graphs by a C program on cuDNN alone", || {
            let mut peer = command(package.join("bin/cudnn_peer"), [package.join("lib").join(LIBRARY)]);
            let out = run_within(peer.arg("--small").env("LD_LIBRARY_PATH", &folder), LIMIT)?;
            // The times are those of the stand-ins.
            let graphs =
                out.lines().filter(|line| line.contains(",device: CUDNN_ENGINE over cuDNN,")).count();
            Ok(format!("{graphs} graphs, the same bytes"))
        });
    }
    steps.run("each call made to fail", || ends(&mut program(package, &folder, "--nvidia-calls", &[])));
}

/// Compiles the stand-ins.
pub fn standins(workspace: &Workspace, folder: &Path, headers: &[PathBuf]) -> Result<String, Failure> {
    remove(folder)?;
    let cuda = folder.join("libcuda.so.1");
    let cuda = cuda.to_str().ok_or_else(|| Failure::new(format!("{} is not UTF-8", folder.display())))?;
    let mut made = Vec::new();
    let mut make = |source: &str, library: &str, headers: &[PathBuf], others: &[&str]| {
        let soname = format!("-Wl,-soname,{library}");
        let arguments = [&["-shared", "-fPIC", &soname], others].concat();
        made.push(library.to_owned());
        compile(workspace, &format!("c_tests/beside/{source}"), headers, &arguments, &folder.join(library))
    };
    make("standin_cuda.c", "libcuda.so.1", &[], &["-ldl", "-lpthread"])?;
    make("standin_nvrtc.c", "libnvrtc.so.13", &[], &[])?;
    make("standin_cublaslt.c", "libcublasLt.so.13", &[], &[cuda, "-lm"])?;
    if !headers.is_empty() {
        make("standin_cudnn.c", "libcudnn.so.9", headers, &[cuda, "-lm", "-lpthread"])?;
    }
    Ok(made.join(", "))
}

/// The test program with the stand-ins, in a mode if one is given.
fn program(package: &Path, folder: &Path, mode: &str, words: &[&str]) -> Command {
    let mut program = command(package.join("bin").join(PROGRAM), Some(mode).filter(|mode| !mode.is_empty()));
    program.arg(package.join("lib").join(LIBRARY)).args(words);
    program.env("LD_LIBRARY_PATH", folder).env("HIPDNN_DISABLE_CACHE", "1");
    program.env("HIPDNN_LOG_FILE", folder.join("log.txt"));
    // Hide NVIDIA's own libraries.
    for variable in ["HIPDNN_CUDA_PATH", "CUDA_PATH", "VIRTUAL_ENV"] {
        program.env_remove(variable);
    }
    program
}

/// Runs it. Returns how many passed.
fn ends(program: &mut Command) -> Result<String, Failure> {
    let out = run_within(program, LIMIT)?;
    let counts = out
        .lines()
        .filter(|line| line.contains(" passed") || line.ends_with(" refused by NVIDIA's libraries"));
    Ok(counts.collect::<Vec<_>>().join(", "))
}
