//! A word of each thread's own, at hand without the loader.

use std::ffi::c_void;
use std::ptr;

use super::api;

/// A word of each thread's own, 0 at first. It is never given back.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A word that is forgotten with its thread.
    Plain(u32),
    /// One for which a function is called then.
    Ended(u32),
}

type End = unsafe extern "C" fn(*mut c_void);

impl Key {
    /// A new one. `end` is called for each thread that ends and whose word is not 0. None where the system has no key left.
    pub fn new(end: Option<End>) -> Option<Self> {
        // SAFETY: both functions take no pointers but the callback, which stays in memory with the library. There is one calling
        // convention on 64 bits, so the callback has the type that the system wants.
        let key = unsafe {
            match end {
                None => Self::Plain(api::TlsAlloc()),
                Some(end) => Self::Ended(api::FlsAlloc(Some(std::mem::transmute::<
                    End,
                    unsafe extern "system" fn(*mut c_void),
                >(end)))),
            }
        };
        let (Self::Plain(index) | Self::Ended(index)) = key;
        (index != api::NO_INDEX).then_some(key)
    }

    /// The word of this thread.
    #[inline]
    pub fn get(self) -> usize {
        // SAFETY: the index was made and is never freed.
        let word = unsafe {
            match self {
                Self::Plain(index) => api::TlsGetValue(index),
                Self::Ended(index) => api::FlsGetValue(index),
            }
        };
        word.expose_provenance()
    }

    /// Sets the word of this thread. Where there is no memory for it the old one stays.
    #[inline]
    pub fn set(self, word: usize) {
        let word = ptr::with_exposed_provenance_mut(word);
        // SAFETY: the index was made and is never freed; the system does not look at the pointer.
        unsafe {
            match self {
                Self::Plain(index) => api::TlsSetValue(index, word),
                Self::Ended(index) => api::FlsSetValue(index, word),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static ENDED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn end(word: *mut c_void) {
        ENDED.fetch_add(word.expose_provenance(), Ordering::Relaxed);
    }

    #[test]
    fn a_thread_that_ends_is_told() {
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
