//! What a hipDNN engine plugin is made of.
//!
//! A plugin is a shared library with engines. A host asks it which of them can compute a graph of operations, lets it make
//! a plan for one, and executes the plan with the caller's memory. To write one in Rust, implement [`EnginePlugin`] and
//! name the type in [`export_engine_plugin!`]:
//!
#![doc = concat!("```\n", include_str!("../examples/add_plugin.rs"), "\n```")]
//!
//! A plugin of another kind puts engines into an order: implement [`HeuristicPlugin`] and name the type in
//! [`export_heuristic_plugin!`].
//!
//! [`graph`] is the one representation of an operation graph that the backend and every Rust plugin share, [`wire`] reads and
//! writes it as FlatBuffers in both generations of the format, `json` (a feature of this crate) as JSON, [`log`] sends lines to the host, and [`ffi`] holds the types
//! of the plugin C ABI. An engine that stands on another library finds it through [`dynlib`], and the HIP runtime is there
//! as [`hip`], the CUDA driver as
//! [`cuda`]; [`gpu`] is whichever of them there is. Locks and values that are made once are those of [`lock`], which forked children can use;
//! what must be whole in a child is listed for [`fork`]. What systems do differently is in [`os`].

pub mod cuda;
pub mod dynlib;
pub mod engine_plugin;
pub mod environment;
mod error;
pub mod exception;
#[doc(hidden)]
pub mod export;
pub mod ffi;
pub mod fork;
pub mod gpu;
pub mod graph;
pub mod hash;
pub mod heuristic_plugin;
pub mod hip;
#[cfg(feature = "json")]
pub mod json;
mod json_text;
mod last_error;
pub mod lock;
pub mod log;
pub mod objects;
pub mod os;
pub mod overrides;
pub mod payload;
pub mod process;
pub mod prototypes;
pub mod shared_file;
pub mod step;
pub mod trace;
pub mod wire;

pub use engine_plugin::{EnginePlugin, bound, buffer, engine_id};
pub use error::{PluginError, Refusal};
pub use heuristic_plugin::HeuristicPlugin;
pub use os::{cancel, thread};
pub use overrides::{Override, Overrides};
pub use step::Step;
