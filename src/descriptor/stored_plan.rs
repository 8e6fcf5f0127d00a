//! Plans on disk, shared between processes, if the plugin can save plans.
//!
//! `HIPDNN_PLAN_CACHE_DIR` names the folder. A file is a sealed container with the bytes shared by equal graphs, followed by the
//! configuration if knobs are set, and the saved plan. Its name is a hash of these bytes, the engine, the plugin's version and the
//! device. Files that cannot be read or loaded are ignored.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::shared_file;
use hipdnn_plugin_sdk::wire::{self, Container};

use super::engine_config::FrozenConfig;
use super::frozen_plan::FrozenPlan;
use super::saved_plan;
use crate::plugin::context;
use crate::plugin::made::Made;
use crate::selection::file;
use crate::status::{Error, Result};
use crate::{device, log, memory};

/// The bytes shared by equal graphs, followed by the configuration and its length if it sets knobs.
fn key(config: &FrozenConfig) -> Option<Cow<'_, [u8]>> {
    let graph = config.engine.graph.equal_bytes()?;
    let Some(settings) = config.settings() else { return Some(graph.into()) };
    Some([graph, settings, &settings.len().to_le_bytes()].concat().into())
}

/// The file of a configuration's plan; none if plans are not stored.
fn path(config: &FrozenConfig) -> Option<PathBuf> {
    let engine = &config.engine;
    let folder = engine.session.set().settings.plan_folder.as_deref()?;
    let plugin = engine.session.plugin(engine.engine.plugin).ok()?;
    if !engine.graph.is_cached() || !plugin.api.missing_for_saving().is_empty() {
        return None;
    }
    let mut hash = Fnv1a::new().add(&key(config)?).add(&engine.id.to_le_bytes());
    for text in [&*plugin.name, &*plugin.version, device::fingerprint()] {
        hash = hash.add(&text.len().to_le_bytes()).add(text.as_bytes());
    }
    Some(folder.join(format!("{:016x}.plan", hash.number())))
}

/// Has the plugin load the stored plan, if there is one.
#[cold]
pub fn load(config: &FrozenConfig) -> Option<Made> {
    let path = path(config)?;
    // Closing a file is a cancellation point, too.
    let _off = cancel::disable();
    let bytes = file::open(&path, OpenOptions::new().read(true)).and_then(|mut file| file::read(&mut file));
    let bytes = match bytes {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        bytes => bytes.map_err(|error| Error::internal(error.to_string())),
    };
    match bytes.and_then(|bytes| load_bytes(config, &bytes)) {
        Ok(loaded) => {
            log::info(|| format!("the plan was loaded from {}", path.display()));
            Some(loaded)
        }
        Err(error) => {
            log::info(|| format!("the stored plan {} is not used: {error}", path.display()));
            None
        }
    }
}

fn load_bytes(config: &FrozenConfig, bytes: &[u8]) -> Result<Made> {
    let engine = &config.engine;
    memory::require("the stored plan", bytes.len().saturating_mul(8))?;
    let container = saved_plan::container("the file", bytes)?;
    let is_equal = |container: &Container| key(config).is_some_and(|key| container.graph == &*key);
    let container = container
        .ok_or_else(|| Error::bad_param(format!("its {} bytes are not a graph with a plan", bytes.len())))?;
    if !is_equal(&container) {
        return Err(Error::bad_param("it is of another graph"));
    }
    let plan = wire::read_plan(container.plan).map_err(|error| Error::bad_param(error.0))?;
    saved_plan::check(&plan)?;
    if saved_plan::engine_of(&engine.session, &plan)? != engine.engine {
        return Err(Error::bad_param(format!("it is of engine {}", plan.engine_id)));
    }
    if plan.tensor_uids.len() != engine.graph.summary().tensors.len() {
        return Err(Error::bad_param(format!("it has {} tensors", plan.tensor_uids.len())));
    }
    // The program that stored it may have used other uids.
    let made = context::load(&engine.session, engine.engine, plan.payload)?;
    Ok(Made { uids: Some(plan.tensor_uids.into()), ..made })
}

/// Stores a plan for other processes. Failures are only logged.
#[cold]
pub fn store(plan: &FrozenPlan, config: &FrozenConfig) {
    let Some(path) = path(config) else { return };
    let container = plan.save(false).and_then(|plan| {
        let graph = &*key(config).unwrap_or_default();
        let size = graph.len().saturating_add(plan.len());
        memory::require("the plan to store", size.saturating_mul(4))?;
        let container = wire::write_container(Container { graph, plan: &plan });
        container.map_err(|error| Error::plugin(error.0))
    });
    let stored = container.map_err(|error| error.to_string()).and_then(|bytes| {
        if bytes.len() as u64 > file::MOST {
            return Err(format!("it has {} bytes, more than {}", bytes.len(), file::MOST));
        }
        // Private to the user: plans may contain confidential names.
        shared_file::replace(&path, &bytes, 0o600).map_err(|error| error.to_string())
    });
    if let Err(reason) = stored {
        log::info(|| format!("the plan is not stored in {}: {reason}", path.display()));
    }
}
