//! Writing to pipes without a reader.

use std::mem::MaybeUninit;
use std::ptr;

/// While it lives, writing to a pipe without a reader fails with an error on this thread instead of a signal.
pub struct Ignored {
    /// The signals that the thread had blocked, and whether SIGPIPE was pending.
    before: libc::sigset_t,
    was_pending: bool,
}

fn pipe_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the calls write the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

fn is_pending() -> bool {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call writes the set where it succeeds, and the second reads it.
    unsafe { libc::sigpending(set.as_mut_ptr()) == 0 && libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1 }
}

impl Ignored {
    /// Blocks SIGPIPE.
    pub fn begin() -> Self {
        let was_pending = is_pending();
        let mut before = pipe_signal();
        // SAFETY: the first set is read and the other written.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &pipe_signal(), &raw mut before) };
        Self { before, was_pending }
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        // SAFETY: the sets are readable. The signal that is taken is the write's own: none was there before.
        unsafe {
            if !self.was_pending && is_pending() {
                take_signal(&pipe_signal());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut());
        }
    }
}

/// Takes a pending signal of a set.
///
/// # Safety
/// One is pending, and this thread has it blocked.
#[cfg(target_os = "linux")]
unsafe fn take_signal(set: &libc::sigset_t) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are those of references, and null discards the signal's information.
    unsafe { libc::sigtimedwait(set, ptr::null_mut(), &now) };
}

/// Takes a pending signal of a set.
///
/// # Safety
/// One is pending, and this thread has it blocked.
#[cfg(not(target_os = "linux"))]
unsafe fn take_signal(set: &libc::sigset_t) {
    let mut signal = 0;
    // SAFETY: the set is readable, and the number is written.
    unsafe { libc::sigwait(set, &raw mut signal) };
}
