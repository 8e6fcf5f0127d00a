//! hipDNN's backend C ABI in Rust.
//!
//! Programs use the C functions in [`c_api`] through the headers in `include/`. Inside, the caller's [`descriptor`]s
//! become a [`graph`], which the plugins of a [`handle`]'s session run.
//!
//! This crate is built as the shared library; as a Rust library it serves tests and benchmarks only.

#[cfg(test)]
mod allocations;
pub mod c_api;
mod cache_limit;
mod call;
pub mod descriptor;
pub mod device;
mod events;
mod fork;
pub mod graph;
mod graph_file;
pub mod handle;
mod hints;
pub mod last_error;
mod lock;
pub mod log;
pub mod memory;
pub mod object;
mod overlap;
pub mod plugin;
pub mod policies;
pub mod selection;
pub mod status;
mod sync;
mod target;
mod thread_word;
pub mod trace;

pub use hipdnn_abi as ffi;
