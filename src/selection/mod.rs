//! Engine selection: the library's own policies, their data and their settings.
//!
//! A policy orders the engines that can run a graph, or leaves that to the next one. Four are part of the library: [`CONFIG`]
//! uses measured rankings and the user's rules, [`MODE_A`] and [`MODE_B`] predictions, [`STATIC_ORDERING`] always has an answer.
//! Heuristic plugins add more.

mod content_hash;
pub mod file;
mod gpu;
mod machine;
mod metric;
mod prediction;
pub mod ranking;
mod rules;
mod settings;
pub mod static_order;
mod work;

pub use metric::Metric;
pub use prediction::Predictor;
pub use ranking::{Cache, Key, Record, Stored, read as read_rankings};
pub use rules::Rules;
pub use settings::Settings;

use hipdnn_plugin_sdk::engine_id;

/// The policy that uses measured rankings and the rules of `HIPDNN_HEUR_CONFIG_PATH`.
pub const CONFIG: i64 = engine_id("SelectionHeuristic::Config");
/// The policy that ranks engines with their default knobs by predictions.
pub const MODE_A: i64 = engine_id("SelectionHeuristic::ModeA");
/// The policy that ranks configurations of engines by predictions.
pub const MODE_B: i64 = engine_id("SelectionHeuristic::ModeB");
/// The policy with built-in preferences.
pub const STATIC_ORDERING: i64 = engine_id("SelectionHeuristic::StaticOrdering");

/// The policies of the library itself, with their names.
pub const BUILT_IN: [(i64, &str); 4] = [
    (CONFIG, "SelectionHeuristic::Config"),
    (STATIC_ORDERING, "SelectionHeuristic::StaticOrdering"),
    (MODE_A, "SelectionHeuristic::ModeA"),
    (MODE_B, "SelectionHeuristic::ModeB"),
];

/// The policies that are asked by default.
pub const DEFAULT_ORDER: [i64; 2] = [CONFIG, STATIC_ORDERING];
