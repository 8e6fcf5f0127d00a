//! What the table of handles and the plan cache are made of where threads meet without a lock. `tools/model` compiles these files with
//! other types of the same names, to run them in every order of their steps.

use std::ffi::c_void;
use std::hash::RandomState;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::thread::Key;

use crate::lock::OnceLock;

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::thread_local;

/// Groups that records of threads are in: as many as a word has bits.
pub const GROUPS: usize = 64;
/// Slots in a chunk of a table; a chunk is allocated when its first slot is, and never freed.
pub const CHUNK: usize = 256;
/// Free slots that a thread takes or gives back at one time, and half of what it keeps.
pub const BATCH: usize = 32;

/// Does once for this thread what could end it later: keys of hash tables come from `getrandom`, where a thread may be cancelled.
pub fn prepare_thread() {
    let _off = cancel::disable();
    std::hint::black_box(RandomState::new());
}

/// The word of each thread, and what is called with it.
static AT_END: OnceLock<Option<Key>> = OnceLock::new();

/// Has `end` called with this pointer, which is not null, when this thread ends, also if that was asked for before and it was called already.
///
/// By a key and not by a destructor of thread-local storage: other such destructors may still call the library after that one, and what
/// they take would be lost. The destructor of a key is called again; Windows calls it last. Where the system has no key left `end` is not
/// called.
pub fn at_thread_end(end: unsafe extern "C" fn(*mut c_void), word: *mut c_void) {
    // The function stays in memory: the library is never unloaded.
    if let Some(key) = AT_END.get_or_init(|| Key::new(Some(end))) {
        key.set(word.expose_provenance());
    }
}

/// What [`at_thread_end`] was last asked to call with on this thread; null where that was called already.
pub fn left_for_thread_end() -> *mut c_void {
    let key = AT_END.get().copied().flatten();
    std::ptr::with_exposed_provenance_mut(key.map_or(0, Key::get))
}
