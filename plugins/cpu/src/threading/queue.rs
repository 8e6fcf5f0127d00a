//! The queues from which workers take their parts.

use crate::threading::sync::{AtomicUsize, Ordering};

/// The parts of one worker, taken from the front by their owner and stolen from the back by others. Has a cache
/// line of its own, which stays with the owner as long as nobody steals.
#[repr(align(64))]
pub(crate) struct PartQueue {
    all: AtomicUsize,
    from_front: AtomicUsize,
    from_back: AtomicUsize,
}

impl PartQueue {
    /// A queue of which nothing is taken.
    pub(crate) const fn new() -> Self {
        Self { all: AtomicUsize::new(0), from_front: AtomicUsize::new(0), from_back: AtomicUsize::new(0) }
    }

    /// Takes the first remaining part of `len`.
    pub(crate) fn first(&self, len: usize) -> Option<usize> {
        self.is_left(len).then(|| self.from_front.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes the last remaining part of `len`.
    pub(crate) fn last(&self, len: usize) -> Option<usize> {
        self.is_left(len).then(|| len - 1 - self.from_back.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the caller may take one: no more than `len` are taken from both ends together, so no part is
    /// taken twice.
    fn is_left(&self, len: usize) -> bool {
        self.all.load(Ordering::Relaxed) < len && self.all.fetch_add(1, Ordering::Relaxed) < len
    }
}
