//! One or two callers, and the threads of a pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;

use crate::sync::{check, spawn};
use crate::threading::pool::Pool;
use crate::threading::queue::PartQueue;
use crate::threading::sync::{GOES_ON, MOST_WORKERS};
use crate::threading::team::Team;

/// A cell for each worker to write, whose accesses loom checks.
struct Results(Vec<UnsafeCell<usize>>);

// SAFETY: loom detects every unordered access.
unsafe impl Sync for Results {}

impl Results {
    fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, worker: usize) {
        // SAFETY: loom stops where another thread reads or writes.
        self.0[worker].with_mut(|result| unsafe { *result += 1 });
    }

    fn assert_all(&self, expected: usize) {
        // SAFETY: loom stops where another thread writes.
        self.0.iter().for_each(|result| result.with(|result| assert_eq!(unsafe { *result }, expected)));
    }
}

/// Runs a model with a pool of so many threads, which then end: they are woken as for any work, and find that they must end.
fn with_pool(interruptions: usize, threads: usize, model: impl Fn(&'static Pool) + Sync + Send + 'static) {
    with_growing_pool(interruptions, threads, threads, model);
}

/// The same with a pool that starts with `first` threads and has `threads` when the model is done.
fn with_growing_pool(
    interruptions: usize,
    first: usize,
    threads: usize,
    model: impl Fn(&'static Pool) + Sync + Send + 'static,
) {
    check(interruptions, move || {
        GOES_ON.store(true, Ordering::Relaxed);
        let pool = Pool::start(first);
        model(pool);
        GOES_ON.store(false, Ordering::Relaxed);
        let results = Results::new(threads + 1);
        pool.run(threads + 1, usize::MAX, &|worker| results.add(worker));
        results.assert_all(1);
    });
}

fn run(pool: &Pool, workers: usize, wakes: usize) {
    let results = Results::new(workers);
    pool.run(workers, wakes, &|worker| results.add(worker));
    results.assert_all(1);
}

/// A thread gets part of the work whether it sleeps or is about to, and no wake-up is lost.
pub fn every_worker_runs_once() {
    with_pool(3, 1, |pool| run(pool, 2, usize::MAX));
}

/// The same with several works in sequence, including one that wakes no thread.
pub fn works_follow_each_other() {
    with_pool(2, 1, |pool| {
        run(pool, 3, usize::MAX);
        run(pool, 2, 0);
    });
}

/// Two threads share the work.
pub fn two_threads_share_the_work() {
    with_pool(1, 2, |pool| run(pool, 3, usize::MAX));
}

/// A pool that has worked grows, and the new thread misses no work that follows.
pub fn a_pool_that_has_worked_grows() {
    with_growing_pool(1, 1, 2, |pool| {
        run(pool, 2, usize::MAX);
        pool.grow(2);
        run(pool, 3, usize::MAX);
    });
}

/// Two callers come at the same time; the one that finds the threads in use works alone.
pub fn two_callers_at_the_same_time() {
    with_pool(2, 1, |pool| {
        let other = spawn(move || run(pool, 2, usize::MAX));
        run(pool, 2, usize::MAX);
        other.join().expect("it ends well");
    });
}

/// A panic of any worker reaches the caller after all others are done.
pub fn a_panic_reaches_the_caller() {
    struct Meant;
    with_pool(2, 1, |pool| {
        let results = Results::new(2);
        let work = |worker| {
            results.add(worker);
            if worker == 1 {
                std::panic::resume_unwind(Box::new(Meant));
            }
        };
        assert!(catch_unwind(AssertUnwindSafe(|| pool.run(2, usize::MAX, &work))).is_err());
        results.assert_all(1);
        run(pool, 2, usize::MAX);
    });
}

/// A thread of a program serves a team until it is closed, asleep or not.
pub fn a_team_ends_its_threads() {
    check(2, || {
        let team: &'static Team = Box::leak(Box::new(Team::new(MOST_WORKERS)));
        let thread = spawn(move || team.serve(1, || true));
        let results = Results::new(2);
        team.run(0, 2, usize::MAX, &|worker| results.add(worker));
        results.assert_all(1);
        team.close();
        thread.join().expect("it ends well");
    });
}

/// Each part is taken once, from the front by one and from the back by others.
pub fn each_part_is_taken_once() {
    check(3, || {
        const PARTS: usize = 3;
        let queue = Arc::new(PartQueue::new());
        let taken: Arc<[AtomicUsize; PARTS]> = Arc::default();
        let thieves: [_; 2] = std::array::from_fn(|_| {
            let (queue, taken) = (Arc::clone(&queue), Arc::clone(&taken));
            spawn(move || {
                while let Some(part) = queue.last(PARTS) {
                    taken[part].fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        while let Some(part) = queue.first(PARTS) {
            taken[part].fetch_add(1, Ordering::Relaxed);
        }
        for thief in thieves {
            thief.join().expect("it ends well");
        }
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    });
}
