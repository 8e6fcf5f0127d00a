//! The subcommands, one file each.

mod bench;
mod check;
mod claims;
mod compile;
mod device;
mod doctor;
mod engines;
mod explain;
mod graph;
mod invariant;
mod numerics;
mod plan;
mod policies;
mod run;
mod settings;
mod tune;

use std::fs;
use std::io::Write;
use std::path::Path;

pub use bench::bench;
pub use check::check;
pub use claims::claims;
pub use compile::compile;
pub use device::device;
pub use doctor::doctor;
pub use engines::engines;
pub use explain::explain;
pub use graph::graph;
pub use numerics::numerics;
pub use plan::plan;
pub use policies::policies;
pub use run::run;
use serde::Serialize;
pub use tune::tune;

use crate::cli::Choice;
use crate::computation::Loaded;
use crate::failure::{Failure, Result};
use hipdnn::tuning::{self, Store};
use hipdnn::{Backend, Handle, OperationGraph};

/// A command's output, and whether the program still fails.
#[derive(Debug)]
pub struct Outcome {
    /// For standard output.
    pub text: String,
    /// The failure, if any.
    pub failure: Option<Failure>,
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        Self { text, failure: None }
    }
}

/// JSON for people and programs: indented, with a line end.
fn json(value: &impl Serialize) -> Result<Outcome> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::work(format!("the answer cannot be written as JSON: {error}")))?;
    Ok(Outcome::from(text + "\n"))
}

/// The bytes of a file that an argument names.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// Writes a file that an argument names.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)
        .map_err(|error| Failure::input(format!("cannot write {}: {error}", path.display())))
}

/// Warns on standard error of unknown words in a JSON text, which the library treats as unset.
fn say_remarks(path: &Path, bytes: &[u8]) {
    let remarks =
        hipdnn_plugin_sdk::json::read_with_remarks(bytes).map(|(_, remarks)| remarks).unwrap_or_default();
    for remark in remarks {
        // Ignore a closed standard error.
        let _ = writeln!(std::io::stderr(), "warning: {}: {remark}", path.display());
    }
}

/// The requested engine and knobs: those named, or those that tuning found for the graph.
fn chosen(handle: &Handle, loaded: &Loaded, choice: &Choice) -> Result<(Option<String>, Vec<String>)> {
    if !choice.tuned {
        return Ok((choice.engine.clone(), choice.knobs.clone()));
    }
    let known = handle.engines()?;
    let found =
        Store::of_device(&tuning::device()).and_then(|store| store.find(&loaded.operations.graph().ok()?));
    // Ignore results for engines that are no longer available.
    let found = found.filter(|found| known.iter().any(|engine| engine.name == found.engine));
    Ok(found.map_or((None, Vec::new()), |found| {
        let knobs = found.knobs.iter().map(|(id, value)| format!("{id}={value}")).collect();
        (Some(found.engine), knobs)
    }))
}

/// The graph in a file: JSON if it begins with a brace, else bytes.
fn read_graph(backend: &Backend, path: &Path) -> Result<OperationGraph> {
    let bytes = read(path)?;
    let graph = match bytes.trim_ascii_start().first() {
        None => Err(Failure::input("the file is empty, expected a graph")),
        Some(b'{') => {
            say_remarks(path, &bytes);
            OperationGraph::from_json(backend, &bytes).map_err(Failure::from)
        }
        Some(_) => OperationGraph::from_bytes(backend, &bytes).map_err(|error| {
            let text = "neither JSON of a graph, which begins with a brace, nor the bytes of one";
            Failure::input(format!("{text}: {error}"))
        }),
    };
    graph.map_err(|failure| failure.of_file(path))
}
