//! Threads and their ids and names in the system.

pub use crate::os::unix::key::Key;
pub use crate::os::unix::thread::{own, start};

/// The system's id of this thread.
pub fn number() -> i32 {
    // glibc has a function for this only since 2.30.
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// The name of a thread of this process; empty if it has none.
pub fn name(number: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{number}/comm"));
    name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
}
