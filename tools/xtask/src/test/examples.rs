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

const FOLDERS: [&str; 2] = ["examples_c", "examples_cpp"];

/// An example of a plugin, a graph for it, its engine, and why that refuses another graph.
struct Plugin {
    source: &'static str,
    graph: &'static str,
    engine: &'static str,
    reason: &'static str,
}

const PLUGINS: [Plugin; 2] = [
    Plugin {
        source: "examples_c/plugin/relu_plugin.c",
        graph: "examples_c/plugin/leaky_relu.json",
        engine: "EXAMPLE_C_RELU_ENGINE",
        reason: "the graph is not one pointwise operation",
    },
    Plugin {
        source: "examples_c/plugin/conv_bias_plugin.cpp",
        graph: "examples_c/plugin/conv_bias.json",
        engine: "EXAMPLE_CPP_CONV_BIAS_ENGINE",
        reason: "the graph is not a convolution and one pointwise operation",
    },
];

/// Training is to take under a minute on two cores; a slow or busy machine is given more.
const LIMIT: Duration = Duration::from_secs(300);

pub fn run(context: &Context, steps: &mut Steps) {
    let sources = match sources(context) {
        Ok(sources) => sources,
        Err(failure) => {
            steps.run("programs in examples_c and examples_cpp", || Err(failure));
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
    for example in &PLUGINS {
        steps.run(example.source, || plugin(context, example));
    }
}

/// Compiles the plugin and puts it beside the staged one, whose reference computes its graph, too.
fn plugin(context: &Context, example: &Plugin) -> Result<String, Failure> {
    let folder = context.workspace.scratch("example_plugin").join(example.engine);
    remove(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let lib = context.stage.join("lib");
    let source = context.workspace.path(example.source);
    let mut compiler = Language::of(&source)?.compiler();
    compiler.args(STRICT).args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden"]);
    for include in ["include", "include/hipdnn/plugin"] {
        compiler.arg("-I").arg(context.stage.join(include));
    }
    run_program(compiler.arg(&source).arg("-o").arg(folder.join("libexample_plugin.so")))?;
    let reference = "libhipdnn_cpu_plugin.so";
    copy(&lib.join(ENGINES).join(reference), &folder.join(reference))?;
    let tool = |words: &[&str]| {
        let mut tool = command(context.stage.join("bin").join(TOOL), words);
        without_settings(&mut tool);
        run_within(tool.current_dir(context.workspace.path("")).env("HIPDNN_PLUGIN_DIR", &folder), LIMIT)
    };
    let checked = tool(&["run", example.graph, "--engine", example.engine, "--check"])?;
    let refused = tool(&["explain", "examples_graphs/matmul.json"])?;
    let is_line = |line: &&str| line.contains(example.engine) && line.contains(example.reason);
    if !refused.lines().any(|line| is_line(&line)) {
        return Err(Failure::new(format!("the reason of {} is missing\n{refused}", example.engine)));
    }
    Ok(checked.lines().last().unwrap_or_default().trim().to_owned())
}

fn sources(context: &Context) -> Result<Vec<String>, Failure> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(context.workspace.path(folder))? {
            let path: PathBuf = entry?.path();
            if path.is_file() && Language::of(&path).is_ok() {
                sources.push(context.workspace.relative(&path));
            }
        }
    }
    sources.sort();
    if sources.is_empty() { Err(Failure::new("no example was found")) } else { Ok(sources) }
}
