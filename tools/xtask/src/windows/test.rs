//! `cargo xtask windows-test`: the tree for Windows, tested under wine on Linux.
//!
//! What needs a system with forks, signals or /proc is left out, each program with the reason. No machine with Windows itself is used.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::wine::{self, Wine};
use super::{LIBRARY, MINGW_CC, MINGW_CXX, TARGET, built, dll, plugin_file, programs, stage, stage_dir};
use crate::Failure;
use crate::install::PLUGINS;
use crate::process::{command, run as run_program, run_within};
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// What is tested of Rust: the package, and the options that choose tests of it.
const PACKAGES: &[(&str, &[&str])] = &[
    ("hipdnn-abi", &[]),
    ("hipdnn-plugin-sdk", &["--lib", "--features", "json"]),
    ("hipdnn-plugin-planner", &["--lib"]),
    ("hipdnn-backend", &["--lib"]),
    ("hipdnn", &["--lib"]),
    ("hipdnn-cpu-plugin", &["--lib"]),
];

/// The CPU plugin's tests compute for minutes.
const LIMIT: Duration = Duration::from_secs(3600);

/// The program that trains a network, and the least that it has to get right.
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

/// A test's name is wanted.
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
        // It wants an argument, and has a step of its own.
        if !chosen(&name) || name.ends_with("windows/lives.c") {
            continue;
        }
        match programs::left_out(&source) {
            Ok(Some(reason)) => steps.leave_out(&name, reason),
            Ok(None) => {
                steps.run(&name, || programs::compile_and_run(workspace, wine, &source, &plugins));
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
    step("folders of any name, a library that is closed and replaced", &|| {
        let program = stage.join("bin/lives.exe");
        programs::compile(workspace, &workspace.path("c_tests/windows/lives.c"), &program, false)?;
        let ran = run_within(&mut wine.command(&program, [wine::path(&stage.join("bin"))]), LIMIT);
        fs::remove_file(&program)?;
        ran.map(|_| String::new())
    });
    step("hipdnn lists the engines", &|| {
        let out = tool(workspace, wine, &["engines"])?;
        if !out.contains("CPU_ENGINE") {
            return Err(Failure::new(format!("CPU_ENGINE was expected\n{out}")));
        }
        Ok(String::new())
    });
    step("graphs have the same results and plans as on Linux", &|| same_results(workspace, wine));
}

/// Runs the command line tool for Windows.
fn tool(workspace: &Workspace, wine: &Wine, arguments: &[&str]) -> Result<String, Failure> {
    let mut tool = wine.command(stage_dir(workspace).join("bin/hipdnn.exe"), arguments);
    crate::test::without_settings(&mut tool);
    run_within(tool.current_dir(workspace.path("")), LIMIT)
}

/// Trains a network, and compares with the same on Linux where that is laid out.
fn train(workspace: &Workspace, wine: &Wine) -> Result<String, Failure> {
    let program = stage_dir(workspace).join("bin/train_digits.exe");
    programs::compile(workspace, &workspace.path(TRAINING), &program, true)?;
    let mut training = wine.command(&program, [""; 0]);
    let ran = run_within(training.current_dir(workspace.path("")), LIMIT);
    fs::remove_file(&program)?;
    let out = ran?;
    let percents = out.split_whitespace().filter_map(|word| word.strip_suffix('%')?.parse::<f64>().ok());
    match percents.reduce(f64::max) {
        Some(best) if best >= ENOUGH => Ok(format!("{best} %")),
        _ => Err(Failure::new(format!("{ENOUGH} % right was expected\n{out}"))),
    }
}

/// Graphs whose plans and results are compared.
const GRAPHS: [&str; 4] = ["conv_bias_relu", "matmul", "layernorm", "attention"];

/// Plans that either system saves are the same bytes, and each runs the other's with the same result.
fn same_results(workspace: &Workspace, wine: &Wine) -> Result<String, Failure> {
    let own = workspace.stage_dir().join("bin/hipdnn");
    if !own.is_file() {
        return Ok(
            "left out: cargo xtask build lays out the tool for Linux, with which this is compared".to_owned()
        );
    }
    let folder = workspace.scratch("windows").join("plans");
    crate::install::remove(&folder)?;
    fs::create_dir_all(&folder)?;
    let linux = |arguments: &[&str]| {
        let mut tool = command(&own, arguments);
        crate::test::without_settings(&mut tool);
        run_program(tool.current_dir(workspace.path("")))
    };
    let windows = |arguments: &[&str]| tool(workspace, wine, arguments);
    for graph in GRAPHS {
        let json = format!("examples_graphs/{graph}.json");
        let plans = ["linux", "windows"].map(|system| folder.join(format!("{graph}.{system}.plan")));
        let [of_linux, of_windows] = plans.each_ref().map(|plan| plan.display().to_string());
        let engine = ["--engine", "CPU_ENGINE"];
        linux(&[&["plan", "save", &json, &of_linux], &engine[..]].concat())?;
        windows(&[&["plan", "save", &json, &of_windows], &engine[..]].concat())?;
        same(&plans[0], &plans[1])?;
    }
    Ok(format!("{} graphs", GRAPHS.len()))
}

fn same(one: &Path, other: &Path) -> Result<(), Failure> {
    if fs::read(one)? == fs::read(other)? {
        return Ok(());
    }
    Err(Failure::new(format!("{} and {} differ", one.display(), other.display())))
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
