//! The examples: each checks its own result, and its exit status says so.

use std::path::PathBuf;
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::demo::example;
use crate::install::{ENGINES, TOOL, copy, remove};
use crate::process::{command, run as run_program, run_within};
use crate::steps::Steps;

const FOLDER: &str = "examples_c";

/// The example of a plugin, a graph for it, and its engine.
const PLUGIN: &str = "examples_c/plugin/relu_plugin.c";
const GRAPH: &str = "examples_c/plugin/leaky_relu.json";
const ENGINE: &str = "EXAMPLE_C_RELU_ENGINE";

/// Training is to take under a minute on two cores; a slow or busy machine is given more.
const LIMIT: Duration = Duration::from_secs(300);

pub fn run(context: &Context, steps: &mut Steps) {
    let sources = match sources(context) {
        Ok(sources) => sources,
        Err(failure) => {
            steps.run("programs in examples_c", || Err(failure));
            return;
        }
    };
    // One after the other: the engines use every core.
    for source in sources {
        steps.run(&source, || {
            let program = example(context.workspace, context.stage, &source, true)?;
            let mut command = command(&program, [""; 0]);
            without_settings(&mut command);
            command.current_dir(context.workspace.path(""));
            let out = run_within(&mut command, LIMIT)?;
            Ok(out.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned())
        });
    }
    steps.run(PLUGIN, || plugin(context));
}

/// Compiles the plugin and puts it beside the staged one, whose reference computes its graph, too.
fn plugin(context: &Context) -> Result<String, Failure> {
    let folder = context.workspace.scratch("example_plugin");
    remove(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let lib = context.stage.join("lib");
    let mut compiler = Language::C.compiler();
    compiler.args(STRICT).args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden"]);
    compiler.arg("-I").arg(context.stage.join("include/hipdnn/plugin"));
    run_program(
        compiler.arg(context.workspace.path(PLUGIN)).arg("-o").arg(folder.join("librelu_plugin.so")),
    )?;
    let reference = "libhipdnn_cpu_plugin.so";
    copy(&lib.join(ENGINES).join(reference), &folder.join(reference))?;
    let tool = |words: &[&str]| {
        let mut tool = command(context.stage.join("bin").join(TOOL), words);
        without_settings(&mut tool);
        run_within(tool.current_dir(context.workspace.path("")).env("HIPDNN_PLUGIN_DIR", &folder), LIMIT)
    };
    let checked = tool(&["run", GRAPH, "--engine", ENGINE, "--check"])?;
    let refused = tool(&["explain", "examples_graphs/matmul.json"])?;
    let is_line =
        |line: &&str| line.contains(ENGINE) && line.contains("the graph is not one pointwise operation");
    if !refused.lines().any(|line| is_line(&line)) {
        return Err(Failure::new(format!("the reason of {ENGINE} is missing\n{refused}")));
    }
    Ok(checked.lines().last().unwrap_or_default().trim().to_owned())
}

fn sources(context: &Context) -> Result<Vec<String>, Failure> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(context.workspace.path(FOLDER))? {
        let path: PathBuf = entry?.path();
        if path.is_file() && Language::of(&path).is_ok() {
            sources.push(context.workspace.relative(&path));
        }
    }
    sources.sort();
    if sources.is_empty() { Err(Failure::new("no example was found")) } else { Ok(sources) }
}
