//! How a plan comes to its context: from the handle's cache, from disk, or from the plugin.

use std::cell::Cell;
use std::sync::Arc;

use super::engine_config::FrozenConfig;
use super::plan::Source;
use super::stored_plan;
use crate::plugin::Context;
use crate::plugin::cache::SharedContext;
use crate::plugin::context::{self, Raw};
use crate::status::Result;

/// What a plugin made of a graph.
pub enum Compiled {
    /// For one plan alone, with the workspace that it needs.
    Own(Raw, i64),
    /// For every plan of an equal graph.
    Shared(Arc<SharedContext>),
}

/// The context of a configuration, and whether it is to be stored: it was made just now, and others may want it.
#[inline]
pub fn compile(config: &FrozenConfig) -> Result<(Compiled, bool)> {
    let engine = &config.engine;
    let is_stored = engine.session.set().settings.plan_folder.is_some();
    let is_new = Cell::new(false);
    let compile = || {
        if is_stored {
            if let Some(loaded) = stored_plan::load(config) {
                return Ok(loaded);
            }
            is_new.set(true);
        }
        context::compile(&engine.session, engine.engine, &engine.graph, config.bytes()?)
    };
    let compiled = match config.shared_plan() {
        Some(known) => Compiled::Shared(known.plan(&engine.session, compile)?),
        None => compile().map(|(context, size)| Compiled::Own(context, size))?,
    };
    Ok((compiled, is_new.get()))
}

impl Compiled {
    /// The context with its owner, and the workspace that it needs.
    #[inline]
    pub fn with_owner(self, source: Source) -> Result<(Context<Source>, i64)> {
        Ok(match self {
            Self::Own(context, size) => (Context::new(context, source), size),
            Self::Shared(plan) => {
                let size = plan.workspace_size();
                (Context::of_shared(plan, source)?, size)
            }
        })
    }
}
