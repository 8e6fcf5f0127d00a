//! Threads and what the system knows them by.

pub use crate::os::unix::key::Key;
pub use crate::os::unix::thread::{own, start};

/// The number that the system knows this thread by.
pub fn number() -> i32 {
    let mut number = 0;
    // SAFETY: 0 is this thread, and the call writes one number.
    unsafe { libc::pthread_threadid_np(0, &raw mut number) };
    number as i32
}

/// The name of a thread of this process: not told of others.
pub fn name(_: i32) -> String {
    String::new()
}
