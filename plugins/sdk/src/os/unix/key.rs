//! A thread-local word that needs no help from the loader.

use std::ffi::c_void;
use std::ptr;

/// A thread-local word, initially 0. It is never freed.
#[derive(Clone, Copy, Debug)]
pub struct Key(libc::pthread_key_t);

impl Key {
    /// Creates one. `end` is called for each ending thread whose word is not 0, and again if the word is set
    /// meanwhile. None if the system has no key left.
    pub fn new(end: Option<unsafe extern "C" fn(*mut c_void)>) -> Option<Self> {
        let mut key = 0;
        // SAFETY: the call writes one number. The library stays in memory as long as the process, and `end` with it.
        (unsafe { libc::pthread_key_create(&raw mut key, end) } == 0).then_some(Self(key))
    }

    /// This thread's word.
    #[inline]
    pub fn get(self) -> usize {
        // SAFETY: the key was made and is never deleted.
        unsafe { libc::pthread_getspecific(self.0) }.expose_provenance()
    }

    /// Sets this thread's word. If the system is out of memory, the old value stays.
    #[inline]
    pub fn set(self, word: usize) {
        // SAFETY: the key was made and is never deleted; the system does not look at the pointer.
        unsafe { libc::pthread_setspecific(self.0, ptr::with_exposed_provenance(word)) };
    }
}
