//! The threads of an OpenMP runtime that the process has loaded.
//!
//! Programs that use OpenMP between executions, such as PyTorch, leave that runtime's threads polling for
//! milliseconds. A second pool would compete with them for processors, so work goes to them instead.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::objects::{self, Object};

/// The functions of libgomp that compilers and programs call; LLVM's and Intel's runtimes have them too.
pub(crate) struct OpenMp {
    parallel: Parallel,
    thread: Number,
    threads: Number,
    most_threads: Number,
}

type Parallel = unsafe extern "C" fn(extern "C" fn(*const c_void), *const c_void, c_uint, c_uint);
type Number = extern "C" fn() -> c_int;

/// Whether this process is a forked child, where the runtime might wait for threads of the parent.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The data passed to the threads of a team.
struct Call<'a> {
    runtime: &'a OpenMp,
    workers: usize,
    work: &'a (dyn Fn(usize) + Sync),
    panicked: AtomicBool,
}

impl OpenMp {
    /// The runtime of the process, if one is loaded.
    pub(crate) fn loaded() -> Option<&'static Self> {
        static RUNTIME: OnceLock<OpenMp> = OnceLock::new();
        if RUNTIME.get().is_none()
            && let Some(found) = objects::find(Self::of)
        {
            RUNTIME.get_or_init(|| found);
        }
        RUNTIME.get()
    }

    fn of(object: Object<'_>) -> Option<Self> {
        let parallel = object.function(c"GOMP_parallel")?;
        let [thread, threads, most_threads] =
            [c"omp_get_thread_num", c"omp_get_num_threads", c"omp_get_max_threads"]
                .map(|name| object.function(name));
        // SAFETY: every runtime that exports these functions gives them these types.
        unsafe {
            Some(Self {
                parallel: transmute::<*const (), Parallel>(parallel),
                thread: transmute::<*const (), Number>(thread?),
                threads: transmute::<*const (), Number>(threads?),
                most_threads: transmute::<*const (), Number>(most_threads?),
            })
        }
    }

    /// Calls `work` once with each index below `workers` and returns when all calls have returned. Uses at
    /// most as many threads as the program allows its own loops, and only this one inside such a loop.
    /// Resumes panics of the calls.
    pub(crate) fn run(&self, workers: usize, work: &(dyn Fn(usize) + Sync)) {
        let most = usize::try_from((self.most_threads)()).unwrap_or(1);
        let threads = workers.min(most);
        if threads < 2 || FORKED.load(Ordering::Relaxed) {
            return (0..workers).for_each(work);
        }
        let call = Call { runtime: self, workers, work, panicked: AtomicBool::new(false) };
        // SAFETY: the function gets the call, which outlives the team's work.
        unsafe { (self.parallel)(each_thread, (&raw const call).cast(), threads as c_uint, 0) };
        if call.panicked.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a thread of the CPU engine panicked"));
        }
    }
}

extern "C" fn each_thread(call: *const c_void) {
    // SAFETY: `run` passes this pointer.
    let call = unsafe { &*call.cast::<Call<'_>>() };
    let number = |function: Number| usize::try_from(function()).unwrap_or(0);
    let (own, threads) = (number(call.runtime.thread), number(call.runtime.threads).max(1));
    // A team may have fewer threads than requested.
    let workers = || (own..call.workers).step_by(threads).for_each(call.work);
    if catch_unwind(AssertUnwindSafe(workers)).is_err() {
        call.panicked.store(true, Ordering::Relaxed);
    }
}

/// Makes a forked child compute without the runtime.
pub(crate) fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use hipdnn_plugin_sdk::dynlib::Library;
    use hipdnn_plugin_sdk::fork::{self, List};
    use hipdnn_plugin_sdk::os::process::in_fork;

    use super::*;

    /// The runtime that comes with GCC.
    fn runtime() -> (&'static OpenMp, extern "C" fn(c_int)) {
        let library = Library::open("libgomp.so.1").or_else(|_| Library::open("libgomp-1.dll"));
        let library = library.expect("libgomp, which comes with GCC");
        // SAFETY: this is the function's type, and the runtime stays loaded.
        let set_threads = unsafe { library.function("omp_set_num_threads") }.unwrap();
        std::mem::forget(library);
        (OpenMp::loaded().expect("a runtime that was loaded just now"), set_threads)
    }

    #[test]
    fn every_worker_runs_once_on_as_many_threads_as_the_program_allows() {
        let (runtime, set_threads) = runtime();
        for threads in [1, 2, 3] {
            set_threads(threads);
            for workers in 1..8 {
                let counts: Vec<AtomicUsize> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
                let strangers = AtomicUsize::new(0);
                let caller = thread::current().id();
                runtime.run(workers, &|worker| {
                    counts[worker].fetch_add(1, Ordering::Relaxed);
                    strangers.fetch_add(usize::from(thread::current().id() != caller), Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                let own = workers.div_ceil((threads as usize).min(workers));
                assert_eq!(strangers.into_inner(), workers - own, "{workers} workers, {threads} threads");
            }
        }
    }

    #[test]
    fn nested_work_stays_on_the_calling_thread() {
        let (runtime, set_threads) = runtime();
        set_threads(2);
        let count = AtomicUsize::new(0);
        runtime.run(2, &|_| {
            let outer = thread::current().id();
            runtime.run(3, &|_| {
                assert_eq!(thread::current().id(), outer);
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.into_inner(), 6);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_runtime_goes_on() {
        let (runtime, set_threads) = runtime();
        set_threads(3);
        for bad in 0..3 {
            let run = || runtime.run(3, &|worker| assert_ne!(worker, bad));
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "worker {bad}");
        }
        let count = AtomicUsize::new(0);
        runtime.run(3, &|_| _ = count.fetch_add(1, Ordering::Relaxed));
        assert_eq!(count.into_inner(), 3);
    }

    #[test]
    fn a_forked_child_works_alone() {
        let (runtime, set_threads) = runtime();
        set_threads(2);
        runtime.run(2, &|_| {});
        static LIST: List = List { locks: &[], in_child: &[in_child] };
        fork::protect(&LIST);
        let is_well = in_fork((), || {
            let count = AtomicUsize::new(0);
            runtime.run(4, &|_| _ = count.fetch_add(1, Ordering::Relaxed));
            count.into_inner() == 4
        });
        assert_ne!(is_well, Some(false));
    }
}
