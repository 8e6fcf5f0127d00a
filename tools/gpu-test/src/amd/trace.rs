//! Checks which calls the engines make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::Operation;
use hipdnn_plugin_sdk::hip::Hip;

use super::Check;
use super::capture::Stream;
use crate::backend::Backend;
use crate::case::Case;
use crate::failing::DOES_NOT_APPLY;
use crate::gate::{self, Call, Fail};
use crate::runs::{KEEPS_APART, allocated};
use crate::{Failure, cases};

/// The engine that uses MIOpen's own choice.
pub const MIOPEN: &str = "MIOPEN_ENGINE";
const DETERMINISTIC: &str = "MIOPEN_ENGINE_DETERMINISTIC";

/// A convolution, whose solution takes long to find, as the plan's only step.
const CONVOLUTION: &str = "convolution forward 1x1 float ChannelsFirst";
/// A convolution that MIOpen prefers to compute with a workspace.
const ROOMY: &str = "convolution backward data 3x3 float ChannelsFirst";
/// A chain with a single kernel.
const CHAIN: &str = "batchnorm with variance + relu_fwd in one kernel float ChannelsFirst";
/// A matmul that hipBLASLt computes with its epilogue, and one that rocBLAS computes.
const PRODUCT: &str = "matmul + gelu_approx_tanh_fwd half by HipblasLt";
const PLAIN_PRODUCT: &str = "matmul + residual float by Rocblas";
/// A graph of several kernels.
const GENERATED: &str = "largest of the columns of row sums";

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = vec![
        ("calls: a problem is looked for once in a process".to_owned(), Box::new(found_once)),
        ("calls: what knobs ask of MIOpen".to_owned(), Box::new(knobs)),
        ("calls: a limit of the workspace".to_owned(), Box::new(limit)),
        ("calls: padding and types that are refused".to_owned(), Box::new(refused)),
        ("calls: the algorithm of a saved product".to_owned(), Box::new(algorithm)),
    ];
    for name in [PRODUCT, PLAIN_PRODUCT] {
        checks.push((
            format!("calls: executions and their stream: {}: {name}", cases::HIPBLASLT),
            Box::new(move |library, hip| stream(library, hip, cases::HIPBLASLT, name)),
        ));
    }
    for (engine, name) in [(MIOPEN, CONVOLUTION), (MIOPEN, CHAIN), (cases::RTC, GENERATED)] {
        checks.push((
            format!("calls: executions and their stream: {engine}: {name}"),
            Box::new(move |library, hip| stream(library, hip, engine, name)),
        ));
        checks.push((
            format!("calls: another process with a saved plan: {engine}: {name}"),
            Box::new(move |library, _| another_process(library, engine, name)),
        ));
    }
    checks
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), Failure> {
    if got == expected {
        return Ok(());
    }
    Err(Failure(format!("{what}: {got:?}, expected {expected:?}")))
}

/// The calls of `work`.
fn calls<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Vec<Call>), Failure> {
    let before = gate::count();
    let done = work()?;
    Ok((done, gate::since(before)))
}

fn names(calls: &[Call]) -> Vec<&'static str> {
    calls.iter().map(|call| call.name).collect()
}

fn count(calls: &[Call], name: &str) -> usize {
    calls.iter().filter(|call| call.name == name).count()
}

fn found_once(library: &Path, _: &'static Hip) -> Result<String, Failure> {
    const FIND: &str = "miopenFindSolutions";
    let (backend, other) = (Backend::open(library)?, Backend::open(library)?);
    // A graph with the same convolution twice and a unique limit, so that nothing is cached yet.
    let mut case = cases::named(MIOPEN, CONVOLUTION)?;
    let knobs = [("global.workspace_size_limit", 2_000_000_000)];
    let tensors = case.graph.tensors.clone();
    let mut again = case.graph.nodes.first().cloned().ok_or_else(|| Failure("an empty graph".to_owned()))?;
    if let (Operation::ConvolutionForward(node), [.., y]) = (&mut again.operation, tensors.as_slice()) {
        let mut y = y.clone();
        y.uid += 1;
        node.y = y.uid;
        case.graph.tensors.push(y);
    }
    case.graph.nodes.push(again);
    gate::record(MIOPEN, Fail::Nothing);
    let mut finds = Vec::new();
    for (backend, knobs) in [
        (&backend, knobs),
        (&backend, knobs),
        (&other, knobs),
        (&other, [("global.workspace_size_limit", 2_000_000_001)]),
    ] {
        let (_, calls) = calls(|| backend.plan(MIOPEN, &case.graph, &knobs))?;
        finds.push(count(&calls, FIND));
    }
    gate::take();
    // Another choice of knobs is another problem.
    expect("searches of four plans", &finds, &vec![1, 0, 0, 1])?;
    Ok("1, 0, 0, 1 searches".to_owned())
}

fn stream(library: &Path, hip: &'static Hip, engine: &str, name: &str) -> Result<String, Failure> {
    let case = cases::named(engine, name)?;
    let stream = Stream::new(hip)?;
    let backend = Backend::open(library)?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    gate::record(engine, Fail::Nothing);
    let run = || {
        let (_, mut calls) = calls(|| case.run_plan(&backend, Gpu::Hip(hip), &plan))?;
        calls.retain(|call| !KEEPS_APART.contains(&call.name));
        Ok::<_, Failure>(calls)
    };
    let first = run()?;
    // SAFETY: the stream lives until the handle has the default one again.
    unsafe { backend.set_stream(stream.stream) }?;
    let changed = run()?;
    let same = run()?;
    // SAFETY: the default stream lives as long as the process.
    unsafe { backend.set_stream(std::ptr::null_mut()) }?;
    gate::take();
    expect("an execution after another", &names(&same), &names(&first))?;
    let mut with_stream = names(&first);
    match engine {
        cases::RTC => {
            let last =
                |calls: &[Call]| calls.iter().filter(|call| call.name == "hipModuleLaunchKernel").count();
            expect("kernels", &(last(&first) + 1), &first.len())?;
        }
        // hipBLASLt gets the stream with each call.
        cases::HIPBLASLT => match names(&first).as_slice() {
            ["hipGetDevice", "hipblasLtMatmul"] => {}
            ["hipGetDevice", "rocblas_gemm_strided_batched_ex"] => {
                with_stream.insert(1, "rocblas_set_stream");
            }
            other => return Err(Failure(format!("an execution is {other:?}, expected one product"))),
        },
        _ => with_stream.insert(1, "miopenSetStream"),
    }
    expect("an execution on a new stream", &names(&changed), &with_stream)?;
    Ok(with_stream.join(", "))
}

/// An environment variable and its value for a child.
pub type Variable<'a> = (&'a str, &'a str);

/// The calls of a separate process, one per line. See [`super::child`] for the options.
pub fn in_child(
    library: &Path,
    engine: &str,
    name: &str,
    saved: &Path,
    options: &[&str],
    variables: &[Variable<'_>],
) -> Result<Vec<String>, Failure> {
    let failure = |error: std::io::Error| Failure(format!("another process: {error}"));
    let mut command = Command::new(std::env::args_os().next().unwrap_or_default());
    command.arg("--child").arg(library).args([engine, name]).arg(saved);
    command.args(options);
    let output = command.envs(variables.iter().copied()).output().map_err(failure)?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure(format!("another process: {}\n{words}{errors}", output.status)));
    }
    Ok(words.lines().map(str::to_owned).collect())
}

/// A temporary folder, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates a folder with this word in its name.
    pub fn new(name: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("gpu-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// The files in it and in its folders.
    fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.0.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Ignore failures: the files are small, and the system cleans up.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn another_process(library: &Path, engine: &str, name: &str) -> Result<String, Failure> {
    const SLOW: [&str; 2] = ["miopenFindSolutions", "hiprtcCompileProgram"];
    let slow =
        |calls: &[String]| calls.iter().filter(|call| SLOW.iter().any(|name| call.starts_with(name))).count();
    let (folder, kernels) = (Folder::new("plan")?, Folder::new("kernels")?);
    let saved = folder.0.join("plan");
    let first = in_child(library, engine, name, &saved, &[], &[])?;
    expect("searches and compilations of the first process", &slow(&first), &1)?;
    // A machine without MIOpen's caches.
    let path = kernels.0.to_str().unwrap_or_default();
    let fresh = [("MIOPEN_USER_DB_PATH", path), ("MIOPEN_CUSTOM_CACHE_DIR", path)];
    let second = in_child(library, engine, name, &saved, &[], &fresh)?;
    expect("searches and compilations of the second process", &slow(&second), &0)?;
    if name == CONVOLUTION {
        // The saved solution includes the kernel. MIOpen stores those of chains only in its own cache.
        expect("files that MIOpen makes for the second process", &kernels.files(), &Vec::new())?;
    }
    Ok(format!("{} and {} calls", first.len(), second.len()))
}

/// The functions that knobs call, each with the relevant last argument.
const SETTINGS: [&str; 4] = [
    "miopenSetConvolutionAttribute",
    "miopenSetConvolutionFindMode",
    "miopenSetFindOptionTuning",
    "miopenSetFindOptionWorkspaceLimit",
];

fn knobs(library: &Path, _: &'static Hip) -> Result<String, Failure> {
    let case = cases::named(MIOPEN, CONVOLUTION)?;
    let backend = Backend::open(library)?;
    let [attribute, mode, tuning, limit] = SETTINGS;
    /// An engine, values of knobs, and what is set.
    type Asked<'a> = (&'a str, &'a [(&'a str, i64)], &'a [(&'static str, usize)]);
    let plans: [Asked<'_>; 5] = [
        (MIOPEN, &[], &[(tuning, 0)]),
        (DETERMINISTIC, &[], &[(attribute, 1), (tuning, 0)]),
        (MIOPEN, &[("miopen.deterministic", 1)], &[(attribute, 1), (tuning, 0)]),
        (MIOPEN, &[("global.benchmarking", 1)], &[(tuning, 1)]),
        (
            MIOPEN,
            &[("miopen.find_mode", 2), ("global.workspace_size_limit", 4096)],
            &[(mode, 2), (tuning, 0), (limit, 4096)],
        ),
    ];
    for (engine, knobs, expected) in plans {
        // Record the request and fail the search itself, which takes long.
        gate::record(engine, Fail::Function("miopenFindSolutions"));
        let plan = backend.plan(engine, &case.graph, knobs).map(drop);
        let record = gate::take();
        if record.failed.is_none() {
            return Err(Failure(format!("{knobs:?}: nothing is looked for, and the plan is {plan:?}")));
        }
        let asked = record.calls.iter().filter(|call| SETTINGS.contains(&call.name));
        let asked: Vec<(&str, usize)> = asked.map(|call| (call.name, call.arguments[1])).collect();
        expect(&format!("settings of {engine} with {knobs:?}"), &asked.as_slice(), &expected)?;
    }
    let folder = Folder::new("knobs")?;
    for (value, expected) in [("1", "miopenSetFindOptionTuning 1"), ("no", "miopenSetFindOptionTuning 0")] {
        let variables = [("HIPDNN_FORCE_BENCHMARKING", value)];
        let calls = in_child(
            library,
            MIOPEN,
            CONVOLUTION,
            &folder.0.join("plan"),
            &["miopenFindSolutions"],
            &variables,
        )?;
        let tuning = calls.iter().find(|call| call.starts_with(tuning)).map(String::as_str);
        expect(&format!("HIPDNN_FORCE_BENCHMARKING={value}"), &tuning, &Some(expected))?;
    }
    Ok("as set".to_owned())
}

/// Restricts MIOpen to convolutions by matmul, which need a workspace. Otherwise its choice, and whether that needs a workspace,
/// depends on measured times.
const PRODUCTS_ONLY: [Variable<'static>; 4] = [
    ("MIOPEN_DEBUG_CONV_DIRECT", "0"),
    ("MIOPEN_DEBUG_CONV_WINOGRAD", "0"),
    ("MIOPEN_DEBUG_CONV_IMPLICIT_GEMM", "0"),
    ("MIOPEN_DEBUG_CONV_FFT", "0"),
];

/// With a workspace limit below a solution's size, another solution is used, or none.
fn limit(library: &Path, hip: &'static Hip) -> Result<String, Failure> {
    const LIMIT: &str = "global.workspace_size_limit=1";
    // Either MIOpen respects the limit when it searches, or the plugin detects that it did not.
    const REFUSALS: [&str; 2] = ["MIOpen finds no solution", "bytes of workspace, more than the limit of 1"];
    let folder = Folder::new("limit")?;
    let backend = Backend::open(library)?;
    let case = cases::named(MIOPEN, ROOMY)?;
    let saved = |name: &str| folder.0.join(name);
    let child = |name: &str, options: &[&str], variables: &[Variable<'_>]| {
        in_child(library, MIOPEN, ROOMY, &saved(name), options, variables)
    };
    let load = |name: &str| {
        let file = saved(name);
        let bytes = fs::read(&file).map_err(|error| Failure(format!("{}: {error}", file.display())))?;
        backend.load(&bytes)
    };
    // The plan allocates small workspaces itself and does not report them.
    let own = |calls: &[String]| -> usize {
        calls.iter().filter_map(|call| call.strip_prefix("hipMalloc ")?.parse::<usize>().ok()).sum()
    };
    let allocated = own(&child("free", &[], &PRODUCTS_ONLY)?);
    let free = load("free")?.workspace_size + allocated;
    if free <= 1 {
        return Err(Failure(format!(
            "a product needs {free} bytes of workspace, expected more than the limit"
        )));
    }
    match child("refused", &[LIMIT], &PRODUCTS_ONLY) {
        Err(Failure(words)) if REFUSALS.iter().any(|refusal| words.contains(refusal)) => {}
        other => return Err(Failure(format!("products within the limit: {other:?}, expected {REFUSALS:?}"))),
    }
    let allocated = own(&child("limited", &[LIMIT], &[])?);
    let plan = load("limited")?;
    expect("bytes of workspace", &(plan.workspace_size + allocated), &0)?;
    case.run_plan(&backend, Gpu::Hip(hip), &plan)?;
    Ok(format!("{free} bytes for a product, which a limit refuses, and none for what it leaves"))
}

/// Refusals because of a knob or a limit, and in general.
fn refused(library: &Path, hip: &'static Hip) -> Result<String, Failure> {
    const PADDED: &str = "convolution forward padding behind float ChannelsFirst";
    const APART: &str = "convolution 3x3 + bias + relu_fwd one by one half ChannelsFirst";
    /// The bytes of a float image [2, 4, 9, 7], rounded up to the alignment.
    const IMAGE: i64 = 2048;
    let backend = Backend::open(library)?;
    /// A case, values of knobs, and part of the refusal.
    type Refused<'a> = (&'a str, &'a [(&'a str, i64)], &'a str);
    let refusals: [Refused<'_>; 3] = [
        (PADDED, &[("miopen.pad_in_workspace", 0)], "post_padding[0]: is not pre_padding[0]"),
        (PADDED, &[("global.workspace_size_limit", IMAGE - 1)], "x with its padding takes 2048 bytes"),
        (APART, &[], DOES_NOT_APPLY),
    ];
    for (name, knobs, expected) in refusals {
        let mut case = cases::named(MIOPEN, name)?;
        if name == APART {
            // Virtual tensors in memory must not be rounded more than the graph says.
            case = case.with_wide_tensors();
        }
        match backend.plan(MIOPEN, &case.graph, knobs) {
            Err(Failure(words)) if words.contains(expected) => {}
            other => {
                let other = other.map(drop);
                return Err(Failure(format!("{name} with {knobs:?}: {other:?}, expected {expected:?}")));
            }
        }
    }
    let padded = cases::named(MIOPEN, PADDED)?;
    gate::record(MIOPEN, Fail::Nothing);
    let limit = [("global.workspace_size_limit", IMAGE)];
    let (plan, made) = calls(|| backend.plan(MIOPEN, &padded.graph, &limit))?;
    gate::take();
    // The rest is for alignment. The plan allocates it and reports no workspace.
    expect("bytes of a padded image", &allocated(&made), &(IMAGE as usize + 255))?;
    expect("bytes of workspace that are asked for", &plan.workspace_size, &0)?;
    padded.run_plan(&backend, Gpu::Hip(hip), &plan)?;
    Ok("refused, and within the limit taken".to_owned())
}

/// A saved plan contains the chosen algorithm, and so does the loaded plan.
fn algorithm(library: &Path, _: &'static Hip) -> Result<String, Failure> {
    let (backend, loader) = (Backend::open(library)?, Backend::open(library)?);
    let case = cases::named(cases::HIPBLASLT, PRODUCT)?;
    let mut plans = Vec::new();
    for place in 0..3 {
        let knobs = [("hipblaslt.library", 1), ("hipblaslt.algorithm", place)];
        let saved = backend.plan(cases::HIPBLASLT, &case.graph, &knobs)?.save()?;
        expect("a plan that was saved, loaded and saved", &loader.load(&saved)?.save()?, &saved)?;
        plans.push(saved);
    }
    gate::record(cases::HIPBLASLT, Fail::Nothing);
    let first = plans.first().ok_or_else(|| Failure("no plan".to_owned()))?;
    let (_, calls) = calls(|| loader.load(first))?;
    gate::take();
    expect("searches of a plan that is loaded again", &count(&calls, "hipblasLtMatmulAlgoGetHeuristic"), &0)?;
    Ok(format!("{} plans", plans.len()))
}

/// See [`super::child`].
pub fn child(
    library: &Path,
    hip: &'static Hip,
    engine: &str,
    case: &Case,
    saved: &Path,
    fail: Fail,
) -> Result<(), Failure> {
    let failure = |error: std::io::Error| Failure(format!("{}: {error}", saved.display()));
    gate::record(engine, fail);
    let backend = Backend::open(library)?;
    let run = || {
        let plan = if saved.exists() {
            backend.load(&fs::read(saved).map_err(failure)?)?
        } else {
            let plan = backend.plan(engine, &case.graph, &case.knobs)?;
            fs::write(saved, plan.save()?).map_err(failure)?;
            plan
        };
        case.run_plan(&backend, Gpu::Hip(hip), &plan)
    };
    let result = run();
    let record = gate::take();
    if record.failed.is_none() {
        result?;
    }
    for call in record.calls {
        println!("{} {}", call.name, call.arguments[1]);
    }
    Ok(())
}
