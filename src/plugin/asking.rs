//! Whether a thread is inside a plugin that it asks about a graph.
//!
//! A plugin's library may call this library again, and plugins may then answer differently: MIOpen's plugin refuses calls that
//! come from MIOpen. Such an answer is valid only for that call.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    // Without a destructor, see `crate::lock`.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A running question, until dropped.
#[must_use = "the question is over when this is dropped"]
pub struct Asking {
    /// Bound to the asking thread.
    not_send: PhantomData<*const ()>,
}

impl Asking {
    /// Begins a question of this thread.
    pub fn begin() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self { not_send: PhantomData }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether this thread is asking.
pub fn is_asking() -> bool {
    DEPTH.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_asks_until_the_last_question_is_over() {
        assert!(!is_asking());
        let first = Asking::begin();
        let second = Asking::begin();
        drop(first);
        assert!(is_asking());
        assert!(!std::thread::spawn(is_asking).join().unwrap());
        drop(second);
        assert!(!is_asking());
    }
}
