//! Locks for any thread, even one that a plugin has started and waits for, and for forked children.
//!
//! While the loader opens or closes a library it holds its own lock, and the library's initializer or
//! destructor may wait for a thread. Such a thread must not need the loader: so a lock here is a plain word
//! in memory without thread-local state. Waiting for one is not a cancellation point either.
//!
//! The word records in which process the lock was taken ([`crate::process`]). By it a child recognizes a lock
//! held by a thread that exists only in its parent, and takes it over: the protected value may be half
//! changed, so it is replaced and the old one leaks.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::os::futex::{sleep_while, wake_all, wake_one};
use crate::process;

/// The word of an unlocked mutex. A locked one has [`process::word`], with [`AWAITED`] if a thread sleeps
/// until it is released, and [`HELD`] if it is held for a fork.
const OPEN: u32 = 0;
/// Set if a thread sleeps.
const AWAITED: u32 = 2;
/// Set if the forking thread holds it until the fork is over.
const HELD: u32 = 4;
/// The word of an initialized value.
const DONE: u32 = AWAITED;

/// How often a thread spins before it sleeps.
const LOOKS: u32 = 100;

/// Whether the word was written by a thread that exists only in a parent of this process.
fn is_of_parent(word: u32, own: u32) -> bool {
    (word ^ own) & !(AWAITED | HELD) != 0
}

/// A mutex without poisoning: a panic in one call must not disable an object for all others.
#[derive(Default)]
pub struct Mutex<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time uses the value.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(OPEN), value: UnsafeCell::new(value) }
    }

    /// The value; `&mut` proves that no other thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn take_if_open(&self) -> bool {
        self.word.compare_exchange(OPEN, process::word(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn give_back(&self) {
        if self.word.swap(OPEN, Ordering::Release) & AWAITED != 0 {
            wake_one(&self.word);
        }
    }

    fn guard(&self, is_nested: bool) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, is_nested, not_send: PhantomData }
    }
}

impl<T: Default> Mutex<T> {
    /// Acquires the lock, waiting if necessary.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if self.take_if_open() { self.guard(false) } else { self.wait() }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if self.take_if_open() { Some(self.guard(false)) } else { self.take_unusual() }
    }

    /// Acquires the lock, waiting at most this long.
    pub fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        self.wait_until(Some(Instant::now() + patience))
    }

    /// Takes a lock that no other running thread will release: it belongs to a thread of the parent, or this
    /// thread holds it for its fork.
    #[cold]
    fn take_unusual(&self) -> Option<MutexGuard<'_, T>> {
        let (word, own) = (self.word.load(Ordering::Relaxed), process::word());
        if word == OPEN {
            return None;
        }
        if word & HELD != 0 && process::is_forking() {
            return Some(self.guard(true));
        }
        let exchange = |word| self.word.compare_exchange(word, own, Ordering::Acquire, Ordering::Relaxed);
        if !is_of_parent(word, own) || exchange(word).is_err() {
            return None;
        }
        // SAFETY: this thread has the lock. The old value may be half changed, so it is not dropped.
        unsafe { self.value.get().write(T::default()) };
        Some(self.guard(false))
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.wait_until(None) {
                return guard;
            }
        }
    }

    fn wait_until(&self, end: Option<Instant>) -> Option<MutexGuard<'_, T>> {
        let mut looks = 0;
        loop {
            if let Some(guard) = self.try_lock() {
                if looks > LOOKS {
                    // Other threads may be sleeping, too.
                    self.word.fetch_or(AWAITED, Ordering::Relaxed);
                }
                return Some(guard);
            }
            let patience = end.map(|end| end.saturating_duration_since(Instant::now()));
            let word = self.word.load(Ordering::Relaxed);
            if patience.is_some_and(|patience| patience.is_zero()) {
                // This thread may have been woken in place of another one that still sleeps: whoever has the
                // lock wakes that one.
                if looks <= LOOKS || self.leave_to_owner(word) {
                    return None;
                }
                continue;
            }
            if looks < LOOKS && word & AWAITED == 0 {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            looks = LOOKS + 1;
            if self.leave_to_owner(word) {
                sleep_while(&self.word, word | AWAITED, patience);
            }
        }
    }

    /// Makes the lock's owner wake a thread; false if the word has changed or the lock is free.
    fn leave_to_owner(&self, word: u32) -> bool {
        let awaited = word | AWAITED;
        let says = || self.word.compare_exchange(word, awaited, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        word != OPEN && (word == awaited || says())
    }
}

/// A lock that can be held during a fork.
pub trait Held: Sync {
    /// Acquires it.
    fn hold(&self);
    /// Releases it. Only the thread that holds it calls this.
    fn release(&self);
}

impl<T: Held, const N: usize> Held for [T; N] {
    fn hold(&self) {
        self.iter().for_each(Held::hold);
    }

    fn release(&self) {
        self.iter().for_each(Held::release);
    }
}

impl<T: Default + Send> Held for Mutex<T> {
    fn hold(&self) {
        self.lock().hold();
    }

    fn release(&self) {
        self.give_back();
    }
}

/// Access to the value; the lock is released on drop.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Whether this thread already held the lock for its fork.
    is_nested: bool,
    not_send: PhantomData<*const ()>,
}

impl<T> MutexGuard<'_, T> {
    /// Holds the lock for a fork, until [`Held::release`].
    pub(crate) fn hold(self) {
        self.mutex.word.fetch_or(HELD, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

// SAFETY: it only hands out references to the value.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and the guard is borrowed for as long.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_nested {
            self.mutex.give_back();
        }
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    /// How often threads were woken.
    times: AtomicU32,
    /// How many threads wait, so that the kernel is asked for nothing if none does. A thread counts itself while it has the lock, so
    /// who takes the lock afterwards sees it. In a forked child, more than there are.
    waiting: AtomicU32,
}

impl Condvar {
    /// No thread waits yet.
    pub const fn new() -> Self {
        Self { times: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    fn wait_for<'a, T: Default>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        let (mutex, times) = (guard.mutex, self.times.load(Ordering::Relaxed));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(guard);
        sleep_while(&self.times, times, patience);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        mutex.lock()
    }

    /// Releases the lock until notified; may wake spuriously.
    pub fn wait<'a, T: Default>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_for(guard, None)
    }

    /// Waits while `condition` holds, at most this long. The second result is whether it still holds.
    pub fn wait_while_for<'a, T: Default>(
        &self,
        mut guard: MutexGuard<'a, T>,
        patience: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        let end = Instant::now() + patience;
        while condition(&mut guard) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (guard, true);
            }
            guard = self.wait_for(guard, Some(left));
        }
        (guard, false)
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        if self.is_waited_for() {
            wake_one(&self.times);
        }
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        if self.is_waited_for() {
            wake_all(&self.times);
        }
    }

    fn is_waited_for(&self) -> bool {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) != 0
    }
}

/// A value that is initialized once. A child initializes it anew if a thread of its parent was doing so.
pub struct OnceLock<T> {
    word: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
    owns: PhantomData<T>,
}

// SAFETY: the thread that makes the value may be another than the one that drops it.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: the value is written by one thread before others see it, and only shared from then on.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        let copy = Self::new();
        if let Some(value) = self.get() {
            let _ = copy.set(value.clone());
        }
        copy
    }
}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        let value = UnsafeCell::new(MaybeUninit::uninit());
        Self { word: AtomicU32::new(OPEN), value, owns: PhantomData }
    }

    /// The value, if initialized.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if self.word.load(Ordering::Acquire) != DONE {
            return None;
        }
        // SAFETY: the value was written before the word, and is never written again.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Sets the value.
    ///
    /// # Errors
    /// The value given, if the cell already had one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_make(&mut || value.take());
        value.map_or(Ok(()), Err)
    }

    /// The value; `make` creates it the first time. Other threads wait meanwhile; a panic leaves the cell
    /// empty.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(make),
        }
    }

    #[cold]
    fn init(&self, make: impl FnOnce() -> T) -> &T {
        let mut make = Some(make);
        loop {
            if let Some(value) = self.get_or_make(&mut || make.take().map(|make| make())) {
                return value;
            }
        }
    }

    /// The value, created by `make` unless another thread is faster.
    fn get_or_make(&self, make: &mut dyn FnMut() -> Option<T>) -> Option<&T> {
        loop {
            let (word, own) = (self.word.load(Ordering::Acquire), process::word());
            let exchange = |new| self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed);
            if word == DONE {
                return self.get();
            } else if word == OPEN || is_of_parent(word, own) {
                if exchange(own).is_ok() {
                    let mut making = Making { word: &self.word, end: OPEN };
                    let value = make()?;
                    // SAFETY: only the thread that has written its word here writes the value, once.
                    unsafe { (*self.value.get()).write(value) };
                    making.end = DONE;
                }
            } else if word & AWAITED != 0 || exchange(word | AWAITED).is_ok() {
                sleep_while(&self.word, word | AWAITED, None);
            }
        }
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        if *self.word.get_mut() == DONE {
            // SAFETY: the value was written and is dropped once.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

/// Marks a value as initialized, or after a panic as not.
struct Making<'a> {
    word: &'a AtomicU32,
    end: u32,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if self.word.swap(self.end, Ordering::Release) & AWAITED != 0 {
            wake_all(self.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_out_waiter_leaves_wakeups_to_the_owner() {
        let mutex = Mutex::new(());
        let own = process::word();
        std::mem::forget(mutex.lock());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| mutex.try_lock_for(Duration::from_millis(300)).is_none());
            while mutex.word.load(Ordering::Relaxed) != own | AWAITED {
                std::thread::yield_now();
            }
            // As if the lock was released to wake this thread among all that sleep, and another one took it
            // first.
            mutex.word.store(own, Ordering::Relaxed);
            assert!(waits.join().unwrap());
        });
        assert_eq!(mutex.word.load(Ordering::Relaxed), own | AWAITED);
        mutex.give_back();
        assert!(mutex.try_lock().is_some());
    }
}
