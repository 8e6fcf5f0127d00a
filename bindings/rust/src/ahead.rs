//! Files with plans that were made ahead of time, for several devices.
//!
//! The library takes the plans of a file that `HIPDNN_PLAN_PACKAGE` names by itself. [`load`] is for programs that name the file.

use hipdnn_package::Package;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::{ExecutionPlan, Handle, OperationGraph};

/// What a plan in a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The device that it is for: `sm_90`, `gfx942`, `cpu`.
    pub device: String,
    /// The name of its graph.
    pub graph: String,
    /// The name of its engine.
    pub engine: String,
    /// The engine's plugin.
    pub plugin: String,
    /// The version of the plugin, without which the plan cannot be loaded.
    pub plugin_version: String,
    /// The settings of knobs, `NAME=VALUE`.
    pub knobs: Vec<String>,
}

/// A plan of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub about: About,
    /// The graph and the plan, as [`ExecutionPlan::bytes_with`] answers them.
    pub container: Vec<u8>,
}

/// A graph and a plan for it, however it was come by.
pub struct Loaded {
    /// The graph, finalized.
    pub graph: OperationGraph,
    /// The plan.
    pub plan: ExecutionPlan,
    /// Why the plan was made anew, where no plan of the file fits.
    pub reason: Option<String>,
}

/// Whether bytes are meant to be such a file.
pub fn is_package(bytes: &[u8]) -> bool {
    Package::is_one(bytes)
}

/// The plans of a file.
///
/// # Errors
/// What is wrong with the bytes.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry>> {
    let package = Package::read(bytes).map_err(|error| Error::argument(error.message()))?;
    let about: Vec<About> = serde_json::from_str(package.about)
        .map_err(|error| Error::argument(format!("what the plans are cannot be read: {error}")))?;
    if about.len() != package.containers.len() {
        return Err(Error::argument(format!(
            "the file has {} plans and says of {} what they are",
            package.containers.len(),
            about.len()
        )));
    }
    let entry = |(about, container): (About, &&[u8])| Entry { about, container: container.to_vec() };
    Ok(about.into_iter().zip(&package.containers).map(entry).collect())
}

/// The bytes of a file with plans.
///
/// # Errors
/// Where they are more than the form allows.
pub fn write(entries: &[Entry]) -> Result<Vec<u8>> {
    let about: Vec<&About> = entries.iter().map(|entry| &entry.about).collect();
    let about = serde_json::to_string(&about).map_err(|error| Error::argument(error.to_string()))?;
    let containers = entries.iter().map(|entry| entry.container.as_slice()).collect();
    Package { about: &about, containers }.write().map_err(|error| Error::argument(error.message()))
}

/// The plan in a file for the graph of this name, or for its only graph, that fits the devices, plugins and versions that are here. Where
/// none fits, the graph is planned anew, and the log says why.
///
/// # Errors
/// What is wrong with the file, which graphs it has where `graph` is none of them, and what planning anew fails with.
pub fn load(handle: &Handle, bytes: &[u8], graph: Option<&str>) -> Result<Loaded> {
    let entries = read(bytes)?;
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.about.graph.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let name = match (graph, names.as_slice()) {
        (Some(name), names) if names.contains(&name) => name,
        (None, [name]) => name,
        (Some(name), _) => {
            return Err(Error::argument(format!(
                "the file has no graph {name:?}; it has {}",
                names.join(", ")
            )));
        }
        (None, []) => return Err(Error::argument("the file has no plans")),
        (None, _) => {
            return Err(Error::argument(format!(
                "the file has several graphs, of which one has to be named: {}",
                names.join(", ")
            )));
        }
    };
    let mut reasons = Vec::new();
    let of_graph = || entries.iter().filter(|entry| entry.about.graph == name);
    for entry in of_graph() {
        match ExecutionPlan::from_bytes(handle, &entry.container) {
            Ok(plan) => {
                let graph = OperationGraph::from_bytes(handle.backend(), &entry.container)?;
                graph.finalize(handle)?;
                return Ok(Loaded { graph, plan, reason: None });
            }
            Err(error) => reasons.push(format!("{}: {error}", entry.about.device)),
        }
    }
    let reason = reasons.join("; ");
    ::log::warn!(target: "hipdnn", "graph {name:?} is planned anew: {reason}");
    let first = of_graph().next().ok_or_else(|| Error::argument("the file has no plans"))?;
    let graph = OperationGraph::from_bytes(handle.backend(), &first.container)?;
    graph.finalize(handle)?;
    let (plan, _) = ExecutionPlan::of_first(&graph, &graph.offer()?.engines)?;
    Ok(Loaded { graph, plan, reason: Some(reason) })
}
