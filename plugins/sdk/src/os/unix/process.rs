//! The process: its number, its end and its forks.

use std::ffi::c_void;

/// The number of this process, asked anew: a forked child has another one.
pub fn id() -> u32 {
    std::process::id()
}

/// Has `end` called when the process ends in the ordinary way. The library stays in memory until then.
pub fn at_exit(end: extern "C" fn()) {
    // SAFETY: the function may be called until the process has ended.
    unsafe { libc::atexit(end) };
}

/// Has three functions called at every fork from now on: before it, and after it in the parent and in the child. Where the system has no
/// memory for that, forks go on as before.
pub fn at_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) {
    // SAFETY: the functions may be called until this library is unloaded, and the system forgets them then.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// Keeps the library with this address in memory. The linker has marked those that have to stay.
pub fn keep_loaded(_: *const c_void) {}

/// What a forked child answers; false also where it hangs. What is held stays so in the child alone. For tests; none where the system
/// does not fork.
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
