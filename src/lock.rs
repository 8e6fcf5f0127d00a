//! Locks for any thread, also one that a plugin has started and waits for, and for forked children. Those of the whole process are listed
//! in [`crate::fork`].

pub use hipdnn_plugin_sdk::lock::{Condvar, Mutex, MutexGuard, OnceLock};
