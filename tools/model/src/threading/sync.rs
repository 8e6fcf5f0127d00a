//! What the pool is made of, for a model.

use std::sync::PoisonError;
use std::sync::atomic::AtomicBool as Flag;

pub(crate) use loom::sync::MutexGuard;

pub use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A mutex without poisoning.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock.
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What threads that have a lock wait for.
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// No thread waits for it.
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Lets go of the lock until it is told.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one thread that waits.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// Whether the condition is true. There is no time in a model: whoever waits for longer sleeps.
pub fn look(is_there: impl Fn() -> bool) -> bool {
    is_there()
}

/// Starts a thread of the pool.
pub fn start(_: usize, work: impl FnOnce() + Send + 'static) -> bool {
    crate::sync::spawn(work);
    true
}

/// Whether threads of the pool wait for more work. Not part of what is run in every order.
pub static GOES_ON: Flag = Flag::new(true);

/// The same: in a model threads have to end.
pub fn goes_on() -> bool {
    GOES_ON.load(Ordering::Relaxed)
}
