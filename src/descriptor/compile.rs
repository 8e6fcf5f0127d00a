//! Gets a plan's context: from the cache, from disk, or from the plugin.

use std::cell::Cell;

use super::engine_config::FrozenConfig;
use super::renaming::Renaming;
use super::source::Source;
use super::{packaged_plan, recording, stored_plan};
use crate::plugin::Context;
use crate::plugin::context;
use crate::plugin::made::{Compiled, Made};
use crate::status::{Error, Result};

/// The context of a configuration, and whether to store it: it is new, and other processes may use it.
#[inline]
pub fn compile(config: &FrozenConfig) -> Result<(Compiled, bool)> {
    let engine = &config.engine;
    let known = config.shared_plan();
    let has_folder = engine.session.set().settings.plan_folder.is_some();
    // With knobs, plans that are not kept in memory are not stored either.
    let is_stored = has_folder && (known.is_some() || !config.sets_knobs());
    let is_new = Cell::new(false);
    let compile = || {
        recording::record(&engine.graph);
        if let Some(loaded) = packaged_plan::load(config) {
            return Ok(loaded);
        }
        if is_stored {
            if let Some(loaded) = stored_plan::load(config) {
                return Ok(loaded);
            }
            is_new.set(true);
        }
        config.compile()
    };
    let compiled = match known {
        Some(known) => {
            let sets_knobs = config.sets_knobs();
            let sharing = |context| context::sharing(&engine.session, engine.engine, context, sets_knobs);
            let uids = || engine.graph.summary().tensors.iter().map(|tensor| tensor.uid).collect();
            known.plan(&engine.session, compile, sharing, uids)?
        }
        None => Compiled::Own(compile()?),
    };
    let is_own = matches!(compiled, Compiled::Own(_));
    Ok((compiled, is_new.get() && !(is_own && config.sets_knobs())))
}

impl Compiled {
    /// The context with its owner, its workspace size, and the renaming if its uids differ from the graph's.
    #[inline(always)]
    pub fn with_owner(self, source: Source) -> Result<(Context<Source>, i64, Option<Box<Renaming>>)> {
        let renaming =
            |made: &Made| made.uids.as_deref().and_then(|uids| Renaming::new(source.tensors(), uids));
        match self {
            Self::Own(made) => {
                let renaming = renaming(&made);
                Ok((Context::new(made.context, source), made.workspace_size, renaming))
            }
            Self::Shared(plan) => {
                let made = plan.made();
                let made = made.ok_or_else(|| Error::internal("a plan was given back before it was used"))?;
                let (size, renaming) = (made.workspace_size, renaming(made));
                Ok((Context::of_shared(plan, source)?, size, renaming))
            }
        }
    }
}
