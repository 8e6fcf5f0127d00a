//! Interruptible executions on the host: another thread computes, while the main thread waits and checks for signals. Python
//! delivers signals to its main thread only, and a library call returns only when the work is done. CPU engines are then told to
//! stop before their next step.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ptr};

use hipdnn_plugin_sdk::objects;
use hipdnn_plugin_sdk::os::{clock, thread};
use pyo3::prelude::*;

use crate::error::Error;
use crate::forks;

/// How often the waiting main thread checks for signals.
pub const TICK: Duration = Duration::from_millis(50);

/// Executions at least this long get a thread: short of what a person notices.
const LONG: Duration = Duration::from_millis(100);

/// The stack size of such a thread, as large as a main thread's by default.
const STACK: usize = 8 << 20;

/// The main thread's identity; 0 until it is known.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Records which thread is the main one.
pub fn find_main_thread(py: Python<'_>) -> PyResult<()> {
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    MAIN.store(main.extract().unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// Records this thread as the main one, in a child that was just forked.
pub fn become_main_thread() {
    MAIN.store(thread::own(), Ordering::Relaxed);
}

/// Whether signals are delivered to this thread.
pub fn is_main_thread() -> bool {
    thread::own() == MAIN.load(Ordering::Relaxed)
}

/// Whether a plan's executions are long, judged by the last one.
#[derive(Default)]
pub struct Pace(AtomicU8);

impl Pace {
    const UNKNOWN: u8 = 0;
    const SHORT: u8 = 1;
    const LONG: u8 = 2;

    /// Whether the main thread should execute on another thread: for long executions and for the first.
    pub fn is_long(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), Self::UNKNOWN | Self::LONG)
    }

    /// Records how long an execution took.
    pub fn note(&self, taken: Duration) {
        self.0.store(if taken < LONG { Self::SHORT } else { Self::LONG }, Ordering::Relaxed);
    }
}

/// A clock with a resolution of a few milliseconds, which costs a few nanoseconds.
pub fn coarse_time() -> Duration {
    Duration::from_nanos(clock::coarse())
}

/// Work on another thread, with any result.
pub trait Work: Send + Sync {
    /// Waits for its end, but at most this long; returns whether it has ended.
    fn wait(&self, most: Duration) -> bool;
}

/// Work on another thread.
pub struct Job<R> {
    result: Mutex<Option<Result<R, Box<dyn Any + Send>>>>,
    ended: Condvar,
    /// Not 0 once the caller was interrupted: engines stop before their next step.
    stop: AtomicU32,
}

/// The function of the CPU engines' plugin by which a thread's executions watch a word; engines of others run to their end.
type StopOn = unsafe extern "C" fn(*const AtomicU32) -> *const AtomicU32;

/// Lets executions of this thread watch a word until dropped.
struct Watching(Option<StopOn>);

impl Watching {
    /// # Safety
    /// The word lives until this is dropped.
    unsafe fn start(word: &AtomicU32) -> Self {
        let function = objects::find(|object| object.function(c"hipdnnCpuPluginStopOn_ext"));
        // SAFETY: the function of this name has this type.
        let stop_on = function.map(|function| unsafe { mem::transmute::<*const (), StopOn>(function) });
        if let Some(stop_on) = stop_on {
            // SAFETY: this function requires that the word lives that long.
            unsafe { stop_on(word) };
        }
        Self(stop_on)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(stop_on) = self.0 {
            // SAFETY: null is no word.
            unsafe { stop_on(ptr::null()) };
        }
    }
}

impl<R: Send> Job<R> {
    fn result(&self) -> MutexGuard<'_, Option<Result<R, Box<dyn Any + Send>>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send> Work for Job<R> {
    fn wait(&self, most: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.result(), most, |result| result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

/// Starts a thread with the caller's rounding mode and CPU affinity; fails if none can be created.
pub fn start<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> std::io::Result<Arc<Job<R>>> {
    let job = Arc::new(Job { result: Mutex::new(None), ended: Condvar::new(), stop: AtomicU32::new(0) });
    let of_thread = Arc::clone(&job);
    std::thread::Builder::new().name("hipdnn execute".to_owned()).stack_size(STACK).spawn(move || {
        let result = {
            // SAFETY: the job lives as long as this thread.
            let _watching = unsafe { Watching::start(&of_thread.stop) };
            catch_unwind(AssertUnwindSafe(work))
        };
        *of_thread.result() = Some(result);
        of_thread.ended.notify_all();
    })?;
    Ok(job)
}

/// Waits for a job and returns its result; an error if a signal handler raised one, and then the job is told to stop.
pub fn finish<R: Send>(py: Python<'_>, job: &Job<R>) -> PyResult<R> {
    let result = wait(py, job);
    if result.is_err() {
        job.stop.store(1, Ordering::Relaxed);
    }
    result
}

fn wait<R: Send>(py: Python<'_>, job: &Job<R>) -> PyResult<R> {
    let forks = forks::count();
    loop {
        py.detach(|| job.wait(TICK));
        if let Some(result) = job.result().take() {
            return Ok(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        py.check_signals()?;
        if forks::count() != forks {
            return Err(Error::new_err(
                "the process was forked by a signal's handler during the execution, whose thread the child lacks",
            ));
        }
    }
}
