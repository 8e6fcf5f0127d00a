//! Records the graphs that a program plans: one JSON file each, in the folder that `HIPDNN_RECORD_GRAPHS` names.
//!
//! `hipdnn compile` compiles them for other machines; `hipdnn tune` and `hipdnn bench` measure them.

use std::path::PathBuf;

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::wire::{self, Layout};
use hipdnn_plugin_sdk::{environment, json, shared_file};

use crate::graph::FrozenGraph;
use crate::lock::OnceLock;
use crate::log;
use crate::status::{Error, Result};

/// The most characters of a graph's name in its file's name.
const MOST_OF_NAME: usize = 48;

/// Writes a graph, if graphs are recorded and it is not yet in the folder.
#[inline]
pub fn record(graph: &FrozenGraph) {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| environment::path("HIPDNN_RECORD_GRAPHS").map(PathBuf::from));
    if let Some(folder) = folder
        && let Err(error) = write(folder, graph)
    {
        log::warn(|| format!("the graph is not recorded in {}: {error}", folder.display()));
    }
}

#[cold]
fn write(folder: &std::path::Path, graph: &FrozenGraph) -> Result<()> {
    let key = graph.canonical_bytes();
    let key = key.ok_or_else(|| Error::bad_param("it cannot be compared with others"))?;
    let plain: Graph = wire::read(graph.bytes(Layout::G2)?).map_err(|error| Error::bad_param(error.0))?;
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
    let name: String = plain.name.chars().filter(is_plain).take(MOST_OF_NAME).collect();
    let name = if name.is_empty() { "graph" } else { &name };
    let path = folder.join(format!("{name}-{:016x}.json", Fnv1a::new().add(&key).number()));
    if path.exists() {
        return Ok(());
    }
    // Private to the user: names in graphs may be confidential.
    shared_file::replace(&path, json::write(&plain).as_bytes(), 0o600)
        .map_err(|error| Error::internal(error.to_string()))
}
