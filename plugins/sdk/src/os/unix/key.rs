//! A word of each thread's own, at hand without the loader.

use std::ffi::c_void;
use std::ptr;

/// A word of each thread's own, 0 at first. It is never given back.
#[derive(Clone, Copy, Debug)]
pub struct Key(libc::pthread_key_t);

impl Key {
    /// A new one. `end` is called for each thread that ends and whose word is not 0, and again where a thread sets it meanwhile. None where
    /// the system has no key left.
    pub fn new(end: Option<unsafe extern "C" fn(*mut c_void)>) -> Option<Self> {
        let mut key = 0;
        // SAFETY: the call writes one number. The library stays in memory as long as the process, and `end` with it.
        (unsafe { libc::pthread_key_create(&raw mut key, end) } == 0).then_some(Self(key))
    }

    /// The word of this thread.
    #[inline]
    pub fn get(self) -> usize {
        // SAFETY: the key was made and is never deleted.
        unsafe { libc::pthread_getspecific(self.0) }.expose_provenance()
    }

    /// Sets the word of this thread. Where there is no memory for it the old one stays.
    #[inline]
    pub fn set(self, word: usize) {
        // SAFETY: the key was made and is never deleted; the system does not look at the pointer.
        unsafe { libc::pthread_setspecific(self.0, ptr::with_exposed_provenance(word)) };
    }
}
