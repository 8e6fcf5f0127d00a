//! Futexes: words that threads sleep on until another one wakes them.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::api;

/// Sleeps while the word has this value, at most this long; may wake spuriously.
pub fn sleep_while(word: &AtomicU32, value: u32, patience: Option<Duration>) {
    // Rounded up: otherwise a short wait would spin.
    let rounded = |patience: Duration| u32::try_from(patience.as_nanos().div_ceil(1_000_000));
    let time = patience.map_or(api::INFINITE, |patience| rounded(patience).unwrap_or(api::INFINITE - 1));
    // SAFETY: the word and the value are valid during the call, and have four bytes each.
    unsafe {
        api::WaitOnAddress(
            word.as_ptr().cast_const().cast(),
            ptr::from_ref(&value).cast(),
            size_of::<u32>(),
            time,
        )
    };
}

/// Wakes one thread that sleeps on a word.
pub fn wake_one(word: &AtomicU32) {
    // SAFETY: the system uses the address to find threads and reads nothing.
    unsafe { api::WakeByAddressSingle(word.as_ptr().cast_const().cast()) };
}

/// Wakes all threads that sleep on a word.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the system uses the address to find threads and reads nothing.
    unsafe { api::WakeByAddressAll(word.as_ptr().cast_const().cast()) };
}
