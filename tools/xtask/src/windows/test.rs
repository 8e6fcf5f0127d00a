//! `cargo xtask windows-test`: the tree for Windows, tested under wine on Linux.
//!
//! Programs that need forks, signals or /proc are skipped with a reason. Nothing runs on Windows itself.

use std::fs;
use std::time::Duration;

use super::wine::{self, Wine};
use super::{
    LIBRARY, MINGW_CC, MINGW_CXX, TARGET, across, built, dll, plugin_file, programs, stage, stage_dir,
};
use crate::Failure;
use crate::install::PLUGINS;
use crate::process::run_within;
use crate::steps::{LEFT_OUT, Steps};
use crate::tools;
use crate::workspace::Workspace;

/// The Rust packages to test, with options that select their tests.
const PACKAGES: &[(&str, &[&str])] = &[
    ("hipdnn-abi", &[]),
    ("hipdnn-plugin-sdk", &["--lib", "--features", "json"]),
    ("hipdnn-plugin-planner", &["--lib"]),
    ("hipdnn-backend", &["--lib"]),
    ("hipdnn", &["--lib"]),
    ("hipdnn-cpu-plugin", &["--lib", "--test", "engines"]),
];

/// The CPU plugin's tests compute for minutes.
const LIMIT: Duration = Duration::from_secs(3600);

/// The program that trains a network, and its minimum accuracy.
const TRAINING: &str = "examples_c/train_digits.c";
const ENOUGH: f64 = 98.0;

/// Runs the tests, or those whose names contain one of the words.
pub fn run(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::new();
    steps.group("set-up");
    if stage(workspace, &mut steps).is_some()
        && steps.run("compilers of C and C++", || {
            tools::require(&[&MINGW_CC, &MINGW_CXX]).map(|()| String::new())
        })
    {
        let mut wine = None;
        steps.run("wine", || {
            wine = Some(Wine::ready(workspace)?);
            Ok(String::new())
        });
        if let Some(wine) = wine {
            let chosen =
                |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
            files(workspace, &mut steps, &chosen);
            c_programs(workspace, &wine, &mut steps, &chosen);
            whole(workspace, &wine, &mut steps, &chosen);
            rust(workspace, &wine, &mut steps, &chosen);
        }
    }
    steps.summary()
}

/// Whether a test is selected.
type Chosen<'a> = &'a dyn Fn(&str) -> bool;

fn files(workspace: &Workspace, steps: &mut Steps, chosen: Chosen) {
    steps.group("windows: files");
    let (stage, list) = (stage_dir(workspace), |name: &str| workspace.path("c_tests").join(name));
    let mut step = |name: &str, check: &dyn Fn() -> Result<String, Failure>| {
        if chosen(name) {
            steps.run(name, check);
        }
    };
    let library = stage.join("bin").join(LIBRARY);
    step(&format!("functions of {LIBRARY}"), &|| dll::exports(&library, &list("exports.txt")));
    step(&format!("version of {LIBRARY}"), &|| dll::version(&library, &workspace.version));
    for plugin in PLUGINS.iter() {
        let file = plugin_file(plugin.file);
        let path = stage.join("bin").join(crate::install::ENGINES).join(&file);
        step(&format!("functions of {file}"), &|| dll::exports(&path, &list(plugin.exports)));
    }
    for (file, place) in built() {
        step(&format!("libraries that {file} needs"), &|| dll::imports(&stage.join(&place)));
    }
}

fn c_programs(workspace: &Workspace, wine: &Wine, steps: &mut Steps, chosen: Chosen) {
    steps.group("windows: C and C++ programs");
    let mut plugins = None;
    steps.run("plugins with and without defects", || {
        plugins = Some(programs::plugins(workspace)?);
        Ok(String::new())
    });
    let (Some(plugins), Ok(sources)) = (plugins, programs::sources(workspace)) else { return };
    for source in sources {
        let name = workspace.relative(&source);
        if !chosen(&name) {
            continue;
        }
        match programs::left_out(&source) {
            Ok(Some(reason)) => steps.leave_out(&name, reason),
            Ok(None) => {
                steps
                    .run(&name, || programs::test(workspace, &stage_dir(workspace), wine, &source, &plugins));
            }
            Err(failure) => {
                steps.run(&name, || Err(failure));
            }
        }
    }
}

fn whole(workspace: &Workspace, wine: &Wine, steps: &mut Steps, chosen: Chosen) {
    steps.group("windows: programs, plans and folders");
    let stage = stage_dir(workspace);
    let mut step = |name: &str, check: &dyn Fn() -> Result<String, Failure>| {
        if chosen(name) {
            steps.run(name, check);
        }
    };
    step("a network is trained", &|| train(workspace, wine));
    let bin = wine::path(&stage.join("bin"));
    for (name, source) in [
        ("folders of any name, a library that is closed and replaced", "c_tests/windows/lives.c"),
        ("C++ classes find the library at run time", "c_tests/windows/finds.cpp"),
    ] {
        step(name, &|| {
            let source = workspace.path(source);
            programs::compile_and_run(workspace, &stage, wine, &source, |test| {
                test.arg(&bin);
            })
            .map(|_| String::new())
        });
    }
    step("hipdnn lists the engines", &|| {
        let out = programs::tool(workspace, wine, &["engines"])?;
        if !out.contains("CPU_ENGINE") {
            return Err(Failure::new(format!("CPU_ENGINE was expected\n{out}")));
        }
        Ok(String::new())
    });
    let linux = across::Linux::ready(workspace);
    for (name, compare) in across::STEPS {
        step(name, &|| match &linux {
            Some(linux) => compare(workspace, wine, linux),
            None => Ok(format!(
                "{LEFT_OUT}cargo xtask build lays out the tree for Linux, which this is compared with"
            )),
        });
    }
}

/// Trains a network, and also reports the time on Linux if that tree is laid out.
fn train(workspace: &Workspace, wine: &Wine) -> Result<String, Failure> {
    let source = workspace.path(TRAINING);
    let program = programs::compile(workspace, &stage_dir(workspace), &source, true)?;
    let mut training = wine.command(&program, [""; 0]);
    let ran = run_within(training.current_dir(workspace.path("")), LIMIT);
    fs::remove_file(&program)?;
    let out = ran?;
    let accuracy =
        |line: &str| line.strip_prefix("Test accuracy")?.split_whitespace().next()?.parse::<f64>().ok();
    let best = out.lines().find_map(accuracy).filter(|best| *best >= ENOUGH);
    let best = best.ok_or_else(|| Failure::new(format!("{ENOUGH} % right was expected\n{out}")))?;
    let mut note = format!("{best} %, {}", step_time(&out));
    if let Some(linux) = across::Linux::ready(workspace) {
        let on_linux = linux.run(workspace, &source, true, &[])?;
        note.push_str(&format!("; on Linux {}", step_time(&on_linux)));
    }
    Ok(note)
}

/// The program's report of a training step's time.
fn step_time(out: &str) -> &str {
    out.lines().find(|line| line.contains("a step")).unwrap_or_default().trim()
}

fn rust(workspace: &Workspace, wine: &Wine, steps: &mut Steps, chosen: Chosen) {
    steps.group("windows: tests in Rust");
    for (package, options) in PACKAGES.iter().filter(|(package, _)| chosen(package)) {
        steps.run(package, || {
            let mut cargo = workspace.cargo(["test", "--target", TARGET, "--profile", "ci", "-p", package]);
            cargo.args(*options);
            wine.prepare(&mut cargo);
            let out = run_within(&mut cargo, LIMIT)?;
            let passed = out.lines().filter_map(crate::arm::passed).sum::<usize>();
            Ok(format!("{passed} tests"))
        });
    }
}
