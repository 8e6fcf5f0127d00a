//! Files with plans made ahead of time, for several devices.
//!
//! The library itself uses the plans of a file named by `HIPDNN_PLAN_PACKAGE`. [`load`] is for programs that name the file.

pub use hipdnn_package::is_device;
use hipdnn_package::{Contents, Package};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, one_line};
use crate::{
    Engine, EngineConfig, EngineInfo, ExecutionPlan, Handle, KnobSetting, OperationGraph, Verdict, hardware,
};

/// The variable with the device that a process makes plans for. The library reads it when it first plans, so each device needs its own
/// process.
pub const TARGET: &str = "HIPDNN_TARGET_DEVICE";

/// The Vulkan device that `HIPDNN_VULKAN_DEVICE` names, or the best one.
const VULKAN: &str = "vulkan";

/// Describes a plan in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its device: `sm_90`, `gfx942`, `vulkan`, `cpu`.
    pub device: String,
    /// The name of its graph.
    pub graph: String,
    /// The name of its engine.
    pub engine: String,
    /// The engine's plugin.
    pub plugin: String,
    /// The version of the plugin; other versions cannot load the plan.
    pub plugin_version: String,
    /// The knob settings, `NAME=VALUE`.
    pub knobs: Vec<String>,
}

/// A plan of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its description.
    pub about: About,
    /// The graph and the plan, from [`ExecutionPlan::bytes_with`].
    pub container: Vec<u8>,
}

/// A graph and a plan for it, loaded or new.
pub struct Loaded {
    /// The graph, finalized.
    pub graph: OperationGraph,
    /// The plan.
    pub plan: ExecutionPlan,
    /// Why the plan was made anew, if no plan of the file fits.
    pub reason: Option<String>,
}

/// Whether bytes look like such a file.
pub fn is_package(bytes: &[u8]) -> bool {
    Package::is_one(bytes)
}

/// Whether a GPU of this architecture is present.
fn is_here(device: &str) -> bool {
    let is_it = |of: &hardware::Device| of.architecture.split([' ', ':']).next() == Some(device);
    !device.starts_with("cpu") && hardware::devices().is_ok_and(|devices| devices.iter().any(is_it))
}

/// Whether an engine can make plans for a device that need not be present, or why not.
fn makes_plans_for(
    engine: &EngineInfo,
    device: &str,
    is_here: bool,
) -> std::result::Result<(), &'static str> {
    match (device.starts_with("cpu"), engine.plugin.as_str()) {
        (false, "Vulkan") if device == VULKAN => Ok(()),
        (_, "Vulkan") => Err("makes plans for the device vulkan"),
        (false, _) if device == VULKAN => Err("does not compute on Vulkan devices"),
        (true, "CPU") | (false, "RTC" | "cuDNN") => Ok(()),
        (true, _) => Err("does not compute on processors"),
        (false, "CPU") => Err("does not compute on GPUs"),
        (false, _) if is_here => Ok(()),
        (false, _) => Err("its library makes plans on a device of the architecture only"),
    }
}

/// Makes a graph's plan for a device, in a process whose target it is ([`TARGET`]): with the first engine that can, each with
/// its settings. If none can, returns a line for each that says why.
///
/// # Errors
/// The library's error, if the graph has no plan for reasons other than its engines.
pub fn make(
    handle: &Handle,
    graph: &OperationGraph,
    engines: &[(EngineInfo, Vec<KnobSetting>)],
    device: &str,
) -> Result<std::result::Result<Entry, Vec<String>>> {
    let is_here = is_here(device);
    let mut reasons = Vec::new();
    for (engine, knobs) in engines {
        if let Err(why) = makes_plans_for(engine, device, is_here) {
            reasons.push(format!("{}: {why}", engine.name));
            continue;
        }
        let container = Engine::new(graph, engine.id)
            .and_then(|made| EngineConfig::new(&made, knobs))
            .and_then(|config| ExecutionPlan::new(&config)?.bytes_with(graph));
        match container {
            Ok(container) => {
                let about = About {
                    device: device.to_owned(),
                    graph: graph.graph()?.name,
                    engine: engine.name.clone(),
                    plugin: engine.plugin.clone(),
                    plugin_version: engine.version.clone(),
                    knobs: knobs.iter().map(KnobSetting::to_string).collect(),
                };
                return Ok(Ok(Entry { about, container }));
            }
            Err(error) => reasons.push(format!("{}: {error}", engine.name)),
        }
    }
    if !device.starts_with("cpu") {
        for Verdict { engine, reason, .. } in graph.explain_offer(handle, &graph.offer()?)? {
            // Engines of the other vendor's GPUs refuse all of these.
            if let Some(reason) = reason.filter(|reason| !reason.starts_with("plans are made for ")) {
                reasons.push(format!("{}: {}", engine.name, one_line(&reason)));
            }
        }
    }
    Ok(Err(reasons))
}

/// The plans of a file.
///
/// # Errors
/// What is wrong with the bytes.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry>> {
    let package = Contents::read(bytes).map_err(|error| Error::argument(error.to_string()))?;
    let about: Vec<About> = serde_json::from_str(&package.about)
        .map_err(|error| Error::argument(format!("what the plans are cannot be read: {error}")))?;
    if about.len() != package.containers.len() {
        return Err(Error::argument(format!(
            "the file has {} plans and says of {} what they are",
            package.containers.len(),
            about.len()
        )));
    }
    let entry = |(about, container)| Entry { about, container };
    Ok(about.into_iter().zip(package.containers).map(entry).collect())
}

/// The bytes of a file with plans.
///
/// # Errors
/// If they exceed the format's limits.
pub fn write(entries: &[Entry]) -> Result<Vec<u8>> {
    let about: Vec<&About> = entries.iter().map(|entry| &entry.about).collect();
    let about = serde_json::to_string(&about).map_err(|error| Error::argument(error.to_string()))?;
    let containers = entries.iter().map(|entry| entry.container.as_slice()).collect();
    Package { about: &about, containers }.write().map_err(|error| Error::argument(error.message()))
}

/// Loads the plan for the named graph of a file, or for its only graph, that fits the present devices, plugins and versions. If none
/// fits, plans the graph anew and logs why.
///
/// # Errors
/// If the file is invalid, has no such graph (the error lists its graphs), or planning anew fails.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_a_text_that_does_not_match_is_refused() {
        let about = |device: &str| About {
            device: device.to_owned(),
            graph: "g".to_owned(),
            engine: "E".to_owned(),
            plugin: "P".to_owned(),
            plugin_version: "1".to_owned(),
            knobs: vec!["k=1".to_owned()],
        };
        let entries = vec![
            Entry { about: about("cpu"), container: vec![1, 2] },
            Entry { about: about("sm_90"), container: vec![] },
        ];
        let bytes = write(&entries).unwrap();
        assert!(is_package(&bytes));
        assert_eq!(read(&bytes), Ok(entries));
        for (about, words) in [("[]", "has 1 plans and says of 0"), ("no", "cannot be read")] {
            let bytes = Package { about, containers: vec![b"x"] }.write().unwrap();
            assert!(read(&bytes).unwrap_err().to_string().contains(words));
        }
    }
}
