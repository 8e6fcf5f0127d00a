//! A team: a caller that offers work, and the threads that compute its workers.
//!
//! The threads of the pool are a team for as long as the process runs; threads that a program lends are one for
//! a single execution of a plan. Offering work writes one cache line that all threads poll. Each worker has a
//! line of its own for who computes it and whether it is done, so that threads do not compete for lines.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::threading::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, MOST_WORKERS, Mutex, MutexGuard, Ordering, look,
};

/// Aligns to cache lines, so that polling does not disturb neighbouring data.
#[repr(align(64))]
pub(crate) struct CacheLine<T>(pub(crate) T);

/// What a caller and its threads share.
pub(crate) struct Team {
    call: CacheLine<Call>,
    workers: Box<[Worker]>,
    sleep: CacheLine<Sleep>,
}

/// The work on offer.
struct Call {
    /// An [`Offer`].
    offer: AtomicU64,
    /// Written before it is offered, and read by threads that took a worker.
    job: UnsafeCell<Option<Job>>,
}

/// Who sleeps. Threads change it holding `lock`, and only when they go to sleep or wake.
struct Sleep {
    threads: AtomicUsize,
    caller: AtomicBool,
    panicked: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
    ended: Condvar,
}

/// The state of one worker: the last offers in which it was taken, and in which it was done.
#[repr(align(64))]
struct Worker {
    taken: AtomicU64,
    done: AtomicU64,
}

// SAFETY: the caller writes the job while no worker is taken; threads read it only after taking one.
unsafe impl Sync for Call {}

/// The work of all workers. The caller waits for all of them, so it outlives their use.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointee is `Sync`.
unsafe impl Send for Job {}

/// The count of offers, whether threads may take any worker, and the number of workers, in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Offer(u64);

/// Set in an [`Offer`] whose workers are more than the threads that are awake.
const ANY: u64 = 1 << 15;

impl Offer {
    /// No offer follows.
    const CLOSED: Self = Self(u64::MAX);

    fn new(number: u64, workers: usize, is_short: bool) -> Self {
        Self(number << 16 | workers as u64 | if is_short { ANY } else { 0 })
    }

    fn number(self) -> u64 {
        self.0 >> 16
    }

    fn workers(self) -> usize {
        (self.0 & (ANY - 1)) as usize
    }

    fn is_short(self) -> bool {
        self.0 & ANY > 0
    }
}

impl Worker {
    /// Takes the worker of this offer. It fails if the worker is taken already, also if a later offer has come
    /// since: an offer ends only after each of its workers is taken.
    fn take(&self, number: u64) -> bool {
        let mut taken = self.taken.load(Ordering::Relaxed);
        while taken < number {
            match self.taken.compare_exchange_weak(taken, number, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => taken = other,
            }
        }
        false
    }

    fn finish(&self, number: u64) {
        self.done.store(number, Ordering::SeqCst);
    }

    fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= number
    }
}

impl Team {
    /// A team without threads, for up to this many workers at once.
    pub(crate) fn new(workers: usize) -> Self {
        let worker = |_| Worker { taken: AtomicU64::new(0), done: AtomicU64::new(0) };
        Self {
            call: CacheLine(Call { offer: AtomicU64::new(0), job: UnsafeCell::new(None) }),
            workers: (0..workers.min(MOST_WORKERS)).map(worker).collect(),
            sleep: CacheLine(Sleep {
                threads: AtomicUsize::new(0),
                caller: AtomicBool::new(false),
                panicked: AtomicBool::new(false),
                lock: Mutex::new(()),
                wake: Condvar::new(),
                ended: Condvar::new(),
            }),
        }
    }

    fn offer(&self) -> Offer {
        // Sequentially consistent with the number of sleeping threads: caller and thread each write one and then
        // read the other.
        Offer(self.call.0.offer.load(Ordering::SeqCst))
    }

    fn sleepers(&self) -> MutexGuard<'_, ()> {
        self.sleep.0.lock.lock()
    }

    /// How often work was offered.
    pub(crate) fn offers(&self) -> u64 {
        self.offer().number()
    }

    /// The number of threads that sleep.
    pub(crate) fn asleep(&self) -> usize {
        self.sleep.0.threads.load(Ordering::Relaxed)
    }

    /// Calls `work` once with each index below `workers`, 0 on this thread, and returns when all calls have
    /// returned. Wakes sleeping threads until `wakes` are awake. Resumes panics of the calls. `threads` is the number of
    /// threads that serve the team; more may come meanwhile.
    ///
    /// One caller at a time may run work on a team.
    pub(crate) fn run(&self, threads: usize, workers: usize, wakes: usize, work: &(dyn Fn(usize) + Sync)) {
        let (shared, sleep) = (workers.min(self.workers.len()), &self.sleep.0);
        // SAFETY: only the lifetime changes, and the pointer is not used after this call returns.
        let job = Job(unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(
                work,
            )
        });
        // SAFETY: one caller at a time uses the team, and all workers of the last offer are done.
        unsafe { self.call.0.job.get().write(Some(job)) };
        let number = self.offer().number() + 1;
        let is_short = threads.saturating_sub(self.asleep()) + 1 < shared;
        self.call.0.offer.store(Offer::new(number, shared, is_short).0, Ordering::SeqCst);
        let asleep = sleep.threads.load(Ordering::SeqCst);
        let missing = wakes.min(shared - 1).saturating_sub(threads.saturating_sub(asleep));
        if missing > 0 && asleep > 0 {
            self.wake(asleep.min(missing));
        }
        let others = || self.workers.iter().enumerate().take(shared).skip(1);
        let mut own = None;
        let result = catch_unwind(AssertUnwindSafe(|| {
            work(0);
            (shared..workers).for_each(work);
            for (index, worker) in others().filter(|(_, worker)| worker.take(number)) {
                own = Some(worker);
                work(index);
                worker.finish(number);
            }
        }));
        if result.is_err() {
            // Workers that no thread has taken are dropped.
            let left = others().map(|(_, worker)| worker).filter(|worker| worker.take(number));
            left.chain(own).for_each(|worker| worker.finish(number));
        }
        self.wait(number, shared);
        let panicked = sleep.panicked.load(Ordering::Relaxed);
        if panicked {
            sleep.panicked.store(false, Ordering::Relaxed);
        }
        match result {
            Err(panic) => resume_unwind(panic),
            Ok(()) if panicked => resume_unwind(Box::new("a thread of the CPU engine panicked")),
            Ok(()) => {}
        }
    }

    /// Wakes this many threads.
    fn wake(&self, threads: usize) {
        // Taking the lock ensures that a thread about to sleep is asleep.
        drop(self.sleepers());
        (0..threads).for_each(|_| self.sleep.0.wake.notify_one());
    }

    /// Waits until all workers of an offer are done.
    fn wait(&self, number: u64, workers: usize) {
        let rest = |from: usize| self.workers.iter().enumerate().take(workers).skip(from);
        let mut from = 1;
        let mut is_done = || {
            from = rest(from).find(|(_, worker)| !worker.is_done(number)).map_or(workers, |(at, _)| at);
            from == workers
        };
        if look(&mut is_done) {
            return;
        }
        let mut sleepers = self.sleepers();
        self.sleep.0.caller.store(true, Ordering::SeqCst);
        while !is_done() {
            sleepers = self.sleep.0.ended.wait(sleepers);
        }
        self.sleep.0.caller.store(false, Ordering::SeqCst);
    }

    /// The loop of a thread, which computes worker `own` of each offer until the team is closed or `goes_on`
    /// says otherwise.
    pub(crate) fn serve(&self, own: usize, goes_on: impl Fn() -> bool) {
        let (mut seen, mut was_asleep) = (0, true);
        while goes_on() {
            if !look(|| self.offer().number() != seen) {
                self.rest(seen);
                was_asleep = true;
            }
            let offer = self.offer();
            if offer == Offer::CLOSED {
                return;
            }
            seen = offer.number();
            while let Some((index, worker)) = self.take(offer, own, was_asleep || offer.is_short()) {
                self.compute(seen, index, worker);
            }
            was_asleep = false;
        }
    }

    /// Takes worker `own`. A thread that was just woken, maybe in the place of another, takes any, as all do where
    /// threads are short.
    fn take(&self, offer: Offer, own: usize, any: bool) -> Option<(usize, &Worker)> {
        let offered = || self.workers.iter().enumerate().take(offer.workers()).skip(1);
        let is_free = |(_, worker): &(usize, &Worker)| worker.take(offer.number());
        let own = offered().skip(own.saturating_sub(1)).take(1).find(is_free);
        own.or_else(|| any.then(|| offered().find(is_free)).flatten())
    }

    /// Computes a worker that this thread took.
    fn compute(&self, number: u64, index: usize, worker: &Worker) {
        let sleep = &self.sleep.0;
        // SAFETY: the caller wrote it before it offered the worker, and waits until this worker is done, so the
        // work is still valid.
        let result =
            unsafe { (*self.call.0.job.get()).map(|job| catch_unwind(AssertUnwindSafe(|| (*job.0)(index)))) };
        if matches!(result, Some(Err(_))) {
            sleep.panicked.store(true, Ordering::Relaxed);
        }
        worker.finish(number);
        if sleep.caller.load(Ordering::SeqCst) {
            drop(self.sleepers());
            sleep.ended.notify_one();
        }
    }

    /// Sleeps until woken, unless there is a newer offer than `seen`.
    pub(crate) fn rest(&self, seen: u64) {
        let sleepers = self.sleepers();
        self.sleep.0.threads.fetch_add(1, Ordering::SeqCst);
        // A caller that offers work after this sees a sleeping thread.
        if self.offer().number() == seen {
            drop(self.sleep.0.wake.wait(sleepers));
        }
        self.sleep.0.threads.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends [`Team::serve`] of all threads.
    pub(crate) fn close(&self) {
        self.call.0.offer.store(Offer::CLOSED.0, Ordering::SeqCst);
        let asleep = self.sleep.0.threads.load(Ordering::SeqCst);
        if asleep > 0 {
            self.wake(asleep);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_offer_is_its_parts() {
        for is_short in [false, true] {
            let offer = Offer::new(1 << 40, MOST_WORKERS, is_short);
            assert_eq!((offer.number(), offer.workers()), (1 << 40, MOST_WORKERS));
            assert!(offer.is_short() == is_short && offer != Offer::CLOSED);
        }
    }

    #[test]
    fn a_worker_is_taken_once_for_each_offer() {
        let team = Team::new(6);
        let worker = &team.workers[0];
        assert_eq!([2, 2, 1, 3].map(|number| worker.take(number)), [true, false, false, true]);
        worker.finish(3);
        assert!(worker.is_done(2) && worker.is_done(3) && !worker.is_done(4));
    }

    #[test]
    fn threads_that_come_late_or_never_lose_no_worker() {
        let team = Team::new(6);
        let counts: Vec<AtomicUsize> = (0..6).map(|_| AtomicUsize::new(0)).collect();
        let work = |worker: usize| {
            counts[worker].fetch_add(1, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            team.run(3, 6, usize::MAX, &work);
            for own in [1, 2, 300] {
                let team = &team;
                scope.spawn(move || team.serve(own, || true));
            }
            for _ in 0..500 {
                team.run(3, 6, usize::MAX, &work);
                team.run(3, 3, 0, &work);
            }
            team.close();
        });
        let counted: Vec<usize> = counts.into_iter().map(AtomicUsize::into_inner).collect();
        assert_eq!(counted, [1001, 1001, 1001, 501, 501, 501]);
    }

    #[test]
    fn a_team_that_closes_wakes_its_threads() {
        let team = Team::new(6);
        thread::scope(|scope| {
            (1..4).for_each(|own| {
                let team = &team;
                scope.spawn(move || team.serve(own, || true));
            });
            while team.asleep() < 3 {
                thread::yield_now();
            }
            team.close();
        });
    }
}
