//! Locks that are safe in any thread, even one that a plugin waits for, and in forked children. [`crate::fork`] lists the
//! static ones.

pub use hipdnn_plugin_sdk::lock::{Condvar, Mutex, MutexGuard, OnceLock};
