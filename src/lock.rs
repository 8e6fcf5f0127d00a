//! Locks for any thread, also one that a plugin has started and waits for.
//!
//! While the loader opens or closes a library it holds its own lock, and a library's initializer or destructor may wait for a
//! thread. So such a thread must not need the loader: registering a thread-local that has a destructor takes its lock. The
//! locks of the standard library are a word in memory and need nothing of a thread; others keep a record for each that waits.

use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::MutexGuard;

/// A mutex without poisoning: a panic in one call must not disable an object for all others.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for the lock, but no longer than this.
    pub fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        let begun = Instant::now();
        loop {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            if begun.elapsed() >= patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What threads that have a lock wait for.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Nobody waits for it.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Lets go of the lock until it is told, and perhaps earlier.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `condition` holds, but no longer than this. The second result is whether it still holds.
    pub fn wait_while_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout_while(guard, patience, condition);
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
