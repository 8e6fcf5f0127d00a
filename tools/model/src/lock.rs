//! The library's mutex, implemented with loom's.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

pub use std::sync::OnceLock;

use crate::sync::Each;

/// A mutex without poisoning, which starts each execution with its initial value.
pub struct Mutex<T: 'static> {
    initial: UnsafeCell<ManuallyDrop<T>>,
    each: Each<loom::sync::Mutex<ManuallyDrop<T>>>,
}

// SAFETY: the value is accessed only through the lock.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: the value is accessed only through the lock.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Default for Mutex<T>
where
    T: Default,
{
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    /// An open lock. The value owns no heap memory, like that of every static.
    pub const fn new(value: T) -> Self {
        Self { initial: UnsafeCell::new(ManuallyDrop::new(value)), each: Each::new() }
    }

    fn mutex(&self) -> &loom::sync::Mutex<ManuallyDrop<T>> {
        // SAFETY: only bits that own nothing are copied, and the original is never used otherwise.
        self.each.get(|| loom::sync::Mutex::new(unsafe { std::ptr::read(self.initial.get()) }))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.mutex().lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.mutex().try_lock().ok().map(MutexGuard)
    }
}

/// The right to the value.
pub struct MutexGuard<'a, T: 'static>(loom::sync::MutexGuard<'a, ManuallyDrop<T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
