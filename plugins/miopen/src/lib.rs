//! The AMD engines of hipDNN, as an engine plugin: graphs computed by MIOpen.
//!
//! AMD's libraries are not linked. [`miopen`] and the HIP runtime are opened when a graph is first queried;
//! without them, or without a device, no engine applies and the reason lists what was tried.
//!
//! The nodes of a graph become [`step`]s, which a [`plan`] runs in order on the stream of a [`handle`].

pub mod handle;
pub mod inside;
pub mod intermediate;
pub mod knob;
pub mod miopen;
pub mod object;
pub mod operand;
pub mod plan;
pub mod plugin;
pub mod solution;
pub mod step;
