//! Threads and what the system knows them by.

pub use crate::os::unix::key::Key;
pub use crate::os::unix::thread::{own, start};

/// The number that the system knows this thread by.
pub fn number() -> i32 {
    // glibc has a function for it from 2.30 on.
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// The name of a thread of this process; empty where the system has none.
pub fn name(number: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{number}/comm"));
    name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
}
