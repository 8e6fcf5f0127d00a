//! The queues that workers take parts from.

use crate::threading::sync::{AtomicUsize, Ordering};

/// One worker's parts: the owner takes them from the front, others steal from the back. Each queue has its
/// own cache line, which stays with the owner until someone steals.
#[repr(align(64))]
pub(crate) struct PartQueue {
    all: AtomicUsize,
    from_front: AtomicUsize,
    from_back: AtomicUsize,
}

impl PartQueue {
    /// A queue of which no parts are taken.
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

    /// Whether a part remains: at most `len` are taken from both ends together, so none is taken twice.
    fn is_left(&self, len: usize) -> bool {
        self.all.load(Ordering::Relaxed) < len && self.all.fetch_add(1, Ordering::Relaxed) < len
    }
}
