//! A lock beside each object, for calls that change it.
//!
//! To announce a handle and then to lock what it names takes two atomic operations that order all memory, and these are what a short
//! call costs. The lock lies in the slot, which is never freed, so it can be taken before anybody knows whether the handle is live; and
//! whoever destroys an object looks at it as well as at the announcements.
//!
//! Why that is sound: a user takes the lock and then loads the slot's handle; a destroyer clears the slot's handle and then loads the lock;
//! all four are sequentially consistent. Either the user's load comes after the clear, and finds the handle dead, or the destroyer's comes
//! after the lock was taken, and finds it taken, or given back with release, and so sees the end of that use.

use hipdnn_plugin_sdk::process;

use super::bury_some;
use crate::sync::{AtomicU32, Ordering};

/// The word of an open lock. A taken one has the word of the process in which it was taken.
const OPEN: u32 = 0;

/// Whether a call has the object to itself.
pub struct Lock(AtomicU32);

impl Lock {
    /// An open one.
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

    /// Whether somebody has it.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.0.load(Ordering::SeqCst) != OPEN
    }

    /// Whether a thread has it that exists in a parent of this process only.
    fn is_lost(&self) -> bool {
        ![OPEN, process::word()].contains(&self.0.load(Ordering::Relaxed))
    }
}

/// Gives the lock back when it is dropped.
pub struct Taken<'a>(&'a Lock);

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(OPEN, Ordering::Release);
        bury_some();
    }
}

/// How a call came to an object: alone, or beside others.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    lock: &'a Lock,
    is_alone: bool,
}

impl<'a> Access<'a> {
    /// Of the call that has the lock.
    #[inline]
    pub(super) fn alone(taken: &Taken<'a>) -> Self {
        Self { lock: taken.0, is_alone: true }
    }

    /// Of a call that has announced the handle.
    #[inline]
    pub(super) fn shared(lock: &'a Lock) -> Self {
        Self { lock, is_alone: false }
    }

    /// Whether the call has the object to itself anyway.
    #[inline]
    pub fn is_alone(self) -> bool {
        self.is_alone
    }

    /// Whether a thread has the lock that exists in a parent of this process only: it never gives it back.
    pub fn is_lost(self) -> bool {
        self.lock.is_lost()
    }

    /// Takes the lock of an object that the call shares with others, if it is open.
    #[inline]
    pub fn take(self) -> Option<Taken<'a>> {
        self.lock.take()
    }
}
