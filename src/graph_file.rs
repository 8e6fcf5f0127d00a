//! Writes finalized graphs as JSON files, to show what a program computes.
//!
//! `HIPDNN_LOG_GRAPH_DIR` names the folder; it is read once, when the first graph is finalized.

use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::json;
use hipdnn_plugin_sdk::wire::{self, Layout};
use hipdnn_plugin_sdk::{cancel, environment, shared_file};

use crate::graph::{FrozenGraph, with_compute_types};
use crate::lock::OnceLock;
use crate::log;

static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Writes a graph if a folder for graphs is set. Failures are only logged.
#[inline]
pub fn write_if_wanted(graph: &FrozenGraph) {
    let folder = FOLDER.get_or_init(|| environment::path("HIPDNN_LOG_GRAPH_DIR").map(PathBuf::from));
    if let Some(folder) = folder {
        write(graph, folder);
    }
}

#[cold]
fn write(frozen: &FrozenGraph, folder: &Path) {
    let _off = cancel::disable();
    let graph = frozen.bytes(Layout::G2).map_err(|error| error.to_string()).and_then(|bytes| {
        let graph = wire::read(bytes).map(with_compute_types).map_err(|error| error.to_string())?;
        // A graph that was read from bytes may have no identifier.
        let hash = || format!("{:016x}", Fnv1a::new().add(bytes).number());
        Ok((graph.id.map_or_else(hash, json::format_id), graph))
    });
    let written = graph.and_then(|(name, graph)| {
        let path = folder.join(format!("graph_{name}.json"));
        shared_file::replace(&path, (json::write(&graph) + "\n").as_bytes(), 0o666)
            .map_err(|error| format!("{}: {error}", path.display()))
    });
    if let Err(error) = written {
        log::warn(|| format!("a graph cannot be written to HIPDNN_LOG_GRAPH_DIR: {error}"));
    }
}
