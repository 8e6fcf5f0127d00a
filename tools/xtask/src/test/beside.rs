//! Coexistence in a prefix or a process: AMD's other packages of hipDNN, a MIOpen that forwards to hipDNN, another library
//! called hipdnn.

mod packages;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::install::{ENGINES, LIBRARY};
use crate::process::{command, run as run_program, run_within};
use crate::steps::Steps;

const LIMIT: Duration = Duration::from_secs(90);

/// The plugin with the engines for MIOpen.
const MIOPEN: &str = "libhipdnn_miopen_plugin.so";

/// Vendors' libraries that plugins look for when asked about a graph.
const VENDORS: [&str; 4] = ["libamdhip64.so.7", "libcuda.so.1", "libMIOpen.so.1", "libcudnn.so.9"];

/// Libraries that throw: the program's name for it, its vendor, its file, and the plugin that calls it.
const THROWING: [(&str, &str, &str, &str); 3] = [
    ("miopen", "MIOpen", "libMIOpen_private.so.1", MIOPEN),
    ("hipblaslt", "hipBLASLt", "libhipblaslt.so.1", "libhipdnn_hipblaslt_plugin.so"),
    ("hiprtc", "hipRTC", "libhiprtc.so.7", "libhipdnn_rtc_plugin.so"),
];

pub fn run(context: &Context, steps: &mut Steps) {
    packages::run(context, steps);
    let scratch = context.workspace.scratch("beside");
    for (taken, others) in [("libMIOpen.so.1", &[][..]), ("libMIOpen_private.so.1", &["libMIOpen.so.1"])] {
        let name = match others {
            [] => "a MIOpen that forwards to hipDNN",
            _ => "a MIOpen that forwards to hipDNN, and the one behind it",
        };
        steps.run(name, || forwarding(context, &scratch.join(taken), taken, others));
    }
    for (word, source, library, plugin) in THROWING {
        steps.run(&format!("a HIP and a {source} that throw, and answer absurd sizes"), || {
            let folder = scratch.join("throwing").join(word);
            run_with_standins(context, &folder, "throwing", &[(source, library)], plugin, &[word])
        });
    }
    steps.run("a MIOpen that lacks functions", || {
        let libraries = [("MIOpen", "libMIOpen_private.so.1")];
        run_with_standins(context, &scratch.join("lacking"), "lacking", &libraries, MIOPEN, &[])
    });
    steps.run("plans of two devices", || {
        run_with_standins(context, &scratch.join("devices"), "devices", &[], MIOPEN, &[])
    });
    steps.run("a trace of a device, and ranges", || device_trace(context, &scratch.join("device_trace")));
    steps.run("a trace of a device of CUDA, and ranges of NVTX 3", || {
        cuda_trace(context, &scratch.join("cuda_trace"))
    });
    for file in VENDORS {
        steps.run(&format!("{file} cut short"), || cut_short(context, &scratch.join("cut").join(file), file));
    }
    two_libraries(context, &scratch.join("two"), steps);
}

/// A C source of this group.
fn source(context: &Context, name: &str) -> PathBuf {
    context.workspace.path("c_tests/beside").join(name)
}

/// Compiles a program or a library of the group against the staged tree.
fn compile(context: &Context, name: &str, arguments: &[&str], target: &Path) -> Result<(), Failure> {
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut compiler = Language::C.compiler();
    compiler.args(STRICT).args(["-g", "-D_POSIX_C_SOURCE=200809L"]);
    compiler.arg("-I").arg(context.stage.join("include/hipdnn/backend"));
    compiler.arg(source(context, name)).arg("-o").arg(target);
    run_program(compiler.arg("-L").arg(context.stage.join("lib")).args(arguments)).map(|_| ())
}

/// The staged MIOpen engines, with stand-ins for HIP and MIOpen: the one to use, and others.
fn forwarding(context: &Context, folder: &Path, taken: &str, others: &[&str]) -> Result<String, Failure> {
    let libraries: Vec<_> = [&[taken], others].concat().into_iter().map(|file| ("MIOpen", file)).collect();
    run_with_standins(context, folder, "forwarding", &libraries, MIOPEN, &[taken])
}

/// The staged MIOpen engines, with stand-ins, in a trace and with ranges.
fn device_trace(context: &Context, folder: &Path) -> Result<String, Failure> {
    run_with_standins(context, folder, "device_trace", &[("MIOpen", "libMIOpen_private.so.1")], MIOPEN, &[])
}

/// The staged CPU engines on copies of a stand-in's memory, with a stand-in for NVIDIA's profiler.
fn cuda_trace(context: &Context, folder: &Path) -> Result<String, Failure> {
    crate::install::remove(folder)?;
    let (driver, profiler) = (folder.join("libcuda.so.1"), folder.join("libprofiler.so"));
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl", "-lpthread"];
    compile(context, "standin_cuda.c", &shared, &driver)?;
    compile(context, "standin_nvtx.c", &["-shared", "-fPIC"], &profiler)?;
    let program = folder.join("cuda_trace");
    let driver = driver.display().to_string();
    compile(context, "cuda_trace.c", &["-lhipdnn_backend", &driver, "-ldl"], &program)?;
    let mut test = command(&program, [""; 0]);
    without_settings(&mut test);
    let lib = context.stage.join("lib");
    let paths = std::env::join_paths([folder, &lib]).map_err(|error| Failure::new(error.to_string()))?;
    test.current_dir(folder).env("LD_LIBRARY_PATH", paths).env("NVTX_INJECTION64_PATH", &profiler);
    test.env("HIPDNN_CPU_FALLBACK", "1");
    test.env("HIPDNN_PLUGIN_DIR", lib.join(ENGINES).join("libhipdnn_cpu_plugin.so"));
    run_within(&mut test, LIMIT).map(|out| out.trim().to_owned())
}

/// A graph for the CPU engines, with a truncated vendor's library in the loader's path.
fn cut_short(context: &Context, folder: &Path, file: &str) -> Result<String, Failure> {
    crate::install::remove(folder)?;
    std::fs::create_dir_all(folder)?;
    let whole = std::fs::read(context.stage.join("lib").join(LIBRARY))?;
    std::fs::write(folder.join(file), whole.get(..4000).unwrap_or(&whole))?;
    let graph = context.workspace.path("examples_graphs/conv_bias_relu.json");
    let mut test = command(context.stage.join("bin/hipdnn"), ["explain"]);
    without_settings(&mut test);
    test.arg(graph).env("LD_LIBRARY_PATH", folder);
    let out = run_within(&mut test, LIMIT)?;
    let is_told = !file.contains("hip64") && !file.contains("cuda") || out.contains("the file is cut short");
    match out.contains("CPU_ENGINE (CPU): applies") && is_told {
        true => Ok(String::new()),
        false => Err(Failure::new(out)),
    }
}

/// A program with a staged plugin, a stand-in for HIP, and stand-ins for other libraries, given as vendor and file.
fn run_with_standins(
    context: &Context,
    folder: &Path,
    name: &str,
    libraries: &[(&str, &str)],
    plugin: &str,
    words: &[&str],
) -> Result<String, Failure> {
    crate::install::remove(folder)?;
    let shared = ["-shared", "-fPIC", "-fexceptions", "-lhipdnn_backend", "-lstdc++"];
    compile(context, "standin_hip.c", &shared, &folder.join("libamdhip64.so.7"))?;
    compile(context, "standin_roctx.c", &shared, &folder.join("libroctx64.so.4"))?;
    for (whose, file) in libraries {
        let kind = if file.contains("_private") { "-DPRIVATE" } else { "-DPUBLIC" };
        let soname = format!("-Wl,-soname,{file}");
        let arguments = [&shared[..], &[kind, &soname]].concat();
        compile(context, &format!("standin_{}.c", whose.to_lowercase()), &arguments, &folder.join(file))?;
    }
    let program = folder.join(name);
    compile(context, &format!("{name}.c"), &["-lhipdnn_backend", "-lpthread", "-ldl"], &program)?;
    let mut test = command(&program, words);
    without_settings(&mut test);
    test.current_dir(folder);
    let stub =
        stub_plugins::library("shares_saves").and(stub_plugins::library("shares")).map_err(Failure::new)?;
    test.env("HIPDNN_TEST_PLUGINS", stub.parent().unwrap_or(Path::new(".")));
    let lib = context.stage.join("lib");
    test.env(
        "LD_LIBRARY_PATH",
        std::env::join_paths([folder, &lib]).map_err(|e| Failure::new(e.to_string()))?,
    );
    test.env("HIPDNN_PLUGIN_DIR", lib.join(ENGINES).join(plugin));
    run_within(&mut test, LIMIT).map(|out| out.trim().to_owned())
}

/// Our library and another one called hipdnn in one process, in all combinations of linking, preloading and the program's
/// arguments.
fn two_libraries(context: &Context, folder: &Path, steps: &mut Steps) {
    let ours = context.stage.join("lib").join(LIBRARY);
    let other = folder.join("libother_hipdnn.so");
    let built = steps.run("another library called hipdnn", || {
        crate::install::remove(folder)?;
        let arguments = ["-shared", "-fPIC", "-Wl,-soname,libother_hipdnn.so"];
        compile(context, "standin_hipdnn.c", &arguments, &other)?;
        let (lib, folder_words) = (context.stage.join("lib"), folder.display().to_string());
        let rpath = format!("-Wl,-rpath,{},-rpath,{folder_words},--no-as-needed", lib.display());
        let search = format!("-L{folder_words}");
        for (name, libraries) in [
            ("linked-with-none", &[][..]),
            ("linked-with-ours", &["-lhipdnn_backend"]),
            ("linked-with-ours-first", &["-lhipdnn_backend", "-lother_hipdnn"]),
            ("linked-with-other-first", &["-lother_hipdnn", "-lhipdnn_backend"]),
        ] {
            let arguments = [&[search.as_str(), &rpath], libraries, &["-ldl"]].concat();
            compile(context, "two_libraries.c", &arguments, &folder.join(name))?;
        }
        Ok(String::new())
    });
    if !built {
        return;
    }
    for (program, preload, words) in [
        ("linked-with-none", false, &["other-is-whole"][..]),
        ("linked-with-none", false, &["other-is-whole", "ours-first"]),
        ("linked-with-none", false, &["other-is-whole", "global"]),
        ("linked-with-none", false, &["ours-first", "global"]),
        ("linked-with-none", true, &["other-is-whole"]),
        ("linked-with-ours", false, &[]),
        ("linked-with-ours", true, &["other-is-whole"]),
        ("linked-with-ours-first", false, &[]),
        ("linked-with-other-first", false, &["other-is-whole"]),
    ] {
        let before = if preload { ", the other preloaded" } else { "" };
        steps.run(&format!("{program}{before}: {}", words.join(" ")), || {
            let mut test = command(folder.join(program), [""; 0]);
            without_settings(&mut test);
            if preload {
                test.env("LD_PRELOAD", &other);
            }
            test.arg(&ours).arg(&other).args(words);
            run_within(&mut test, LIMIT).map(|_| String::new())
        });
    }
}
