//! The client that loads the library at run time: from every possible place, with each function missing once, with other
//! versions, and with the call sequences of today's frontends. The program is `c_tests/client`; it does not link the library.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT, no_sanitizers, sanitizers};
use crate::install::{ENGINES, LIBRARY};
use crate::process::{command, run, run_within};
use crate::steps::Steps;

const LIMIT: Duration = Duration::from_secs(60);

/// The places that the client searches, in order, and the test's folder for each.
const PLACES: &[(&str, &str)] = &[
    ("directory", "given"),
    ("variable", "named"),
    ("module", "bin"),
    ("lib", "lib"),
    ("lib64", "lib64"),
    ("hip", "runtime"),
    ("loader", "known"),
];

/// A stand-in for HIP's runtime, with another name so that the library does not mistake it for HIP.
const RUNTIME: &str = "libruntime.so";

/// Versions of other libraries, as compiler definitions.
const OTHER_VERSIONS: &[&str] = &["\"1.0.0\"", "\"10.4.0\"", "\"new\"", "\"\"", "\"0\"", "0"];

/// The source files of the client.
const SOURCES: &[&str] = &[
    "client.cpp",
    "newer.cpp",
    "older.cpp",
    "tuning.cpp",
    "other_shapes.cpp",
    "values.cpp",
    "ragged.cpp",
    "saving.cpp",
    "logs.cpp",
    "choices.cpp",
    "habits.cpp",
    "provider.cpp",
];

/// The flows of today's frontends, with descriptions.
const FLOWS: &[(&str, &str)] = &[
    ("tuning", "autotuning: knobs swept, plans by number, a ranking"),
    ("other_shapes", "plans with other shapes"),
    ("values", "scalars by value, at execution and in the graph"),
    ("ragged", "attention with ragged offsets"),
    ("saving", "graphs and plans are saved"),
    ("loading", "what was saved, loaded by another process"),
    ("logs", "callbacks for the log, sync and async"),
    ("choices", "engines chosen by notes, names, workspaces and knobs"),
    ("habits", "what PyTorch does"),
    ("provider", "what an execution provider for ONNX Runtime does"),
];

pub fn run_all(context: &Context, steps: &mut Steps) {
    let folder = context.workspace.scratch("client");
    let mut rig = Rig { stage: context.stage, folder, program: PathBuf::new() };
    let built = steps.run("the client, in C++17", || {
        rig.program = build(context, &rig.folder)?;
        Ok(String::new())
    });
    if !built {
        return;
    }
    for (flow, what) in FLOWS {
        steps.run(what, || rig.flow(&rig.program, flow));
    }
    steps.run("these flows with sanitizers", || rig.sanitized(context));
    steps.run("all flows, with the library in every place", || rig.places());
    steps.run("all flows, with more rights than the user", || rig.secure());
    steps.run("libraries without one function", || rig.without_one());
    steps.run("libraries without what frontends do not use", || rig.without_unused(context));
    steps.run("a frontend of the next major version", || rig.next_version());
    steps.run("libraries of other versions, and none", || rig.other_versions());
}

struct Rig<'a> {
    stage: &'a Path,
    folder: PathBuf,
    program: PathBuf,
}

fn build(context: &Context, folder: &Path) -> Result<PathBuf, Failure> {
    crate::install::remove(folder)?;
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    let program = bin.join("client");
    compile(context, &program, &[])?;
    let runtime = folder.join("runtime");
    fs::create_dir_all(&runtime)?;
    let mut compiler = Language::C.compiler();
    compiler.args(STRICT).args(["-shared", "-fPIC"]).arg(context.workspace.path("c_tests/client/runtime.c"));
    run(compiler.arg("-o").arg(runtime.join(RUNTIME)))?;
    for (number, version) in OTHER_VERSIONS.iter().enumerate() {
        let other = folder.join(format!("other{number}"));
        fs::create_dir_all(&other)?;
        let mut compiler = Language::C.compiler();
        compiler.args(STRICT).args(["-shared", "-fPIC"]).arg(format!("-DVERSION={version}"));
        compiler.arg(context.workspace.path("c_tests/client/other_version.c"));
        run(compiler.arg("-o").arg(other.join(LIBRARY)))?;
    }
    Ok(program)
}

/// Compiles the client, its files side by side.
fn compile(context: &Context, program: &Path, options: &[&str]) -> Result<(), Failure> {
    let mut compilers = Vec::new();
    let mut objects = Vec::new();
    for source in SOURCES {
        let object = program.with_extension(format!("{source}.o"));
        let mut compiler = Language::Cxx.compiler();
        compiler
            .args(STRICT)
            .args(options)
            .arg("-g1")
            .arg("-I")
            .arg(context.stage.join("include/hipdnn/backend"));
        compiler.arg("-c").arg(context.workspace.path("c_tests/client").join(source)).arg("-o").arg(&object);
        compilers.push(compiler);
        objects.push(object);
    }
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = compilers.iter_mut().map(|compiler| scope.spawn(|| run(compiler))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for outcome in outcomes {
        outcome.map_err(|_| Failure::new("a compiler's thread panicked"))??;
    }
    let mut linker = Language::Cxx.compiler();
    run(linker.args(options).args(objects).arg("-o").arg(program).args(["-ldl", "-lpthread"]))?;
    Ok(())
}

impl Rig<'_> {
    /// A flow in its own process.
    fn flow(&self, program: &Path, name: &str) -> Result<String, Failure> {
        let saved = self.folder.join("saved");
        fs::create_dir_all(&saved)?;
        let words = ["flow", name, &text(&self.stage.join("lib"))?, &text(&saved)?];
        let mut client = self.client(program, &words)?;
        // One flow logs every call.
        client.env("HIPDNN_LOG_FILE", saved.join("log"));
        run_within(&mut client, LIMIT)?;
        Ok(String::new())
    }

    /// All flows with sanitizers in the client, if the compiler has them.
    fn sanitized(&self, context: &Context) -> Result<String, Failure> {
        if let Some(reason) = no_sanitizers()? {
            return Ok(format!("left out: {reason}"));
        }
        let program = self.program.with_file_name("sanitized");
        compile(context, &program, &sanitizers(context.extent))?;
        for (flow, _) in FLOWS {
            self.flow(&program, flow)?;
        }
        Ok(format!("{} flows", FLOWS.len()))
    }

    /// The client with only the engines' plugin and its own folder for rankings set.
    fn client(&self, program: &Path, words: &[&str]) -> Result<Command, Failure> {
        let mut client = command(program, words);
        without_settings(&mut client);
        client.env_remove("LD_LIBRARY_PATH");
        let cache = self.folder.join("cache");
        // Each run writes its own rankings.
        crate::install::remove(&cache)?;
        client.env("HIPDNN_CACHE_DIR", cache);
        let plugin = self.stage.join("lib").join(ENGINES).join("libhipdnn_cpu_plugin.so");
        client.env("HIPDNN_TEST_PLUGIN", plugin);
        Ok(client)
    }

    /// The client with a library, or other libraries, in every place that it searches.
    fn everywhere(&self, words: &[&str]) -> Result<Command, Failure> {
        let place = |name: &str| self.folder.join(name);
        let mut client = self.client(&self.program, words)?;
        client.env("HIPDNN_BACKEND_LIBRARY_PATH", place("named"));
        client.env("LD_PRELOAD", place("runtime").join(RUNTIME)).env("LD_LIBRARY_PATH", place("known"));
        Ok(client)
    }

    /// All places have the library and the first one counts; then remove it there, and so on.
    fn places(&self) -> Result<String, Failure> {
        let library = self.stage.join("lib").join(LIBRARY);
        for (_, place) in PLACES {
            fs::create_dir_all(self.folder.join(place))?;
            symlink(&library, self.folder.join(place).join(LIBRARY))?;
        }
        let given = text(&self.folder.join("given"))?;
        for (way, place) in PLACES {
            run_within(&mut self.everywhere(&["runs", way, &given])?, LIMIT)?;
            if *way != "loader" {
                fs::remove_file(self.folder.join(place).join(LIBRARY))?;
            }
        }
        // Relative paths are ignored.
        let mut client = self.everywhere(&["runs", "loader"])?;
        client.env("HIPDNN_BACKEND_LIBRARY_PATH", ".").current_dir(self.stage.join("lib"));
        run_within(&mut client, LIMIT)?;
        Ok(format!("{} places", PLACES.len()))
    }

    /// Neither the variable nor the program's folder counts.
    fn secure(&self) -> Result<String, Failure> {
        let lib = self.stage.join("lib");
        for place in ["named", "bin", "lib", "lib64", "runtime"] {
            symlink(lib.join(LIBRARY), self.folder.join(place).join(LIBRARY))?;
        }
        run_within(&mut self.everywhere(&["runs", "directory", &text(&lib)?, "secure"])?, LIMIT)?;
        run_within(&mut self.everywhere(&["runs", "loader", "", "secure"])?, LIMIT)?;
        let mut client = self.everywhere(&["refuses", "nowhere", "", "secure"])?;
        run_within(client.env_remove("LD_LIBRARY_PATH"), LIMIT)?;
        for (_, place) in PLACES.iter().skip(1) {
            fs::remove_file(self.folder.join(place).join(LIBRARY))?;
        }
        Ok(String::new())
    }

    /// The functions that frontends resolve, `newer` or `older` ones.
    fn names(&self, frontends: &str) -> Result<BTreeSet<String>, Failure> {
        let out = run(&mut self.client(&self.program, &["names", frontends])?)?;
        Ok(out.lines().map(str::to_owned).collect())
    }

    /// The folder of a copy of the library with these functions renamed.
    fn without<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<String, Failure> {
        let mut bytes = fs::read(self.stage.join("lib").join(LIBRARY))?;
        for function in names {
            let name = format!("\0{function}\0").into_bytes();
            let at = bytes.windows(name.len()).position(|window| window == name.as_slice());
            let at = at.ok_or_else(|| Failure::new(format!("the library has no name {function}")))?;
            if let Some(last) = bytes.get_mut(at + name.len() - 2) {
                *last = b'_';
            }
        }
        let folder = self.folder.join("lacks");
        crate::install::remove(&folder)?;
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(LIBRARY), bytes)?;
        text(&folder)
    }

    fn without_one(&self) -> Result<String, Failure> {
        let names = self.names("newer")?;
        for name in &names {
            let folder = self.without([name])?;
            run_within(&mut self.client(&self.program, &["lacks", name, &folder])?, LIMIT)?;
        }
        Ok(format!("{} libraries", names.len()))
    }

    /// Frontends run with a library that has only the functions they resolve.
    fn without_unused(&self, context: &Context) -> Result<String, Failure> {
        let exported = fs::read_to_string(context.workspace.path("c_tests/exports.txt"))?;
        let exported = exported.lines().filter(|line| !line.starts_with('#'));
        let exported: BTreeSet<_> = exported.map(str::to_owned).collect();
        let newer = self.names("newer")?;
        let folder = self.without(exported.difference(&newer))?;
        run_within(&mut self.client(&self.program, &["runs", "directory", &folder])?, LIMIT)?;
        let older = self.names("older")?;
        let folder = self.without(exported.difference(&older))?;
        run_within(&mut self.client(&self.program, &["older", &folder])?, LIMIT)?;
        Ok(format!("{} and {} of {} functions", newer.len(), older.len(), exported.len()))
    }

    /// A frontend of the next major version refuses, unless the library is set to report that version; one of November 2025 does
    /// not check.
    fn next_version(&self) -> Result<String, Failure> {
        let lib = text(&self.stage.join("lib"))?;
        let report = |words: &[&str], version: &str| {
            let mut client = self.client(&self.program, words)?;
            client.env("CLIENT_MAJOR", "1");
            client.env("HIPDNN_BACKEND_LIBRARY_PATH", &lib).env("HIPDNN_REPORTED_VERSION", version);
            run_within(&mut client, LIMIT)
        };
        for ignored in ["", "0.9.0", "1", "1.0", "1.0.0.0", "one.0.0"] {
            report(&["refuses", "variable"], ignored)?;
        }
        let saved = self.folder.join("saved");
        fs::create_dir_all(&saved)?;
        for (flow, _) in FLOWS {
            report(&["flow", flow, &lib, &text(&saved)?], "1.0.0")?;
        }
        Ok(String::new())
    }

    fn other_versions(&self) -> Result<String, Failure> {
        for number in 0..OTHER_VERSIONS.len() {
            let mut client = self.client(&self.program, &["refuses", "variable"])?;
            let folder = self.folder.join(format!("other{number}"));
            run_within(client.env("HIPDNN_BACKEND_LIBRARY_PATH", folder), LIMIT)?;
        }
        run_within(&mut self.client(&self.program, &["refuses", "nowhere"])?, LIMIT)?;
        Ok(format!("{} versions", OTHER_VERSIONS.len()))
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().ok_or_else(|| Failure::new(format!("{} is not UTF-8", path.display())))?;
    Ok(text.to_owned())
}
