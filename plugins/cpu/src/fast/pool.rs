//! The threads besides the calling one: one set for the process, lent to one caller at a time.
//!
//! Handing work over allocates nothing, which is why this is not a general thread pool: those box what they are given. A caller
//! that finds the threads lent to another does its work alone, so two callers never run more threads than there are, and a
//! caller whose threads are slow to wake does their part itself.

mod place;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::place::Places;

/// How long a thread that has nothing to do looks for more before it sleeps, and a caller for the end of what threads are at.
/// Waking takes up to 50 µs in a virtual machine: a thread is there for the next step of a graph, and for the next of some small
/// graphs between which a program does something else, and not for a program that is done. Training a small network takes 8 % less
/// time than with a quarter of this.
const LOOK: Duration = Duration::from_micros(200);

/// Threads that wait for work.
pub(crate) struct Pool {
    /// How many threads were asked for. Only grows.
    threads: AtomicUsize,
    /// Held while threads are started.
    starting: Mutex<()>,
    /// Whether a caller has the threads.
    lent: AtomicBool,
    state: Mutex<State>,
    /// Grows with every piece of work, for threads that look before they sleep.
    offered: AtomicUsize,
    /// Lanes that threads of the pool are at. Written with the state held.
    running: AtomicUsize,
    places: Places,
    wake: Condvar,
    ended: Condvar,
}

struct State {
    job: Option<Job>,
    /// The first lane that nobody has taken.
    next: usize,
    lanes: usize,
    /// Threads that sleep.
    asleep: usize,
    /// Whether a thread's lane panicked.
    panicked: bool,
}

/// What the lanes do. The caller waits for all of them, so it outlives their use of it.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: what is pointed to may be used by several threads.
unsafe impl Send for Job {}

impl Pool {
    /// Starts threads, or as many of them as can be had.
    pub(crate) fn start(threads: usize) -> &'static Self {
        let pool: &'static Self = Box::leak(Box::new(Self {
            threads: AtomicUsize::new(0),
            starting: Mutex::new(()),
            lent: AtomicBool::new(false),
            state: Mutex::new(State { job: None, next: 0, lanes: 0, asleep: 0, panicked: false }),
            offered: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            places: Places::default(),
            wake: Condvar::new(),
            ended: Condvar::new(),
        }));
        pool.grow(threads);
        pool
    }

    /// Starts as many threads as are missing to this number.
    pub(crate) fn grow(&'static self, threads: usize) {
        if self.threads.load(Ordering::Relaxed) >= threads {
            return;
        }
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.threads.load(Ordering::Relaxed);
        for index in there..threads {
            let started =
                thread::Builder::new().name(format!("hipdnn-cpu-{index}")).spawn(move || self.serve());
            if started.is_err() {
                // The callers do what missing threads would have done.
                break;
            }
        }
        self.threads.store(threads.max(there), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` once with each number below `lanes`, 0 on this thread, and returns when all calls have returned. A panic of
    /// one of them goes on here.
    pub(crate) fn run(&self, lanes: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.lent.swap(true, Ordering::Acquire) {
            (0..lanes).for_each(work);
            return;
        }
        // SAFETY: only the lifetime changes, and this call does not return before all use of the pointer has ended.
        let job = Job(unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(
                work,
            )
        });
        let mut state = self.state();
        *state = State { job: Some(job), next: 1, lanes, asleep: state.asleep, panicked: false };
        let asleep = state.asleep;
        drop(state);
        self.offered.fetch_add(1, Ordering::Release);
        if asleep > 0 {
            self.places.leave_to_caller();
        }
        for _ in 1..lanes.min(asleep + 1) {
            self.wake.notify_one();
        }
        let own = catch_unwind(AssertUnwindSafe(|| {
            work(0);
            while let Some(lane) = self.take() {
                work(lane);
            }
        }));
        look(|| self.running.load(Ordering::Acquire) == 0);
        let mut state = self.state();
        // After a panic here, lanes that nobody has taken are left out.
        state.job = None;
        while self.running.load(Ordering::Acquire) > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let panicked = state.panicked;
        drop(state);
        self.lent.store(false, Ordering::Release);
        match own {
            Err(panic) => resume_unwind(panic),
            Ok(()) if panicked => resume_unwind(Box::new("a thread of the CPU engine panicked")),
            Ok(()) => {}
        }
    }

    /// A lane that nobody has taken, for the caller.
    fn take(&self) -> Option<usize> {
        let mut state = self.state();
        let lane = state.next;
        (lane < state.lanes).then(|| {
            state.next = lane + 1;
            lane
        })
    }

    /// What a thread of the pool does all its life.
    fn serve(&self) {
        self.places.join();
        let mut seen = self.offered.load(Ordering::Acquire);
        loop {
            look(|| self.offered.load(Ordering::Acquire) != seen);
            let mut state = self.state();
            let is_waiting = |state: &State| state.job.is_some() && state.next < state.lanes;
            if !is_waiting(&state) && self.offered.load(Ordering::Acquire) == seen {
                state.asleep += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.asleep -= 1;
            }
            seen = self.offered.load(Ordering::Acquire);
            let (Some(job), lane) = (state.job.filter(|_| is_waiting(&state)), state.next) else {
                // The others were faster than waking. More of the kind may come, so this thread looks for it before it sleeps:
                // it would be late for every piece of short work if it did not.
                continue;
            };
            state.next = lane + 1;
            self.running.fetch_add(1, Ordering::Relaxed);
            drop(state);
            // SAFETY: the caller takes the lanes that are left, then waits until `running` is 0 again, so the work is still there.
            let work = unsafe { &*job.0 };
            let result = catch_unwind(AssertUnwindSafe(|| work(lane)));
            let mut state = self.state();
            state.panicked |= result.is_err();
            if self.running.fetch_sub(1, Ordering::Release) == 1 {
                self.ended.notify_one();
            }
        }
    }
}

/// Looks for something to become true for a little while.
fn look(is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        if begun.elapsed() > LOOK {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lanes: usize) -> Vec<AtomicUsize> {
        (0..lanes).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn every_lane_runs_once_whatever_the_number_of_threads() {
        for threads in [1, 2, 5] {
            let pool = Pool::start(threads);
            for round in 0..2000 {
                let lanes = 1 + round % 7;
                let counts = counts(lanes);
                pool.run(lanes, &|lane| {
                    counts[lane].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{lanes} lanes");
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
        pool.run(4, &|_| {
            barrier.wait();
        });
    }

    #[test]
    fn lane_0_is_the_callers() {
        let pool = Pool::start(2);
        let caller = thread::current().id();
        for _ in 0..100 {
            pool.run(3, &|lane| assert!(lane != 0 || thread::current().id() == caller));
        }
    }

    #[test]
    fn callers_at_the_same_time_all_get_their_work_done() {
        let pool = Pool::start(2);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let counts = counts(3);
                        pool.run(3, &|lane| {
                            counts[lane].fetch_add(1, Ordering::Relaxed);
                        });
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn work_inside_of_work_is_done_in_place() {
        let pool = Pool::start(1);
        let count = AtomicUsize::new(0);
        pool.run(2, &|_| {
            pool.run(3, &|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::start(2);
        for bad in 0..3 {
            let result = catch_unwind(AssertUnwindSafe(|| pool.run(3, &|lane| assert_ne!(lane, bad))));
            assert!(result.is_err(), "lane {bad}");
        }
        let count = AtomicUsize::new(0);
        pool.run(3, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
