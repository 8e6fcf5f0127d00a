//! `cargo xtask nvidia-test`: tests the engines for NVIDIA GPUs, as far as the machine allows.
//!
//! NVIDIA's compiler and headers come from Python's package index. Without a GPU, compares the declarations with the headers
//! and compiles every generated kernel; tests that need a GPU are packed for a machine that has one but no Rust.

mod emulated;
mod python;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::emulated::standins;
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::cache;
use crate::install::{
    self, ENGINES, GPU_PROGRAM as PROGRAM, LIBRARY, PLUGINS, Plugin, TOOL, copy, files, remove,
};
use crate::process::{command, run, run_within, show};
use crate::progress;
use crate::rust_tests;
use crate::steps::Steps;
use crate::venv;
use crate::workspace::Workspace;

/// The compiler for kernels, and headers.
const PACKAGES: &[&str] = &[
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-crt",
    "nvidia-cuda-cccl",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
];

/// Packages, and their examples that print a program that compiles only if NVIDIA's headers match our declarations.
const DECLARED: &[(&str, &str)] =
    &[("hipdnn-rtc-plugin", "cuda_prototypes"), ("hipdnn-cudnn-plugin", "cuda_library_prototypes")];

/// The program that measures CPU_ENGINE, here with busy threads in parallel.
const BENCH_CPU: &str = "bench-cpu";

/// The benchmark of parallel calls.
const SCALING: &str = "scaling";

/// The scripts that compare the engines' times with PyTorch, time plans, and use CPU_ENGINE with GPU tensors.
const SCRIPTS: &[&str] = &[
    "nvidia_bench.py",
    "nvidia_cases.py",
    "nvidia_first_use.py",
    "nvidia_report.py",
    "nvidia_fallback.py",
    "hipdnn_plans.py",
];

/// The maximum compressed size of the package.
const LARGEST: u64 = 64 << 20;

const LIMIT: Duration = Duration::from_secs(600);

/// Only builds and packs the tests for a machine with a GPU.
pub fn pack_only(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.target_dir().join("nvidia");
    let mut steps = Steps::new();
    steps.group("nvidia: a package");
    let venv = venv::ready(&folder.join("venv"), PACKAGES, "nvidia-test");
    let headers = venv.and_then(|venv| includes(&venv)).unwrap_or_else(|missing| {
        steps.leave_out("a program on cuDNN alone", &missing.to_string());
        Vec::new()
    });
    if steps.run("the library, its plugins and their test", || build(workspace)) {
        steps.run("the package", || pack(workspace, &folder, &headers));
    }
    steps.summary()
}

/// Runs the tests. The words select cases for the GPU.
pub fn test(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let folder = workspace.target_dir().join("nvidia");
    let mut steps = Steps::new();
    steps.group("nvidia: declarations and generated kernels, without a GPU");
    let built = steps.run("the library, its plugins and their test", || build(workspace));
    let mut headers = Vec::new();
    match venv::ready(&folder.join("venv"), PACKAGES, "nvidia-test") {
        Err(missing) => {
            steps.leave_out("declarations and kernels, and a program on cuDNN alone", &missing.to_string());
        }
        Ok(venv) => {
            headers = includes(&venv)?;
            for (package, example) in DECLARED {
                steps.run(&format!("declarations of {package} as in NVIDIA's headers"), || {
                    declarations(workspace, &folder, &headers, example)
                });
            }
            if built {
                steps.run(&format!("declarations of {PROGRAM} as in NVIDIA's headers"), || {
                    declarations_of_program(workspace, &folder, &headers)
                });
                steps.run("every generated kernel, compiled by NVRTC", || kernels(workspace, &venv, &[]));
                steps.run("every graph for cuDNN, planned without a device", || {
                    crate::nvidia_parts::check(
                        workspace,
                        &folder,
                        &venv,
                        &workspace.release_dir().join(PROGRAM),
                    )
                });
            }
        }
    }
    if built {
        if steps.run("a package for a machine with a GPU", || pack(workspace, &folder, &headers)) {
            steps.group("nvidia: on stand-ins for NVIDIA's libraries");
            emulated::check(workspace, &folder.join("package"), &folder, &headers, &mut steps);
        }
        steps.group("nvidia: on the GPU");
        if Path::new("/dev/nvidiactl").exists() {
            steps.run("engines against the reference", || {
                show(command("sh", ["run.sh"]).args(words).current_dir(folder.join("package")))
                    .map(|()| String::new())
            });
        } else {
            let reason = "no /dev/nvidiactl, so no NVIDIA GPU; unpack the package on a machine with one, and run run.sh";
            steps.leave_out("engines against the reference", reason);
        }
    }
    steps.summary()
}

/// The packages of the short checks: the kernel compiler and the driver's header. The headers of cuDNN and cuBLASLt come only with
/// the libraries, 1.6 GB.
const FOR_KERNELS: &[&str] =
    &["nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl"];

/// Compares our declarations of CUDA with NVIDIA's headers and compiles a part of the generated kernels, as in 1/2, for one
/// architecture.
pub fn check_kernels(workspace: &Workspace, part: &str, steps: &mut Steps) {
    let folder = workspace.target_dir().join("nvidia");
    steps.group("nvidia: declarations of CUDA and generated kernels, without a GPU");
    let made = fs::create_dir_all(&folder).map_err(Failure::from);
    let venv = made.and_then(|()| {
        venv::ready(&cache::folder("HIPDNN_NVRTC_ENV", "nvrtc-env")?, FOR_KERNELS, "amd-test")
    });
    let found = venv.and_then(|venv| Ok((includes(&venv)?, venv)));
    let (headers, venv) = match found {
        Ok(found) => found,
        Err(missing) => return steps.leave_out("declarations and generated kernels", &missing.to_string()),
    };
    let [(_, example), ..] = DECLARED else { return };
    steps.run("declarations of CUDA as in NVIDIA's headers", || {
        declarations(workspace, &folder, &headers, example)
    });
    if steps.run("the program that has the kernels", || install::build_with(workspace, &[PROGRAM])) {
        steps.run(&format!("declarations of {PROGRAM} as in NVIDIA's headers"), || {
            declarations_of_program(workspace, &folder, &headers)
        });
        let name = format!("generated kernels, part {part}, compiled by NVRTC for sm_90");
        steps.run(&name, || kernels(workspace, &venv, &[&format!("--part={part}"), "sm_90"]));
    }
}

fn build(workspace: &Workspace) -> Result<String, Failure> {
    install::build_with(workspace, &[PROGRAM, BENCH_CPU])?;
    progress::build(workspace, &mut workspace.release(["build", "-p", "hipdnn-backend", "--bench", SCALING]))
}

/// The newest program of a benchmark; its file name ends with a hash.
fn benchmark(workspace: &Workspace, name: &str) -> Result<PathBuf, Failure> {
    let mut built = Vec::new();
    for entry in fs::read_dir(workspace.release_dir().join("deps"))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none() && file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')) {
            built.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    let last = built.into_iter().max().map(|(_, path)| path);
    last.ok_or_else(|| Failure::new(format!("cargo built no benchmark {name}")))
}

fn declarations(
    workspace: &Workspace,
    folder: &Path,
    headers: &[PathBuf],
    example: &str,
) -> Result<String, Failure> {
    agrees(folder, headers, example, &rust_tests::printed_by(workspace, example)?)
}

/// The declarations of the test program, which uses more of the driver than engines do.
fn declarations_of_program(
    workspace: &Workspace,
    folder: &Path,
    headers: &[PathBuf],
) -> Result<String, Failure> {
    let program = run(&mut command(workspace.release_dir().join(PROGRAM), ["--nvidia-prototypes"]))?;
    agrees(folder, headers, PROGRAM, &program)
}

/// Compiles a program of declarations with NVIDIA's headers.
fn agrees(folder: &Path, headers: &[PathBuf], name: &str, program: &str) -> Result<String, Failure> {
    let source = folder.join(format!("{name}.cpp"));
    fs::write(&source, program)?;
    let mut compiler = Language::Cxx.compiler();
    compiler.args(["-w", "-fsyntax-only"]);
    for include in headers {
        compiler.arg("-I").arg(include);
    }
    run(compiler.arg(source))?;
    Ok(format!("{} declarations", program.matches("static_assert").count()))
}

/// The folders of headers in NVIDIA's packages: `lib/python3.X/site-packages/nvidia/Y/include`.
fn includes(venv: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for python in fs::read_dir(venv.join("lib"))? {
        for package in fs::read_dir(python?.path().join("site-packages/nvidia"))? {
            let include = package?.path().join("include");
            found.extend([include.join("cccl"), include]);
        }
    }
    Ok(found)
}

fn kernels(workspace: &Workspace, venv: &Path, options: &[&str]) -> Result<String, Failure> {
    let mut program = command(workspace.release_dir().join(PROGRAM), ["--nvidia-architectures"]);
    let out = run_within(program.args(options).env("VIRTUAL_ENV", venv), LIMIT)?;
    Ok(out.lines().last().unwrap_or_default().to_owned())
}

/// Compiles a C program or library of the package, without warnings from NVIDIA's headers.
fn compile(
    workspace: &Workspace,
    source: &str,
    headers: &[PathBuf],
    arguments: &[&str],
    target: &Path,
) -> Result<(), Failure> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut compiler = Language::C.compiler();
    compiler.args(STRICT).args(["-O2", "-D_POSIX_C_SOURCE=200809L"]);
    for include in ["include/hipdnn/backend", "include/hipdnn/plugin"] {
        compiler.arg("-I").arg(workspace.path(include));
    }
    for include in headers {
        compiler.arg("-isystem").arg(include);
    }
    run(compiler.arg(workspace.path(source)).arg("-o").arg(target).args(arguments)).map(drop)
}

/// Lays out `package`, stripped, and an archive of it. Without NVIDIA's headers, the program that uses cuDNN directly is omitted.
fn pack(workspace: &Workspace, folder: &Path, headers: &[PathBuf]) -> Result<String, Failure> {
    let package = folder.join("package");
    remove(&package)?;
    let built = workspace.release_dir();
    let engines = package.join("lib").join(ENGINES);
    copy(&built.join(LIBRARY), &package.join("lib").join(LIBRARY))?;
    // The reference, and plugins for that machine.
    let is_sent = |plugin: &&Plugin| plugin.devices.iter().any(|device| ["cpu", "nvidia"].contains(device));
    for plugin in PLUGINS.iter().filter(is_sent) {
        copy(&built.join(plugin.file), &engines.join(plugin.file))?;
    }
    copy(&benchmark(workspace, SCALING)?, &package.join("bin").join(SCALING))?;
    let null = package.join("bench/libhipdnn_null_plugin.so");
    compile(
        workspace,
        "c_tests/plugins/null_plugin.c",
        &[],
        &["-shared", "-fPIC", "-fvisibility=hidden"],
        &null,
    )?;
    for program in [PROGRAM, TOOL, BENCH_CPU] {
        copy(&built.join(program), &package.join("bin").join(program))?;
    }
    if !headers.is_empty() {
        let program = package.join("bin/cudnn_peer");
        compile(workspace, "tools/gpu-test/nvidia/cudnn_peer.c", headers, &["-ldl"], &program)?;
    }
    // A stand-in for AMD's runtime in the same process.
    let arguments = ["-shared", "-fPIC", "-fexceptions", "-DSTANDIN_KNOWS_NO_MEMORY", "-lstdc++"];
    let standin = package.join("standin/libamdhip64.so.7");
    compile(workspace, "c_tests/beside/standin_hip.c", &[], &arguments, &standin)?;
    for file in files(&package)? {
        run(command("strip", ["--strip-unneeded"]).arg(package.join(file)))?;
    }
    crate::demo::pack(workspace, &package)?;
    copy(&workspace.path("tools/gpu-test/nvidia/run.sh"), &package.join("run.sh"))?;
    copy(&workspace.path("benches/draw.py"), &package.join("draw.py"))?;
    for script in SCRIPTS {
        copy(&workspace.path("tools/gpu-test/nvidia").join(script), &package.join(script))?;
    }
    for file in files(&workspace.path("examples_graphs"))? {
        copy(&workspace.path("examples_graphs").join(&file), &package.join("examples_graphs").join(&file))?;
    }
    let python = python::pack(workspace, &package)?;
    let archive = folder.join("hipdnn-nvidia-test.tar.gz");
    run(command("tar", ["-czf"]).arg(&archive).arg("-C").arg(&package).arg("."))?;
    let bytes = fs::metadata(&archive)?.len();
    if bytes > LARGEST {
        return Err(Failure::new(format!(
            "{} has {bytes} bytes, expected at most {LARGEST}",
            archive.display()
        )));
    }
    Ok(format!("{}, {} MB, Python {python}", workspace.relative(&archive), bytes >> 20))
}
