//! What a plan was made from.

use std::sync::Arc;

use hipdnn_plugin_sdk::wire::TensorSummary;

use super::engine_config::FrozenConfig;
use crate::graph::VerifiedGraph;
use crate::plugin::{Engine, EngineRef, Owner, Session};

/// What a plan was made from.
pub enum Source {
    /// A configuration, which has the graph.
    Config(Arc<FrozenConfig>),
    /// A saved plan.
    Saved(Box<SavedSource>),
}

/// What is kept of a saved plan.
pub struct SavedSource {
    /// The plugins as the handle had them that the plan was loaded with.
    pub session: Arc<Session>,
    /// The engine among the session's.
    pub engine: EngineRef,
    /// The engine's id.
    pub engine_id: i64,
    /// The tensors of the graph that the plan was made for.
    pub tensors: Vec<TensorSummary>,
    /// The graph that the plan was made for, where the plan says it.
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

    /// The graph, where it is known.
    pub(super) fn graph(&self) -> Option<&VerifiedGraph> {
        match self {
            Self::Config(config) => Some(config.engine.graph.verified()),
            Self::Saved(saved) => saved.graph.as_deref(),
        }
    }

    /// The name of the graph; a saved plan does not have it.
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
