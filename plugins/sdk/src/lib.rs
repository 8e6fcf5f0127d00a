//! The SDK for hipDNN engine plugins.
//!
//! A plugin is a shared library with engines. A host asks it which engines can compute a graph of operations,
//! has it plan the graph for one engine, and executes the plan with the caller's memory. To write one in
//! Rust, implement [`EnginePlugin`] and name the type in [`export_engine_plugin!`]:
//!
#![doc = concat!("```\n", include_str!("../examples/add_plugin.rs"), "\n```")]
//!
//! The other kind of plugin orders engines: implement [`HeuristicPlugin`] and name the type in
//! [`export_heuristic_plugin!`].
//!
//! [`graph`] is the representation of operation graphs that the backend and all Rust plugins share. [`wire`]
//! reads and writes it as FlatBuffers in both generations of the format, `json` (a feature of this crate) as
//! JSON. [`log`] sends lines to the host, and [`ffi`] declares the types of the plugin C ABI. Engines open
//! other libraries with [`dynlib`]; [`hip`] is the HIP runtime, [`cuda`] the CUDA driver, [`vulkan`] the
//! memory of Vulkan devices, and [`gpu`] any of the three. [`lock`] has locks and once-cells that work in forked children; [`fork`]
//! lists what must be consistent in a child. [`os`] hides the differences between systems.

pub mod cached_file;
pub mod cpu_isa;
pub mod cuda;
pub mod dynlib;
pub mod engine_kind;
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
pub mod numerics;
pub mod objects;
pub mod os;
pub mod overrides;
pub mod payload;
pub mod plain_file;
pub mod predictions;
pub mod process;
pub mod prototypes;
pub mod rounding;
pub mod shared_file;
pub mod small_float;
pub mod step;
pub mod trace;
pub mod vulkan;
pub mod wire;

pub use engine_plugin::{EnginePlugin, bound, buffer, engine_id};
pub use error::{PluginError, Refusal};
pub use heuristic_plugin::{Chosen, HeuristicPlugin};
pub use numerics::{EngineNumerics, Numerics};
pub use os::{cancel, thread};
pub use overrides::{Override, Overrides};
pub use predictions::{Predicted, Predictions};
pub use step::Step;
