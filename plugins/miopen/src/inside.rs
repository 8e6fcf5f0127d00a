//! Whether a thread is inside of these engines already.
//!
//! A MIOpen that forwards to hipDNN asks hipDNN's engines, and so may ask the one that is calling it. That would go on without
//! end, or wait for a lock that its own thread holds, so whoever comes in a second time is turned away before anything is
//! locked or opened.

use std::cell::Cell;
use std::marker::PhantomData;

use hipdnn_plugin_sdk::Refusal;

thread_local! {
    // Without a destructor: a thread's end has nothing to do here, and nothing is registered for it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A thread's stay in these engines, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the thread is outside again when this is dropped"]
pub struct Inside {
    /// It belongs to the thread that came in.
    not_send: PhantomData<*const ()>,
}

impl Inside {
    /// Lets this thread in.
    ///
    /// # Errors
    /// When it is inside already.
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
    fn a_thread_comes_in_once_and_may_come_again() {
        let inside = Inside::enter().unwrap();
        let reason = Inside::enter().unwrap_err().to_string();
        assert!(reason.contains("MIOPEN_HIPDNN_FORWARDING"), "{reason}");
        // Being turned away does not let others in, and another thread has nothing to do with it.
        assert!(Inside::enter().is_err());
        std::thread::spawn(|| Inside::enter().map(drop)).join().unwrap().unwrap();
        drop(inside);
        drop(Inside::enter().unwrap());
    }
}
