//! The process: its id, exit and forks.

use std::ffi::c_void;

/// The id of this process; not cached, because a forked child has another one.
pub fn id() -> u32 {
    std::process::id()
}

/// Calls `end` when the process exits normally. The library stays loaded until then.
pub fn at_exit(end: extern "C" fn()) {
    // SAFETY: the function may be called until the process has ended.
    unsafe { libc::atexit(end) };
}

/// Calls three functions at every fork from now on: before it, and after it in the parent and in the child.
/// If the system has no memory for that, they are not called.
pub fn at_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) {
    // SAFETY: the functions may be called until this library is unloaded, and the system forgets them then.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// Keeps the library with this address loaded. Does nothing: the linker marked those that must stay.
pub fn keep_loaded(_: *const c_void) {}

/// The result of a forked child; false if it hangs. In the child, `held` stays held. For tests; none if the
/// system does not fork.
#[doc(hidden)]
pub fn in_fork<T>(held: T, f: impl FnOnce() -> bool) -> Option<bool> {
    let mut status = -1;
    // SAFETY: the child runs on a copy of this thread's stack, and ends without going back to the tests.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(false);
            libc::_exit(i32::from(!is_well));
        }
        drop(held);
        assert!(child > 0, "the system has no room for a child");
        libc::waitpid(child, &raw mut status, 0);
    }
    Some(status == 0)
}
