//! `cargo xtask nvidia-test`: the engines for NVIDIA GPUs, as far as the machine allows.
//!
//! NVIDIA's compiler and headers come from Python's package index. Without a GPU the declarations are compared with the
//! headers and every generated kernel is compiled; what runs on a GPU is packed for a machine that has one and no Rust.

mod python;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;
use crate::install::{ENGINES, LIBRARY, PLUGINS, TOOL, TOOL_PACKAGE, copy, files, remove};
use crate::process::{command, run, run_within, show};
use crate::progress;
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

/// Packages, and their examples that print a program which compiles where NVIDIA's headers agree with our declarations.
const DECLARED: &[(&str, &str)] =
    &[("hipdnn-rtc-plugin", "cuda_prototypes"), ("hipdnn-cudnn-plugin", "cuda_library_prototypes")];

/// The program that compares the engines with the reference.
const PROGRAM: &str = "amd-test";

/// The plugins that a machine with an NVIDIA GPU is sent: the reference, and what runs there.
const SENT: &[&str] = &["libhipdnn_cpu_plugin.so", "libhipdnn_rtc_plugin.so", "libhipdnn_cudnn_plugin.so"];

/// What is sent has to be at most this large, compressed.
const LARGEST: u64 = 64 << 20;

const LIMIT: Duration = Duration::from_secs(600);

/// Runs the tests. The words choose cases that are run on a GPU.
pub fn test(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let folder = workspace.target_dir().join("nvidia");
    let mut steps = Steps::new();
    steps.group("nvidia: declarations and generated kernels, without a GPU");
    let built = steps.run("the library, its plugins and their test", || build(workspace));
    match venv::ready(&folder.join("venv"), PACKAGES, "nvidia-test") {
        Err(missing) => steps.leave_out("declarations and kernels", &missing.to_string()),
        Ok(venv) => {
            for (package, example) in DECLARED {
                steps.run(&format!("declarations of {package} as in NVIDIA's headers"), || {
                    declarations(workspace, &folder, &venv, package, example)
                });
            }
            if built {
                steps.run("every generated kernel, compiled by NVRTC", || kernels(workspace, &venv));
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
        steps.run("a package for a machine with a GPU", || pack(workspace, &folder));
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

fn build(workspace: &Workspace) -> Result<String, Failure> {
    let mut cargo = workspace.release(["build", "-p", "hipdnn-backend", "-p", PROGRAM]);
    for plugin in PLUGINS {
        cargo.args(["-p", plugin.package]);
    }
    progress::build(workspace, cargo.args(["-p", TOOL_PACKAGE]))
}

fn declarations(
    workspace: &Workspace,
    folder: &Path,
    venv: &Path,
    package: &str,
    example: &str,
) -> Result<String, Failure> {
    let words = ["run", "-q", "--profile", "ci", "--locked", "-p", package, "--example", example];
    let program = run(&mut workspace.cargo(words))?;
    let source = folder.join(format!("{example}.cpp"));
    fs::write(&source, &program)?;
    let mut compiler = command("g++", ["-std=c++17", "-w", "-fsyntax-only"]);
    for include in includes(venv)? {
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

fn kernels(workspace: &Workspace, venv: &Path) -> Result<String, Failure> {
    let mut program = command(workspace.release_dir().join(PROGRAM), ["--nvidia-architectures"]);
    let out = run_within(program.env("VIRTUAL_ENV", venv), LIMIT)?;
    Ok(out.lines().last().unwrap_or_default().to_owned())
}

/// Lays out `package`, stripped, and an archive of it.
fn pack(workspace: &Workspace, folder: &Path) -> Result<String, Failure> {
    let package = folder.join("package");
    remove(&package)?;
    let built = workspace.release_dir();
    let engines = package.join("lib").join(ENGINES);
    copy(&built.join(LIBRARY), &package.join("lib").join(LIBRARY))?;
    for plugin in PLUGINS.iter().filter(|plugin| SENT.contains(&plugin.file)) {
        copy(&built.join(plugin.file), &engines.join(plugin.file))?;
    }
    for program in [PROGRAM, TOOL] {
        copy(&built.join(program), &package.join("bin").join(program))?;
    }
    for file in files(&package)? {
        run(command("strip", ["--strip-unneeded"]).arg(package.join(file)))?;
    }
    crate::demo::pack(workspace, &package)?;
    copy(&workspace.path("tools/amd-test/nvidia.sh"), &package.join("run.sh"))?;
    for script in ["nvidia_bench.py", "hipdnn_plans.py"] {
        copy(&workspace.path("tools/amd-test").join(script), &package.join(script))?;
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
