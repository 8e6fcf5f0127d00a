//! Locks that a forked child finds open, whichever thread of its parent had them.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often this process was forked off another.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How often this process was forked off another.
pub fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Has all locks begin anew, in a child that was just forked.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A lock that threads hold beside the interpreter, so that a fork may come at that time. A child begins with what `T` is by default:
/// its parent's, half changed perhaps and behind a lock that no thread can open, is neither touched nor dropped.
pub struct Lock<T> {
    forks: u32,
    mutex: ManuallyDrop<Mutex<T>>,
    /// Null, or a box that is this lock's own. A fork finds it set or not, never on the way.
    of_child: AtomicPtr<Self>,
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        let mutex = ManuallyDrop::default();
        Self { forks: FORKS.load(Ordering::Relaxed), mutex, of_child: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T: Default> Lock<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let forks = FORKS.load(Ordering::Relaxed);
        let mut lock = self;
        while lock.forks != forks {
            lock = lock.of_child();
        }
        lock.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_child(&self) -> &Self {
        let mut found = self.of_child.load(Ordering::Acquire);
        if found.is_null() {
            let made = Box::into_raw(Box::<Self>::default());
            found = match self.of_child.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(other) => {
                    // SAFETY: another thread's came first, so only this thread has this one.
                    drop(unsafe { Box::from_raw(made) });
                    other
                }
            };
        }
        // SAFETY: what is set comes from a box, and stays until this lock is dropped.
        unsafe { &*found }
    }
}

impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            // SAFETY: it is dropped once, by the process that made it.
            unsafe { ManuallyDrop::drop(&mut self.mutex) };
        }
        let of_child = *self.of_child.get_mut();
        if !of_child.is_null() {
            // SAFETY: it comes from a box, and nothing borrows it any more.
            drop(unsafe { Box::from_raw(of_child) });
        }
    }
}
