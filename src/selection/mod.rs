//! Engine selection: the library's own policies, their data and their settings.
//!
//! A policy orders the engines that can run a graph, or leaves that to the next one. Two are part of the library: [`CONFIG`]
//! uses measured rankings and the user's rules, [`STATIC_ORDERING`] always has an answer. Heuristic plugins add more.

mod content_hash;
pub mod file;
pub mod ranking;
mod rules;
mod settings;
pub mod static_order;

pub use ranking::{Cache, Key, Record, Stored, read as read_rankings};
pub use rules::Rules;
pub use settings::Settings;

use hipdnn_plugin_sdk::engine_id;

/// The policy that uses measured rankings and the rules of `HIPDNN_HEUR_CONFIG_PATH`.
pub const CONFIG: i64 = engine_id("SelectionHeuristic::Config");
/// The policy with built-in preferences.
pub const STATIC_ORDERING: i64 = engine_id("SelectionHeuristic::StaticOrdering");

/// The policies of the library itself, with their names.
pub const BUILT_IN: [(i64, &str); 2] =
    [(CONFIG, "SelectionHeuristic::Config"), (STATIC_ORDERING, "SelectionHeuristic::StaticOrdering")];

/// The policies that are asked by default.
pub const DEFAULT_ORDER: [i64; 2] = [CONFIG, STATIC_ORDERING];
