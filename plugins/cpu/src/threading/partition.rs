//! Partitions work among workers.
//!
//! A plan decides how many workers its work is worth. If there are as many threads as workers, worker 0 is
//! always the calling thread: single-worker work never leaves it, and larger work starts before any thread
//! wakes.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::{log, os};

use crate::threading::lent;
use crate::threading::openmp::OpenMp;
use crate::threading::pool::Pool;
use crate::threading::queue::PartQueue;
use crate::threading::subnormals;
use crate::threading::sync::MOST_WORKERS;

/// The environment variable that limits the threads of a computation, the caller's included.
const THREADS_VARIABLE: &str = "HIPDNN_CPU_THREADS";

/// Nanoseconds that an additional worker costs: on a Xeon, work comes to 15 polling threads and back in 1.2 µs, to one
/// in about as much.
const NANOSECONDS_OF_WORKER: f64 = 150.0;

/// Nanoseconds that a sleeping thread costs: its caller wakes it by a system call.
const NANOSECONDS_OF_WAKING: f64 = 2_500.0;

/// From this many nanoseconds of work, a polling thread gets a share; sleeping ones are not woken.
const NANOSECONDS_OF_SHORT: f64 = 3_000.0;

/// With this many nanoseconds of work per thread, the cost of waking it does not matter.
const NANOSECONDS_PER_THREAD: f64 = 25_000.0;

/// The most parts for reductions whose results must not depend on the number of threads.
const FIXED_PARTS: usize = 16;

/// Queues of parts, one per worker; additional workers share them.
const MAX_RUNS: usize = 32;

/// The environment variable that selects the threads: `openmp` for the runtime that the process has loaded.
const POOL_VARIABLE: &str = "HIPDNN_CPU_THREAD_POOL";

/// The threads besides the calling one, started when a plan first needs some.
static THREADS: OnceLock<Source> = OnceLock::new();

/// The source of threads.
enum Source {
    Own(&'static Pool),
    OpenMp(&'static OpenMp),
}

impl Source {
    /// Follows the environment variable; a missing runtime is ignored.
    fn choose() -> Self {
        let word = std::env::var(POOL_VARIABLE).unwrap_or_default().trim().to_ascii_lowercase();
        if !matches!(word.as_str(), "" | "openmp") {
            log::warn(format_args!(
                "{POOL_VARIABLE} is {word:?}, expected openmp; the engine starts its own threads"
            ));
        }
        match (word == "openmp").then(OpenMp::loaded).flatten() {
            Some(runtime) => Self::OpenMp(runtime),
            None => Self::Own(Pool::start(0)),
        }
    }

    fn grow(&self, threads: usize) {
        if let Self::Own(pool) = self {
            pool.grow(threads);
        }
    }

    /// See [`Pool::run`]. Whether a runtime's threads sleep is unknown, so too short work stays on this
    /// thread.
    fn run(&self, workers: usize, wakes: usize, work: &(dyn Fn(usize) + Sync)) {
        match self {
            Self::Own(pool) => pool.run(workers, wakes, work),
            Self::OpenMp(runtime) if wakes > 0 => runtime.run(workers, work),
            Self::OpenMp(_) => (0..workers).for_each(work),
        }
    }
}

/// The processors available to this process: its affinity, limited by the quota of its cgroup.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(os::processors::available)
}

/// The number of threads if a plan does not limit it.
fn default_threads() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let word = std::env::var(THREADS_VARIABLE).unwrap_or_default();
        match word.trim().parse() {
            Ok(threads) if threads > 0 => threads,
            _ => {
                if !word.trim().is_empty() {
                    log::warn(format_args!(
                        "{THREADS_VARIABLE} is {word:?}, expected a number from 1; every processor gets a thread"
                    ));
                }
                processors()
            }
        }
    })
}

/// The threads that a plan may use, what must not affect its results, and how threads compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// The most threads at a time, the calling one included; 0 for the default.
    pub most: usize,
    /// Whether results are the same bits for any number of threads.
    pub deterministic: bool,
    /// Whether the bits of an item of the batch depend on its own operands only. Implies `deterministic`.
    pub batch_invariant: bool,
    /// Whether threads read and write subnormal numbers as zeros.
    pub flush_subnormals: bool,
}

impl Threads {
    fn count(self) -> usize {
        if self.most == 0 { default_threads() } else { self.most }
    }

    /// Whether results must be the same bits for any number of threads.
    pub(crate) fn is_deterministic(self) -> bool {
        self.deterministic || self.batch_invariant
    }

    /// Workers for work that takes one thread this long and has `parts` parts. May start threads, so call it
    /// while planning, not while executing.
    pub(crate) fn workers(self, nanoseconds: f64, parts: usize) -> Workers {
        let worth = if nanoseconds < NANOSECONDS_OF_SHORT {
            1.0
        } else {
            (nanoseconds / NANOSECONDS_OF_WORKER).sqrt()
        };
        let workers = self.divided((worth as usize).min(parts).min(self.count()));
        Workers { wakes: worth_waking(nanoseconds) - 1, ..workers }
    }

    /// Workers for work whose result depends on their number.
    pub(crate) fn workers_for_reduction(self, nanoseconds: f64, parts: usize) -> Workers {
        if self.is_deterministic() {
            self.divided(worth_waking(nanoseconds).min(parts).min(FIXED_PARTS))
        } else {
            self.workers(nanoseconds, parts)
        }
    }

    fn divided(self, count: usize) -> Workers {
        let count = count.max(1);
        // More threads than processors would take turns, and the caller would wait for one that cannot run.
        let threads = count.min(self.count()).min(processors()).min(MOST_WORKERS);
        if threads > 1 {
            THREADS.get_or_init(Source::choose).grow(threads - 1);
        }
        Workers { count, threads, wakes: threads - 1, flushes: self.flush_subnormals }
    }
}

/// How many threads, the caller included, this work is worth waking: until another would cost as much as it saves, or
/// as long as each has enough to do.
fn worth_waking(nanoseconds: f64) -> usize {
    ((nanoseconds / NANOSECONDS_OF_WAKING).sqrt().max(nanoseconds / NANOSECONDS_PER_THREAD) as usize).max(1)
}

/// How the work is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workers {
    count: usize,
    /// Threads that run the workers, at most as many.
    threads: usize,
    /// Sleeping threads are woken until this many are awake, the caller not counted.
    wakes: usize,
    /// Whether the threads flush subnormal numbers.
    flushes: bool,
}

impl Workers {
    /// Only the calling thread.
    #[cfg(test)]
    pub(crate) const ONE: Self = Self { count: 1, threads: 1, wakes: 0, flushes: false };

    /// The number of workers, at least 1.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// The most threads that run the workers.
    pub(crate) fn threads(self) -> usize {
        self.threads
    }

    /// Calls `work` once with each worker's index, and returns when all calls have returned. Allocates nothing.
    pub(crate) fn run(self, work: impl Fn(usize) + Sync) {
        self.run_all(&work);
    }

    /// The same. By a reference to any function: otherwise each of the three calls here would be compiled with the kernel in it.
    fn run_all(self, work: &(dyn Fn(usize) + Sync)) {
        if self.threads < 2 {
            (0..self.count).for_each(work);
        } else if self.threads == self.count {
            self.run_on_threads(work);
        } else {
            let next = AtomicUsize::new(0);
            self.run_on_threads(&|_| take_each(&next, self.count, work));
        }
    }

    /// Calls `work` once per thread: on the pool lent to the caller, or else on the process's threads.
    fn run_on_threads(self, work: &(dyn Fn(usize) + Sync)) {
        if self.flushes {
            let flushing = |index| subnormals::flushed(|| work(index));
            return Self { flushes: false, ..self }.run_on_threads(&flushing);
        }
        if lent::run(self.threads, self.wakes, work) {
            return;
        }
        match THREADS.get() {
            Some(threads) => threads.run(self.threads, self.wakes, work),
            None => (0..self.threads).for_each(work),
        }
    }

    /// Calls `work` with a worker's index and each part below `parts`.
    pub(crate) fn for_each_part(self, parts: usize, work: impl Fn(usize, usize) + Sync) {
        self.for_each_part_with_state(parts, |assignment, (): &mut ()| {
            work(assignment.worker, assignment.part)
        });
    }

    /// [`Workers::for_each_part`] where each worker keeps state between its parts.
    ///
    /// A worker gets consecutive parts, the same in each execution, so that their data is still in its caches
    /// from the last execution and from the previous step. A worker that has finished steals the last parts
    /// of others.
    pub(crate) fn for_each_part_with_state<C: Default>(
        self,
        parts: usize,
        work: impl Fn(Assignment, &mut C) + Sync,
    ) {
        let runs = Self { count: self.count.min(MAX_RUNS), ..self };
        let taken = [const { PartQueue::new() }; MAX_RUNS];
        self.run(|worker| {
            let mut carried = C::default();
            let own = worker * runs.count / self.count;
            for index in (own..runs.count).chain(0..own) {
                let (run, parts) = (&taken[index], runs.share(index, parts));
                let take = if index == own { PartQueue::first } else { PartQueue::last };
                while let Some(at) = take(run, parts.len()) {
                    let part = parts.start + at;
                    let end = if index == own { parts.end } else { part + 1 };
                    work(Assignment { worker, part, end }, &mut carried);
                }
            }
        });
    }

    /// The range below `total` that belongs to this worker if each worker gets one range.
    pub(crate) fn share(self, worker: usize, total: usize) -> std::ops::Range<usize> {
        total * worker / self.count..total * (worker + 1) / self.count
    }
}

/// A part that is assigned to a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assignment {
    pub(crate) worker: usize,
    pub(crate) part: usize,
    /// The end of the consecutive parts that the worker is likely to get as well.
    pub(crate) end: usize,
}

impl Assignment {
    /// The part that the worker probably gets next.
    pub(crate) fn next(&self) -> Option<usize> {
        Some(self.part + 1).filter(|next| *next < self.end)
    }

    /// The block that the worker probably begins next, if `parts` parts form a block.
    pub(crate) fn next_block(&self, parts: usize) -> Option<usize> {
        self.next().filter(|next| next.is_multiple_of(parts)).map(|next| next / parts)
    }
}

/// Calls `work` once with each index below `count` on up to `most` threads, 0 for the default, and returns when all
/// calls have returned.
pub(crate) fn each(count: usize, most: usize, work: impl Fn(usize) + Sync) {
    Threads { most, ..Threads::default() }.divided(count).run(work);
}

/// Runs a plan whose steps use up to `threads` threads. Threads of the program enter it once; those of the engine
/// wait for steps in any case.
pub(crate) fn enter<R>(threads: usize, plan: impl FnOnce() -> R) -> R {
    lent::enter(threads, plan)
}

/// Calls `work` with each index below `count` that no thread has taken yet.
fn take_each(next: &AtomicUsize, count: usize, work: &dyn Fn(usize)) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return;
        }
        work(index);
    }
}

/// Part `index` of `total`, split into `parts` parts of nearly equal size.
pub(crate) fn part(total: usize, parts: usize, index: usize) -> Range<usize> {
    let (size, larger) = (total / parts, total % parts);
    let start = index * size + index.min(larger);
    start..start + size + usize::from(index < larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(most: usize, deterministic: bool) -> Threads {
        Threads { most, deterministic, ..Threads::default() }
    }

    #[test]
    fn small_work_stays_on_the_calling_thread() {
        assert_eq!(Threads::default().workers(2_900.0, 1000), Workers::ONE);
        assert_eq!(Threads::default().workers(1e9, 1).count(), 1);
        assert_eq!(threads(8, true).workers_for_reduction(9_900.0, 1000).count(), 1);
    }

    #[test]
    fn short_work_does_not_wake_threads() {
        let workers = |nanoseconds| threads(8, false).workers(nanoseconds, 1000);
        assert_eq!([2_900.0, 3_000.0, 9_900.0].map(|time| workers(time).count()), [1, 4, 8]);
        assert_eq!([2_900.0, 9_900.0, 10_000.0, 40_000.0].map(|time| workers(time).wakes), [0, 0, 1, 3]);
        assert_eq!(threads(1, false).workers(9_900.0, 1000), Workers::ONE);
    }

    #[test]
    fn longer_work_is_worth_more_threads() {
        assert_eq!([1_000.0, 10_000.0, 40_000.0, 90_000.0, 1_000_000.0].map(worth_waking), [1, 2, 4, 6, 40]);
    }

    #[test]
    fn there_are_as_many_workers_as_threads_unless_results_must_not_depend_on_them() {
        for most in 1..5 {
            assert_eq!(threads(most, false).workers(1e9, 1000).count(), most);
            assert_eq!(threads(most, true).workers(1e9, 1000).count(), most);
            assert_eq!(threads(most, false).workers_for_reduction(1e9, 1000).count(), most);
            assert_eq!(threads(most, true).workers_for_reduction(1e9, 1000).count(), FIXED_PARTS);
            assert_eq!(threads(most, true).workers_for_reduction(1e9, 3).count(), 3);
            assert_eq!(
                threads(most, true).workers_for_reduction(25.0 * NANOSECONDS_OF_WAKING, 1000).count(),
                5
            );
        }
    }

    #[test]
    fn no_more_threads_than_processors_share_work() {
        let many = threads(MAX_RUNS * processors(), false).workers(1e12, 1 << 20);
        assert_eq!((many.count(), many.threads), (MAX_RUNS * processors(), processors()));
    }

    #[test]
    fn the_thread_limit_holds() {
        for most in 1..5 {
            for workers in [
                threads(most, false).workers(1e9, 1000),
                threads(most, true).workers_for_reduction(1e9, 1000),
            ] {
                let (now, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let caller = std::thread::current().id();
                for _ in 0..20 {
                    workers.run(|_| {
                        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        assert!(most > 1 || std::thread::current().id() == caller);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    });
                }
                assert!(peak.into_inner() <= most, "{most} threads");
            }
        }
    }

    #[test]
    fn workers_take_their_own_parts_first_and_steal_from_the_end() {
        let run = PartQueue::new();
        let taken = [run.first(5), run.last(5), run.first(5), run.last(5), run.first(5)];
        assert_eq!(taken, [Some(0), Some(4), Some(1), Some(3), Some(2)]);
        assert_eq!([run.first(5), run.last(5)], [None; 2]);
        let next_blocks = [4, 5, 8].map(|part| Assignment { worker: 0, part, end: 9 }.next_block(3));
        assert_eq!(next_blocks, [None, Some(2), None]);
        for workers in [
            Workers::ONE,
            threads(2, false).workers(1e9, 100),
            threads(1, true).workers_for_reduction(1e9, 100),
        ] {
            let assigned = std::sync::Mutex::new(Vec::new());
            workers.for_each_part_with_state(100, |part, (): &mut ()| assigned.lock().unwrap().push(part));
            let assigned = assigned.into_inner().unwrap();
            for worker in 0..workers.count() {
                let own = workers.share(worker, 100);
                let parts: Vec<&Assignment> = assigned.iter().filter(|part| part.worker == worker).collect();
                let kept = parts.iter().take_while(|part| own.contains(&part.part)).count();
                for (at, assignment) in parts.iter().enumerate() {
                    if at < kept {
                        assert_eq!(assignment.part, own.start + at);
                        assert_eq!(
                            assignment.next(),
                            Some(assignment.part + 1).filter(|next| own.contains(next))
                        );
                    } else {
                        assert!(!own.contains(&assignment.part) && assignment.next().is_none());
                    }
                }
            }
        }
    }

    #[test]
    fn every_part_is_assigned_once() {
        // More workers than queues.
        let many = Workers { count: 3 * MAX_RUNS + 1, ..threads(2, false).workers(1e9, 100) };
        for workers in [
            Workers::ONE,
            threads(2, false).workers(1e9, 7),
            threads(3, true).workers_for_reduction(1e9, 7),
            many,
        ] {
            let seen: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            workers.for_each_part(100, |worker, part| {
                assert!(worker < workers.count());
                seen[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            let shares: Vec<usize> =
                (0..workers.count()).flat_map(|worker| workers.share(worker, 100)).collect();
            assert_eq!(shares, (0..100).collect::<Vec<_>>());
        }
    }
}
