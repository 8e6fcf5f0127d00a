//! Chooses the processors that the pool's threads run on.
//!
//! A woken thread often starts on the processor of the thread that woke it, and stays there for milliseconds:
//! if there are few processors and they have been busy, the kernel (6.18) does not look for an idle one.
//! Since the caller keeps working, both would take turns. So woken threads are kept off the caller's
//! processor, within their allowed ones.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::os::process;
use hipdnn_plugin_sdk::os::processors::{self, Set};
use hipdnn_plugin_sdk::thread;

/// The most processors for which this is done: with more, one is always idle, and a caller that migrates
/// would have many threads to move.
const MOST: usize = 8;

/// The processors of a pool's threads.
#[derive(Default)]
pub(crate) struct Processors {
    /// The kernel's ids of the threads, and their number.
    threads: [AtomicI32; MOST],
    count: AtomicUsize,
    home: OnceLock<Allowed>,
    /// One more than the processor that the threads avoid; 0 if there is none.
    left: AtomicI32,
}

/// The processors that the threads may use.
struct Allowed {
    /// Their process: a forked child has no pool threads.
    process: u32,
    /// The processors.
    allowed: Set,
}

impl Allowed {
    /// The processors allowed to the calling thread.
    fn here() -> Option<Self> {
        Set::of_thread().map(|allowed| Self { process: process::id(), allowed })
    }
}

impl Processors {
    /// Registers the calling thread, which belongs to the pool.
    pub(crate) fn join(&self) {
        let Some(home) = Allowed::here() else { return };
        self.home.get_or_init(|| home);
        let slot = self.count.fetch_add(1, Ordering::AcqRel);
        if let Some(thread) = self.threads.get(slot) {
            thread.store(thread::number(), Ordering::Release);
        }
        // The next caller also moves this one.
        self.left.store(0, Ordering::Release);
    }

    /// Keeps the threads off the processor that the calling thread runs on, if each of them has another one.
    /// Calls the kernel only if the processor has changed.
    pub(crate) fn leave_to_caller(&self) {
        let Some(here) = processors::current() else { return };
        // Stored as the number plus one, since 0 means no processor.
        let Some(left) = i32::try_from(here).ok().and_then(|here| here.checked_add(1)) else { return };
        if self.left.load(Ordering::Acquire) == left {
            return;
        }
        let Some(home) = self.home.get().filter(|home| home.process == process::id()) else { return };
        self.left.store(left, Ordering::Release);
        let count = self.count.load(Ordering::Acquire);
        let processors = home.allowed.count();
        if !home.allowed.has(here) || processors > MOST || count >= processors {
            return;
        }
        let others = home.allowed.without(here);
        for thread in self.threads.iter().take(count) {
            let thread = thread.load(Ordering::Acquire);
            if thread > 0 {
                others.give_to(thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn threads_avoid_the_callers_processor() {
        let processors = Processors::default();
        let (joined, moved) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                processors.join();
                joined.wait();
                moved.wait();
                Allowed::here().unwrap().allowed
            });
            joined.wait();
            // The caller may migrate at any time, so use the processor that was recorded.
            processors.leave_to_caller();
            let left = processors.left.load(Ordering::Acquire);
            moved.wait();
            let own = thread.join().unwrap();
            let all = processors.home.get().unwrap().allowed;
            // Without system support, no processor is recorded.
            let Some(processor) = usize::try_from(left - 1).ok() else { return };
            let processors = all.count();
            if (2..=MOST).contains(&processors) {
                assert!(!own.has(processor));
                assert_eq!(own.count(), processors - 1);
            } else {
                assert_eq!(own.count(), processors);
            }
        });
    }

    #[test]
    fn more_threads_than_processors_are_left_alone() {
        let processors = Processors::default();
        processors.join();
        let before = Allowed::here().unwrap().allowed;
        processors.count.store(MOST + 1, Ordering::Release);
        processors.leave_to_caller();
        let after = Allowed::here().unwrap().allowed;
        assert!(before == after);
    }
}
