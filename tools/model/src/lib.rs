//! The table of handles, the plan cache and the thread pool, model-checked by loom in every order of their steps.
//!
//! This crate compiles the files of the library and of the CPU plugin with its own modules for atomics, locks and threads: [`sync`]
//! and `lock` for the library, [`threading::sync`] for the plugin. Other modules are minimal stubs. `tests` runs the models.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a model stops at the first failure")]

pub use hipdnn_abi as ffi;

#[path = "../../../src/cache_limit.rs"]
mod cache_limit;
pub mod graph;
pub mod handles;
mod lock;
#[path = "../../../src/object/mod.rs"]
pub mod object;
pub mod plans;
pub mod plugin;
pub mod pool;
#[path = "../../../src/status.rs"]
pub mod status;
pub mod sync;
pub mod threading;

/// The device of a thread.
pub mod device {
    /// Always the same one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Place;

    impl Place {
        /// A number for it.
        pub fn hash(self) -> u64 {
            0
        }
    }

    /// The device of this thread.
    pub fn place() -> Place {
        Place
    }
}

/// Rankings, of which the plan cache only keeps what it is given.
pub mod selection {
    /// What was measured.
    pub struct Record;
}

/// The log, which is off.
pub mod log {
    /// Does nothing.
    pub fn info(_: impl FnOnce() -> String) {}
    /// Does nothing.
    pub fn warn(_: impl FnOnce() -> String) {}
}

/// The trace, which is off.
pub mod trace {
    /// Nothing is recorded.
    pub fn phase(_: &'static str, _: impl FnOnce() -> String) -> Option<String> {
        None
    }
}
