//! Locks that a forked child finds open, whichever thread of its parent had them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::prelude::*;

/// How often this process was forked off another.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Has all locks begin anew, in a child that was just forked.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A lock that threads hold beside the interpreter, so that a fork may come at that time. A child begins with what `T` is by default:
/// its parent's, behind a lock that nobody may be left to open, stays untouched.
pub struct Lock<T> {
    forks: u32,
    mutex: Mutex<T>,
    of_child: OnceLock<Box<Self>>,
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self { forks: FORKS.load(Ordering::Relaxed), mutex: Mutex::default(), of_child: OnceLock::new() }
    }
}

impl<T: Default> Lock<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let forks = FORKS.load(Ordering::Relaxed);
        let mut lock = self;
        while lock.forks != forks {
            lock = lock.of_child.get_or_init(Box::default);
        }
        lock.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
