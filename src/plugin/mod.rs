//! Plugins: finding, checking and calling them.
//!
//! A library becomes a [`Plugin`] when it passes admission, the plugins loaded at one time form a [`PluginSet`], and each
//! handle opens a [`Session`] with them. Each keeps the previous one alive, so no call can outlive the code it calls.

mod admission;
mod api;
pub mod ask;
pub mod asking;
pub mod cache;
pub mod context;
mod engine_details;
pub mod gate;
mod generation;
mod heuristic;
mod heuristic_handles;
mod heuristic_host;
mod library;
pub mod made;
pub mod numerics;
pub mod paths;
mod raw_context;
pub mod registry;
pub mod required_knobs;
mod session;
pub mod shortage;

pub use admission::{Engine, Plugin};
pub use api::{Api, OverrideArrays, check};
pub use context::{Context, Owner, workspace_size};
pub use engine_details::EngineDetails;
pub use generation::{Generation, Setting};
pub use heuristic::{HeuristicPlugin, Policy};
pub use heuristic_handles::{HeuristicHandles, Order};
pub use hipdnn_plugin_sdk::engine_id;
pub use library::Library;
pub use session::{EngineInfo, EngineRef, PluginSet, Session};
