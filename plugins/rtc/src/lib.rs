//! Engines of hipDNN for AMD and NVIDIA GPUs, as an engine plugin: kernels that are generated from the graph and compiled at run time,
//! by hipRTC or by NVRTC.
//!
//! Nothing of AMD's or NVIDIA's is linked. The driver and the compiler are opened when a graph is first asked about; without them,
//! or without a device, the engine does not apply and the reason says what was looked for.
//!
//! [`source`] writes a graph as kernels, a [`compiler`] compiles them ([`hiprtc`], [`nvrtc`]), [`cache`] keeps what was compiled, [`module`]
//! loads it onto the device of a [`handle`], and a [`plan`] starts the kernels.

pub mod cache;
pub mod compiler;
pub mod handle;
pub mod hip;
pub mod hiprtc;
pub mod knob;
pub mod module;
pub mod nvrtc;
pub mod plan;
pub mod plugin;
pub mod source;

pub use hipdnn_plugin_planner::Refusal;
