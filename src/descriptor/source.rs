//! The source of a plan: a configuration or saved bytes.

use std::sync::Arc;

use hipdnn_plugin_sdk::wire::TensorSummary;

use super::engine_config::FrozenConfig;
use crate::graph::VerifiedGraph;
use crate::plugin::{Engine, EngineRef, Owner, Session};

/// The source of a plan.
pub enum Source {
    /// A configuration, which includes the graph.
    Config(Arc<FrozenConfig>),
    /// A saved plan.
    Saved(Box<SavedSource>),
}

/// The retained parts of a saved plan.
pub struct SavedSource {
    /// The session of the handle that loaded the plan.
    pub session: Arc<Session>,
    /// The engine within the session.
    pub engine: EngineRef,
    /// The engine's id.
    pub engine_id: i64,
    /// The tensors of the graph that the plan was made for.
    pub tensors: Vec<TensorSummary>,
    /// The graph that the plan was made for, if the plan contains it.
    pub graph: Option<Arc<VerifiedGraph>>,
}

impl Owner for Source {
    fn engine(&self) -> (&Session, EngineRef) {
        match self {
            Self::Config(config) => (&config.engine.session, config.engine.engine),
            Self::Saved(saved) => (&saved.session, saved.engine),
        }
    }
}

impl Source {
    /// The tensors of the graph.
    pub fn tensors(&self) -> &[TensorSummary] {
        match self {
            Self::Config(config) => &config.engine.graph.summary().tensors,
            Self::Saved(saved) => &saved.tensors,
        }
    }

    /// The graph, if known.
    pub(super) fn graph(&self) -> Option<&VerifiedGraph> {
        match self {
            Self::Config(config) => Some(config.engine.graph.verified()),
            Self::Saved(saved) => saved.graph.as_deref(),
        }
    }

    /// The name of the graph; unknown for saved plans.
    pub(super) fn graph_name(&self) -> Option<String> {
        match self {
            Self::Config(config) => config.engine.graph.name(),
            Self::Saved(_) => None,
        }
    }

    pub(super) fn engine_name(&self) -> String {
        let (session, engine) = self.engine();
        session.engine(engine).map(Engine::display_name).unwrap_or_default()
    }

    /// The id of the engine.
    pub fn engine_id(&self) -> i64 {
        match self {
            Self::Config(config) => config.engine.id,
            Self::Saved(saved) => saved.engine_id,
        }
    }
}
