//! Plans compiled ahead of time, from the files that `HIPDNN_PLAN_PACKAGE` names, separated as in `PATH`.
//!
//! The files are read once, when the first plan is made. A stored plan is used if its graph is equal, its engine is the same, its
//! device is present and the plugin's version matches. Otherwise the log says why, and the plugin makes the plan.

use std::fs::OpenOptions;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use hipdnn_package::stream::{self, Part};
use hipdnn_plugin_sdk::wire;
use hipdnn_plugin_sdk::{cancel, environment};

use super::engine_config::FrozenConfig;
use super::saved_plan;
use crate::graph::FrozenGraph;
use crate::lock::OnceLock;
use crate::plugin::context;
use crate::plugin::made::Made;
use crate::plugin::shortage;
use crate::selection::file;
use crate::status::{Error, Result};
use crate::{log, memory};

/// A plan of a file.
struct Entry {
    /// The bytes shared by equal graphs.
    graph: Vec<u8>,
    engine: i64,
    /// The bytes of the plan.
    plan: Vec<u8>,
    /// The file.
    path: PathBuf,
}

/// The plans of all files; empty if the variable is not set. Read again by the next plan if there was a shortage.
fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    if let Some(entries) = ENTRIES.get() {
        return entries;
    }
    let list = environment::path("HIPDNN_PLAN_PACKAGE").unwrap_or_default();
    let mut entries = Vec::new();
    let mut is_short = false;
    for path in std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()) {
        match read(&path) {
            Ok(mut more) => entries.append(&mut more),
            Err(error) => {
                is_short |= shortage::is_one(&error);
                log::warn(|| format!("the plans in {} are not used: {error}", path.display()));
            }
        }
    }
    if is_short { &[] } else { ENTRIES.get_or_init(|| entries) }
}

fn read(path: &Path) -> std::io::Result<Vec<Entry>> {
    let _off = cancel::disable();
    let file = file::open(path, OpenOptions::new().read(true))?;
    let size = file.metadata()?.len();
    let mut entries = Vec::new();
    stream::read(BufReader::new(file), size, |part| {
        if let Part::Container(container) = part {
            entries.push(entry(path, container));
        }
    })?;
    let mut good = Vec::with_capacity(entries.len());
    for (place, entry) in entries.into_iter().enumerate() {
        match entry {
            Ok(entry) => good.push(entry),
            Err(error) => log::warn(|| format!("plan {place} in {} is not used: {error}", path.display())),
        }
    }
    Ok(good)
}

fn entry(path: &Path, bytes: &[u8]) -> Result<Entry> {
    memory::require("the plan", bytes.len().saturating_mul(8))?;
    let container = saved_plan::container("the plan", bytes)?
        .ok_or_else(|| Error::bad_param(format!("its {} bytes are not a graph with a plan", bytes.len())))?;
    let plan = wire::read_plan(container.plan).map_err(|error| Error::bad_param(error.0))?;
    saved_plan::check(&plan)?;
    let graph = FrozenGraph::from_own(container.graph.to_vec())?;
    let graph = graph.verified().canonical_bytes();
    let graph = graph.ok_or_else(|| Error::bad_param("its graph cannot be compared with others"))?;
    Ok(Entry { graph, engine: plan.engine_id, plan: container.plan.to_vec(), path: path.to_owned() })
}

/// Has the plugin load a plan from a file, if one fits the configuration and a present device.
#[cold]
pub fn load(config: &FrozenConfig) -> Option<Made> {
    let entries = entries();
    if entries.is_empty() || config.sets_knobs() || !config.engine.graph.is_cached() {
        return None;
    }
    let graph = config.engine.graph.canonical_bytes()?;
    let mut of_graph =
        entries.iter().filter(|entry| entry.engine == config.engine.id && entry.graph == graph);
    let mut reasons = Vec::new();
    let found = of_graph.find_map(|entry| match load_entry(config, entry) {
        Ok(made) => Some((made, entry)),
        Err(error) => {
            reasons.push(format!("{}: {error}", entry.path.display()));
            None
        }
    });
    match &found {
        Some((_, entry)) => log::info(|| format!("the plan was loaded from {}", entry.path.display())),
        None if reasons.is_empty() => {}
        None => log::warn(|| format!("the graph is planned anew: {}", reasons.join("; "))),
    }
    found.map(|(made, _)| made)
}

fn load_entry(config: &FrozenConfig, entry: &Entry) -> Result<Made> {
    let engine = &config.engine;
    let plan = wire::read_plan(&entry.plan).map_err(|error| Error::bad_param(error.0))?;
    if saved_plan::engine_of(&engine.session, &plan)? != engine.engine {
        return Err(Error::bad_param(format!("it is of engine {}", plan.engine_id)));
    }
    if plan.tensor_uids.len() != engine.graph.summary().tensors.len() {
        return Err(Error::bad_param(format!("it has {} tensors", plan.tensor_uids.len())));
    }
    let made = context::load(&engine.session, engine.engine, plan.payload)?;
    // Its graph may have had other uids.
    Ok(Made { uids: Some(plan.tensor_uids.into()), ..made })
}
