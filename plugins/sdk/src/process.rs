//! Which process this is, the one that loaded this library or a forked child, and which thread is forking.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::os::thread;

/// The word of a locked mutex: bit 0, and from bit 3 on the number of forks since the process that loaded
/// this library.
static WORD: AtomicU32 = AtomicU32::new(1);

/// The thread that is forking, while it holds the listed locks; else 0.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// The word of a lock that is held in this process.
#[inline]
pub fn word() -> u32 {
    WORD.load(Ordering::Relaxed)
}

/// Whether this process was forked from the one that loaded this library.
pub fn is_child() -> bool {
    word() != 1
}

/// Whether this thread holds the listed locks for a fork. The program's own fork handlers that run then may
/// use the library.
#[inline]
pub(crate) fn is_forking() -> bool {
    let forking = FORKING.load(Ordering::Relaxed);
    forking != 0 && forking == thread::own()
}

/// Marks this thread as holding the listed locks for a fork.
pub(crate) fn begin_fork() {
    FORKING.store(thread::own(), Ordering::Relaxed);
}

/// Marks the fork as over, in the parent or in the child.
pub(crate) fn end_fork(is_in_child: bool) {
    FORKING.store(0, Ordering::Relaxed);
    if is_in_child {
        WORD.fetch_add(8, Ordering::Relaxed);
    }
}
