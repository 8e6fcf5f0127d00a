//! The table of handles, the plan cache and the thread pool as they are, run by loom in every order of their steps.
//!
//! The files are those of the library and of the CPU plugin. They name their atomics, locks and threads by modules that are others here:
//! [`sync`] and `lock` for the library, `threading::sync` for the plugin. Whatever else they name is only as much as they need.
//! `tests` has what is run.

pub use hipdnn_abi as ffi;

pub mod handles;
mod lock;
#[path = "../../../src/object/mod.rs"]
pub mod object;
pub mod pool;
#[path = "../../../src/status.rs"]
pub mod status;
pub mod sync;
pub mod threading;

/// Graphs.
pub mod graph {
    /// The graphs that a thread was given last.
    pub mod recent {
        /// None of them.
        #[derive(Default)]
        pub struct Recent;
    }
}
