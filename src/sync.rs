//! The synchronization types of the lock-free parts of the handle table and the plan cache. `tools/model` compiles those files
//! with its own types of the same names, to run every interleaving.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::c_void;
use std::hash::RandomState;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::thread::Key;

use crate::lock::OnceLock;

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::thread_local;

/// Number of groups of thread records: one for each bit of a word.
pub const GROUPS: usize = 64;

/// Slots in a chunk of a table, given a slot's size; a power of two. A chunk is allocated with its first slot and never freed.
pub const fn slots_of_chunk(slot: usize) -> usize {
    // From here on the C library asks the system for memory, instead of clearing its own.
    const LEAST: usize = 128 << 10;
    (LEAST / slot).next_power_of_two()
}

/// So many values that are never freed, all of whose bytes are zero. Where the system gives zeroed memory, none of it is touched. `_new` is
/// for models, which make each value.
///
/// # Safety
/// A value whose bytes are zero is as good as one that `_new` makes.
pub unsafe fn leak_zeroed<T>(count: usize, _new: impl Fn() -> T) -> *mut T {
    // The alignment of every allocation: memory of a larger one is cleared by hand.
    const ALIGN: usize = 16;
    /// The last allocation, each of which begins with a pointer to the one before: leak checkers know these as still used.
    static LAST: AtomicPtr<*mut u8> = AtomicPtr::new(std::ptr::null_mut());
    let values = count.saturating_mul(size_of::<T>()).saturating_add(align_of::<T>());
    let bytes = values.saturating_add(size_of::<*mut u8>());
    let Ok(layout) = Layout::from_size_align(bytes, ALIGN) else { handle_alloc_error(Layout::new::<T>()) };
    // SAFETY: the size is that of an alignment at least.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        handle_alloc_error(layout);
    }
    let header = start.cast::<*mut u8>();
    // SAFETY: the allocation begins with room for a pointer, and this function alone has it so far.
    unsafe { header.write(LAST.swap(header, Ordering::AcqRel).cast()) };
    // SAFETY: behind the pointer there is room for the values and less than an alignment of theirs.
    unsafe {
        let first = start.add(size_of::<*mut u8>());
        first.add(first.align_offset(align_of::<T>())).cast()
    }
}

/// Free slots that a thread takes or returns at a time; it keeps at most twice as many.
pub const BATCH: usize = 32;

/// Free slots of a table that a thread's record keeps outside of its list: as many objects as a program has of a kind
/// while it makes and executes a plan, so that this touches no list.
pub const SPARES: usize = 6;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line([u64; 8]);

    #[test]
    fn zeroed_values_are_aligned_and_zero() {
        for count in [1, 7, 3000] {
            // SAFETY: zeros are numbers.
            let first = unsafe { leak_zeroed(count, || Line([0; 8])) };
            assert!(first.is_aligned());
            // SAFETY: the allocation has `count` values, and the test only reads them.
            let all = unsafe { std::slice::from_raw_parts(first, count) };
            assert!(all.iter().all(|line| line.0 == [0; 8]));
        }
        assert_eq!([64, 192, 256, 1 << 20].map(slots_of_chunk), [2048, 1024, 512, 1]);
    }
}
