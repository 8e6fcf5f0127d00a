//! The execution provider for ONNX Runtime: its tests, its benchmark, its wheel.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::cache;
use crate::extent::Extent;
use crate::glibc;
use crate::install::{BILL, ENGINES, LIBRARY, NOTICES, PLUGINS, build_with, remove};
use crate::nvidia;
use crate::process::{command, run};
use crate::python::{Environment, INSTALLS_TORCH};
use crate::steps::{LEFT_OUT, Steps};
use crate::venv;
use crate::wheel::name_repository;
use crate::workspace::Workspace;

mod example;

const PACKAGE: &str = "hipdnn-onnxruntime";
/// The folder of the provider.
pub const FOLDER: &str = "integrations/onnxruntime";
/// Its library.
pub const FILE: &str = "libonnxruntime_ep_hipdnn.so";

/// Its only exports.
const EXPORTS: [&str; 2] = ["CreateEpFactories", "ReleaseEpFactory"];

/// The oldest supported ONNX Runtime, and the newest: a name, and pip's requirement.
const RELEASES: [(&str, &str); 2] = [("1.23", "onnxruntime==1.23.*"), ("newest", "onnxruntime>=1.24")];

/// ONNX's tests for every change: operators of each kind.
const SHORT: &[&str] = &[
    "test_conv",
    "test_gemm",
    "test_matmul_",
    "test_softmax",
    "test_layer_normalization",
    "test_batchnorm",
    "test_reduce_sum",
    "test_maxpool",
    "test_transpose",
    "test_reshape",
    "test_where",
    "test_clip",
    "test_causal_conv",
];

/// The tests on the stand-in for a GPU, which compiles each kernel: all of them nightly, the first ones with every change.
const ON_GPU: [&str; 8] = [
    "test_gemm_all_attributes",
    "test_softmax_axis_1",
    "test_basic_conv",
    "test_layer_normalization",
    "test_gelu",
    "test_gather",
    "test_matmul_",
    "test_concat",
];

/// The folder of ONNX Runtime's headers in Debian's package.
const HEADERS: &str = "/usr/include/onnxruntime";

/// The maximum size of the wheel.
const LARGEST: u64 = 25 << 20;

/// Builds the library for release.
pub fn build(workspace: &Workspace) -> Result<String, Failure> {
    build_with(workspace, &[PACKAGE])
}

/// A Python environment with a release of ONNX Runtime; or why it cannot be created.
fn environment(name: &str, package: &str) -> Result<PathBuf, Failure> {
    environment_with(name, &[package, "onnx", "numpy"])
}

fn environment_with(name: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let folder = cache::folder("HIPDNN_ORT_ENV", "ort-env")?.join(name);
    venv::ready(&folder, packages, "the execution provider for ONNX Runtime")
}

/// A script of the tests, in an environment.
fn script(workspace: &Workspace, environment: &Path, tree: &Path, name: &str, options: &[&str]) -> Command {
    let path = workspace.path(FOLDER).join("tests").join(name);
    let mut python = command(environment.join("bin/python"), [path]);
    python.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("HIPDNN_ORT_LIBRARY", workspace.release_dir().join(FILE));
    python.env("HIPDNN_BACKEND_LIBRARY_PATH", tree.join("lib")).args(options);
    python
}

/// The last line of what a script printed, for the report.
fn last(out: &str) -> String {
    out.lines().last().unwrap_or_default().trim().to_owned()
}

/// `cargo xtask ort-test`.
pub fn test(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::new();
    if let Some(stage) = crate::stage(workspace, &mut steps) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run_steps(workspace, &stage, &words, &RELEASES, true, &mut steps);
    }
    steps.summary()
}

/// The short form, of `cargo xtask test`: for a change, only with the newest release.
pub fn short(workspace: &Workspace, stage: &Path, extent: Extent, steps: &mut Steps) {
    let [_, newest] = RELEASES;
    let releases: &[_] = if extent.is_whole() { &RELEASES } else { &[newest] };
    run_steps(workspace, stage, SHORT, releases, false, steps);
}

fn run_steps(
    workspace: &Workspace,
    stage: &Path,
    words: &[&str],
    releases: &[(&str, &str)],
    whole: bool,
    steps: &mut Steps,
) {
    if !steps.run("release build of the execution provider", || build(workspace)) {
        return;
    }
    steps.run("symbols of the execution provider", || exports(&workspace.release_dir().join(FILE)));
    steps.run("places in ONNX Runtime's headers", || slots(workspace));
    for &(name, package) in releases {
        let mut ready = None;
        steps.run(&format!("ONNX Runtime {name}"), || match environment(name, package) {
            Ok(environment) => {
                ready = Some(environment);
                Ok(String::new())
            }
            // A missing Python or network is not a failure of this project.
            Err(failure) => Ok(format!("{LEFT_OUT}{failure}")),
        });
        let Some(environment) = ready else { continue };
        let python = |script_name: &str, options: &[&str]| {
            run(&mut script(workspace, &environment, stage, script_name, options))
        };
        steps.run(&format!("sessions with {name}"), || Ok(last(&python("session_tests.py", &[])?)));
        steps.run(&format!("what is around a run with {name}"), || Ok(last(&python("life_tests.py", &[])?)));
        steps.run(&format!("open sizes with {name}"), || Ok(last(&python("shape_tests.py", &[])?)));
        for script_name in ["operator_tests.py", "detector_tests.py"] {
            steps.run(&format!("{script_name} with {name}"), || Ok(last(&python(script_name, &[])?)));
        }
        steps.run(&format!("a request's bits in any batch with {name}"), || {
            Ok(last(&python("invariance_tests.py", &[])?))
        });
        steps.run(&format!("nodes that lose digits with {name}"), || {
            Ok(last(&python("numerics_tests.py", &[])?))
        });
        let draws = if whole { "3000" } else { "300" };
        steps.run(&format!("random nodes with {name}"), || {
            Ok(last(&python("random_tests.py", &["--draws", draws])?))
        });
        steps.run(&format!("ONNX's tests with {name}"), || {
            let out = python("node_tests.py", words)?;
            Ok(out
                .lines()
                .filter(|line| line.contains("passed") || line.contains('%'))
                .collect::<Vec<_>>()
                .join(","))
        });
        if name == RELEASES[1].0 {
            let words = if whole { ON_GPU.as_slice() } else { ON_GPU.split_at(3).0 };
            let folder = workspace.scratch("ort-standins");
            let on_standins = |name: &str, options: &[&str]| {
                let mut python = script(workspace, &environment, stage, name, options);
                python
                    .env("LD_LIBRARY_PATH", &folder)
                    .env("HIPDNN_ORT_DEVICE", "gpu")
                    .env("HIPDNN_DISABLE_CACHE", "1");
                run(&mut python)
            };
            steps.run("ONNX's tests on the stand-in for a GPU", || {
                nvidia::standins(workspace, &folder, &[])?;
                let out = on_standins("node_tests.py", words)?;
                Ok(out
                    .lines()
                    .filter(|line| line.ends_with(" passed"))
                    .map(str::trim)
                    .collect::<Vec<_>>()
                    .join(","))
            });
            steps.run("memory of the stand-in for a GPU", || Ok(last(&on_standins("memory_tests.py", &[])?)));
            steps.run(&format!("a Vulkan device with {name}"), || Ok(last(&python("vulkan_tests.py", &[])?)));
        }
        steps
            .run(&format!("the example in C++ with {name}"), || example::run(workspace, &environment, stage));
        if whole {
            steps.run(&format!("networks on a GPU with {name}"), || Ok(last(&python("gpu_tests.py", &[])?)));
            steps.run(&format!("memory of a GPU with {name}"), || Ok(last(&python("memory_tests.py", &[])?)));
            steps.run(&format!("networks with {name}"), || {
                let out = python("network_tests.py", &[])?;
                Ok(format!("{} networks", out.lines().filter(|line| line.contains("subgraphs")).count()))
            });
        }
    }
    if whole {
        let [_, (name, package)] = RELEASES;
        steps.run("models of packages", || {
            let folder = cache::folder("HIPDNN_ORT_ENV", "ort-env")?.join("models").display().to_string();
            let environment = environment(name, package)?;
            Ok(last(&run(&mut script(workspace, &environment, stage, "packages.py", &[&folder]))?))
        });
        for (title, options) in [
            ("eight threads on several sessions", &["1"][..]),
            ("sixteen threads on one session of many lengths", &["1", "--threads", "16", "--lengths"]),
        ] {
            steps.run(title, || {
                let environment = environment(name, package)?;
                Ok(last(&run(&mut script(workspace, &environment, stage, "soak.py", options))?))
            });
        }
        steps.run("networks that PyTorch exports", || exported(workspace, stage));
        steps.run("a language model by onnxruntime-genai", || language_model(workspace, stage));
        steps.run("the wheel of the execution provider, installed", || installed(workspace, stage));
    }
}

/// Networks that PyTorch exports, also quantized ones for images.
fn exported(workspace: &Workspace, stage: &Path) -> Result<String, Failure> {
    let Some(torch) = Environment::of_torch()? else {
        return Ok(format!("{LEFT_OUT}PyTorch is not there, which {INSTALLS_TORCH} installs"));
    };
    let folder = cache::folder("HIPDNN_ORT_ENV", "ort-env")?.join("export");
    let exporter = venv::ready(&folder, &["onnxscript", "onnx"], "the exporter of PyTorch")?;
    let models = workspace.scratch("ort-exports");
    let mut export = torch.python([workspace.path(FOLDER).join("tests/export.py")]);
    let path = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = run(&mut command(exporter.join("bin/python"), ["-c", path]))?;
    run(export.arg(&models).env("PYTHONPATH", packages.trim()).env("PYTHONDONTWRITEBYTECODE", "1"))?;
    let [_, (name, package)] = RELEASES;
    let models = models.display().to_string();
    let options = [models.as_str(), "--bytes"];
    let environment = environment(name, package)?;
    Ok(last(&run(&mut script(workspace, &environment, stage, "exported_tests.py", &options))?))
}

/// A language model that onnxruntime-genai runs with and without the provider.
fn language_model(workspace: &Workspace, stage: &Path) -> Result<String, Failure> {
    let [_, (_, package)] = RELEASES;
    let environment = match environment_with("genai", &[package, "onnxruntime-genai", "onnx", "numpy"]) {
        Ok(environment) => environment,
        Err(failure) => return Ok(format!("{LEFT_OUT}{failure}")),
    };
    let out = run(&mut script(workspace, &environment, stage, "genai_tests.py", &["--turns", "1"]))?;
    Ok(out.lines().map(str::trim).collect::<Vec<_>>().join("; "))
}

/// The word for the benchmark of whole networks by number of threads, each provider alone in its process.
const NETWORKS: &str = "networks";

/// `cargo xtask ort-bench`.
pub fn bench(workspace: &Workspace, options: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::new();
    let Some(stage) = crate::stage(workspace, &mut steps) else { return steps.summary() };
    if !steps.run("release build of the execution provider", || build(workspace)) {
        return steps.summary();
    }
    let [_, (name, package)] = RELEASES;
    let environment = environment(name, package)?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (name, options) = match options.split_first() {
        Some((&NETWORKS, rest)) => ("networks_bench.py", rest),
        _ => ("bench.py", options.as_slice()),
    };
    let status = script(workspace, &environment, &stage, name, options).status()?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("the benchmark ended with {status}"))) }
}

/// The folder with ONNX Runtime's headers, or why it is missing.
fn headers() -> Result<PathBuf, String> {
    let folder = std::env::var_os("HIPDNN_ORT_HEADERS").map_or_else(|| PathBuf::from(HEADERS), PathBuf::from);
    if folder.is_dir() {
        return Ok(folder);
    }
    let folder = folder.display();
    Err(format!(
        "{LEFT_OUT}{folder} is not there; HIPDNN_ORT_HEADERS names another folder (Debian: libonnxruntime-dev)"
    ))
}

/// Compares the offsets of functions and members with ONNX Runtime's headers, if installed.
fn slots(workspace: &Workspace) -> Result<String, Failure> {
    let folder = match headers() {
        Ok(folder) => folder,
        Err(reason) => return Ok(reason),
    };
    let script = workspace.path(FOLDER).join("tests/slots.py");
    Ok(last(&run(command("python3", [script]).arg(folder))?))
}

/// Checks that the library exports the symbols that ONNX Runtime looks for.
fn exports(library: &Path) -> Result<String, Failure> {
    let out = run(command("nm", ["-D", "--defined-only"]).arg(library))?;
    let found: BTreeSet<&str> = out.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    if found == BTreeSet::from(EXPORTS) {
        return Ok(format!("{} symbols", found.len()));
    }
    Err(Failure::new(format!("it exports {found:?}, expected {EXPORTS:?}")))
}

/// Builds the wheel of an installed tree. Returns its path and a note.
pub fn wheel(workspace: &Workspace, tree: &Path) -> Result<(PathBuf, String), Failure> {
    let folder = workspace.scratch("ort-wheel");
    remove(&folder)?;
    let (parts, out) = (folder.join("parts"), workspace.scratch("wheel"));
    fs::create_dir_all(&out)?;
    let files = std::iter::once(PathBuf::from(LIBRARY))
        .chain(PLUGINS.iter().map(|plugin| Path::new(ENGINES).join(plugin.file)));
    let strip = |from: &Path, to: &Path| -> Result<u32, Failure> {
        fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        run(command("strip", ["--strip-unneeded", "-o"]).arg(to).arg(from))?;
        glibc::needed(to)
    };
    let library = folder.join(FILE);
    let mut newest = strip(&workspace.release_dir().join(FILE), &library)?;
    for file in files {
        newest = newest.max(strip(&tree.join("lib").join(&file), &parts.join(&file))?);
    }
    let tag = format!("manylinux_2_{newest}_{}", std::env::consts::ARCH);
    let mut pack = command("python3", [workspace.path(FOLDER).join("python/pack.py")]);
    pack.arg(&library).arg(&parts).args([workspace.version.as_str(), tag.as_str()]);
    pack.args([workspace.path("LICENSE"), workspace.path(NOTICES), workspace.path(BILL)]).arg(&out);
    let wheel = PathBuf::from(run(&mut pack)?.trim());
    name_repository(&wheel)?;
    let size = fs::metadata(&wheel)?.len();
    let note = format!("{}, {:.1} MiB", workspace.relative(&wheel), size as f64 / f64::from(1 << 20));
    if size > LARGEST {
        return Err(Failure::new(format!("{note}, expected at most {} MiB", LARGEST >> 20)));
    }
    Ok((wheel, note))
}

/// Tests the installed wheel: runs a model from the command line and draws it.
fn installed(workspace: &Workspace, stage: &Path) -> Result<String, Failure> {
    let (wheel, note) = wheel(workspace, stage)?;
    let [_, (name, package)] = RELEASES;
    let python = environment(name, package)?.join("bin/python");
    let folder = workspace.scratch("ort-installed");
    remove(&folder)?;
    let mut pip = command(&python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run(pip.args(["--no-index", "--no-deps", "--target"]).arg(&folder).arg(&wheel))?;
    let mut tool = command(&python, [workspace.path(FOLDER).join("tests/installed.py")]);
    tool.env_remove("HIPDNN_BACKEND_LIBRARY_PATH")
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let out = run(&mut tool)?;
    Ok(format!("{note}; {}", last(&out)))
}
