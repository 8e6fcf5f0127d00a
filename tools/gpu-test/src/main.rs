//! Runs graphs with the GPU engines on the present device, and compares each result with the reference engine's on the host.
//!
//! `gpu-test LIBRARY [--part=K/N] [WORD...]`: the path of `libhipdnn_backend.so` with the plugins beside it, and words that select
//! cases by name. Several processes can each run a part of the cases. The exit status is 2 without a device, 1 for a wrong result.
//!
//! `gpu-test --calls LIBRARY [--part=K/N] [WORD...]` makes each call of AMD's libraries fail in turn, and checks the calls made.
//!
//! `gpu-test --training LIBRARY ENGINE [WORD...]` trains small networks with the engine, which must be the library's first choice, and
//! compares their losses with CPU_ENGINE's.
//!
//! `gpu-test --nvidia LIBRARY [WORD...]` checks the engines for NVIDIA GPUs further: captured graphs, streams, threads, devices, kinds of
//! memory. `gpu-test --nvidia-calls LIBRARY [--part=K/N] [WORD...]` makes each call of NVIDIA's libraries fail in turn.
//! `--nvidia-prototypes` writes a program that compares our declarations of CUDA functions with NVIDIA's header.
//!
//! `gpu-test --vulkan LIBRARY [--part=K/N] [--random=N] [--seconds=N] [--guarded] [WORD...]` runs the cases with `VULKAN_ENGINE` on any
//! GPU, in host memory, and random graphs; `--random=FROM..TO` those with these numbers. `gpu-test --vulkan-failing LIBRARY WAY` checks
//! how it fails.
//! `gpu-test --vulkan-bench LIBRARY [WORD...]` measures it beside NVIDIA's libraries, `gpu-test --vulkan-host LIBRARY FILE` what it
//! costs the host. `gpu-test --vulkan-graphs FOLDER [--random=N] [WORD...]`
//! writes the graphs of the cases and of random graphs into a folder, as JSON.
//!
//! `gpu-test --architectures` compiles the kernels generated for the cases, for devices that may be absent; `--nvidia-architectures`
//! does so for NVIDIA GPUs. `--part=K/N` after either selects a part of the cases, another argument one architecture.
//! `gpu-test --registers FILE [ARCHITECTURE...]` compiles kernels of large problems for AMD's devices and writes what they take as CSV.
//! `--graphs FOLDER [ENGINE]` writes the graphs for cuDNN, or for another engine of the cases, into a folder, as JSON.

mod amd;
mod architectures;
mod backend;
mod bound;
mod case;
mod cases;
mod code_object;
mod failing;
mod gate;
mod memory;
mod nvidia;
mod registers;
mod runs;
mod training;
mod vulkan;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::cuda::CudaError;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::hip::{Hip, HipError};
use hipdnn_rtc_plugin::handle::Platform;

use backend::Backend;
use gate::Fail;

/// Why a case failed.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<HipError> for Failure {
    fn from(error: HipError) -> Self {
        Self(error.message)
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Self {
        Self(error.message)
    }
}

impl From<PluginError> for Failure {
    fn from(error: PluginError) -> Self {
        Self(error.message().to_owned())
    }
}

fn main() -> ExitCode {
    // Without the plan cache, so that a plan's objects end with it and leaks are detected.
    // SAFETY: the program has no other thread yet.
    unsafe { std::env::set_var("HIPDNN_PLAN_CACHE_BYTES", "0") };
    env_logger::init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((library, words)) = arguments.split_first() else {
        eprintln!("usage: gpu-test LIBRARY [WORD...]");
        return ExitCode::from(2);
    };
    if let Some(platform) = match library.as_str() {
        "--architectures" => Some(Platform::Hip),
        "--nvidia-architectures" => Some(Platform::Cuda),
        _ => None,
    } {
        let compiled = of_part(words).and_then(|(part, words)| {
            architectures::compile(platform, part, words.first().map(String::as_str))
        });
        return match compiled {
            Ok(done) => {
                println!("{done}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("FAILED: {failure}");
                ExitCode::FAILURE
            }
        };
    }
    if library == "--nvidia-prototypes" {
        print!("{}", nvidia::driver::prototypes());
        return ExitCode::SUCCESS;
    }
    let result = match (library.as_str(), words) {
        ("--calls", [library, words @ ..]) => of_part(words)
            .and_then(|(part, words)| device().map(|hip| amd::check(Path::new(library), hip, part, words))),
        ("--registers", [file, architectures @ ..]) => {
            registers::write(Path::new(file), architectures).map(|done| {
                println!("{done}");
                0
            })
        }
        ("--graphs", [folder]) => cases::write(Path::new(folder), cases::CUDNN).map(|()| 0),
        ("--graphs", [folder, engine]) => cases::write(Path::new(folder), engine).map(|()| 0),
        ("--child", [library, arguments @ ..]) => {
            device().and_then(|hip| amd::child(Path::new(library), hip, arguments)).map(|()| 0)
        }
        ("--vulkan", [library, words @ ..]) => vulkan::check(Path::new(library), words),
        ("--vulkan-bench", [library, words @ ..]) => vulkan::bench(Path::new(library), words),
        ("--vulkan-graphs", [folder, words @ ..]) => vulkan::write(Path::new(folder), words).map(|()| 0),
        ("--vulkan-failing", [library, way]) => vulkan::failing(Path::new(library), way),
        ("--vulkan-host", [library, file]) => vulkan::host(Path::new(library), Path::new(file)),
        ("--training", [library, engine, words @ ..]) => training::check(Path::new(library), engine, words),
        ("--nvidia", [library, words @ ..]) => nvidia::check(Path::new(library), words),
        ("--nvidia-calls", [library, words @ ..]) => {
            of_part(words).and_then(|(part, words)| nvidia::check_calls(Path::new(library), part, words))
        }
        (library, words) => of_part(words).and_then(|(part, words)| run(Path::new(library), part, words)),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            println!("{failed} failed");
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("gpu-test: {failure}");
            ExitCode::from(2)
        }
    }
}

fn device() -> Result<&'static Hip, Failure> {
    let hip = Hip::get().map_err(|error| Failure(error.to_string()))?;
    if hip.device_count()? == 0 {
        return Err(Failure("HIP finds no device".to_owned()));
    }
    Ok(hip)
}

const PART: &str = "--part=";

/// The part to run, by default all, and the other words.
fn of_part(words: &[String]) -> Result<((usize, usize), &[String]), Failure> {
    match words {
        [option, words @ ..] if option.starts_with(PART) => Ok((part(option)?, words)),
        words => Ok(((0, 1), words)),
    }
}

/// The part, from 0, and the number of parts.
fn part(option: &str) -> Result<(usize, usize), Failure> {
    let numbers = option.strip_prefix(PART).and_then(|numbers| numbers.split_once('/'));
    match numbers.map(|(part, parts)| (part.parse(), parts.parse())) {
        Some((Ok(part @ 1..), Ok(parts))) if part <= parts => Ok((part - 1, parts)),
        _ => Err(Failure(format!("{option}: expected a part and how many there are, as in {PART}1/2"))),
    }
}

/// Whether a name contains one of the words, or there are none.
fn is_wanted(name: &str, words: &[String]) -> bool {
    words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
}

/// The engine that runs a case of an engine for AMD GPUs on this device, if any.
fn engine_for(gpu: Gpu, engine: &'static str) -> Option<&'static str> {
    match (gpu, engine) {
        (Gpu::Hip(_), cases::CUDNN | cases::CUBLASLT) => None,
        (Gpu::Hip(_), engine) => Some(engine),
        (Gpu::Cuda(_), cases::RTC) => Some("NVRTC_ENGINE"),
        (Gpu::Cuda(_), cases::CUDNN | cases::CUBLASLT) => Some(engine),
        (Gpu::Cuda(_), _) | (Gpu::Vulkan(_), _) => None,
    }
}

/// Why one of NVIDIA's libraries refuses a case, which depends on its version and on the device.
fn refusal(
    backend: &Backend,
    engine: &str,
    case: &case::Case,
    failure: &Failure,
) -> Result<Option<String>, Failure> {
    let is_refused = failure.0.contains(failing::DOES_NOT_APPLY);
    if !is_refused || ![cases::CUDNN, cases::CUBLASLT].contains(&engine) {
        return Ok(None);
    }
    backend.refusal(engine, &case.graph)
}

fn run(library: &Path, (part, parts): (usize, usize), words: &[String]) -> Result<usize, Failure> {
    let gpu = Gpu::find().map_err(|refusal| Failure(refusal.to_string()))?;
    let backend = Backend::open(library)?;
    // A fresh handle loads saved plans.
    let loader = Backend::open(library)?;
    let mut failed = 0;
    let mut passed = 0;
    let mut refused = 0;
    // The selected case may be in another part.
    let mut is_known = false;
    for (place, (engine, case)) in cases::all().into_iter().enumerate() {
        let Some(engine) = engine_for(gpu, engine) else { continue };
        let name = format!("{engine}: {}", case.name);
        if !is_wanted(&name, words) {
            continue;
        }
        is_known = true;
        if place % parts != part {
            continue;
        }
        log::debug!("{name}");
        let start = Instant::now();
        gate::record(engine, Fail::Nothing);
        let result = case.run(&backend, &loader, gpu, engine);
        let record = gate::take();
        // Objects of the handles stay alive.
        let as_ever =
            failing::nothing_left(&record, failing::OPENED).and_then(|()| failing::no_new_stream(&record));
        let result = result.and_then(|error| as_ever.map(|()| error));
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(error) => {
                passed += 1;
                println!("{name:<90} error {error:.1e}  {seconds:5.2} s");
            }
            Err(failure) => match refusal(&backend, engine, &case, &failure)? {
                Some(reason) => {
                    refused += 1;
                    println!("{name:<90} refused: {reason}");
                }
                None => {
                    failed += 1;
                    println!("{name:<90} FAILED: {failure}");
                }
            },
        }
    }
    for (name, check) in amd::checks::CHECKS {
        let Gpu::Hip(hip) = gpu else { break };
        if !is_wanted(name, words) {
            continue;
        }
        is_known = true;
        if part != 0 {
            continue;
        }
        match check(&backend, hip) {
            Ok(()) => {
                passed += 1;
                println!("{name}");
            }
            Err(failure) => {
                failed += 1;
                println!("{name:<90} FAILED: {failure}");
            }
        }
    }
    println!("{passed} passed");
    if refused > 0 {
        println!("{refused} refused by NVIDIA's libraries");
    }
    if !is_known {
        return Err(Failure(format!("no case has {} in its name", words.join(" or "))));
    }
    Ok(failed)
}
