//! Locks that are usable in a forked child, even if a thread of the parent held them.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many forks lie between this process and the first.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the first.
pub fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Resets all locks, in a child that was just forked.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A lock that threads hold without the interpreter's lock, so that a fork may happen meanwhile. A child starts with the default `T`:
/// the parent's value, perhaps half changed and locked by a thread that the child lacks, is neither accessed nor dropped.
pub struct Lock<T> {
    forks: u32,
    mutex: ManuallyDrop<Mutex<T>>,
    /// Null, or a box owned by this lock. Set atomically, so that a fork never finds it half set.
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
                    // SAFETY: another thread won the race, so only this thread has this box.
                    drop(unsafe { Box::from_raw(made) });
                    other
                }
            };
        }
        // SAFETY: the pointer comes from a box, and stays valid until this lock is dropped.
        unsafe { &*found }
    }
}

impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            // SAFETY: dropped once, by the process that made it.
            unsafe { ManuallyDrop::drop(&mut self.mutex) };
        }
        let of_child = *self.of_child.get_mut();
        if !of_child.is_null() {
            // SAFETY: the pointer comes from a box that is no longer borrowed.
            drop(unsafe { Box::from_raw(of_child) });
        }
    }
}
