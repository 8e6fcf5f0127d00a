//! The pool's synchronization types, for a model.

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

/// A condition variable.
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Without waiting threads.
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Releases the lock until notified.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one thread that waits.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// The most workers of a team: as many as the models have.
pub const MOST_WORKERS: usize = 3;

#[cfg(test)]
thread_local! {
    /// For the pool's own tests, which are compiled here but do not run.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether the condition is true. Models have no time, so longer waits always sleep.
pub fn look(mut is_there: impl FnMut() -> bool) -> bool {
    is_there()
}

/// Starts a thread of the pool.
pub fn start(_: usize, work: impl FnOnce() + Send + 'static) -> bool {
    crate::sync::spawn(work);
    true
}

/// Whether threads of the pool wait for more work. Not modelled as an atomic.
pub static GOES_ON: Flag = Flag::new(true);

/// The same: in a model, threads must end.
pub fn goes_on() -> bool {
    GOES_ON.load(Ordering::Relaxed)
}
