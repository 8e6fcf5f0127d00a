//! The synchronization types of the lock-free parts of the handle table and the plan cache. `tools/model` compiles those files
//! with its own types of the same names, to run every interleaving.

use std::ffi::c_void;
use std::hash::RandomState;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::thread::Key;

use crate::lock::OnceLock;

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::thread_local;

/// Number of groups of thread records: one for each bit of a word.
pub const GROUPS: usize = 64;
/// Slots in a chunk of a table; a chunk is allocated with its first slot and never freed.
pub const CHUNK: usize = 256;
/// Free slots that a thread takes or returns at a time; it keeps at most twice as many.
pub const BATCH: usize = 32;

/// Seeds this thread's hash tables now: `getrandom` is a cancellation point and must not be reached later.
pub fn prepare_thread() {
    let _off = cancel::disable();
    std::hint::black_box(RandomState::new());
}

/// The key of each thread's word, with its destructor.
static AT_END: OnceLock<Option<Key>> = OnceLock::new();

/// Has `end` called with this non-null pointer when this thread ends, even if it was already called for an earlier request.
///
/// Uses a key, not a thread-local destructor: other thread-local destructors may call the library after ours, and what they take
/// would leak. A key's destructor is called again; Windows calls it last. If the system has no key left, `end` is not called.
pub fn at_thread_end(end: unsafe extern "C" fn(*mut c_void), word: *mut c_void) {
    // The function stays in memory: the library is never unloaded.
    if let Some(key) = AT_END.get_or_init(|| Key::new(Some(end))) {
        key.set(word.expose_provenance());
    }
}

/// The pointer last passed to [`at_thread_end`] on this thread; null if `end` was already called with it.
pub fn left_for_thread_end() -> *mut c_void {
    let key = AT_END.get().copied().flatten();
    std::ptr::with_exposed_provenance_mut(key.map_or(0, Key::get))
}
