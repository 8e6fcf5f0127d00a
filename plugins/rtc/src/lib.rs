//! An engine of hipDNN for AMD GPUs, as an engine plugin: kernels that are generated from the graph and compiled by hipRTC.
//!
//! Nothing of AMD's is linked. The HIP runtime and hipRTC are opened when a graph is first asked about; without them, or
//! without a device, the engine does not apply and the reason says what was looked for.
//!
//! [`source`] writes a graph as kernels, [`hiprtc`] compiles them, [`cache`] keeps what was compiled, [`module`] loads it onto
//! the device of a [`handle`], and a [`plan`] starts the kernels.

pub mod cache;
pub mod handle;
pub mod hiprtc;
pub mod module;
pub mod plan;
pub mod plugin;
pub mod source;

pub use hipdnn_plugin_problem::Refusal;
