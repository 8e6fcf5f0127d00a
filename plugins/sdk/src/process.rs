//! Which process this is: the one that loaded this library, or a child that was forked off; and which thread forks.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::os::thread;

/// What a taken lock has for a word: 1, and from bit 3 on how many forks lie between this process and the one that loaded this library.
static WORD: AtomicU32 = AtomicU32::new(1);

/// The thread that forks, while it holds the locks of the list; else 0.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// The word of a lock that is taken in this process.
#[inline]
pub fn word() -> u32 {
    WORD.load(Ordering::Relaxed)
}

/// Whether this process was forked off the one that loaded this library.
pub fn is_child() -> bool {
    word() != 1
}

/// Whether this thread holds the locks of the list for a fork. What runs beside it then, handlers of the program, may use the library.
#[inline]
pub(crate) fn is_forking() -> bool {
    let forking = FORKING.load(Ordering::Relaxed);
    forking != 0 && forking == thread::own()
}

/// Says that this thread holds the locks of the list for a fork.
pub(crate) fn begin_fork() {
    FORKING.store(thread::own(), Ordering::Relaxed);
}

/// Says that the fork is over, and where it has led to.
pub(crate) fn end_fork(is_in_child: bool) {
    FORKING.store(0, Ordering::Relaxed);
    if is_in_child {
        WORD.fetch_add(8, Ordering::Relaxed);
    }
}
