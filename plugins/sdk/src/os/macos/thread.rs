//! Threads and their ids and names in the system.

pub use crate::os::unix::key::Key;
pub use crate::os::unix::thread::{own, start};

/// The system's id of this thread.
pub fn number() -> i32 {
    let mut number = 0;
    // SAFETY: 0 is this thread, and the call writes one number.
    unsafe { libc::pthread_threadid_np(0, &raw mut number) };
    number as i32
}

/// The name of a thread of this process: unknown for other threads.
pub fn name(_: i32) -> String {
    String::new()
}
