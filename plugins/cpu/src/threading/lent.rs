//! Thread pools that a program lends to executions of its threads.
//!
//! A program with its own thread pool, like ONNX Runtime with one per session, would otherwise share the
//! processors with a second pool. It sets its pool before an execution and resets it afterwards.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::thread::Key;

use crate::threading::region::Region;

/// A pool as the program describes it.
#[repr(C)]
pub struct Pool {
    /// Calls `work` with `data` and each index below `count`, in any order and on any threads, and returns 0 when all calls have returned;
    /// else the execution fails. Between the steps of a plan it is asked so with a count of 0, by any of its threads.
    run: Option<Run>,
    /// The first argument of `run`.
    program: *mut c_void,
}

type Run = unsafe extern "C" fn(*mut c_void, Work, *mut c_void, usize) -> i32;
pub(crate) type Work = unsafe extern "C" fn(*mut c_void, usize);

/// Marks a thread that works for others: work that it starts runs on it alone.
const AT_WORK: usize = 1;

/// Marks the address of a [`Region`], which is that of the plan that the thread runs.
const REGION: usize = 2;

/// The thread-local pool, region or mark, or 0.
static POOL: OnceLock<Option<Key>> = OnceLock::new();

fn key() -> Option<Key> {
    *POOL.get_or_init(|| Key::new(None))
}

/// Makes executions of this thread use a pool, or the engine's own threads if null. Returns the former pool.
///
/// # Safety
/// The pool is null, or stays valid until another is set. Its function behaves as [`Pool`] says, and this
/// thread may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginLendThreads_ext(pool: *const Pool) -> *const Pool {
    let Some(key) = key() else { return ptr::null() };
    let before = key.get();
    key.set(pool.expose_provenance());
    ptr::with_exposed_provenance(before)
}

/// The data passed to the threads of a pool.
struct Call<'a> {
    key: Key,
    work: &'a (dyn Fn(usize) + Sync),
    panicked: AtomicBool,
}

/// What a thread may use.
enum Lent {
    /// The engine's own threads.
    Nothing,
    /// No thread but itself.
    Itself,
    /// The threads of a program, which calls them for each work.
    Pool(Run, *mut c_void),
    /// The threads that are in its plan.
    Plan(*const Region<'static>),
}

impl Lent {
    fn of(word: usize) -> Self {
        match word {
            0 => return Self::Nothing,
            AT_WORK => return Self::Itself,
            _ if word & REGION > 0 => return Self::Plan(ptr::with_exposed_provenance(word - REGION)),
            _ => {}
        }
        // SAFETY: any other word is a pool, which its program keeps valid while it is lent.
        let pool = unsafe { &*ptr::with_exposed_provenance::<Pool>(word) };
        pool.run.map_or(Self::Itself, |run| Self::Pool(run, pool.program))
    }
}

/// Sets the word of this thread, and restores it on drop.
struct Within(Key, usize);

impl Within {
    fn set(key: Key, word: usize) -> Self {
        let before = key.get();
        key.set(word);
        Self(key, before)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Calls `work` once with each index below `workers` on the threads lent to this one, and returns when all calls
/// have returned; false if none are lent. Work too short to wake threads stays on this one, unless others are
/// in its plan and awake. Resumes panics of the calls.
pub(crate) fn run(workers: usize, wakes: usize, work: &(dyn Fn(usize) + Sync)) -> bool {
    let Some(key) = POOL.get().copied().flatten() else { return false };
    match Lent::of(key.get()) {
        Lent::Nothing => return false,
        Lent::Pool(run, program) if wakes > 0 => call(key, (run, program), workers, work),
        Lent::Pool(..) | Lent::Itself => (0..workers).for_each(work),
        Lent::Plan(region) => {
            let _within = Within::set(key, AT_WORK);
            // SAFETY: the region outlives the plan that it is set for, which this thread leads.
            unsafe { &*region }.run(workers, wakes, work);
        }
    }
    true
}

/// Runs a plan whose steps use up to `threads` threads, with the program's threads in it if a pool is lent.
pub(crate) fn enter<R>(threads: usize, plan: impl FnOnce() -> R) -> R {
    let Some(key) = POOL.get().copied().flatten() else { return plan() };
    let Lent::Pool(run, program) = Lent::of(key.get()) else { return plan() };
    if threads < 2 {
        return plan();
    }
    let asked = Asked(run, program);
    let goes_on = || asked.goes_on();
    let lead = |region: &Region<'_>, plan: &mut dyn FnMut()| {
        let _within = Within::set(key, (&raw const *region).expose_provenance() | REGION);
        plan();
    };
    let call = |threads, work: &(dyn Fn(usize) + Sync)| call(key, (run, program), threads, work);
    let result = Region::enter(threads, &goes_on, call, lead, plan);
    result.unwrap_or_else(|| resume_unwind(Box::new(FAILED)))
}

/// A program that is asked whether a plan goes on.
struct Asked(Run, *mut c_void);

// SAFETY: the program lets any of its threads ask.
unsafe impl Sync for Asked {}

impl Asked {
    fn goes_on(&self) -> bool {
        extern "C" fn nothing(_: *mut c_void, _: usize) {}
        // SAFETY: the program guarantees the function while it lends the pool; there is no work.
        unsafe { (self.0)(self.1, nothing, ptr::null_mut(), 0) == 0 }
    }
}

/// The panic of a pool that did not call its work.
const FAILED: &str = "the program's thread pool failed";

/// Calls `work` with each index below `workers` through a program's pool.
fn call(key: Key, (run, program): (Run, *mut c_void), workers: usize, work: &(dyn Fn(usize) + Sync)) {
    let call = Call { key, work, panicked: AtomicBool::new(false) };
    // SAFETY: the program guarantees the function while it lends the pool; the call outlives all calls made
    // through it.
    let status = unsafe { run(program, each, (&raw const call).cast_mut().cast(), workers) };
    if status != 0 || call.panicked.load(Ordering::Relaxed) {
        resume_unwind(Box::new(if status == 0 {
            "a thread that computes for the CPU engine panicked"
        } else {
            FAILED
        }));
    }
}

/// One call of the work, made by the program.
///
/// # Safety
/// `call` is that of [`call`], which waits for this one.
unsafe extern "C" fn each(call: *mut c_void, worker: usize) {
    // SAFETY: `run` passes this pointer and waits for this call.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    let _within = Within::set(call.key, AT_WORK);
    if catch_unwind(AssertUnwindSafe(|| (call.work)(worker))).is_err() {
        call.panicked.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    /// A pool that starts a thread for each call and counts the calls.
    #[derive(Default)]
    struct Program {
        threads: AtomicUsize,
        fails: bool,
        ends: AtomicBool,
    }

    /// Starts a thread for each call.
    ///
    /// # Safety
    /// `program` is a [`Program`], and `data` that of the work.
    unsafe extern "C" fn start(program: *mut c_void, work: Work, data: *mut c_void, count: usize) -> i32 {
        // SAFETY: the tests lend this function with a program.
        let program = unsafe { &*program.cast::<Program>() };
        if count == 0 {
            return i32::from(program.ends.load(Ordering::Relaxed));
        }
        let data = data.expose_provenance();
        thread::scope(|scope| {
            for at in 0..if program.fails { 0 } else { count } {
                program.threads.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the data outlives this function, which joins the threads.
                scope.spawn(move || unsafe { work(ptr::with_exposed_provenance_mut(data), at) });
            }
        });
        i32::from(program.fails)
    }

    /// Runs `f` while the pool is lent to this thread.
    fn lent<R>(program: &Program, f: impl FnOnce() -> R) -> R {
        let pool = Pool { run: Some(start), program: (&raw const *program).cast_mut().cast() };
        // SAFETY: the pool stays valid until it is taken back below.
        assert!(unsafe { hipdnnCpuPluginLendThreads_ext(&raw const pool) }.is_null());
        let result = catch_unwind(AssertUnwindSafe(f));
        // SAFETY: null takes the pool back, and reads no memory.
        assert_eq!(unsafe { hipdnnCpuPluginLendThreads_ext(ptr::null()) }, &raw const pool);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    #[test]
    fn every_worker_runs_once_on_the_threads_that_are_lent() {
        let program = Program::default();
        let counts = [const { AtomicUsize::new(0) }; 3];
        let work = |worker: usize| {
            counts[worker].fetch_add(1, Ordering::Relaxed);
        };
        assert!(!run(3, usize::MAX, &work));
        lent(&program, || assert!(run(3, usize::MAX, &work)));
        assert!(!run(3, usize::MAX, &work));
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        assert_eq!(program.threads.into_inner(), 3);
    }

    #[test]
    fn short_and_nested_work_stay_on_the_calling_thread() {
        let (program, count) = (Program::default(), AtomicUsize::new(0));
        let one = |_: usize| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        lent(&program, || {
            assert!(run(5, 0, &one));
            assert_eq!(program.threads.load(Ordering::Relaxed), 0);
            assert!(run(2, usize::MAX, &|_| assert!(run(3, usize::MAX, &one))));
        });
        assert_eq!((count.into_inner(), program.threads.into_inner()), (11, 2));
    }

    #[test]
    fn a_plan_calls_the_pool_once_for_all_of_its_steps() {
        let (program, counts) = (Program::default(), [const { AtomicUsize::new(0) }; 5]);
        let step = |worker: usize| {
            counts[worker].fetch_add(1, Ordering::Relaxed);
            // Nested work stays on its thread.
            run(3, usize::MAX, &|_| {});
        };
        let result = lent(&program, || {
            enter(3, || {
                // More workers than threads, as many, fewer, and work that wakes no thread.
                for (workers, wakes) in [(5, 5), (3, 3), (2, 1), (5, 0)] {
                    (0..100).for_each(|_| assert!(run(workers, wakes, &step)));
                }
                7
            })
        });
        assert_eq!((result, program.threads.load(Ordering::Relaxed)), (7, 3));
        assert_eq!(counts.map(AtomicUsize::into_inner), [400, 400, 300, 200, 200]);
        // A single thread needs no pool.
        assert_eq!(lent(&program, || enter(1, || 8)), 8);
        assert_eq!((enter(3, || 9), program.threads.into_inner()), (9, 3));
    }

    #[test]
    fn a_program_ends_a_plan_between_steps() {
        let (program, steps) = (Program::default(), AtomicUsize::new(0));
        let plan = || {
            for _ in 0..5 {
                run(3, usize::MAX, &|worker| {
                    if worker == 0 && steps.fetch_add(1, Ordering::Relaxed) == 1 {
                        program.ends.store(true, Ordering::Relaxed);
                    }
                });
            }
        };
        assert!(catch_unwind(AssertUnwindSafe(|| lent(&program, || enter(3, plan)))).is_err());
        assert_eq!(steps.into_inner(), 2);
    }

    /// Runs all calls on the calling thread.
    ///
    /// # Safety
    /// `data` is that of the work.
    unsafe extern "C" fn in_turn(_: *mut c_void, work: Work, data: *mut c_void, count: usize) -> i32 {
        // SAFETY: the data is that of the work.
        (0..count).for_each(|at| unsafe { work(data, at) });
        0
    }

    #[test]
    fn a_pool_of_one_thread_runs_the_whole_plan() {
        let pool = Pool { run: Some(in_turn), program: ptr::null_mut() };
        // SAFETY: the pool stays valid until it is taken back below.
        unsafe { hipdnnCpuPluginLendThreads_ext(&raw const pool) };
        let count = AtomicUsize::new(0);
        enter(4, || {
            run(4, usize::MAX, &|_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
        });
        // SAFETY: null takes the pool back, and reads no memory.
        unsafe { hipdnnCpuPluginLendThreads_ext(ptr::null()) };
        assert_eq!(count.into_inner(), 4);
    }

    #[test]
    fn a_panic_in_a_plan_reaches_the_caller() {
        for bad in [0, 1, 9] {
            let program = Program { fails: bad == 9, ..Program::default() };
            let plan = || {
                run(3, usize::MAX, &|worker| assert_ne!(worker, bad));
            };
            assert!(catch_unwind(AssertUnwindSafe(|| lent(&program, || enter(3, plan)))).is_err());
            assert!(!run(3, usize::MAX, &|_| {}));
        }
    }

    #[test]
    fn a_panic_and_a_pool_that_fails_reach_the_caller() {
        for (program, bad) in [(Program::default(), 1), (Program { fails: true, ..Program::default() }, 9)] {
            let run = || lent(&program, || run(3, usize::MAX, &|worker| assert_ne!(worker, bad)));
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert!(!super::run(3, usize::MAX, &|_| {}));
        }
    }
}
