//! The arguments of the commands for bundles.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// What results of bundles are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Against {
    /// Golden results if there are any, else those of CPU_REFERENCE_ENGINE.
    Auto,
    /// Golden results.
    Golden,
    /// Results of CPU_REFERENCE_ENGINE.
    Reference,
}

/// `hipdnn check`
#[derive(Debug, Args)]
pub struct Check {
    /// Graphs, or folders.
    #[arg(required = true)]
    pub bundles: Vec<PathBuf>,
    /// Check this engine; may be repeated. By default the first one that the backend offers for a graph.
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// What to compare results with.
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    pub against: Against,
    /// Tolerances, measures and skipped cases of the engine, as AMD's `config/ENGINE.toml`.
    #[arg(long, value_name = "FILE")]
    pub test_config: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub common: Common,
}

/// `hipdnn claims`
#[derive(Debug, Args)]
pub struct Claims {
    /// Graphs, or folders.
    #[arg(required = true)]
    pub bundles: Vec<PathBuf>,
    /// Only this engine; may be repeated. By default all but those for comparison.
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// Add what the engines accept.
    #[arg(long)]
    pub write: bool,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}
