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

/// A pool as the program describes it.
#[repr(C)]
pub struct Pool {
    /// Calls `work` with `data` and each index below `count`, in any order and on any threads, and returns 0 when all calls have returned.
    run: Option<Run>,
    /// The first argument of `run`.
    program: *mut c_void,
}

type Run = unsafe extern "C" fn(*mut c_void, Work, *mut c_void, usize) -> i32;
type Work = unsafe extern "C" fn(*mut c_void, usize);

/// Marks a thread that works for others: work that it starts runs on it alone.
const AT_WORK: usize = 1;

/// The thread-local pool, or 0.
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

/// Calls `work` once with each index below `workers` on the pool lent to this thread, and returns when all
/// calls have returned; false if no pool is lent. Work too short to wake threads stays on this one. Resumes
/// panics of the calls.
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
    // SAFETY: the program vouches for the function; the call outlives all calls made through it.
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
    // SAFETY: `run` passes this pointer and waits for this call.
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

    /// A pool that starts a thread for each call and counts the calls.
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
    fn short_and_nested_work_stay_on_the_calling_thread() {
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
