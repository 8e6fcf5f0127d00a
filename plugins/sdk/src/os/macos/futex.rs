//! Futexes: words that threads sleep on until another one wakes them.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

// The functions below the system's own locks, which the C++ standard library uses, too.
const COMPARE_AND_WAIT: u32 = 1;
const WAKE_ALL: u32 = 0x100;
const NO_ERROR: u32 = 0x0100_0000;

unsafe extern "C" {
    fn __ulock_wait(operation: u32, word: *mut c_void, value: u64, microseconds: u32) -> c_int;
    fn __ulock_wake(operation: u32, word: *mut c_void, value: u64) -> c_int;
}

/// Sleeps while the word has this value, at most this long; may wake spuriously.
pub fn sleep_while(word: &AtomicU32, value: u32, patience: Option<Duration>) {
    // 0 would mean for ever.
    let rounded = |patience: Duration| u32::try_from(patience.as_micros()).unwrap_or(u32::MAX).max(1);
    let time = patience.map_or(0, rounded);
    // SAFETY: the word is valid during the call.
    unsafe { __ulock_wait(COMPARE_AND_WAIT | NO_ERROR, word.as_ptr().cast(), value.into(), time) };
}

fn wake(word: &AtomicU32, which: u32) {
    // SAFETY: the system uses the address to find threads and reads nothing.
    unsafe { __ulock_wake(COMPARE_AND_WAIT | NO_ERROR | which, word.as_ptr().cast(), 0) };
}

/// Wakes one thread that sleeps on a word.
pub fn wake_one(word: &AtomicU32) {
    wake(word, 0);
}

/// Wakes all threads that sleep on a word.
pub fn wake_all(word: &AtomicU32) {
    wake(word, WAKE_ALL);
}
