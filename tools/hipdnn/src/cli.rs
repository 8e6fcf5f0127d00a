//! The arguments.

mod bundles;

use std::path::PathBuf;
use std::time::Duration;

pub use bundles::{Against, Check, Claims};

use clap::{Args, Parser, Subcommand};

use crate::computation::FileOf;
use crate::failure::Failure;
use crate::tensor::{Place, Vulkan};
use hipdnn::{Backend, Handle};

/// Inspects a hipDNN backend: its engines, their plans for a graph, their speed.
#[derive(Debug, Parser)]
#[command(
    name = "hipdnn",
    version,
    max_term_width = 100,
    after_help = "\
Graphs are JSON files, or files with the bytes of a graph (.bin).

Exit status: 0 when all went well, 1 when something could not be computed or a check failed, 2 when an argument or a \
file is bad.

Examples:
  hipdnn engines
  hipdnn explain graph.json
  hipdnn --backend /opt/rocm/lib/libhipdnn_backend.so engines --json"
)]
pub struct Cli {
    /// The library to use: a libhipdnn_backend.so, or the folder that has one.
    ///
    /// By default these are tried: this program's folder, lib and lib64 beside it, the folder in
    /// HIPDNN_BACKEND_LIBRARY_PATH, the loader's search path.
    #[arg(long, global = true, value_name = "PATH")]
    pub backend: Option<PathBuf>,
    /// Load this engine plugin in addition to those that the library finds; may be repeated.
    #[arg(long = "plugin", global = true, value_name = "FILE")]
    pub plugins: Vec<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the engines that the backend has loaded.
    #[command(after_help = "\
Below are the places where plugins were looked for, and the files that were refused, with the reasons. Without any engine, \
or where the plugin of --plugin is refused, the exit status is 1.

Examples:
  hipdnn engines
  hipdnn engines --plugin ./libmine.so
  HIPDNN_PLUGIN_DIR=/my/plugins hipdnn engines --json")]
    Engines(List),
    /// Show what a bug report needs: versions, files, devices, engines, settings.
    #[command(after_help = "\
`python -m hipdnn` prints versions, library, engines and variables as Python finds them. Without a library, or without any engine, the exit status is 1.

Example:
  hipdnn doctor")]
    Doctor,
    /// List the AMD and NVIDIA libraries that GPU engines use, and the devices.
    #[command(after_help = "\
Vulkan devices are found through the backend and its plugin for them. Without a device the exit status is 1.

Example:
  hipdnn device")]
    Device(List),
    /// List the heuristic policies that choose among engines.
    #[command(after_help = "Example:\n  hipdnn policies")]
    Policies(List),
    /// Show for each engine whether it can run a graph, or why not.
    #[command(after_help = "Example:\n  hipdnn explain graph.json")]
    Explain(Explain),
    /// Run a graph once, with random inputs unless given.
    #[command(after_help = "\
Inputs and results are NumPy files. A tensor of a float type with fewer than 32 bits is read from and written to \
float32. Tensors are named by their uids, or by their names where they have any.

Examples:
  hipdnn run graph.json --check
  hipdnn run graph.json --invariant --knob batch_invariant=1
  hipdnn run graph.json --engine CPU_ENGINE --in 1=x.npy --in 2=w.npy --out 3=y.npy")]
    Run(Run),
    /// Run bundles, graphs with the values of their tensors, and compare the results.
    #[command(after_help = "\
A bundle is a graph, {Name}.json, with what lies beside it: {Name}.tensor{uid}.bin, the memory of each tensor; {Name}.meta.json; \
{Name}.support.json. Or graph.template.json and sweep.json, a graph for each case. A folder is searched. Without values, inputs are \
random and results are compared with CPU_REFERENCE_ENGINE.

With a wrong result, a bundle that cannot be read, or an engine that does not accept what it is claimed to, the exit status is 1; also \
if nothing was checked.

Examples:
  hipdnn check bundles/quick --engine CPU_ENGINE
  hipdnn check Small.json --against golden --json")]
    Check(Check),
    /// Check, or write, which graphs of bundles engines are claimed to accept.
    #[command(after_help = "\
Claims are in {Name}.support.json or a sweep's support.json: engines, architectures (cpu, gfx942, sm_90, vulkan) and platforms. With a \
claim that is broken, or a wrong file, the exit status is 1. --write adds what the engines here accept, and removes nothing.

Examples:
  hipdnn claims bundles/quick
  hipdnn claims bundles/quick --engine CPU_ENGINE --write")]
    Claims(Claims),
    /// Show which node of a graph loses digits, and why.
    #[command(after_help = "\
Each node is computed as the engine's plan computes it and in double precision, by CPU_REFERENCE_ENGINE. ULP and ADDED are the \
error that the node adds, the largest in units in the last place and the norm's; SO FAR includes what came before. BOUND is known \
before: n roundings of the accumulator on the terms' magnitudes, and the store's. CONDITION is the growth of incoming errors, SHARE the part of \
the results' error, LOST decimal digits.

Examples:
  hipdnn numerics graph.json
  hipdnn numerics graph.json --in x=x.npy --engine CPU_ENGINE --svg errors.svg")]
    Numerics(Numerics),
    /// Measure every engine that can run a graph, with the values of its knobs.
    #[command(after_help = "\
Each configuration is checked against CPU_REFERENCE_ENGINE before it is measured. The engines, best first, are handed \
to the backend, which may remember them for this graph.

Examples:
  hipdnn bench graph.json
  hipdnn bench graph.json --runs 100 --warmup 10 --json")]
    Bench(Bench),
    /// Search for the fastest engine and knob settings for each graph.
    #[command(after_help = "\
Every configuration is checked against CPU_REFERENCE_ENGINE. The library's default choice stays unless something is clearly \
faster. The engines, best first, are handed to the backend; what is best with its knobs is kept in the cache folder, for \
`--tuned` of other commands and for graphs that are similar.

Strategies are built in (halving, exhaustive) or come from tuning plugins: hipdnn_plugins/tuning beside the backend, or \
HIPDNN_TUNING_PLUGIN_DIR.

Examples:
  hipdnn tune graph.json
  hipdnn tune graphs/*.json --budget 10s --svg trials.svg
  hipdnn run graph.json --tuned")]
    Tune(Tune),
    /// Compile plans ahead of time, even for absent devices, and write them into one file.
    #[command(after_help = "\
Devices are sm_90 and the like of NVIDIA's, gfx942 and the like of AMD's, cpu, or cpu with an instruction set (sse2, avx2, \
avx512, neon). The library takes the plans of a file that HIPDNN_PLAN_PACKAGE names; `hipdnn plan load` runs one. Programs \
record the graphs that they plan in the folder that HIPDNN_RECORD_GRAPHS names.

With a plan that cannot be made the exit status is 1; the file has the others.

Examples:
  hipdnn compile graph.json --device sm_90,gfx942,cpu -o plans.hdpk
  HIPDNN_RECORD_GRAPHS=graphs ./program; hipdnn compile graphs/*.json --device sm_90 -o plans.hdpk
  HIPDNN_PLAN_PACKAGE=plans.hdpk ./program")]
    Compile(Compile),
    /// Save, load, run and describe execution plans.
    #[command(
        subcommand,
        after_help = "\
Examples:
  hipdnn plan save graph.json graph.plan --engine CPU_ENGINE
  hipdnn plan info graph.plan
  hipdnn plan load graph.plan --check"
    )]
    Plan(Plan),
    /// Show a graph, as text or as a picture.
    #[command(after_help = "\
Examples:
  hipdnn graph graph.json
  hipdnn graph graph.json --svg graph.svg
  hipdnn graph graph.json --svg graph.svg --plan --engine CPU_ENGINE
  hipdnn graph graph.json --dot | dot -Tpng > graph.png")]
    Graph(Graph),
}

/// Arguments of the commands that list something.
#[derive(Debug, Args)]
pub struct List {
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// Where a graph is computed.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct On {
    /// Compute on a Vulkan device, in its memory: vulkan:0 and the like, as `hipdnn device` lists them.
    #[arg(long, value_name = "NAME")]
    pub device: Option<Vulkan>,
}

impl On {
    /// A handle that plans for the device.
    pub fn handle(self, backend: &Backend) -> Result<Handle, Failure> {
        let handle = Handle::new(backend)?;
        self.device.map_or(Ok(()), |device| device.choose(&handle))?;
        Ok(handle)
    }
}

/// `hipdnn explain`
#[derive(Debug, Args)]
pub struct Explain {
    /// The graph.
    pub graph: PathBuf,
    #[command(flatten)]
    pub on: On,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// `hipdnn graph`
#[derive(Debug, Args)]
pub struct Graph {
    /// The graph.
    pub graph: PathBuf,
    /// Draw it into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Show in it which operations an engine's plan fuses, and how.
    #[arg(long, requires = "svg")]
    pub plan: bool,
    /// The engine of the plan, by name or id; by default the first one that the backend offers.
    #[arg(long, value_name = "NAME", requires = "plan")]
    pub engine: Option<String>,
    /// A trace of executions with that engine (HIPDNN_TRACE_FILE), for the times of the steps.
    #[arg(long, value_name = "FILE", requires = "plan")]
    pub times: Option<PathBuf>,
    /// Write it for Graphviz, in the DOT language.
    #[arg(long, conflicts_with = "svg")]
    pub dot: bool,
}

/// Inputs, outputs, and checking.
#[derive(Debug, Args)]
pub struct Data {
    /// Read a tensor from a file; may be repeated.
    #[arg(long = "in", value_name = "UID=FILE")]
    pub inputs: Vec<FileOf>,
    /// Write a tensor to a file; may be repeated.
    #[arg(long = "out", value_name = "UID=FILE")]
    pub outputs: Vec<FileOf>,
    /// Compare every result with CPU_REFERENCE_ENGINE, and fail beyond the tolerance.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of every command that executes something.
#[derive(Debug, Args)]
pub struct Common {
    /// The seed of random inputs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Multiply the tolerance of checks by this factor.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub tolerance: f64,
    /// Where tensors are allocated; by default on the host for CPU engines, else on a device if there is one.
    #[arg(long, value_name = "PLACE")]
    pub memory: Option<Place>,
    #[command(flatten)]
    pub on: On,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if factor.is_finite() && factor >= 0.0 { Ok(factor) } else { Err("expected a number from 0".to_owned()) }
}

/// The engine and its knobs.
#[derive(Debug, Args)]
pub struct Choice {
    /// The engine, by name or id; by default the first one that the backend offers.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Set a knob of the engine; may be repeated.
    #[arg(long = "knob", value_name = "NAME=VALUE")]
    pub knobs: Vec<String>,
    /// Use the engine and the knobs that `hipdnn tune` found for the graph on this device, if any.
    #[arg(long, conflicts_with_all = ["engine", "knobs"])]
    pub tuned: bool,
}

/// `hipdnn run`
#[derive(Debug, Args)]
pub struct Run {
    /// The graph.
    pub graph: PathBuf,
    #[command(flatten)]
    pub choice: Choice,
    /// Compare the bits of each item of the batch with those that it has in batches of 1, 2, 3, 7 and 32, in another order, at
    /// other addresses, and with 1, 2, 4, 7 and 16 threads, and fail if they differ. Engines promise equal bits with the knob
    /// batch_invariant=1.
    #[arg(long, conflicts_with_all = ["check", "outputs"])]
    pub invariant: bool,
    #[command(flatten)]
    pub data: Data,
}

/// `hipdnn numerics`
#[derive(Debug, Args)]
pub struct Numerics {
    /// The graph.
    pub graph: PathBuf,
    #[command(flatten)]
    pub choice: Choice,
    /// Read a tensor from a file; may be repeated.
    #[arg(long = "in", value_name = "UID=FILE")]
    pub inputs: Vec<FileOf>,
    /// The seed of random inputs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Where tensors are allocated; by default on the host for CPU engines, else on a device if there is one.
    #[arg(long, value_name = "PLACE")]
    pub memory: Option<Place>,
    /// Draw the graph into this file, its nodes coloured by their share of the error.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// `hipdnn bench`
#[derive(Debug, Args)]
pub struct Bench {
    /// The graph.
    pub graph: PathBuf,
    /// Measure only this engine; may be repeated. The backend then does not get the ranking.
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// Executions to measure of each configuration.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runs: u32,
    /// Warm-up executions before the measurement.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: u32,
    /// Stop measuring a configuration after this time, but not before three executions.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = factor)]
    pub seconds: f64,
    /// Try at most this many values of each knob.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub values: usize,
    /// Do not store the ranking in the backend.
    #[arg(long)]
    pub no_ranking: bool,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub common: Common,
}

/// `hipdnn tune`
#[derive(Debug, Args)]
pub struct Tune {
    /// The graphs.
    #[arg(required = true)]
    pub graphs: Vec<PathBuf>,
    /// Time limit of the search for one graph, for instance 30s, 500ms or 2m. Each engine is first measured with its defaults.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub budget: Duration,
    /// The search strategy.
    #[arg(long, value_name = "NAME", default_value = "halving")]
    pub strategy: String,
    /// Tune only this engine; may be repeated. The backend then does not get the ranking.
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// Try at most this many values of each knob.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub values: usize,
    /// Also set knobs that are a promise (constant weights) or trade accuracy (TF32).
    #[arg(long)]
    pub promises: bool,
    /// Draw the trials into this file; with several graphs, into one file each, with the graph's name before the extension.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Store nothing, neither the ranking nor the knobs.
    #[arg(long)]
    pub no_ranking: bool,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub common: Common,
}

/// Parses a time; without a unit, seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1.0));
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * unit);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a time such as 30s, 500ms or 2m".to_owned())
}

/// `hipdnn compile`
#[derive(Debug, Args)]
pub struct Compile {
    /// The graphs.
    #[arg(required = true)]
    pub graphs: Vec<PathBuf>,
    /// The target devices, separated by commas.
    #[arg(long = "device", value_name = "NAMES", value_delimiter = ',', required = true)]
    pub devices: Vec<String>,
    /// The file to write the plans to.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Use the first of these engines that works; may be repeated. By default all are tried in the backend's order.
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// Use the engine and the knobs that `hipdnn tune` found on this device, if any.
    #[arg(long)]
    pub tuned: bool,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
    /// Internal: make the plans for one device, the target of this process.
    #[arg(long, hide = true)]
    pub part: bool,
}

/// `hipdnn plan`
#[derive(Debug, Subcommand)]
pub enum Plan {
    /// Save the plan of an engine for a graph, together with the graph.
    #[command(after_help = "Example:\n  hipdnn plan save graph.json graph.plan --engine CPU_ENGINE")]
    Save(PlanSave),
    /// Load a saved plan and run it once.
    #[command(after_help = "Example:\n  hipdnn plan load graph.plan --in 1=x.npy --out 3=y.npy --check")]
    Load(PlanLoad),
    /// Describe a saved plan.
    #[command(after_help = "Example:\n  hipdnn plan info graph.plan")]
    Info(PlanInfo),
}

/// `hipdnn plan save`
#[derive(Debug, Args)]
pub struct PlanSave {
    /// The graph.
    pub graph: PathBuf,
    /// The file to write the plan to.
    pub plan: PathBuf,
    #[command(flatten)]
    pub choice: Choice,
    #[command(flatten)]
    pub on: On,
    /// Save only the plan. Running it then requires the graph.
    #[arg(long)]
    pub without_graph: bool,
}

/// `hipdnn plan load`
#[derive(Debug, Args)]
pub struct PlanLoad {
    /// The saved plan.
    pub plan: PathBuf,
    /// The plan's graph, if it was saved without. A different graph leads to invalid memory accesses. For a file with several
    /// graphs, the name of one.
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    #[command(flatten)]
    pub data: Data,
}

/// `hipdnn plan info`
#[derive(Debug, Args)]
pub struct PlanInfo {
    /// The saved plan.
    pub plan: PathBuf,
    #[command(flatten)]
    pub on: On,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}
