//! The examples: each checks its own result and reports it by its exit status.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::demo::example;
use crate::install::{ENGINES, TOOL, copy, remove};
use crate::plugin_host;
use crate::process::{command, run as run_program, run_within};
use crate::steps::Steps;

const FOLDERS: [&str; 2] = ["examples_c", "examples_cpp"];

/// An example plugin, a graph for it, its engine, and its reason for refusing another graph.
struct Plugin {
    source: &'static str,
    graph: &'static str,
    engine: &'static str,
    reason: &'static str,
    /// Graphs for the C host, each with the number of engines that compute it; skipped if empty.
    hosted: &'static [&'static str],
}

const PLUGINS: [Plugin; 2] = [
    Plugin {
        source: "examples_c/plugin/relu_plugin.c",
        graph: "examples_c/plugin/leaky_relu.json",
        engine: "EXAMPLE_C_RELU_ENGINE",
        reason: "the graph is not one pointwise operation",
        hosted: &[],
    },
    Plugin {
        source: "examples_c/plugin/conv_bias_plugin.cpp",
        graph: "examples_c/plugin/conv_bias.json",
        engine: "EXAMPLE_CPP_CONV_BIAS_ENGINE",
        reason: "the graph is not the chain of operations that is supported",
        hosted: &["biased=1", "earlier=1", "convolution=0", "pointwise=0"],
    },
];

/// A heuristic plugin whose policy reverses the order of engines for graphs of one operation.
const POLICY: &str = "examples_c/plugin/backwards_policy.cpp";

/// Training takes less than a minute on two cores; this allows for slow or busy machines.
const LIMIT: Duration = Duration::from_secs(300);

pub fn run(context: &Context, steps: &mut Steps) {
    let sources = match sources(context) {
        Ok(sources) => sources,
        Err(failure) => {
            steps.run("programs in examples_c and examples_cpp", || Err(failure));
            return;
        }
    };
    // Sequentially, since the engines use every core.
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
    steps.run(POLICY, || policy(context));
}

/// Compiles the plugin and puts it beside the staged one, whose reference also computes its graph.
fn plugin(context: &Context, example: &Plugin) -> Result<String, Failure> {
    let folder = compile_plugin(context, example.source, example.engine)?;
    let lib = context.stage.join("lib");
    if !example.hosted.is_empty() {
        in_host(context, &folder.join("libexample_plugin.so"), example.hosted)?;
    }
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

/// Compiles a plugin into its own folder. Returns the folder.
fn compile_plugin(context: &Context, source: &str, name: &str) -> Result<PathBuf, Failure> {
    let folder = context.workspace.scratch("example_plugin").join(name);
    remove(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let source = context.workspace.path(source);
    let mut compiler = Language::of(&source)?.compiler();
    compiler.args(STRICT).args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden"]);
    for include in ["include", "include/hipdnn/plugin"] {
        compiler.arg("-I").arg(context.stage.join(include));
    }
    run_program(compiler.arg(&source).arg("-o").arg(folder.join("libexample_plugin.so")))?;
    Ok(folder)
}

/// Has the library load the policy: the CPU engines are reversed for one operation, and keep their order for two.
fn policy(context: &Context) -> Result<String, Failure> {
    let folder = compile_plugin(context, POLICY, "policy")?;
    let order = |graph: &str, policies: &str| -> Result<Vec<String>, Failure> {
        let mut tool = command(context.stage.join("bin").join(TOOL), ["explain", graph]);
        without_settings(tool.current_dir(context.workspace.path("")));
        tool.env("HIPDNN_HEURISTIC_PLUGIN_DIR", &folder).env("HIPDNN_ALL_ENGINES", "1");
        let out = run_within(tool.env("HIPDNN_HEUR_POLICY_ORDER", policies), LIMIT)?;
        let mut places: Vec<(usize, &str)> = ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"]
            .into_iter()
            .filter_map(|engine| Some((out.find(engine)?, engine)))
            .collect();
        places.sort_unstable();
        Ok(places.into_iter().map(|(_, engine)| engine.to_owned()).collect())
    };
    let both = "Example::Backwards,SelectionHeuristic::StaticOrdering";
    for (graph, policies, expected) in [
        ("examples_c/plugin/leaky_relu.json", "SelectionHeuristic::StaticOrdering", "CPU_ENGINE"),
        ("examples_c/plugin/leaky_relu.json", both, "CPU_REFERENCE_ENGINE"),
        ("examples_c/plugin/conv_bias.json", both, "CPU_ENGINE"),
    ] {
        let found = order(graph, policies)?;
        if found.len() != 2 || found.first().is_none_or(|first| first != expected) {
            return Err(Failure::new(format!("{graph} by {policies}: {found:?}, expected {expected} first")));
        }
    }
    Ok(String::new())
}

/// Runs the stripped plugin in the C host, which writes graphs of both generations and does not use C++.
fn in_host(context: &Context, plugin: &Path, graphs: &[&str]) -> Result<(), Failure> {
    let stripped = plugin.with_extension("stripped");
    run_program(command("strip", ["-o"]).arg(&stripped).arg(plugin))?;
    let mut host = command(plugin_host::build(context.workspace)?, [&stripped]);
    without_settings(host.args(graphs));
    run_within(&mut host, LIMIT)?;
    Ok(std::fs::remove_file(&stripped)?)
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
