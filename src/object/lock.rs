//! A lock beside each object, for calls that change it.
//!
//! Announcing a handle and then locking its object takes two sequentially consistent operations, which dominate a short call.
//! Since the lock is in the slot, which is never freed, it can be taken before the handle is known to be live, and replaces the
//! announcement: a destroyer checks the lock as well as the announcements.
//!
//! Soundness: a user takes the lock and then loads the slot's handle; a destroyer clears the slot's handle and then loads the lock;
//! all four are sequentially consistent. Either the user's load comes after the clear and finds the handle dead, or the
//! destroyer's load comes after the lock was taken and finds it taken, or released, and so sees the end of that use.

use hipdnn_plugin_sdk::process;

use super::bury_some;
use crate::sync::{AtomicU32, Ordering};

/// The value of an open lock. A taken lock has the number of the process that took it.
const OPEN: u32 = 0;

/// Taken while a call has exclusive access to the object.
pub struct Lock(AtomicU32);

impl Lock {
    /// An open lock.
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn take(&self) -> Option<Taken<'_>> {
        match self.0.compare_exchange(OPEN, process::word(), Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Some(Taken(self)),
            Err(_) => None,
        }
    }

    /// Whether it is taken.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.0.load(Ordering::SeqCst) != OPEN
    }

    /// Whether a thread of a parent process holds it, which does not exist in this process.
    fn is_lost(&self) -> bool {
        ![OPEN, process::word()].contains(&self.0.load(Ordering::Relaxed))
    }
}

/// Releases the lock on drop.
pub struct Taken<'a>(&'a Lock);

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(OPEN, Ordering::Release);
        bury_some();
    }
}

/// How a call accesses an object: exclusively or shared.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    lock: &'a Lock,
    is_alone: bool,
}

impl<'a> Access<'a> {
    /// Access of the call that holds the lock.
    #[inline]
    pub(super) fn alone(taken: &Taken<'a>) -> Self {
        Self { lock: taken.0, is_alone: true }
    }

    /// Access of a call that has announced the handle.
    #[inline]
    pub(super) fn shared(lock: &'a Lock) -> Self {
        Self { lock, is_alone: false }
    }

    /// Whether the call has exclusive access.
    #[inline]
    pub fn is_alone(self) -> bool {
        self.is_alone
    }

    /// Whether a thread of a parent process holds the lock: it is never released here.
    pub fn is_lost(self) -> bool {
        self.lock.is_lost()
    }

    /// Takes the lock of a shared object, if it is open.
    #[inline]
    pub fn take(self) -> Option<Taken<'a>> {
        self.lock.take()
    }
}
