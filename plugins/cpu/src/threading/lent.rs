//! Threads that a program lends to the executions of one of its threads.
//!
//! A program with a thread pool of its own, as ONNX Runtime has one for each session, would share the processors with a second pool.
//! It names its pool before an execution, and takes it back afterwards.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::thread::Key;

/// A pool as its program describes it.
#[repr(C)]
pub struct Pool {
    /// Calls `work` with `data` and each index below `count`, in any order and on any threads, and returns 0 when all calls have returned.
    run: Option<Run>,
    /// What `run` is given first.
    program: *mut c_void,
}

type Run = unsafe extern "C" fn(*mut c_void, Work, *mut c_void, usize) -> i32;
type Work = unsafe extern "C" fn(*mut c_void, usize);

/// The word of a thread that is at work for others: what it begins itself stays on it.
const AT_WORK: usize = 1;

/// The pool that a thread may use, if it is not 0.
static POOL: OnceLock<Option<Key>> = OnceLock::new();

fn key() -> Option<Key> {
    *POOL.get_or_init(|| Key::new(None))
}

/// Has executions of this thread use a pool, or the engine's own threads again if it is null. Returns the former pool.
///
/// # Safety
/// The pool is null, or stays valid until another one is set. Its function does what [`Pool`] says, and may be called by this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginLendThreads_ext(pool: *const Pool) -> *const Pool {
    let Some(key) = key() else { return ptr::null() };
    let before = key.get();
    key.set(pool.expose_provenance());
    ptr::with_exposed_provenance(before)
}

/// What the threads of a pool are given.
struct Call<'a> {
    key: Key,
    work: &'a (dyn Fn(usize) + Sync),
    panicked: AtomicBool,
}

/// Calls `work` once with each index below `workers` on the pool that was lent to this thread, and returns when all calls have
/// returned. Answers false if no pool was lent. Work that is not worth waking threads stays here. A panic of one of the calls is resumed here.
pub(crate) fn run(workers: usize, wakes: bool, work: &(dyn Fn(usize) + Sync)) -> bool {
    let Some(key) = POOL.get().copied().flatten() else { return false };
    let word = key.get();
    if word == 0 {
        return false;
    }
    let pool = ptr::with_exposed_provenance::<Pool>(word);
    // SAFETY: a word other than these two is a pool, which its program keeps valid while it is lent.
    let lent = (word != AT_WORK && wakes)
        .then(|| unsafe { &*pool })
        .and_then(|pool| Some((pool.run?, pool.program)));
    let Some((lent, program)) = lent else {
        (0..workers).for_each(work);
        return true;
    };
    let call = Call { key, work, panicked: AtomicBool::new(false) };
    // SAFETY: the program vouches for the function; the call is there until all of its calls have returned.
    let status = unsafe { lent(program, each, (&raw const call).cast_mut().cast(), workers) };
    if status != 0 || call.panicked.load(Ordering::Relaxed) {
        resume_unwind(Box::new(if status == 0 {
            "a thread that computes for the CPU engine panicked"
        } else {
            "the program's thread pool failed"
        }));
    }
    true
}

unsafe extern "C" fn each(call: *mut c_void, worker: usize) {
    // SAFETY: it is what `run` handed over, and `run` waits for this call.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    let before = call.key.get();
    call.key.set(AT_WORK);
    if catch_unwind(AssertUnwindSafe(|| (call.work)(worker))).is_err() {
        call.panicked.store(true, Ordering::Relaxed);
    }
    call.key.set(before);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    /// A pool that starts a thread for each call, and counts them.
    #[derive(Default)]
    struct Program {
        threads: AtomicUsize,
        fails: bool,
    }

    unsafe extern "C" fn start(program: *mut c_void, work: Work, data: *mut c_void, count: usize) -> i32 {
        // SAFETY: the tests lend this function with a program.
        let program = unsafe { &*program.cast::<Program>() };
        let data = data.expose_provenance();
        thread::scope(|scope| {
            for at in 0..if program.fails { 0 } else { count } {
                program.threads.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the data is there until this function returns, and the threads end before.
                scope.spawn(move || unsafe { work(ptr::with_exposed_provenance_mut(data), at) });
            }
        });
        i32::from(program.fails)
    }

    /// Runs `f` while the pool is lent to this thread.
    fn lent<R>(program: &Program, f: impl FnOnce() -> R) -> R {
        let pool = Pool { run: Some(start), program: (&raw const *program).cast_mut().cast() };
        // SAFETY: the pool is there until the next line but one takes it back.
        assert!(unsafe { hipdnnCpuPluginLendThreads_ext(&raw const pool) }.is_null());
        let result = catch_unwind(AssertUnwindSafe(f));
        // SAFETY: null is allowed.
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
        assert!(!run(3, true, &work));
        lent(&program, || assert!(run(3, true, &work)));
        assert!(!run(3, true, &work));
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        assert_eq!(program.threads.into_inner(), 3);
    }

    #[test]
    fn short_work_and_work_inside_of_work_are_done_in_place() {
        let (program, count) = (Program::default(), AtomicUsize::new(0));
        let one = |_: usize| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        lent(&program, || {
            assert!(run(5, false, &one));
            assert_eq!(program.threads.load(Ordering::Relaxed), 0);
            assert!(run(2, true, &|_| assert!(run(3, true, &one))));
        });
        assert_eq!((count.into_inner(), program.threads.into_inner()), (11, 2));
    }

    #[test]
    fn a_panic_and_a_pool_that_fails_reach_the_caller() {
        for (program, bad) in [(Program::default(), 1), (Program { fails: true, ..Program::default() }, 9)] {
            let run = || lent(&program, || run(3, true, &|worker| assert_ne!(worker, bad)));
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert!(!super::run(3, true, &|_| {}));
        }
    }
}
