//! Detects reentrant calls of these engines.
//!
//! A MIOpen that forwards to hipDNN queries hipDNN's engines, and so possibly the one that is calling it.
//! That could recurse without end, or deadlock on a lock that its own thread holds. So reentrant calls are
//! refused before anything is locked or opened.

use std::cell::Cell;
use std::marker::PhantomData;

use hipdnn_plugin_sdk::Refusal;

thread_local! {
    // No destructor, so that nothing is registered for the end of a thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks a thread as inside these engines until this is dropped.
#[derive(Debug)]
#[must_use = "the thread is outside again when this is dropped"]
pub struct Inside {
    /// It belongs to the thread that entered.
    not_send: PhantomData<*const ()>,
}

impl Inside {
    /// Enters the engines on this thread.
    ///
    /// # Errors
    /// When the thread has already entered.
    pub fn enter() -> Result<Self, Refusal> {
        if INSIDE.replace(true) {
            return Err(Refusal::new(
                "MIOpen, called by this engine, asked hipDNN for the same engine (MIOPEN_HIPDNN_FORWARDING); it does not call \
                 MIOpen again",
            ));
        }
        Ok(Self { not_send: PhantomData })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_enters_once_at_a_time() {
        let inside = Inside::enter().unwrap();
        let reason = Inside::enter().unwrap_err().to_string();
        assert!(reason.contains("MIOPEN_HIPDNN_FORWARDING"), "{reason}");
        // A refused call does not reset the mark, and other threads are independent.
        assert!(Inside::enter().is_err());
        std::thread::spawn(|| Inside::enter().map(drop)).join().unwrap().unwrap();
        drop(inside);
        drop(Inside::enter().unwrap());
    }
}
