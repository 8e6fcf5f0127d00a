//! `cargo xtask test`: all tests, in groups that can be run separately.

mod accumulators;
mod beside;
mod c;
mod client;
mod cmake;
mod examples;
mod exports;
mod frames;
mod fuzz;
mod headers;
mod hip;
mod install;
mod invariance;
mod package;
mod plugins;
mod python;
mod tool;
mod wire;

pub use python::with_torch;
use std::path::Path;
use std::sync::Mutex;

use crate::Failure;
use crate::docs;
use crate::extent::Extent;
use crate::generate;
use crate::install::{build, lay_out};
use crate::process::{command, run, without_settings};
use crate::rust_tests::{ENGINES, KERNELS, OTHER_PACKAGES, Part, XTASK};
use crate::steps::{Check, Done, Steps, Took, timed};
use crate::tools::{
    self, CC, CLANG, CMAKE, CXX, DPKG_DEB, FLATBUFFERS, FLATC, MAKE, OBJCOPY, PKG_CONFIG, PYTHON, Tool,
    VALGRIND, XZ,
};
use crate::windows;
use crate::workspace::Workspace;

/// The context of a group.
struct Context<'a> {
    workspace: &'a Workspace,
    /// The installed tree that programs are built against.
    stage: &'a Path,
    /// Additional compiler and linker options of C programs.
    words: &'a [&'a str],
    /// C programs that are not run.
    left_out: &'a [&'a str],
    /// Variables for C programs, each with the prefix of the programs' paths.
    variables: &'a [(&'a str, &'a str, &'a str)],
    /// How much of the group runs.
    extent: Extent,
}

/// A group: its name, its description, the tools it needs and whether it needs the staged library.
struct Group {
    name: &'static str,
    about: &'static str,
    tools: &'static [&'static Tool],
    staged: bool,
    run: fn(&Context, &mut Steps),
}

const GROUPS: &[Group] = &[
    Group { name: "format", about: "rustfmt", tools: &[], staged: false, run: format },
    Group {
        name: "generated",
        about: "generated files are as the sources say",
        tools: &[],
        staged: false,
        run: generated,
    },
    Group {
        name: "pictures",
        about: "pictures are as the figures say",
        tools: &[&PYTHON],
        staged: false,
        run: pictures,
    },
    Group {
        name: "docs",
        about: "the documents: links, files and commands that they name; what they show is run",
        tools: &[&CC, &CXX, &CMAKE, &MAKE, &PKG_CONFIG],
        staged: true,
        run: |context, steps| docs::test(context.workspace, context.stage, &crate::names(), steps),
    },
    // The Rust tests load the staged plugin, as a program would.
    Group {
        name: "rust",
        about: "Rust tests of the workspace",
        tools: &[&CC, &CXX],
        staged: true,
        run: rust,
    },
    Group {
        name: FUZZ,
        about: "a fuzz target for half a minute, another one with each commit",
        tools: &[&CC, &CXX],
        staged: true,
        run: fuzz::run,
    },
    Group {
        name: "headers",
        about: "every public header alone, without HIP and in short with HIP; as a whole, all of these with HIP and by clang",
        tools: &[&CC, &CXX],
        staged: false,
        run: headers::run,
    },
    Group {
        name: "exports",
        about: "exported symbols, SONAME and needed libraries; stack frames",
        tools: &[&CC],
        staged: true,
        run: exports::run,
    },
    Group {
        name: "c",
        about: "C and C++ programs; as a whole, those of the C++ classes also without sanitizers and by clang",
        tools: &[&CC, &CXX],
        staged: true,
        run: c::run,
    },
    Group {
        name: "plugins",
        about: "each plugin in a host in C of its own, also under valgrind",
        tools: &[&CC],
        staged: true,
        run: plugins::run,
    },
    Group {
        name: "client",
        about: "a C++17 client that finds the library at run time",
        tools: &[&CC, &CXX],
        staged: true,
        run: client::run_all,
    },
    Group {
        name: "wire",
        about: "graph bytes against the FlatBuffers library itself",
        tools: &[&CXX, &FLATC, &FLATBUFFERS],
        staged: true,
        run: wire::run_group,
    },
    Group {
        name: "examples",
        about: "the examples, each with its own check",
        tools: &[&CC, &CXX],
        staged: true,
        run: examples::run,
    },
    Group {
        name: "tool",
        about: "the installed command line tool, and with it the items of batches over the catalogue of cases",
        tools: &[&CC],
        staged: true,
        run: tool::run,
    },
    Group {
        name: "python",
        about: "the Python package from its wheel, in a virtual environment outside of the clone; hipdnn.torch in short",
        tools: &[&CC],
        staged: true,
        run: python::run,
    },
    Group {
        name: "ort",
        about: "the execution provider in the newest ONNX Runtime, in short, in a virtual environment outside of the clone; as a whole, also in 1.23",
        tools: &[&CC],
        staged: true,
        run: |context, steps| crate::ort::short(context.workspace, context.stage, context.extent, steps),
    },
    Group {
        name: "windows",
        about: "the library for Windows without its plugins under wine, in short, where mingw-w64 and wine are",
        tools: &[],
        staged: false,
        run: |context, steps| windows::short::run_steps(context.workspace, steps),
    },
    Group {
        name: "install",
        about: "programs that use an installed copy",
        tools: &[&CC, &CXX, &CMAKE, &MAKE, &PKG_CONFIG],
        staged: true,
        run: install::run,
    },
    Group {
        name: "package",
        about: "what is installed: stripped, no path of this machine; as a whole, its packages, unpacked and used",
        tools: &[&CC, &CXX, &CMAKE, &MAKE, &PKG_CONFIG, &OBJCOPY, &DPKG_DEB, &XZ],
        staged: true,
        run: package::run,
    },
    Group {
        name: "beside",
        about: "AMD's other packages, a MIOpen that forwards, another hipdnn: stand-ins of each",
        tools: &[&CC, &CXX, &CMAKE, &MAKE],
        staged: true,
        run: beside::run,
    },
    Group {
        name: "cmake",
        about: "the CMake build, and use as a subproject",
        tools: &[&CC, &CXX, &CMAKE, &MAKE],
        staged: true,
        run: cmake::run,
    },
];

/// Tools without which steps of a group are skipped.
const OPTIONAL: &[(&str, &Tool)] = &[
    ("c", &VALGRIND),
    ("c", &CLANG),
    ("headers", &CLANG),
    ("plugins", &VALGRIND),
    ("python", &PYTHON),
    ("ort", &PYTHON),
];

/// The names of the groups.
pub fn names() -> Vec<&'static str> {
    GROUPS.iter().map(|group| group.name).collect()
}

/// One line a group, for the help.
pub fn about() -> String {
    let lines = GROUPS.iter().map(|group| format!("\n  {:<10} {}", group.name, group.about));
    format!("Test groups:{}", lines.collect::<String>())
}

/// Steps that run in parallel with others.
pub type Job<'a> = Box<dyn Fn(&mut Steps) + Sync + 'a>;

/// Runs the named groups as a whole, or all of them to the extent for a change, unless they are to run as a whole too.
pub fn test(workspace: &Workspace, groups: &[String], whole: bool) -> Result<(), Failure> {
    let extent = if whole || !groups.is_empty() { Extent::Whole } else { Extent::Change };
    let groups: Vec<&str> =
        if groups.is_empty() { names() } else { groups.iter().map(String::as_str).collect() };
    run_groups(workspace, &groups, extent, Vec::new())
}

/// Runs these groups, and in parallel with the last group other jobs that use what was built.
pub fn run_groups(
    workspace: &Workspace,
    names: &[&str],
    extent: Extent,
    others: Vec<Job>,
) -> Result<(), Failure> {
    let chosen: Vec<&Group> = GROUPS.iter().filter(|group| names.contains(&group.name)).collect();

    let mut steps = Steps::new();
    let needed: Vec<&Tool> = chosen.iter().flat_map(|group| group.tools.iter().copied()).collect();
    let is_run = |name: &str| chosen.iter().any(|group| group.name == name);
    let optional = OPTIONAL.iter().filter(|(group, _)| is_run(group)).map(|(_, tool)| *tool);
    let optional: Vec<&Tool> = optional.collect();
    if !needed.is_empty() {
        steps.group("set-up");
        if !steps.run("compilers and tools", || tools::prepare(&needed, &optional)) {
            return steps.summary();
        }
    }
    let folder = workspace.stage_dir();
    if chosen.iter().any(|group| group.staged) && !steps.run_lanes(&compilations(workspace, is_run("rust"))) {
        return steps.summary();
    }
    let context = Context { workspace, stage: &folder, words: &[], left_out: &[], variables: &[], extent };
    let run = |group: &&Group, steps: &mut Steps| {
        steps.group(&format!("{}: {}", group.name, group.about));
        (group.run)(&context, steps);
    };
    // Most groups leave a core idle most of the time. Those of cargo wait for each other; the last one rebuilds the tree that the
    // others use.
    let (last, groups): (Vec<&Group>, Vec<&Group>) = chosen.into_iter().partition(|group| group.name == LAST);
    let (fuzz, groups): (Vec<&Group>, Vec<&Group>) = groups.into_iter().partition(|group| group.name == FUZZ);
    let (cargo, groups) = groups.into_iter().partition(|group| CARGO.contains(&group.name));
    steps.run_beside(&[cargo, groups, fuzz], run);
    let last = last.into_iter().map(|group| -> Job { Box::new(move |steps| run(&group, steps)) });
    let last = [last.collect()].into_iter().chain(others.into_iter().map(|job| vec![job]));
    steps.run_beside(&last.collect::<Vec<Vec<Job>>>(), |job, steps| job(steps));
    steps.summary()
}

/// Groups that run cargo most of the time.
const CARGO: &[&str] = &["format", "generated", "rust", "tool", "python", "ort", "windows"];

/// The group that computes for half a minute, in parallel with all others.
const FUZZ: &str = "fuzz";

/// The group that runs after all others.
const LAST: &str = "cmake";

/// The compilations before the groups: the release build, whose last crates leave a core idle, and in parallel the Rust tests.
fn compilations(workspace: &Workspace, rust: bool) -> Vec<Vec<Check<'_>>> {
    let release = || {
        let note = build(workspace)?;
        lay_out(workspace)?;
        Ok(note)
    };
    let release: Check = ("release build of the library and its plugins".to_owned(), Box::new(release));
    if !rust {
        return vec![vec![release]];
    }
    let tests = |part: Part| -> Check {
        let compile = move || run((part.cargo)(workspace).arg("--no-run")).map(|_| String::new());
        (format!("Rust tests of {}: compilation", part.name), Box::new(compile))
    };
    let [kernels, engines, others, own] = [KERNELS, ENGINES, OTHER_PACKAGES, XTASK].map(tests);
    vec![vec![release, engines], vec![kernels, others, own]]
}

/// Runs the C programs, except some, against another tree, compiled with additional options.
pub fn c_programs(
    workspace: &Workspace,
    stage: &Path,
    words: &[&str],
    left_out: &[&str],
    variables: &[(&str, &str, &str)],
    steps: &mut Steps,
) {
    c::run(&Context { workspace, stage, words, left_out, variables, extent: Extent::Whole }, steps);
}

fn format(context: &Context, steps: &mut Steps) {
    steps.run("cargo fmt --check", || {
        run(&mut context.workspace.cargo(["fmt", "--all", "--check"])).map(|_| String::new())
    });
}

fn generated(context: &Context, steps: &mut Steps) {
    steps.run("cargo xtask generate --check", || {
        generate::check(context.workspace).map(|files| format!("{files} files"))
    });
}

fn pictures(context: &Context, steps: &mut Steps) {
    steps.run("benches/draw.py --check", || {
        let script = context.workspace.path("benches/draw.py");
        run(command("python3", [script]).arg("--check")).map(|_| String::new())
    });
}

fn rust(context: &Context, steps: &mut Steps) {
    for Part { name, cargo } in [KERNELS, ENGINES, OTHER_PACKAGES, XTASK] {
        steps.run(&format!("Rust tests of {name}"), || {
            let mut cargo = cargo(context.workspace);
            // The examples of the crate `hipdnn` look for a library here.
            let out = run(cargo.env("HIPDNN_BACKEND_LIBRARY_PATH", context.stage.join("lib")))?;
            let passed: usize = out
                .lines()
                .filter_map(|line| line.strip_prefix("test result: ok. "))
                .filter_map(|line| line.split(' ').next()?.parse::<usize>().ok())
                .sum();
            if passed == 0 {
                return Err(Failure::new(format!("no test ran\n{out}")));
            }
            Ok(format!("{passed} tests"))
        });
    }
}

/// Runs checks with one thread per core and reports them in order.
fn run_all(steps: &mut Steps, checks: &[Check]) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(0..checks.len());
    let results: Vec<Mutex<Option<Done>>> = checks.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(at) = next.lock().ok().and_then(|mut range| range.next()) {
                    if let (Some((_, check)), Some(slot)) = (checks.get(at), results.get(at)) {
                        let done = timed(check);
                        if let Ok(mut slot) = slot.lock() {
                            *slot = Some(done);
                        }
                    }
                }
            });
        }
    });
    for ((name, _), slot) in checks.iter().zip(results) {
        let (took, result) = slot
            .into_inner()
            .ok()
            .flatten()
            .unwrap_or_else(|| (Took::default(), Err(Failure::new("the check did not finish"))));
        steps.report(name, took, result);
    }
}
