//! A plan's steps on a program's threads: the threads enter the plan once, and pass from step to step as a team.
//!
//! Handing work to a program's pool costs microseconds, and more for threads that sleep. So the pool is called
//! once for a plan. The first of its threads to arrive runs the plan, the others compute workers of its steps.
//! The pool may run all of its calls on one thread, in turn, so no thread waits for another to arrive.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::threading::team::Team;

/// The threads that are in a plan.
pub(crate) struct Region<'a> {
    team: Team,
    /// Whether the program lets the plan go on.
    goes_on: &'a (dyn Fn() -> bool + Sync),
    /// How many threads came to help.
    joined: AtomicUsize,
}

/// A plan and its result.
struct Led<F, R> {
    has_leader: AtomicBool,
    plan: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
}

// SAFETY: only the thread that set `has_leader` uses the cells until all calls have returned. What the plan
// borrows stays valid meanwhile, because the caller waits, and kernels run on any thread.
unsafe impl<F, R> Sync for Led<F, R> {}

impl<'a> Region<'a> {
    /// Runs `plan` on one of the threads of a pool. `call` calls its argument once with each index below
    /// `threads`, on any threads, and returns when all calls have returned. `as_leader` runs the plan so that its
    /// steps find the region. `None` if `call` made no call. Resumes a panic of the plan.
    pub(crate) fn enter<R>(
        threads: usize,
        goes_on: &'a (dyn Fn() -> bool + Sync),
        call: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
        as_leader: impl Fn(&Self, &mut dyn FnMut()) + Sync,
        plan: impl FnOnce() -> R,
    ) -> Option<R> {
        let region = Self { team: Team::new(threads), goes_on, joined: AtomicUsize::new(0) };
        let led = Led {
            has_leader: AtomicBool::new(false),
            plan: UnsafeCell::new(Some(plan)),
            result: UnsafeCell::new(None),
        };
        let whole = &led;
        call(threads, &|_| {
            if whole.has_leader.swap(true, Ordering::AcqRel) {
                let own = 1 + region.joined.fetch_add(1, Ordering::Relaxed);
                region.team.serve(own, || true);
                return;
            }
            // SAFETY: this thread alone leads.
            let plan = unsafe { (*whole.plan.get()).take() };
            let mut result = None;
            let mut run = plan.map(|plan| || result = Some(plan()));
            let ended = catch_unwind(AssertUnwindSafe(|| {
                as_leader(&region, &mut || {
                    if let Some(run) = run.take() {
                        run();
                    }
                });
            }));
            region.team.close();
            drop(run);
            // SAFETY: this thread alone leads, and the caller reads the result after this call has returned.
            unsafe { *whole.result.get() = ended.map(|()| result).transpose() };
        });
        match led.result.into_inner()? {
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Calls `work` once with each index below `workers` on the threads that are here, and returns when all calls
    /// have returned. Panics if the program does not let the plan go on. Only the leader may call this, and not from within `work`.
    pub(crate) fn run(&self, workers: usize, wakes: usize, work: &(dyn Fn(usize) + Sync)) {
        if !(self.goes_on)() {
            resume_unwind(Box::new("the program ended the plan"));
        }
        let present = self.joined.load(Ordering::Relaxed);
        if wakes == 0 && self.team.asleep() >= present {
            (0..workers).for_each(work);
        } else {
            // Threads that are still on their way take workers when they arrive.
            self.team.run(present, workers, wakes, work);
        }
    }
}
