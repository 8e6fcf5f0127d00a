//! Threads that last as long as the process.

use std::ffi::{CStr, CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Starts a thread with a name of at most 15 bytes, and returns whether that was possible. A panic ends it.
///
/// Unlike the standard library, neither side needs the system's loader, which holds its lock while a
/// library's initializer or destructor runs: such a function may wait for this thread, or for the one that
/// starts it.
pub fn start(name: &CStr, work: impl FnOnce() + Send + 'static) -> bool {
    struct Work {
        name: CString,
        work: Box<dyn FnOnce() + Send>,
    }
    extern "C" fn run(work: *mut c_void) -> *mut c_void {
        // SAFETY: it was made of a box below, for this thread alone.
        let Work { name, work } = *unsafe { Box::from_raw(work.cast::<Work>()) };
        set_name(&name);
        // A failure cannot be reported from here.
        let _ = catch_unwind(AssertUnwindSafe(work));
        ptr::null_mut()
    }
    let work = Box::into_raw(Box::new(Work { name: name.to_owned(), work: Box::new(work) }));
    let mut thread = 0;
    // SAFETY: the function takes what it is given; without attributes the defaults are used.
    let status = unsafe { libc::pthread_create(&raw mut thread, ptr::null(), run, work.cast()) };
    if status != 0 {
        // SAFETY: no thread could have taken it.
        drop(unsafe { Box::from_raw(work) });
        return false;
    }
    // SAFETY: the thread may have ended, but is known by its number until it is detached here.
    unsafe { libc::pthread_detach(thread) };
    true
}

/// Names this thread. Its own name takes one system call, that of another thread the opening and writing of a file.
#[cfg(target_os = "linux")]
fn set_name(name: &CStr) {
    // SAFETY: the name ends with a NUL, and the system copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Names this thread: macOS lets no thread name another.
#[cfg(target_os = "macos")]
fn set_name(name: &CStr) {
    // SAFETY: the name ends with a NUL, and the system copies it.
    unsafe { libc::pthread_setname_np(name.as_ptr()) };
}

/// An id of this thread, which stays the same in a forked child.
#[inline]
pub fn own() -> usize {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done_and_a_panic_is_contained() {
        let (to, from) = std::sync::mpsc::channel();
        assert!(start(c"panics", || panic!("meant for the test")));
        assert!(start(c"works", move || to.send(7).unwrap()));
        assert_eq!(from.recv(), Ok(7));
    }

    #[test]
    fn the_work_runs_under_the_threads_name() {
        let (to, from) = std::sync::mpsc::channel();
        let name = || {
            let mut name = [0_u8; 16];
            // SAFETY: the call writes at most as many bytes as it is told, the last of them a NUL.
            let status = unsafe {
                libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len())
            };
            (status, CStr::from_bytes_until_nul(&name).map(CStr::to_owned))
        };
        assert!(start(c"fifteen-letters", move || to.send(name()).unwrap()));
        assert_eq!(from.recv(), Ok((0, Ok(c"fifteen-letters".to_owned()))));
    }
}
