//! The thread pool: one per process, lent to one caller at a time.
//!
//! Dispatching work allocates nothing, unlike pools that box their tasks. A caller that finds the threads
//! lent to another works alone, so concurrent callers never oversubscribe the processors. If threads wake
//! slowly, the caller does their part.

use crate::threading::affinity::Processors;
use crate::threading::sync::{self, AtomicBool, AtomicUsize, MOST_WORKERS, Mutex, Ordering};
use crate::threading::team::{CacheLine, Team};

/// Threads that wait for work.
pub(crate) struct Pool {
    /// How many threads were requested. Only grows.
    threads: AtomicUsize,
    /// Held while threads are started.
    starting: Mutex<()>,
    /// Whether a caller has the threads.
    lent: CacheLine<AtomicBool>,
    team: Team,
    processors: Processors,
}

/// Gives the threads back on drop, also after a panic.
struct Borrowed<'a>(&'a AtomicBool);

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Pool {
    /// Starts this many threads, or as many as the system allows.
    pub(crate) fn start(threads: usize) -> &'static Self {
        let pool: &'static Self = Box::leak(Box::new(Self {
            threads: AtomicUsize::new(0),
            starting: Mutex::new(()),
            lent: CacheLine(AtomicBool::new(false)),
            team: Team::new(MOST_WORKERS),
            processors: Processors::default(),
        }));
        pool.grow(threads);
        pool
    }

    /// Starts threads until there are this many, at most one for each worker of a team.
    pub(crate) fn grow(&'static self, threads: usize) {
        let threads = threads.min(MOST_WORKERS - 1);
        if self.threads.load(Ordering::Relaxed) >= threads {
            return;
        }
        let _starting = self.starting.lock();
        let there = self.threads.load(Ordering::Relaxed);
        // Read here, so that a thread misses no work that is offered before it runs.
        let offers = self.team.offers();
        for index in there..threads {
            if !sync::start(index, move || self.serve(index, offers)) {
                // Callers do the work of missing threads.
                break;
            }
        }
        self.threads.store(threads.max(there), Ordering::Relaxed);
    }

    /// Calls `work` once with each index below `workers`, 0 on this thread, and returns when all calls have
    /// returned. Wakes sleeping threads until `wakes` are awake. Resumes panics of the calls.
    pub(crate) fn run(&self, workers: usize, wakes: usize, work: &(dyn Fn(usize) + Sync)) {
        let all_sleep = || self.team.asleep() >= self.threads.load(Ordering::Relaxed);
        let borrow = || self.lent.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if workers < 2 || (wakes == 0 && all_sleep()) || borrow().is_err() {
            (0..workers).for_each(work);
            return;
        }
        let _borrowed = Borrowed(&self.lent.0);
        if wakes > 0 && self.team.asleep() > 0 {
            self.processors.leave_to_caller();
        }
        self.team.run(self.threads.load(Ordering::Relaxed), workers, wakes, work);
    }

    /// The loop of a thread of the pool, which was started after so many offers.
    fn serve(&self, index: usize, offers: u64) {
        self.processors.join();
        // A thread often starts on the processor of the one that makes the plan, which polling would keep waiting.
        self.team.rest(offers);
        self.team.serve(index + 1, sync::goes_on);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    fn counts(workers: usize) -> Vec<AtomicUsize> {
        (0..workers).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn every_worker_runs_once_whatever_the_number_of_threads() {
        for threads in [1, 2, 5] {
            let pool = Pool::start(threads);
            for round in 0..2000 {
                let workers = 1 + round % 7;
                let counts = counts(workers);
                pool.run(workers, round % 3, &|worker| {
                    counts[worker].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{workers} workers");
            }
        }
    }

    #[test]
    fn a_pool_grows_and_never_shrinks() {
        let pool = Pool::start(1);
        for threads in [3, 2, 3] {
            pool.grow(threads);
            assert_eq!(pool.threads.load(Ordering::Relaxed), 3);
        }
        let barrier = std::sync::Barrier::new(4);
        pool.run(4, usize::MAX, &|_| {
            barrier.wait();
        });
    }

    #[test]
    fn new_threads_sleep_until_there_is_work() {
        let pool = Pool::start(1);
        // How often each thread had polled when it computed a worker for the first time.
        let polls = |workers: usize| -> Vec<usize> {
            let barrier = std::sync::Barrier::new(workers);
            let polls = counts(workers);
            pool.run(workers, usize::MAX, &|worker| {
                polls[worker].store(sync::LOOKS.get(), Ordering::Relaxed);
                barrier.wait();
            });
            polls.into_iter().skip(1).map(AtomicUsize::into_inner).collect()
        };
        assert_eq!(polls(2), [1]);
        for (threads, new) in [(3, 2), (4, 1)] {
            pool.grow(threads);
            while pool.team.asleep() < threads {
                thread::yield_now();
            }
            let polls = polls(threads + 1);
            assert_eq!(polls.iter().filter(|&&polls| polls == 1).count(), new, "{polls:?}");
        }
    }

    #[test]
    fn worker_0_is_the_callers() {
        let pool = Pool::start(2);
        let caller = thread::current().id();
        for _ in 0..100 {
            pool.run(3, usize::MAX, &|worker| assert!(worker != 0 || thread::current().id() == caller));
        }
    }

    #[test]
    fn concurrent_callers_all_finish() {
        let pool = Pool::start(2);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let counts = counts(3);
                        pool.run(3, usize::MAX, &|worker| {
                            counts[worker].fetch_add(1, Ordering::Relaxed);
                        });
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn nested_work_stays_on_the_calling_thread() {
        let pool = Pool::start(1);
        let count = AtomicUsize::new(0);
        pool.run(2, usize::MAX, &|_| {
            pool.run(3, usize::MAX, &|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn short_work_does_not_wake_sleeping_threads() {
        let pool = Pool::start(2);
        while pool.team.asleep() < 2 {
            thread::yield_now();
        }
        let caller = thread::current().id();
        pool.run(3, 0, &|_| assert_eq!(thread::current().id(), caller));
        let barrier = std::sync::Barrier::new(3);
        pool.run(3, usize::MAX, &|_| {
            barrier.wait();
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::start(2);
        for bad in 0..3 {
            let result =
                catch_unwind(AssertUnwindSafe(|| pool.run(3, usize::MAX, &|worker| assert_ne!(worker, bad))));
            assert!(result.is_err(), "worker {bad}");
        }
        let count = AtomicUsize::new(0);
        pool.run(3, usize::MAX, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
