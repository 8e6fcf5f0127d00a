//! On which processors the pool's threads run.
//!
//! A thread that is woken often starts on the processor of the thread that woke it, and stays there for
//! milliseconds: on few processors that have been busy, the kernel (6.18) does not look for an idle one. The caller
//! goes on working, so both would take turns. So threads that are woken are kept off the caller's processor, within
//! the processors they may use.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;

/// The most processors for which this is done: with more there is always an idle one, and a caller that migrates
/// would have many threads to move.
const MOST: usize = 8;

/// The processors of a pool's threads.
#[derive(Default)]
pub(crate) struct Processors {
    /// The kernel's ids of the threads, and how many there are.
    threads: [AtomicI32; MOST],
    count: AtomicUsize,
    home: OnceLock<Allowed>,
    /// One more than the processor that the threads are kept off; 0 if there is none.
    left: AtomicI32,
}

/// What the threads may use.
struct Allowed {
    /// Their process: a forked child has none of them.
    process: libc::pid_t,
    /// The processors.
    allowed: libc::cpu_set_t,
}

impl Allowed {
    /// Those of the calling thread.
    fn here() -> Option<Self> {
        // SAFETY: a set is a number for each processor, of which 0 is valid, and the call writes at most its size.
        let (status, allowed) = unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed), allowed)
        };
        (status == 0).then(|| Self { process: own_process(), allowed })
    }
}

fn own_process() -> libc::pid_t {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::getpid() }
}

impl Processors {
    /// Registers the calling thread, which belongs to the pool.
    pub(crate) fn join(&self) {
        let Some(home) = Allowed::here() else { return };
        self.home.get_or_init(|| home);
        // SAFETY: the call has no arguments and cannot fail.
        let own = unsafe { libc::syscall(libc::SYS_gettid) };
        let slot = self.count.fetch_add(1, Ordering::AcqRel);
        if let (Some(thread), Ok(own)) = (self.threads.get(slot), i32::try_from(own)) {
            thread.store(own, Ordering::Release);
        }
        // The next caller moves this one, too.
        self.left.store(0, Ordering::Release);
    }

    /// Keeps the threads off the processor that the calling thread runs on, if each of them has another one.
    /// Calls the kernel only if the processor has changed.
    pub(crate) fn leave_to_caller(&self) {
        // SAFETY: the call has no arguments.
        let here = unsafe { libc::sched_getcpu() };
        let Ok(processor) = usize::try_from(here) else { return };
        if self.left.load(Ordering::Acquire) == here + 1 {
            return;
        }
        let Some(home) = self.home.get().filter(|home| home.process == own_process()) else { return };
        self.left.store(here + 1, Ordering::Release);
        let count = self.count.load(Ordering::Acquire);
        let mut others = home.allowed;
        // SAFETY: the functions take any set, and numbers below its size.
        let (is_allowed, processors) = unsafe {
            let is_allowed =
                processor < 8 * size_of::<libc::cpu_set_t>() && libc::CPU_ISSET(processor, &others);
            (is_allowed, usize::try_from(libc::CPU_COUNT(&others)).unwrap_or(0))
        };
        if !is_allowed || processors > MOST || count >= processors {
            return;
        }
        // SAFETY: the functions take any set, and numbers below its size.
        unsafe { libc::CPU_CLR(processor, &mut others) };
        for thread in self.threads.iter().take(count) {
            let thread = thread.load(Ordering::Acquire);
            if thread > 0 {
                // SAFETY: the set is as large as is said. Where the kernel refuses, the thread stays where it is.
                unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &others) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_thread_is_kept_off_the_callers_processor_where_there_is_another() {
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
            // The caller may migrate at any time, so the processor at that moment counts.
            processors.leave_to_caller();
            let left = processors.left.load(Ordering::Acquire);
            moved.wait();
            let own = thread.join().unwrap();
            let all = processors.home.get().unwrap().allowed;
            let processor = usize::try_from(left - 1).unwrap();
            // SAFETY: the functions take any set.
            unsafe {
                let processors = libc::CPU_COUNT(&all);
                if (2..=MOST as i32).contains(&processors) {
                    assert!(!libc::CPU_ISSET(processor, &own));
                    assert_eq!(libc::CPU_COUNT(&own), processors - 1);
                } else {
                    assert_eq!(libc::CPU_COUNT(&own), processors);
                }
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
        // SAFETY: the function takes any sets.
        assert!(unsafe { libc::CPU_EQUAL(&before, &after) });
    }
}
