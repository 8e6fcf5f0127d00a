//! A thread-local word that needs no help from the loader.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::api;

/// A thread-local word, initially 0. It is never freed.
#[derive(Clone, Copy, Debug)]
pub struct Key(u32);

type End = unsafe extern "C" fn(*mut c_void);

/// Called for ending threads: a function, and the index of its word plus one.
struct Ending {
    index: AtomicU32,
    end: AtomicPtr<()>,
}

static ENDINGS: [Ending; 4] =
    [const { Ending { index: AtomicU32::new(0), end: AtomicPtr::new(ptr::null_mut()) } }; 4];

/// The system calls the functions of these sections when a thread ends, ordered by section name. Rust's
/// destructors of thread-local values run before this one.
#[used]
#[unsafe(link_section = ".CRT$XLY")]
static ON_THREAD: unsafe extern "system" fn(*mut c_void, u32, *mut c_void) = on_thread;

/// # Safety
/// The loader calls it, on the thread that begins or ends.
unsafe extern "system" fn on_thread(_: *mut c_void, reason: u32, _: *mut c_void) {
    if reason != api::THREAD_ENDS {
        return;
    }
    for ending in &ENDINGS {
        let Some(index) = ending.index.load(Ordering::Acquire).checked_sub(1) else { return };
        let key = Key(index);
        let (word, end) = (key.get(), ending.end.load(Ordering::Relaxed));
        if word != 0 {
            key.set(0);
            // SAFETY: `Key::new` has stored a function of this type before the index, to be called with the word.
            unsafe { std::mem::transmute::<*mut (), End>(end)(ptr::with_exposed_provenance_mut(word)) };
        }
    }
}

impl Key {
    /// Creates one. `end` is called for each ending thread whose word is not 0. None if the system has no key
    /// left.
    pub fn new(end: Option<End>) -> Option<Self> {
        // SAFETY: the call has no arguments.
        let index = unsafe { api::TlsAlloc() };
        if index == api::NO_INDEX {
            return None;
        }
        if let Some(end) = end {
            let is_free = |ending: &&Ending| {
                let new = end as *mut ();
                ending
                    .end
                    .compare_exchange(ptr::null_mut(), new, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            };
            ENDINGS.iter().find(is_free)?.index.store(index + 1, Ordering::Release);
        }
        Some(Self(index))
    }

    /// This thread's word.
    #[inline]
    pub fn get(self) -> usize {
        // SAFETY: the index was made and is never freed.
        unsafe { api::TlsGetValue(self.0) }.expose_provenance()
    }

    /// Sets this thread's word. If the system is out of memory, the old value stays.
    #[inline]
    pub fn set(self, word: usize) {
        // SAFETY: the index was made and is never freed; the system does not look at the pointer.
        unsafe { api::TlsSetValue(self.0, ptr::with_exposed_provenance_mut(word)) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    static ENDED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn end(word: *mut c_void) {
        ENDED.fetch_add(word.expose_provenance(), Ordering::Relaxed);
    }

    #[test]
    fn the_destructor_runs_when_a_thread_ends() {
        let key = Key::new(Some(end)).unwrap();
        std::thread::spawn(move || {
            assert_eq!(key.get(), 0);
            key.set(7);
            assert_eq!(key.get(), 7);
        })
        .join()
        .unwrap();
        assert_eq!((key.get(), ENDED.load(Ordering::Relaxed)), (0, 7));
    }
}
