//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Looks into a hipDNN backend: its engines, what they make of a graph, how fast they are.
#[derive(Debug, Parser)]
#[command(
    name = "hipdnn",
    version,
    max_term_width = 100,
    after_help = "\
Graphs are JSON files, or files with the bytes of a graph (.bin).

Exit status: 0 when all went well, 1 when something could not be computed or a check failed, 2 when an argument
or a file is bad.

Examples:
  hipdnn engines
  hipdnn explain graph.json
  hipdnn --backend /opt/rocm/lib/libhipdnn_backend.so engines --json"
)]
pub struct Cli {
    /// The library to use: a libhipdnn_backend.so, or the folder that has one.
    ///
    /// Without it these are tried: beside this program, lib and lib64 beside its folder, the folder in
    /// HIPDNN_BACKEND_LIBRARY_PATH, the loader's search.
    #[arg(long, global = true, value_name = "PATH")]
    pub backend: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the engines that the backend has loaded.
    #[command(
        after_help = "Examples:\n  hipdnn engines\n  HIPDNN_PLUGIN_DIR=/my/plugins hipdnn engines --json"
    )]
    Engines(List),
    /// List the heuristic policies that choose among engines.
    #[command(after_help = "Example:\n  hipdnn policies")]
    Policies(List),
    /// Say of each engine whether it can run a graph, or why not.
    #[command(after_help = "Example:\n  hipdnn explain graph.json")]
    Explain(Explain),
    /// Show a graph, as text or as a picture.
    #[command(after_help = "\
Examples:
  hipdnn graph graph.json
  hipdnn graph graph.json --svg graph.svg")]
    Graph(Graph),
}

/// Something that is listed.
#[derive(Debug, Args)]
pub struct List {
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// `hipdnn explain`
#[derive(Debug, Args)]
pub struct Explain {
    /// The graph.
    pub graph: PathBuf,
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
}
