//! The thread pool: one per process, lent to one caller at a time.
//!
//! Dispatching work allocates nothing, unlike pools that box their tasks. A caller that finds the threads
//! lent to another works alone, so concurrent callers never oversubscribe the processors. If threads wake
//! slowly, the caller does their part.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::threading::affinity::Processors;
use crate::threading::sync::{
    self, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, look,
};

/// Threads that wait for work.
pub(crate) struct Pool {
    /// How many threads were requested. Only grows.
    threads: AtomicUsize,
    /// Held while threads are started.
    starting: Mutex<()>,
    /// Whether a caller has the threads.
    lent: CacheLine<AtomicBool>,
    work: CacheLine<Exchange>,
    /// Sleeping threads, and whether the caller sleeps. Whoever goes to sleep changes them holding `sleep`.
    asleep: AtomicUsize,
    is_awaited: AtomicBool,
    sleep: Mutex<()>,
    wake: Condvar,
    ended: Condvar,
    processors: Processors,
}

/// Aligns to cache lines, so that polling does not disturb neighbouring data.
#[repr(align(64))]
struct CacheLine<T>(T);

/// What a caller and its threads share: one cache line.
struct Exchange {
    /// The workers not yet taken: see [`Offer`].
    offer: AtomicU64,
    /// The work, written before it is offered and read by threads that took a worker.
    job: UnsafeCell<Option<Job>>,
    /// Workers that the pool's threads have finished, and whether one of them panicked.
    done: AtomicUsize,
    panicked: AtomicBool,
}

// SAFETY: the caller that has the threads writes the job while no worker is taken; threads read it only after
// taking one.
unsafe impl Sync for Exchange {}

/// The work of all workers. The caller waits for all of them, so it outlives their use.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointee is `Sync`.
unsafe impl Send for Job {}

/// Workers on offer, in one word: the count of offers, the first worker not yet taken, and their number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Offer(u64);

impl Offer {
    /// The most workers in an offer.
    const MOST: usize = u16::MAX as usize;

    fn new(number: u32, next: usize, workers: usize) -> Self {
        Self(u64::from(number) << 32 | (next as u64) << 16 | workers as u64)
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn next(self) -> usize {
        (self.0 >> 16) as usize & Self::MOST
    }

    fn workers(self) -> usize {
        self.0 as usize & Self::MOST
    }

    fn is_open(self) -> bool {
        self.next() < self.workers()
    }
}

impl Pool {
    /// Starts this many threads, or as many as the system allows.
    pub(crate) fn start(threads: usize) -> &'static Self {
        let pool: &'static Self = Box::leak(Box::new(Self {
            threads: AtomicUsize::new(0),
            starting: Mutex::new(()),
            lent: CacheLine(AtomicBool::new(false)),
            work: CacheLine(Exchange {
                offer: AtomicU64::new(0),
                job: UnsafeCell::new(None),
                done: AtomicUsize::new(0),
                panicked: AtomicBool::new(false),
            }),
            asleep: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            ended: Condvar::new(),
            processors: Processors::default(),
        }));
        pool.grow(threads);
        pool
    }

    /// Starts threads until there are this many.
    pub(crate) fn grow(&'static self, threads: usize) {
        if self.threads.load(Ordering::Relaxed) >= threads {
            return;
        }
        let _starting = self.starting.lock();
        let there = self.threads.load(Ordering::Relaxed);
        for index in there..threads {
            if !sync::start(index, move || self.serve()) {
                // Callers do the work of missing threads.
                break;
            }
        }
        self.threads.store(threads.max(there), Ordering::Relaxed);
    }

    fn offer(&self) -> Offer {
        // Sequentially consistent with `asleep`: caller and thread each write one and then read the other.
        Offer(self.work.0.offer.load(Ordering::SeqCst))
    }

    fn sleepers(&self) -> MutexGuard<'_, ()> {
        self.sleep.lock()
    }

    /// Calls `work` once with each index below `workers`, 0 on this thread, and returns when all calls have
    /// returned. Wakes sleeping threads only if `wakes`. Resumes panics of the calls.
    pub(crate) fn run(&self, workers: usize, wakes: bool, work: &(dyn Fn(usize) + Sync)) {
        let all_sleep = || self.asleep.load(Ordering::Relaxed) >= self.threads.load(Ordering::Relaxed);
        let borrow = || self.lent.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if workers < 2 || (!wakes && all_sleep()) || borrow().is_err() {
            (0..workers).for_each(work);
            return;
        }
        let (offered, shared) = (workers.min(Offer::MOST), &self.work.0);
        // SAFETY: only the lifetime changes, and the pointer is not used after this call returns.
        let job = Job(unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(
                work,
            )
        });
        // SAFETY: this caller has the threads, and none has taken a worker.
        unsafe { shared.job.get().write(Some(job)) };
        shared.done.store(0, Ordering::Relaxed);
        let number = self.offer().number().wrapping_add(1);
        shared.offer.store(Offer::new(number, 1, offered).0, Ordering::SeqCst);
        let asleep = self.asleep.load(Ordering::SeqCst);
        if wakes && asleep > 0 {
            self.processors.leave_to_caller();
            // Taking the lock ensures that a thread about to sleep is asleep.
            drop(self.sleepers());
            for _ in 1..offered.min(asleep + 1) {
                self.wake.notify_one();
            }
        }
        let mut own = 0;
        let result = catch_unwind(AssertUnwindSafe(|| {
            work(0);
            (offered..workers).for_each(work);
            while let Some(worker) = self.take() {
                own += 1;
                work(worker);
            }
        }));
        // After a panic here, workers not yet taken are dropped.
        let left = if result.is_err() { self.close() } else { 0 };
        // Worker 0 was never offered.
        self.wait(offered - 1 - own - left);
        let panicked = shared.panicked.load(Ordering::Relaxed);
        if panicked {
            shared.panicked.store(false, Ordering::Relaxed);
        }
        self.lent.0.store(false, Ordering::Release);
        match result {
            Err(panic) => resume_unwind(panic),
            Ok(()) if panicked => resume_unwind(Box::new("a thread of the CPU engine panicked")),
            Ok(()) => {}
        }
    }

    /// Takes a worker, if one is left.
    fn take(&self) -> Option<usize> {
        let mut offer = self.offer();
        while offer.is_open() {
            let taken = Offer::new(offer.number(), offer.next() + 1, offer.workers());
            let word = &self.work.0.offer;
            match word.compare_exchange_weak(offer.0, taken.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(offer.next()),
                Err(other) => offer = Offer(other),
            }
        }
        None
    }

    /// Takes all remaining workers and returns their number.
    fn close(&self) -> usize {
        let mut left = 0;
        while self.take().is_some() {
            left += 1;
        }
        left
    }

    /// Waits until the pool's threads have finished this many workers.
    fn wait(&self, workers: usize) {
        let is_done = || self.work.0.done.load(Ordering::SeqCst) == workers;
        if look(is_done) {
            return;
        }
        let mut sleepers = self.sleepers();
        self.is_awaited.store(true, Ordering::SeqCst);
        while !is_done() {
            sleepers = self.ended.wait(sleepers);
        }
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// The loop of a thread of the pool.
    fn serve(&self) {
        self.processors.join();
        let mut seen = self.offer().number();
        while sync::goes_on() {
            let is_there = |offer: Offer| offer.is_open() || offer.number() != seen;
            let found = look(|| is_there(self.offer()));
            let Some(worker) = self.take() else {
                // Others took all workers before this thread was awake. More short work may follow, so it
                // polls before it sleeps; otherwise it would always be late.
                if !found {
                    self.rest(seen);
                }
                seen = self.offer().number();
                continue;
            };
            seen = self.offer().number();
            let work = &self.work.0;
            // SAFETY: the caller wrote it before it offered the worker, and waits until this worker is done,
            // so the work is still valid.
            let result =
                unsafe { (*work.job.get()).map(|job| catch_unwind(AssertUnwindSafe(|| (*job.0)(worker)))) };
            if matches!(result, Some(Err(_))) {
                work.panicked.store(true, Ordering::Relaxed);
            }
            work.done.fetch_add(1, Ordering::SeqCst);
            if self.is_awaited.load(Ordering::SeqCst) {
                drop(self.sleepers());
                self.ended.notify_one();
            }
        }
    }

    /// Sleeps until woken, unless there is a newer offer than `seen`.
    fn rest(&self, seen: u32) {
        let sleepers = self.sleepers();
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // A caller that offers work after this sees a sleeping thread.
        let offer = self.offer();
        if !offer.is_open() && offer.number() == seen {
            drop(self.wake.wait(sleepers));
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
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
                pool.run(workers, round % 3 > 0, &|worker| {
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
        pool.run(4, true, &|_| {
            barrier.wait();
        });
    }

    #[test]
    fn worker_0_is_the_callers() {
        let pool = Pool::start(2);
        let caller = thread::current().id();
        for _ in 0..100 {
            pool.run(3, true, &|worker| assert!(worker != 0 || thread::current().id() == caller));
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
                        pool.run(3, true, &|worker| {
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
        pool.run(2, true, &|_| {
            pool.run(3, true, &|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn short_work_does_not_wake_sleeping_threads() {
        let pool = Pool::start(2);
        while pool.asleep.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
        let caller = thread::current().id();
        pool.run(3, false, &|_| assert_eq!(thread::current().id(), caller));
        let barrier = std::sync::Barrier::new(3);
        pool.run(3, true, &|_| {
            barrier.wait();
        });
    }

    #[test]
    fn an_offer_is_its_parts() {
        let offer = Offer::new(u32::MAX, 7, Offer::MOST);
        assert_eq!((offer.number(), offer.next(), offer.workers()), (u32::MAX, 7, Offer::MOST));
        assert!(offer.is_open() && !Offer::new(1, 3, 3).is_open() && !Offer(0).is_open());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::start(2);
        for bad in 0..3 {
            let result =
                catch_unwind(AssertUnwindSafe(|| pool.run(3, true, &|worker| assert_ne!(worker, bad))));
            assert!(result.is_err(), "worker {bad}");
        }
        let count = AtomicUsize::new(0);
        pool.run(3, true, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
